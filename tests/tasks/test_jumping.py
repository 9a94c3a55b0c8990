"""Tasks whose goal jumps: once, at a random step, and is seen afterwards; the same in every way to play."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from top_erl.tasks import make_task

JUMPS = {
    "top_erl/ViaPointReacherJump-v0": (slice(14, 16), 10, 30),
    "top_erl/BoxPushingJumpDense-v0": (slice(21, 28), 20, 50),
    "metaworld/reach-jump-v3": (slice(36, 39), 100, 250),
    "metaworld/push-jump-v3": (slice(36, 39), 100, 250),
}
"""Where the goal is in the observation, and the first and last step before which it may jump."""


@pytest.mark.parametrize("id", JUMPS)
def test_the_goal_jumps_once_and_is_seen_afterwards(id: str) -> None:
    place, first, last = JUMPS[id]
    task, seeds = make_task(id), [5, 6]
    starts, horizon = task.begin(seeds), task.spec.horizon
    still = np.concatenate((starts.position, np.zeros_like(starts.velocity)), axis=-1)
    outcomes = task.play(np.repeat(still[:, None], horizon, axis=1))
    goals = outcomes.observation[..., place]
    jumps = [np.flatnonzero((goal[1:] != goal[:-1]).any(-1)) + 1 for goal in goals]
    assert all(len(jump) == 1 and first <= jump[0] <= last for jump in jumps)
    assert jumps[0] != jumps[1]
    assert task.spec.version
    again = task.begin([6])
    np.testing.assert_array_equal(again.observation[0, place], goals[1, 0])
    alone = task.play(np.repeat(still[1:, None], horizon, axis=1))
    np.testing.assert_array_equal(alone.observation[0], outcomes.observation[1])
    np.testing.assert_array_equal(alone.reward[0], outcomes.reward[1])
    task.close()


@pytest.mark.parametrize("id", JUMPS)
def test_the_step_environment_is_the_same(id: str) -> None:
    place, first, last = JUMPS[id]
    env, task = gym.make(id), make_task(id)
    observation, _ = env.reset(seed=5)
    starts = task.begin([5])
    np.testing.assert_array_equal(observation, starts.observation[0])
    seen = []
    for _ in range(last + 1):
        observation, *_ = env.step(np.zeros(env.action_space.shape))  # type: ignore[arg-type]
        seen.append(observation[place])
    steps = np.flatnonzero((np.diff(np.stack([starts.observation[0, place], *seen]), axis=0) != 0).any(-1)) + 1
    still = np.concatenate((starts.position, np.zeros_like(starts.velocity)), axis=-1)
    whole = task.play(np.repeat(still[:, None], task.spec.horizon, axis=1)).observation[0, :, place]
    assert first <= int(steps[0]) <= last
    np.testing.assert_array_equal(whole[int(steps[0])], seen[-1])
    assert (whole[int(steps[0]) - 1] != seen[-1]).any()
    task.close()
    env.close()
