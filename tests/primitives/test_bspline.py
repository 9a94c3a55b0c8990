"""B-splines against SciPy's, and what holds at their ends and between."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.interpolate import BSpline as SciPyBSpline
from scipy.interpolate import make_interp_spline
from torch import Tensor

from top_erl.primitives import BSpline, PrimitiveConfig
from top_erl.primitives.bspline import bsplines, clamped_knots

TAU, DT = 1.5, 0.03
TIMES = torch.arange(1, 51, dtype=torch.float64) * DT
SHAPES = [(3, 1), (3, 6), (4, 5), (5, 3), (5, 9)]  # degree, weights


def _make(degree: int, weights: int, **changes: object) -> BSpline:
    settings = {"weights_scale": 0.7, "goal_scale": 0.4, "tau": TAU, "degree": degree, "num_basis": weights, **changes}
    return BSpline(PrimitiveConfig(kind="bspline", **settings), num_dof=2, dt=DT)  # type: ignore[arg-type]


def _draw(primitive: BSpline, *lead: int) -> tuple[Tensor, Tensor, Tensor]:
    sizes = (primitive.num_params, 2, 2)
    params, position, velocity = (torch.randn(*lead, size, dtype=torch.float64) for size in sizes)
    return params, position, velocity


@pytest.mark.parametrize(("degree", "weights"), SHAPES)
def test_functions_are_those_of_scipy(degree: int, weights: int) -> None:
    count = weights + 3
    knots = clamped_knots(count, degree)
    places = torch.cat((torch.rand(200, dtype=torch.float64), knots))
    values, slopes = bsplines(places, knots, degree)
    theirs = SciPyBSpline(knots.numpy(), np.eye(count), degree)
    np.testing.assert_allclose(values.numpy(), theirs(places.numpy()), rtol=0, atol=1e-10)
    np.testing.assert_allclose(slopes.numpy(), theirs.derivative()(places.numpy()), rtol=0, atol=1e-10)


@pytest.mark.parametrize("settling", [1.0, 1.4])
@pytest.mark.parametrize(("degree", "weights"), SHAPES)
def test_a_movement_is_one_spline_of_scipy(degree: int, weights: int, settling: float) -> None:
    """Its control points: goal and weights, and those of the cubic e through the state with a double root at c."""
    primitive = _make(degree, weights, settling=settling, relative_goal=True)
    params, position, velocity = _draw(primitive)
    reference = primitive.trajectory(params, TIMES, 0.0, position, velocity)
    knots, c = primitive.knots.numpy() * TAU, settling * TAU
    places = np.linspace(0, TAU, weights + 3)
    for dof in range(2):
        *own, goal = params.reshape(2, -1)[dof].numpy() * ([0.7] * weights + [0.4])
        goal += float(position[dof])
        off = float(position[dof]) - goal
        b = float(velocity[dof]) / c**2 + 2 * off / c**3  # e = (a + b t) (c - t)^2, a = e(0) / c^2
        cubic = make_interp_spline(places, (off / c**2 + b * places) * (c - places) ** 2, degree, t=knots)
        points = cubic.c + goal
        points[2:-1] += own
        curve = SciPyBSpline(knots, points, degree)
        at = TIMES.numpy()
        np.testing.assert_allclose(reference.position[:, dof].numpy(), curve(at), rtol=0, atol=1e-10)
        np.testing.assert_allclose(reference.velocity[:, dof].numpy(), curve.derivative()(at), rtol=0, atol=1e-10)
        # the first two control points are the start's position and velocity, whatever the weights
        width = knots[degree + 1] / degree
        assert points[0] == pytest.approx(float(position[dof]), abs=1e-10)
        assert (points[1] - points[0]) / width == pytest.approx(float(velocity[dof]), abs=1e-8)


@pytest.mark.parametrize("rest", [False, True])
@pytest.mark.parametrize("time", [0.0, 0.4, 0.771, 1.2, 1.47])
def test_from_any_state_at_any_time_to_the_goal(time: float, rest: bool) -> None:
    primitive = _make(3, 5, end_at_rest=rest)
    params, position, velocity = _draw(primitive, 50)
    times = torch.tensor([time, TAU, TAU + 0.7], dtype=torch.float64)
    reference = primitive.trajectory(params, times, time, position, velocity)
    goal = 0.4 * params.reshape(50, 2, 6)[..., -1]
    torch.testing.assert_close(reference.position[:, 0], position, rtol=0, atol=1e-12)
    torch.testing.assert_close(reference.velocity[:, 0], velocity, rtol=0, atol=1e-12)
    for late in (1, 2):
        torch.testing.assert_close(reference.position[:, late], goal, rtol=0, atol=1e-12)
    assert float(reference.velocity[:, 2].abs().max()) == 0.0
    assert (float(reference.velocity[:, 1].abs().max()) < 1e-12) == rest


@pytest.mark.parametrize("settling", [1.0, 1.3])
@pytest.mark.parametrize("rest", [False, True])
@pytest.mark.parametrize("time", [0.001, 0.42, 1.1, 1.49, 1.5, 1.7])
def test_goes_on_from_its_own_state_at_any_time(time: float, rest: bool, settling: float) -> None:
    primitive = _make(4, 5, end_at_rest=rest, settling=settling, relative_goal=True)
    params, position, velocity = _draw(primitive, 20)
    times = torch.cat((torch.tensor([time], dtype=torch.float64), torch.rand(30, dtype=torch.float64) * 2.0))
    whole = primitive.trajectory(params, times, 0.0, position, velocity)
    state = whole.position[:, 0], whole.velocity[:, 0]
    later = times >= time
    again = primitive.trajectory(params, times[later], time, *state, goal_origin=position)
    torch.testing.assert_close(again.stacked(), whole.stacked()[:, later], rtol=0, atol=1e-9)


def test_a_state_after_the_end_is_met_and_stays() -> None:
    primitive = _make(3, 5)
    params, position, velocity = _draw(primitive, 3)
    times = torch.tensor([1.6, 1.7], dtype=torch.float64)
    reference = primitive.trajectory(params, times, 1.6, position, velocity)
    torch.testing.assert_close(reference.position, torch.stack((position, position + 0.1 * velocity), dim=1))
    torch.testing.assert_close(reference.velocity, torch.stack((velocity, velocity), dim=1))


@pytest.mark.parametrize("degree", [3, 5])
def test_derivatives_are_continuous_but_the_highest(degree: int) -> None:
    """Across every inner knot, by one-sided polynomials fitted to dense positions."""
    primitive = _make(degree, 6)
    params, position, velocity = _draw(primitive)
    step, highest = 0.02, []
    for knot in (primitive.knots.unique()[1:-1] * TAU).tolist():
        sides = []
        for sign in (-1, 1):
            offsets = sign * torch.linspace(0, step, degree + 1, dtype=torch.float64)
            places = primitive.trajectory(params, knot + offsets, 0.0, position, velocity).position[:, 0]
            sides.append(np.polynomial.Polynomial.fit(offsets.numpy(), places.numpy(), degree).convert().coef)
        for order in range(degree):
            assert sides[0][order] == pytest.approx(sides[1][order], abs=1e-8 / step**order), order
        highest.append(abs(sides[0][degree] - sides[1][degree]))
    assert min(highest) > 1e-2


def test_gradients() -> None:
    primitive = _make(3, 4, relative_goal=True)
    inputs = [tensor.requires_grad_() for tensor in _draw(primitive, 2)]

    def actions(params: Tensor, position: Tensor, velocity: Tensor) -> Tensor:
        return primitive.trajectory(params, TIMES[::7], 0.33, position, velocity).stacked()

    assert torch.autograd.gradcheck(actions, inputs)
