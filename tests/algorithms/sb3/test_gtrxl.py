"""GTrXL: sequences, the memory between playing and learning, and a task that needs it."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from stable_baselines3 import PPO
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv

from top_erl.algorithms.sb3.gtrxl import GtrxlPpo
from top_erl.algorithms.sb3.gtrxl_policy import Sequences
from top_erl.models.gtrxl import GatedTransformerConfig

Array = NDArray[Any]
SMALL = GatedTransformerConfig(width=16, heads=2, head_width=8, layers=2, mlp_width=16)


class EarlyEnds(gym.Env[Array, Array]):
    """Random observations; episodes of 1 to 23 steps that end or are cut off; pays its step number."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (3,), dtype=np.float64)
    action_space = gym.spaces.Box(-1.0, 1.0, (2,), dtype=np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed)
        self.length, self.count = int(self.np_random.integers(1, 24)), 0
        self.cut_off = bool(self.np_random.random() < 0.5)
        return self.np_random.normal(size=3), {}

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        assert np.abs(action).max() <= 1.0
        self.count += 1
        over = self.count == self.length
        return self.np_random.normal(size=3), float(self.count), over and not self.cut_off, over and self.cut_off, {}


class CueTask(gym.Env[Array, np.int64]):
    """A cue is shown at the first of eight steps and must be answered at the last three, in the second segment."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (2,), dtype=np.float64)
    action_space = gym.spaces.Discrete(2)
    steps, answers = 8, 3

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed)
        self.cue, self.count = int(self.np_random.integers(2)), 0
        return np.array([2.0 * self.cue - 1.0, 0.0]), {}

    def step(self, action: np.int64) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        reward = float(action == self.cue) if self.count >= self.steps - self.answers else 0.0
        self.count += 1
        return np.array([0.0, self.count / self.steps]), reward, self.count == self.steps, False, {}


def _model(seed: int = 0, network: GatedTransformerConfig = SMALL, **options: Any) -> GtrxlPpo:
    env = DummyVecEnv([EarlyEnds] * 3)
    return GtrxlPpo(
        env, network, **{"n_steps": 37, "batch_size": 20, "n_epochs": 2, "seed": seed, "device": "cpu", **options}
    )


class Collect(BaseCallback):
    """Keeps the buffer as it is after each rollout, before the update."""

    def __init__(self) -> None:
        super().__init__()
        self.gaps: list[tuple[float, float]] = []

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        policy, buffer = self.model.policy, self.model.rollout_buffer
        batches = list(buffer.get(20))
        with torch.no_grad():
            found = [policy.evaluate_actions(batch.observations, batch.actions) for batch in batches]
        recorded = zip(batches, found, strict=True)
        gaps = [(batch.old_log_prob - log, batch.old_values - values[:, 0]) for batch, (values, log, _) in recorded]
        assert sum(len(gap) for gap, _ in gaps) == buffer.buffer_size * buffer.n_envs
        self.gaps.append(tuple(float(torch.cat(parts).abs().max()) for parts in zip(*gaps, strict=True)))


# ---------------------------------------------------------------------- playing and learning see the same


@pytest.mark.parametrize("memory_length", [0, 3, 5, 11])
def test_log_probabilities_after_a_rollout_are_those_recorded(memory_length: int) -> None:
    """Episodes that end early, are cut off, or go on over two rollouts; the networks change in between."""
    model, collect = _model(network=_with_memory(memory_length), learning_rate=1e-3), Collect()
    model.learn(4 * 37 * 3, callback=collect)
    assert len(collect.gaps) == 4
    assert np.max(collect.gaps) < 2e-5
    assert model.rollout_buffer.values.std() > 1e-3


def _with_memory(memory_length: int) -> GatedTransformerConfig:
    return GatedTransformerConfig(
        width=16, heads=2, head_width=8, layers=2, mlp_width=16, sequence_length=5, memory_length=memory_length
    )


def test_sequences_cover_every_step_once_and_no_two_episodes() -> None:
    model = _model()
    model.learn(37 * 3)
    buffer = model.rollout_buffer
    env, first, length = buffer.sequences()
    covered = np.zeros((37, 3), dtype=int)
    for e, start, count in zip(env, first, length, strict=True):
        assert 1 <= count <= 5
        covered[start : start + count, e] += 1
        assert not buffer.episode_starts[start + 1 : start + count, e].any()
    assert (covered == 1).all()
    starts = {(int(s), int(e)) for e, s in zip(env, first, strict=True)}
    assert all((int(s), int(e)) in starts for s, e in zip(*np.nonzero(buffer.episode_starts), strict=True))
    full = [count for start, e, count in zip(first, env, length, strict=True) if count == 5]
    assert full, "some sequences have full length"


def test_padding_does_not_matter() -> None:
    model = _model()
    model.learn(37 * 3)
    (batch,) = model.rollout_buffer.get()
    sequences = batch.observations
    assert not sequences.valid.all()
    noisy = sequences.observations.clone()
    noisy[~sequences.valid] = torch.randn_like(noisy[~sequences.valid])
    policy = model.policy
    for ours, others in zip(
        policy.evaluate_actions(sequences, batch.actions),
        policy.evaluate_actions(sequences._replace(observations=noisy), batch.actions),
        strict=True,
    ):
        assert torch.equal(ours, others)


def test_a_minibatch_holds_the_steps_it_says() -> None:
    """Actions, advantages and the rest belong to the observations of their sequence."""
    model = _model()
    model.learn(37 * 3)
    buffer = model.rollout_buffer
    where = {tuple(obs): (s, e) for s, row in enumerate(buffer.observations) for e, obs in enumerate(row)}
    for batch in buffer.get(20):
        sequences: Sequences = batch.observations
        assert len(sequences.valid) <= 4
        places = [where[tuple(obs)] for obs in sequences.observations[sequences.valid].numpy()]
        for at, name in ((0, "actions"), (1, "values"), (2, "log_probs"), (3, "advantages"), (4, "returns")):
            expected = np.array([getattr(buffer, name)[place] for place in places])
            assert np.array_equal(batch[1 + at].numpy(), expected)
        first = [places[i] for i in np.cumsum([0, *sequences.valid.sum(1).tolist()[:-1]])]
        for row, (step, e) in enumerate(first):
            seen = int(sequences.visible[row])
            age = step - max((s for s in range(step + 1) if buffer.episode_starts[s, e]), default=0)
            assert seen == min(age, 5)
            remembered = buffer.fed[5 + step - seen : 5 + step, e]  # rows before the rollout come first
            assert torch.equal(sequences.memory[row, :, 5 - seen :], remembered.transpose(0, 1))


def test_an_episodes_start_forgets() -> None:
    """What is played after a start does not depend on what came before it."""
    policy = _model().policy
    obs = np.random.default_rng(0).normal(size=(4, 3, 3))
    outputs = []
    for warm_up in (0, 3):
        _, state = policy.predict(obs[0], None, np.ones(3, dtype=bool), deterministic=True)
        for _ in range(warm_up):
            _, state = policy.predict(obs[1], state, np.zeros(3, dtype=bool), deterministic=True)
        first, state = policy.predict(obs[2], state, np.array([True, True, False]), deterministic=True)
        second, _ = policy.predict(obs[3], state, np.zeros(3, dtype=bool), deterministic=True)
        outputs.append((first, second))
    for few, many in zip(*outputs, strict=True):
        assert np.allclose(few[:2], many[:2], rtol=0.0, atol=1e-6)
        assert not np.allclose(few[2], many[2], rtol=0.0, atol=1e-4)


def test_prediction_plays_what_the_rollout_played() -> None:
    """`predict` and the sequences agree on the mean action of every step of a long episode."""
    policy = _model().policy
    obs = np.random.default_rng(1).normal(size=(17, 3))
    state, played = None, []
    for row in obs:
        action, state = policy.predict(row, state, deterministic=True)
        played.append(action)
    memory, outputs = policy.empty_context(1), []
    for row in torch.as_tensor(obs, dtype=torch.float32):
        output, memory = policy.transformer.step(row[None], memory)
        outputs.append(policy.action_net(output)[0].detach().numpy())
    assert np.allclose(np.array(played), np.clip(outputs, -1.0, 1.0), rtol=0.0, atol=1e-6)


def test_without_a_context_the_policy_is_at_an_episodes_first_step() -> None:
    policy = _model().policy
    obs = torch.randn(4, 3)
    actions, values, log_probs = policy(obs, deterministic=True)
    assert torch.equal(values, policy.predict_values(obs))
    distribution = policy.get_distribution(obs)
    assert torch.equal(distribution.mode(), actions)
    assert torch.equal(distribution.log_prob(actions), log_probs)


# ---------------------------------------------------------------------- what PPO gets


class LastObservations(BaseCallback):
    """Keeps the last observation of every episode, and whether it was cut off."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: dict[tuple[int, int], tuple[Array, bool]] = {}

    def _on_step(self) -> bool:
        step = self.num_timesteps // 3 - 1
        for env, (done, info) in enumerate(zip(self.locals["dones"], self.locals["infos"], strict=True)):
            if done:
                self.ends[step, env] = info["terminal_observation"], info["TimeLimit.truncated"]
        return True


def test_a_cut_off_episode_is_valued_in_its_context() -> None:
    """Its last reward is the environment's plus the discounted value of the last state after all it has seen."""
    model, callback = _model(gamma=0.5, n_epochs=1, learning_rate=1e-12), LastObservations()
    model.learn(37 * 3, callback=callback)
    policy, buffer = model.policy, model.rollout_buffer
    assert {cut_off for _, cut_off in callback.ends.values()} == {True, False}
    for (step, env), (last, cut_off) in callback.ends.items():
        first = max(s for s in range(step + 1) if buffer.episode_starts[s, env])
        context = policy.empty_context(1)
        for obs in [*buffer.observations[first : step + 1, env], last]:
            output, context = policy.transformer.step(torch.as_tensor(obs, dtype=torch.float32)[None], context)
        value = policy.value_net(output).item() if cut_off else 0.0
        assert buffer.rewards[step, env] == pytest.approx(step - first + 1 + 0.5 * value, abs=1e-5)


def test_rewards_are_clipped() -> None:
    model = _model(reward_clip=4.0, gamma=1e-9)
    model.learn(37 * 3)
    rewards = model.rollout_buffer.rewards
    assert rewards.max() == pytest.approx(4.0)
    assert {1.0, 2.0, 3.0, 4.0} == set(np.round(rewards, 6).flatten().tolist())


def test_clipped_errors_have_the_gradient_of_the_clipped_loss() -> None:
    """Of min((V - R)², clip), with a clip that half of the steps exceed."""
    model = _model()
    model.learn(37 * 3)
    policy = model.policy
    (batch,) = model.rollout_buffer.get()

    def gradient(loss_clip: float, error_clip: float) -> torch.Tensor:
        policy.error_clip = error_clip
        values = policy.evaluate_actions(batch.observations, batch.actions)[0].flatten()
        policy.optimizer.zero_grad()
        (values - batch.returns).square().clamp(max=loss_clip).mean().backward()
        return torch.cat([parameter.grad.flatten() for parameter in policy.transformer.parameters()])

    with torch.no_grad():
        values = policy.evaluate_actions(batch.observations, batch.actions)[0].flatten()
    clip = float((values - batch.returns).square().median())
    clipped, whole = gradient(clip, math.inf), gradient(math.inf, math.inf)
    assert torch.allclose(gradient(math.inf, clip), clipped, rtol=1e-5, atol=1e-6 * float(clipped.abs().max()))
    assert not torch.allclose(whole, clipped, rtol=0.1)


def test_the_start() -> None:
    policy = _model(policy_kwargs={"log_std_init": -1.0}).policy
    assert policy.log_std.tolist() == [-1.0, -1.0]
    assert policy.log_std.requires_grad
    bound = (6 / (16 + 2)) ** 0.5
    assert 0.8 * bound < policy.action_net.weight.abs().max() <= bound
    assert policy.value_net.bias.tolist() == [0.0]
    assert {id(p) for group in policy.optimizer.param_groups for p in group["params"]} == {
        id(p) for p in policy.parameters()
    }


def test_a_seed_repeats_a_training() -> None:
    first, second = (_model(seed=4).learn(2 * 37 * 3) for _ in range(2))
    for ours, others in zip(first.policy.parameters(), second.policy.parameters(), strict=True):
        assert torch.equal(ours, others)


# ---------------------------------------------------------------------- a task that needs memory


def _score(model: BaseAlgorithm) -> float:
    """Share of right answers of the deterministic policy in 200 episodes."""
    env = DummyVecEnv([CueTask] * 200)
    env.seed(1000)
    obs, state, start, total = env.reset(), None, np.ones(200, dtype=bool), 0.0
    for _ in range(CueTask.steps):
        actions, state = model.predict(obs, state=state, episode_start=start, deterministic=True)
        obs, rewards, start, _ = env.step(actions)
        total += float(rewards.sum())
    return total / (200 * CueTask.answers)


def _learn_cue(make: Any) -> float:
    env = DummyVecEnv([CueTask] * 16)
    model = make(env, n_steps=32, batch_size=128, n_epochs=4, learning_rate=1e-3, gamma=1.0, seed=0, device="cpu")
    model.learn(8000)
    return _score(model)


def test_a_task_that_needs_memory() -> None:
    """The cue lies in the segment before: it can only be known from the memory."""
    assert _learn_cue(lambda env, **options: PPO("MlpPolicy", env, **options)) == pytest.approx(0.5, abs=0.1)
    assert _learn_cue(lambda env, **options: GtrxlPpo(env, _with_memory(0), **options)) == pytest.approx(0.5, abs=0.1)
    assert _learn_cue(lambda env, **options: GtrxlPpo(env, _with_memory(5), **options)) > 0.9
