"""What is particular to PPO, gSDE, SAC and PINK: rates, schedules, rounds of updates, the colour of the noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from tests.algorithms.sb3.step_tasks import (
    CONFIGS,
    HORIZON,
    PointTask,
    make_learner,
    ppo_config,
    sac_config,
    with_collect,
)
from top_erl.algorithms.sb3.config import (
    NormalizeConfig,
    PpoConfig,
    PpoLearnConfig,
    PpoNetworksConfig,
    SacConfig,
    SacLearnConfig,
    SacNetworksConfig,
)
from top_erl.algorithms.sb3.learner import StepLearner
from top_erl.algorithms.stepwise.config import StepCollectConfig
from top_erl.errors import UserError

# ---------------------------------------------------------------------- PPO and gSDE


def _moved(learner: StepLearner, iterate: Callable[[], Any]) -> dict[str, bool]:
    """Which parameters an iteration changes, by the part of the policy they belong to."""
    before = {name: value.clone() for name, value in learner.model.policy.named_parameters()}
    iterate()
    after = learner.model.policy.named_parameters()
    return {name: not torch.allclose(value, before[name], rtol=0.0, atol=1e-6) for name, value in after}


@pytest.mark.parametrize("sde", [False, True])
@pytest.mark.parametrize("frozen", ["policy", "critic"])
def test_policy_and_critic_have_rates_of_their_own(sde: bool, frozen: str) -> None:
    """A rate next to zero leaves one network where it is and lets the other learn."""
    learner = make_learner(ppo_config(sde=sde, **{f"{frozen}_rate": 1e-30}))
    moved = _moved(learner, lambda: learner.iterate(1))
    assert moved
    for name, has in moved.items():
        assert has == (("value_net" in name) == (frozen == "policy")), name


def test_rates_stay_as_they_are() -> None:
    learner = make_learner(ppo_config(policy_rate=5e-5, critic_rate=1e-4))
    for iteration in (1, 2):
        learner.iterate(iteration)
    groups = learner.optimizers()["optimizer"].param_groups
    assert [group["lr"] for group in groups] == [5e-5, 1e-4]
    assert sum(len(group["params"]) for group in groups) == len(list(learner.model.policy.parameters()))


def test_clips_fall_over_the_run() -> None:
    """From 0.4 to 0 over ten iterations; from 0.3 to 0.01 over a quarter of twenty, then 0.01."""
    model: Any
    falling = make_learner(ppo_config(clip=0.4, critic_clip=0.2, final_clip=0.0), total_iterations=10)
    model = falling.model
    for iteration, clip in ((1, 0.4), (6, 0.2), (10, 0.04), (11, 0.0), (15, 0.0)):
        falling.iteration = iteration
        assert model.clip_range(1.0) == pytest.approx(clip)
        assert model.clip_range_vf(0.0) == pytest.approx(clip / 2)
    quarter = make_learner(ppo_config(clip=0.3, final_clip=0.01 / 0.3, clip_fall=0.25), total_iterations=20)
    model = quarter.model
    for iteration, clip in ((1, 0.3), (2, 0.3 - 0.29 / 5), (6, 0.01), (20, 0.01)):
        quarter.iteration = iteration
        assert model.clip_range(1.0) == pytest.approx(clip)
    constant = make_learner(ppo_config(clip=0.2, critic_clip=0.0))
    constant.iteration = 9
    model = constant.model
    assert (model.clip_range(0.5), model.clip_range_vf) == (0.2, None)


def test_extending_a_run_stretches_the_fall() -> None:
    learner = make_learner(ppo_config(clip=0.4, final_clip=0.0), total_iterations=10)
    learner.iteration, learner.total_iterations = 6, 20
    assert learner.model.clip_range(1.0) == pytest.approx(0.3)


def test_normalisation() -> None:
    """Statistics are those of what was observed, and they are used, with their clips."""
    learner = make_learner(replace(ppo_config(), normalize=NormalizeConfig(observation_clip=1.5, reward_clip=0.7)))
    for iteration in (1, 2, 3):
        learner.iterate(iteration)
    buffer = learner.model.rollout_buffer
    assert np.abs(buffer.observations).max() == pytest.approx(1.5)
    state = learner.state_dict()
    assert state["normalizer.observations.mean"].shape == (3,)
    # In each iteration 16 steps of 4 environments, and their first observations; 1e-4 is where counting starts.
    assert state["normalizer.observations.count"] == pytest.approx(3 * 17 * 4, abs=1e-3)
    assert state["normalizer.returns.count"] == pytest.approx(3 * 16 * 4, abs=1e-3)
    plain = make_learner(replace(ppo_config(), normalize=NormalizeConfig(observations=False, rewards=False)))
    assert plain.normalizer is None
    assert not any(name.startswith("normalizer") for name in plain.state_dict())
    rewards_only = make_learner(replace(ppo_config(), normalize=NormalizeConfig(observations=False)))
    rewards_only.iterate(1)
    assert "normalizer.observations.mean" not in rewards_only.state_dict()


def test_gsde_noise_is_a_function_of_the_state_for_a_while() -> None:
    """A new exploration matrix per environment every third step, and in between the same."""
    learner = make_learner(CONFIGS["gsde"])
    distribution = learner.model.policy.action_dist
    seen: list[torch.Tensor] = []
    original = distribution.sample
    distribution.sample = lambda: (seen.append(distribution.exploration_matrices.clone()), original())[1]
    learner.iterate(1)
    assert len(seen) == 16
    same = [torch.equal(first, second) for first, second in pairwise(seen)]
    assert same == [step % 3 != 0 for step in range(1, 16)]
    assert not torch.equal(seen[0][0], seen[0][1])


# ---------------------------------------------------------------------- SAC and PINK


def test_rounds_of_updates() -> None:
    """After `learning_starts` steps, some gradient steps per round; before that none."""
    learner = make_learner(sac_config(update_every=16, gradient_steps=3, learning_starts=40))
    model: Any = learner.model
    drawn: list[int] = []
    original = model.replay_buffer.sample
    model.replay_buffer.sample = lambda *a, **k: (drawn.append(model.num_timesteps), original(*a, **k))[1]
    learner.iterate(1)
    assert drawn == [48] * 3 + [64] * 3  # 64 steps; more than 40 are there after the third round of 16
    drawn.clear()
    learner.iterate(2)
    assert drawn == [step for step in (80, 96, 112, 128) for _ in range(3)]


def test_sac_rates_and_targets() -> None:
    frozen = make_learner(sac_config(critic_rate=1e-30, learning_starts=0))
    moved = _moved(frozen, lambda: frozen.iterate(1))
    for name, has in moved.items():
        assert has == name.startswith("actor"), name
    assert frozen.optimizers()["entropy_optimizer"].param_groups[0]["lr"] == 3e-4
    fixed = make_learner(sac_config(entropy="fixed", entropy_coefficient=0.2, learning_starts=0))
    assert fixed.iterate(1).numbers["entropy_coefficient"] == pytest.approx(0.2)
    assert set(fixed.optimizers()) == {"policy_optimizer", "critic_optimizer"}
    learned = make_learner(sac_config(entropy_coefficient=0.5, learning_starts=0))
    assert learned.iterate(1).numbers["entropy_coefficient"] == pytest.approx(0.5, rel=0.02)


def test_replay_holds_what_is_not_normalised() -> None:
    """Statistics go on changing, so batches are normalised when they are drawn."""
    learner = make_learner(replace(sac_config(learning_starts=0), normalize=NormalizeConfig(rewards=False)))
    learner.iterate(1)
    stored, drawn = learner.replay_state()["observations"], learner.failed_batch()["observations"]
    assert torch.equal(stored[:, 0, 2], torch.arange(16) % HORIZON / HORIZON)
    assert drawn[:, 2].min() < -1.0  # times are 0 or more
    assert learner.failed_batch()["rewards"].min() >= learner.replay_state()["rewards"].min()


def _noise_of_actions(config: SacConfig, episodes: int, horizon: int) -> NDArray[np.float64]:
    """The noise that actions were made with, [episodes, environments, horizon, A], in the order of play."""
    task = PointTask()
    task.spec = replace(task.spec, horizon=horizon)
    steps = config.collect.environments * horizon * episodes
    learner = make_learner(with_collect(config, steps=steps), task)
    distribution, seen = learner.model.actor.action_dist, []
    original = distribution.actions_from_params

    def recorded(mean: torch.Tensor, log_std: torch.Tensor, **options: Any) -> torch.Tensor:
        actions = original(mean, log_std, **options)
        if len(mean) == config.collect.environments:  # not an update's batch
            seen.append(((distribution.gaussian_actions.double() - mean) / log_std.exp()).numpy())
        return actions

    distribution.actions_from_params = recorded
    learner.iterate(1)
    noise = np.stack(seen)  # [steps, environments, A]
    return noise.reshape(episodes, horizon, config.collect.environments, -1).swapaxes(1, 2)


def _slope(noise: NDArray[np.float64]) -> float:
    """Exponent of the power's fall with the frequency; noise [..., T, A], periodograms averaged over all but T."""
    power = (np.abs(np.fft.rfft(noise, axis=-2)) ** 2).mean(axis=(0, 1, 3))[1:-1]
    frequency = np.fft.rfftfreq(noise.shape[-2])[1:-1]
    return float(np.polyfit(np.log(frequency), np.log(power), 1)[0])


def _colour_config(noise: str, length: int = 0) -> SacConfig:
    """The policy acts from the first step on; hardly any updates."""
    return SacConfig(
        collect=StepCollectConfig(environments=8, steps=800),
        networks=SacNetworksConfig(policy_hidden=(4,), critic_hidden=(4,), noise=noise, noise_length=length),  # type: ignore[arg-type]
        learn=SacLearnConfig(update_every=800, learning_starts=0, batch_size=4, buffer_size=800),
    )


@pytest.mark.parametrize(
    ("kind", "length", "least", "most"),
    [("pink", 0, -1.2, -0.8), ("pink", 10_000, -1.2, -0.8), ("white", 0, -0.15, 0.15)],
)
def test_colour_of_the_noise(kind: str, length: int, least: float, most: float) -> None:
    """The slope of the averaged periodogram of the noise that actions were really made with, episode by episode."""
    noise = _noise_of_actions(_colour_config(kind, length), episodes=12, horizon=100)
    assert least < _slope(noise) < most
    assert 0.8 < noise.std() < 1.2


def test_pink_streams_are_independent() -> None:
    """Neither environments nor episodes share noise: their correlations are those of independent streams."""
    noise = _noise_of_actions(_colour_config("pink"), episodes=12, horizon=100)[..., 0]
    streams = noise.reshape(-1, 100)  # [episodes × environments, T]
    assert len(np.unique(streams[:, 0])) == len(streams)
    correlation = np.corrcoef(streams - streams.mean(axis=1, keepdims=True))[np.triu_indices(len(streams), 1)]
    assert abs(correlation.mean()) < 0.02
    assert np.abs(correlation).max() < 0.95


def test_noise_sequence_begins_with_the_episode() -> None:
    """Steps of an episode follow its own sequence from the start; the seed decides, not what was played before."""
    learner = make_learner(sac_config("pink", learning_starts=0))
    noise = learner.model.actor.action_dist._noise
    learner.iterate(1)
    sequence = np.stack([noise.at(0, 5, step) for step in range(HORIZON)])
    other = make_learner(sac_config("pink", learning_starts=0)).model.actor.action_dist._noise
    assert np.array_equal(sequence, np.stack([other.at(3, 5, step) for step in range(HORIZON)]))
    assert not np.array_equal(sequence, np.stack([other.at(3, 6, step) for step in range(HORIZON)]))


def test_updates_of_pink_sample_independently() -> None:
    """Actions of a batch differ although their states are equal, and are distributed as SAC's."""
    distribution = make_learner(sac_config("pink")).model.actor.action_dist
    mean, log_std = torch.full((20_000, 1), 0.3), torch.full((20_000, 1), -0.5)
    actions, log_prob = distribution.log_prob_from_params(mean, log_std)
    noise = (torch.atanh(actions) - mean) / log_std.exp()
    assert float(noise.mean()) == pytest.approx(0.0, abs=0.03)
    assert float(noise.std()) == pytest.approx(1.0, abs=0.03)
    expected = torch.distributions.Normal(mean, log_std.exp()).log_prob(torch.atanh(actions)) - torch.log(
        1 - actions**2
    )
    assert torch.allclose(log_prob, expected[:, 0], atol=1e-2)
    best = distribution.actions_from_params(mean[:4], log_std[:4], deterministic=True)
    assert torch.equal(best, torch.tanh(mean[:4]))


def test_noise_must_last_an_episode() -> None:
    with pytest.raises(UserError, match=r"networks.noise_length \(5\) must be at least the episode's 8 steps, or 0"):
        make_learner(replace(CONFIGS["pink"], networks=SacNetworksConfig(noise="pink", noise_length=5)))


# ---------------------------------------------------------------------- learning


@pytest.mark.parametrize("method", ["ppo", "gsde", "sac", "pink"])
def test_the_point_is_learned(method: str) -> None:
    """A point that misses its goal by 0.5 on average comes much closer."""
    if method in ("ppo", "gsde"):
        config: Any = replace(
            ppo_config(sde=method == "gsde", epochs=10, batch_size=64, policy_rate=3e-3, critic_rate=3e-3),
            collect=StepCollectConfig(environments=16, steps=32 * HORIZON, observe_time=True, bootstrap=False),
        )
        iterations = 25
    else:
        config = sac_config(
            "pink" if method == "pink" else "white",
            gradient_steps=4,
            policy_rate=3e-3,
            critic_rate=3e-3,
            buffer_size=10_000,
            batch_size=64,
        )
        config = replace(config, networks=replace(config.networks, policy_hidden=(32,), critic_hidden=(32,)))
        iterations = 20
    learner = make_learner(config, total_iterations=iterations)
    for iteration in range(1, iterations + 1):
        learner.iterate(iteration)
    scores = learner.evaluate(range(50))
    assert scores.metrics["missed"].mean() < 0.2
    assert scores.returns.mean() > -2.0


# ---------------------------------------------------------------------- configurations


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: StepCollectConfig(environments=0), "environments and collect.steps must be at least 1"),
        (lambda: StepCollectConfig(environments=3, steps=10), r"steps \(10\) must be a multiple of"),
        (lambda: StepCollectConfig(reward_scale=0.0), "reward_scale must be positive"),
        (lambda: NormalizeConfig(reward_clip=0.0), "must be positive"),
        (lambda: PpoNetworksConfig(policy_hidden=(0,)), "at least one unit per layer"),
        (lambda: PpoNetworksConfig(initial_std=0.0), "initial_std must be positive"),
        (lambda: PpoNetworksConfig(sde_sample_freq=0), "sde_sample_freq must be at least 1"),
        (lambda: PpoLearnConfig(epochs=0), "epochs must be at least 1"),
        (lambda: PpoLearnConfig(clip=0.0), "must be positive, all of them"),
        (lambda: PpoLearnConfig(critic_clip=-1.0), "must not be negative"),
        (lambda: PpoLearnConfig(clip_fall=0.0), r"clip_fall must lie in \(0, 1\]"),
        (lambda: PpoLearnConfig(final_clip=1.1), r"final_clip must lie in \[0, 1\]"),
        (lambda: PpoConfig(learn=PpoLearnConfig(batch_size=300)), "must be a multiple of learn.batch_size"),
        (lambda: SacNetworksConfig(critic_hidden=(8, 0)), "at least one unit per layer"),
        (lambda: SacNetworksConfig(noise_length=-1), "noise_length must not be negative"),
        (lambda: SacLearnConfig(gradient_steps=0), "must be at least 1, all of them"),
        (lambda: SacLearnConfig(learning_starts=-1), "learning_starts must not be negative"),
        (lambda: SacLearnConfig(entropy_coefficient=0.0), "must be positive"),
        (lambda: SacLearnConfig(target_rate=0.0), r"must lie in \(0, 1\]"),
        (lambda: SacConfig(learn=SacLearnConfig(update_every=12)), r"update_every \(12\) must be a multiple of"),
        (lambda: SacConfig(learn=SacLearnConfig(buffer_size=4)), "must hold at least one step of every environment"),
    ],
)
def test_wrong_values_are_named(make: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        make()


def test_episodes_per_iteration() -> None:
    config = PpoConfig(collect=StepCollectConfig(environments=8, steps=4000))
    assert (config.episodes_per_iteration(50), config.prefill_episodes) == (80.0, 0)
    assert config.episodes_per_iteration(3000) == pytest.approx(4 / 3)
