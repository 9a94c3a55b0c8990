"""Movements that end at rest: the same positions in another timing, for every kind."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from tests.primitives.test_interface import Polynomial
from top_erl.algorithms.episodic import EpisodicLearner
from top_erl.config.changes import changed
from top_erl.config.run import RunConfig
from top_erl.errors import UserError
from top_erl.experiment.training import Training
from top_erl.primitives import Primitive, PrimitiveConfig, make_primitive
from top_erl.primitives.pace import braked, braked_rate

DT, STEPS = 0.02, 50
TIMES = torch.arange(1, STEPS + 1, dtype=torch.float64) * DT
KINDS: dict[str, dict[str, object]] = {
    "prodmp": {"weights_scale": 0.5, "goal_scale": 0.3},
    "prodmp relative": {"weights_scale": 0.5, "goal_scale": 0.3, "relative_goal": True},
    "promp": {"weights_scale": 0.5},
    "promp padded": {"weights_scale": 0.5, "num_zero_start": 2, "num_zero_goal": 1},
    "dmp": {"weights_scale": 50.0, "goal_scale": 0.3, "alpha": 25.0},
    "dmp relative": {"weights_scale": 50.0, "goal_scale": 0.3, "relative_goal": True},
    "bspline": {"weights_scale": 0.5, "goal_scale": 0.3},
    "bspline settling later": {"weights_scale": 0.5, "relative_goal": True, "settling": 1.5, "degree": 4},
}
RESTARTING = [name for name in KINDS if "promp" not in name]


def _make(name: str, dt: float = DT, *, end_at_rest: bool = True) -> Primitive:
    settings = {"kind": name.split()[0], "num_basis": 4, "end_at_rest": end_at_rest, **KINDS[name]}
    return make_primitive(PrimitiveConfig(**settings), num_dof=2, dt=dt)  # type: ignore[arg-type]


def _draw(primitive: Primitive, *lead: int) -> tuple[Tensor, Tensor, Tensor]:
    sizes = (primitive.num_params, 2, 2)
    params, position, velocity = (torch.randn(*lead, size, dtype=torch.float64) for size in sizes)
    return params, position, velocity


def _starts_at(time: float) -> Tensor:
    return time + torch.arange(round((1.0 - time) / DT) + 1, dtype=torch.float64) * DT


def test_the_pace() -> None:
    u = torch.linspace(0, 1, 1001, dtype=torch.float64)
    s, rate = braked(u), braked_rate(u)
    assert (float(s[0]), float(s[-1]), float(rate[-1])) == (0.0, 1.0, 0.0)
    assert (float(rate[0]), float(rate[750])) == pytest.approx((8 / 7, 8 / 7))
    assert bool((s.diff() > 0).all())
    torch.testing.assert_close((s[2:] - s[:-2]) / 0.002, rate[1:-1], rtol=0, atol=1e-4)
    assert float(rate[-2] / 0.001) < 0.06  # it ends without acceleration too, 3 (1 - x)^2 c before the end
    assert braked(torch.tensor([-1.0, 3.0])).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", KINDS)
def test_stands_still_at_the_end_and_afterwards(name: str, dtype: torch.dtype) -> None:
    primitive, plain = _make(name), _make(name, end_at_rest=False)
    drawn = [tensor.to(dtype) for tensor in _draw(primitive, 100)]
    times = torch.arange(1, 2 * STEPS + 1, dtype=torch.float64) * DT
    reference = primitive.trajectory(drawn[0], times, 0.0, *drawn[1:])
    assert float(reference.velocity[:, STEPS - 1 :].abs().max()) <= 1e-6
    last = reference.position[:, STEPS - 1 : STEPS]
    assert float((reference.position[:, STEPS:] - last).abs().max()) <= 1e-6
    whole = primitive.trajectory(drawn[0], TIMES, 0.0, *drawn[1:])
    assert float(whole.velocity[:, -1].abs().max()) <= 1e-6
    assert float(plain.trajectory(drawn[0], TIMES, 0.0, *drawn[1:]).velocity[:, -1].abs().max()) > 0.1


@pytest.mark.parametrize("name", RESTARTING)
@pytest.mark.parametrize("time", [0.0, 0.5, 0.8, 0.96, 0.98])
def test_passes_through_a_state_at_any_time_and_ends_at_rest(name: str, time: float) -> None:
    primitive = _make(name)
    params, position, velocity = _draw(primitive, 20)
    reference = primitive.trajectory(params, _starts_at(time), time, position, velocity)
    torch.testing.assert_close(reference.position[:, 0], position, rtol=0, atol=1e-12)
    torch.testing.assert_close(reference.velocity[:, 0], velocity, rtol=0, atol=1e-12)
    assert float(reference.velocity[:, -1].abs().max()) <= 1e-6
    furthest = float((reference.position - position.unsqueeze(1)).abs().max())
    assert furthest < 10.0  # braking from any speed shortly before the end stays small


@pytest.mark.parametrize("name", RESTARTING)
@pytest.mark.parametrize("step", [7, 38, 49])
def test_goes_on_from_its_own_states_as_it_did(name: str, step: int) -> None:
    primitive = _make(name)
    params, position, velocity = _draw(primitive, 5)
    whole = primitive.trajectory(params, TIMES, 0.0, position, velocity)
    state = whole.position[:, step - 1], whole.velocity[:, step - 1]
    rest = primitive.trajectory(params, TIMES[step:], step * DT, *state, goal_origin=position)
    torch.testing.assert_close(rest.stacked(), whole.stacked()[:, step:], rtol=0, atol=1e-10)


def test_goes_on_between_control_steps_too() -> None:
    primitive = _make("prodmp")
    params, position, velocity = _draw(primitive, 5)
    times = torch.tensor([0.333, 0.777, 0.951], dtype=torch.float64)
    whole = primitive.trajectory(params, times, 0.0, position, velocity)
    rest = primitive.trajectory(params, times[1:], 0.333, whole.position[:, 0], whole.velocity[:, 0])
    torch.testing.assert_close(rest.stacked(), whole.stacked()[:, 1:], rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", KINDS)
def test_velocity_is_the_derivative(name: str) -> None:
    """Against central differences after the first jerk, whose error falls with the step at least in proportion."""
    errors = []
    for dt in (0.02, 0.005):
        torch.manual_seed(0)
        primitive = _make(name, dt)
        times = torch.arange(1, round(1 / dt) + 1, dtype=torch.float64) * dt
        params, position, velocity = _draw(primitive, 5)
        reference = primitive.trajectory(params, times, 0.0, position, velocity)
        moved = (reference.position[:, 2:] - reference.position[:, :-2]) / (2 * dt)
        later = times[1:-1] > 0.2
        errors.append(float((moved - reference.velocity[:, 1:-1])[:, later].abs().max() / moved.abs().max()))
    assert errors[1] < 0.4 * errors[0] < 0.06


@pytest.mark.parametrize("name", ["prodmp", "promp padded", "bspline"])
def test_runs_through_the_positions_of_the_plain_movement(name: str) -> None:
    """At a fine step, since a ProDMP is integrated on its own grid."""
    dt = 0.001
    primitive, plain = _make(name, dt), _make(name, dt, end_at_rest=False)
    params, position, velocity = _draw(primitive, 5)
    times = torch.arange(1, 1001, dtype=torch.float64) * dt
    ours = primitive.trajectory(params, times, 0.0, position, velocity * braked_rate(torch.zeros(1)).item())
    theirs = plain.trajectory(params, braked(times), 0.0, position, velocity)
    torch.testing.assert_close(ours.position, theirs.position, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", KINDS)
def test_distribution_and_segments_follow(name: str) -> None:
    primitive = _make(name)
    params, position, velocity = _draw(primitive)
    factor = torch.randn(primitive.num_params, primitive.num_params, dtype=torch.float64).tril()
    start = (TIMES, 0.0, position, velocity)
    distribution = primitive.distribution(params, factor, *start, regularization=0.0)
    whole = primitive.trajectory(params, *start)
    torch.testing.assert_close(distribution.mean_velocity, whole.velocity.mT.flatten(-2))
    variance = distribution.velocity_covariance.diagonal().unflatten(0, (2, STEPS))
    assert float(variance[:, -1].max()) <= 1e-12 < float(variance[:, :-1].min())
    basis = primitive.grid(TIMES, TIMES - DT).basis(torch.zeros(1, dtype=torch.long), torch.arange(STEPS)[None])
    made = primitive.segments(basis, params[None], position[None], velocity[None])
    torch.testing.assert_close(made[0], whole.stacked())


def test_what_cannot_end_at_rest_says_so() -> None:
    config = PrimitiveConfig(end_at_rest=True)
    with pytest.raises(UserError, match=r"set primitive.tau, 1 s, to a multiple of dt, 0.03 s\."):
        make_primitive(config, num_dof=1, dt=0.03)
    with pytest.raises(UserError, match=r"kind polynomial cannot end at rest; use --primitive\.no-end-at-rest"):
        Polynomial(replace(config, kind="polynomial"), num_dof=1, dt=DT)


def test_a_training_ends_at_rest_within_the_episode(tiny: RunConfig) -> None:
    config = changed(tiny, {"primitive.end_at_rest": True, "primitive.tau": 0.6})
    training = Training(config)
    training.advance()
    assert isinstance(training.learner, EpisodicLearner)
    reference, _, _ = training.learner.collector.plan(training.learner.policy, training.task.begin([1, 2]))
    assert float(reference.velocity[:, -1].abs().max()) <= 1e-6 < float(reference.velocity[:, 0].abs().min())
    training.close()
    with pytest.raises(UserError, match=r"an episode of toy lasts 0.6 s: .* use --primitive.tau 0.6 or less"):
        Training(changed(config, {"primitive.tau": 0.7}))
