"""T-SAC's presets against its published configurations, written down here a second time."""

from __future__ import annotations

from typing import Any

import pytest

from top_erl.algorithms.registry import find_method
from top_erl.experiment.presets import preset
from top_erl.tasks import TaskSpec, make_task

PUBLISHED: dict[str, dict[str, Any]] = {
    "top_erl/BoxPushingDense-v0": {
        "learn": {"discount": 0.98, "policy_rate": 2.5e-4, "critic_rate": 3e-5, "critic_betas": (0.9, 0.999)}
        | {"batch_size": 256, "combine": "random", "target_rate": 0.005, "entropy_coefficient": 0.0, "calls": 1},
        "policy": {"hidden": (512,) * 4, "layer_norm": False},
        "critic": {"width": 256, "layers": 2, "heads": 4, "action_time": True},
        "per_iteration": (400, 100, 20, 50_000, 5000),
        "time": False,
    },
    "top_erl/BoxPushingSparse-v0": {
        "learn": {"discount": 1.0, "policy_rate": 2.5e-4, "critic_rate": 3e-4, "critic_betas": (0.9, 0.999)}
        | {"batch_size": 256, "combine": "min", "target_rate": 1.0, "entropy_coefficient": 0.0, "max_gradient": 1.0},
        "policy": {"hidden": (256, 256), "layer_norm": True},
        "critic": {"width": 256, "layers": 2, "heads": 4, "action_time": True},
        "per_iteration": (400, 100, 20, 50_000, 3000),
        "time": True,
    },
    "metaworld/push-v3": {
        "learn": {"discount": 0.99, "policy_rate": 2.5e-4, "critic_rate": 2.5e-5, "critic_betas": (0.85, 0.95)}
        | {"batch_size": 512, "combine": "mean", "target_rate": 0.005, "entropy": "auto", "entropy_start": 10_000},
        "policy": {"hidden": (128, 128), "std_hidden": (128, 128), "layer_norm": True},
        "critic": {"width": 128, "layers": 2, "heads": 4, "action_time": False},
        "per_iteration": (500, 500, 100, 10_000, 200),
        "time": False,
    },
}


@pytest.mark.parametrize("task", PUBLISHED)
def test_published_numbers(task: str) -> None:
    config, expected = preset("t_sac", task, "paper"), dict(PUBLISHED[task])
    algorithm: Any = config.hyper_parameters
    steps, critic, policy, iterations, warm_up = expected.pop("per_iteration")
    horizon = make_task(task).spec.horizon
    assert (algorithm.collect.steps, config.total_iterations(horizon)) == (steps, iterations)
    learn = algorithm.learn
    assert learn.calls * min(learn.critic_starts, horizon) == critic
    assert learn.calls * min(learn.policy_starts, horizon) == policy
    assert (learn.policy_start, learn.longest, learn.critic_decay) == (warm_up, 16, 1e-5)
    assert algorithm.collect.observe_time == expected.pop("time")
    assert (algorithm.critic.layer_norm, algorithm.critic.bias, algorithm.critic.initial) == (True, False, "small")
    assert algorithm.collect.bootstrap == task.startswith("metaworld")
    for part, values in expected.items():
        assert {name: getattr(getattr(algorithm, part), name) for name in values} == values, part


@pytest.mark.parametrize("horizon", [20, 50, 250, 1000])
def test_other_tasks_have_the_rates_of_gymnasium(horizon: int) -> None:
    """60 critic and 12 policy steps per 80 control steps, in 2 million; the policy waits for 20 000."""
    spec = TaskSpec("my_lab/Any-v0", observation_dim=3, num_dof=2, horizon=horizon, dt=0.1, metrics=())
    chosen = find_method("t_sac").preset(spec, "paper")
    algorithm: Any = chosen.algorithm
    learn, steps = algorithm.learn, algorithm.collect.steps
    assert chosen.total_env_steps == 2_000_000
    assert learn.calls * learn.critic_starts / steps == pytest.approx(60 / 80, rel=0.25)
    assert learn.calls * learn.policy_starts / steps == pytest.approx(12 / 80, rel=0.3)
    assert learn.policy_start * steps == pytest.approx(20_000, rel=0.05)
    assert algorithm.replay.capacity * horizon == 2_000_000
    assert (learn.critic_betas, learn.target_rate, learn.combine) == ((0.5, 0.95), 1.0, "min")
    assert (algorithm.policy.hidden, algorithm.critic.width) == ((256, 256), 256)


def test_a_laptop_makes_a_critic_step_per_eight_control_steps() -> None:
    algorithm: Any = preset("t_sac", "top_erl/ViaPointReacher-v0", "laptop").hyper_parameters
    assert algorithm.remarks(50) == ["100 critic steps and 100 policy steps per 800 control steps."]
