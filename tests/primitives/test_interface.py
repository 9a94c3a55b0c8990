"""What every kind of primitive promises, and one from outside."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from top_erl.errors import UserError
from top_erl.primitives import Primitive, PrimitiveConfig, ProDmp, Reference, make_primitive, register_primitive

DT, HORIZON = 0.02, 50
TIMES = torch.arange(1, HORIZON + 1, dtype=torch.float64) * DT
KINDS = {
    "prodmp": {"weights_scale": 0.5, "goal_scale": 0.3},
    "prodmp relative": {"weights_scale": 0.5, "goal_scale": 0.3, "relative_goal": True},
    "promp": {"weights_scale": 0.5},
    "promp padded": {"weights_scale": 0.5, "num_zero_start": 1},
    "dmp": {"weights_scale": 50.0, "goal_scale": 0.3, "alpha": 25.0},
    "dmp relative": {"weights_scale": 50.0, "goal_scale": 0.3, "relative_goal": True},
    "bspline": {"weights_scale": 0.5, "goal_scale": 0.3},
    "bspline settling later": {"weights_scale": 0.5, "relative_goal": True, "settling": 1.5, "degree": 4},
}
RESTARTING = [name for name in KINDS if "promp" not in name]


def _make(name: str) -> Primitive:
    settings = {"kind": name.split()[0], "num_basis": 4, **KINDS[name]}
    return make_primitive(PrimitiveConfig(**settings), num_dof=2, dt=DT)  # type: ignore[arg-type]


def _draw(primitive: Primitive, *lead: int) -> tuple[Tensor, Tensor, Tensor]:
    sizes = (primitive.num_params, primitive.num_dof, primitive.num_dof)
    params, position, velocity = (torch.randn(*lead, size, dtype=torch.float64) for size in sizes)
    return params, position, velocity


def _whole(primitive: Primitive, params: Tensor, position: Tensor, velocity: Tensor) -> Reference:
    return primitive.trajectory(params, TIMES, 0.0, position, velocity)


@pytest.mark.parametrize("name", KINDS)
def test_sizes(name: str) -> None:
    primitive = _make(name)
    assert (primitive.num_dof, primitive.dt) == (2, DT)
    assert primitive.num_params == 2 * (4 if "promp" in name else 5)
    reference = _whole(primitive, *_draw(primitive, 3, 1))
    assert reference.position.shape == reference.velocity.shape == (3, 1, HORIZON, 2)
    with pytest.raises(UserError, match="this primitive needs"):
        _whole(primitive, *(tensor[..., 1:] for tensor in _draw(primitive)))


@pytest.mark.parametrize("name", RESTARTING)
def test_passes_through_the_initial_state(name: str) -> None:
    primitive = _make(name)
    params, position, velocity = _draw(primitive, 3)
    start = torch.cat((torch.zeros(1, dtype=torch.float64), TIMES)) + 10 * DT
    reference = primitive.trajectory(params, start, 10 * DT, position, velocity)
    torch.testing.assert_close(reference.position[:, 0], position)
    torch.testing.assert_close(reference.velocity[:, 0], velocity)


@pytest.mark.parametrize(("zeros", "share"), [(1, 0.185), (2, 0.003)])
def test_how_near_to_the_initial_position_a_padded_promp_leaves(zeros: int, share: float) -> None:
    """The next functions are exp(-3/2), exp(-6), ... high at the start, before all are divided by their sum."""
    primitive = make_primitive(PrimitiveConfig(kind="promp", num_zero_start=zeros), num_dof=2, dt=DT)
    position, velocity = torch.randn(2, 2, dtype=torch.float64)
    times = torch.tensor([0.0, DT], dtype=torch.float64)
    params = torch.ones(primitive.num_params, dtype=torch.float64)
    moved = primitive.trajectory(params, times, 0.0, position, velocity).position[0] - position
    assert moved.tolist() == pytest.approx([share, share], rel=0.4)


@pytest.mark.parametrize("name", KINDS)
def test_velocity_is_the_derivative(name: str) -> None:
    """Against central differences; forward differences and steps of Euler are half a control step off."""
    primitive = _make(name)
    reference = _whole(primitive, *_draw(primitive, 3))
    moved = (reference.position[:, 2:] - reference.position[:, :-2]) / (2 * DT)
    error = (moved - reference.velocity[:, 1:-1])[:, :-1].abs().max()
    assert float(error) < 0.15 * float(moved.abs().max())


@pytest.mark.parametrize("name", KINDS)
def test_distribution_by_finite_differences(name: str) -> None:
    """A trajectory is linear in its parameters, so that differences give the covariance exactly."""
    primitive = _make(name)
    params, position, velocity = _draw(primitive)
    count = primitive.num_params
    factor = torch.randn(count, count, dtype=torch.float64).tril()
    shifted = params + torch.eye(count, dtype=torch.float64)  # [P, P]
    some = TIMES[[0, 20, 49]] if "promp" not in name else TIMES[[0, 1, 49]]
    start = (some, 0.0, position, velocity)
    base, moved = primitive.trajectory(params, *start), primitive.trajectory(shifted, *start)
    ours = primitive.distribution(params, factor, *start, regularization=0.0)
    for kind in ("position", "velocity"):
        flat, flat_moved = (getattr(values, kind).mT.flatten(-2) for values in (base, moved))
        response = (flat_moved - flat).T @ factor  # [D T, P]
        torch.testing.assert_close(getattr(ours, f"mean_{kind}"), flat)
        torch.testing.assert_close(getattr(ours, f"{kind}_covariance"), response @ response.T)


@pytest.mark.parametrize("name", KINDS)
def test_fit_recovers_parameters(name: str) -> None:
    primitive = _make(name)
    params, position, velocity = _draw(primitive, 3)
    reference = _whole(primitive, params, position, velocity)
    fitted = primitive.fit(reference.position, TIMES, 0.0, position, velocity, ridge=1e-14)
    torch.testing.assert_close(fitted, params, rtol=0, atol=1e-5)
    again = _whole(primitive, primitive.fit(reference.position, TIMES, 0.0, position, velocity), position, velocity)
    torch.testing.assert_close(again.position, reference.position, rtol=0, atol=1e-3)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("name", RESTARTING)
def test_segments_from_the_middle_equal_the_rest_of_the_movement(name: str, stride: int) -> None:
    primitive = _make(name)
    params, position, velocity = _draw(primitive, 3)
    whole = _whole(primitive, params, position, velocity).stacked()  # [3, T, 4]
    before = torch.cat((torch.cat((position, velocity), dim=-1).unsqueeze(1), whole[:, :-1]), dim=1)[:, ::stride]
    grid = primitive.grid(TIMES[::stride], TIMES[::stride] - DT)
    starts = torch.tensor([0, 7, 15])
    actions = starts[:, None] + torch.arange(10)
    state = before[:, starts].chunk(2, dim=-1)  # [3, K, D] each
    origin = position.unsqueeze(1)
    made = primitive.segments(grid.basis(starts, actions), params.unsqueeze(1), *state, goal_origin=origin)
    torch.testing.assert_close(made, whole[:, ::stride][:, actions], rtol=0, atol=1e-10)
    other = primitive.segments(grid.basis(starts, actions), params.unsqueeze(1), state[0] + 0.1, state[1], origin)
    assert float((other - made)[:, :, 0].abs().max()) > 0.05  # the state matters


@pytest.mark.parametrize("name", KINDS)
def test_segments_from_the_start_equal_the_whole_movement(name: str) -> None:
    primitive = _make(name)
    params, position, velocity = (tensor.unsqueeze(1) for tensor in _draw(primitive, 3))
    whole = _whole(primitive, params[:, 0], position[:, 0], velocity[:, 0]).stacked()
    actions = torch.arange(HORIZON).unflatten(0, (5, 10))
    basis = primitive.grid(TIMES, TIMES - DT).basis(torch.zeros(5, dtype=torch.long), actions)
    torch.testing.assert_close(primitive.segments(basis, params, position, velocity), whole[:, actions])
    single = primitive.grid(TIMES, TIMES - DT, torch.float32).table
    assert single.dtype == torch.float32
    inputs = [tensor.clone().requires_grad_() for tensor in (params, position, velocity)]
    assert torch.autograd.gradcheck(lambda *given: primitive.segments(basis, *given), inputs)


# ---------------------------------------------------------------------- one from outside


class Polynomial(Primitive):
    """y(t) = y_b + dy_b s + sum_i w_i s^(i + 2) with s = t - t_b: leaves smoothly from any state."""

    def __init__(self, config: PrimitiveConfig, num_dof: int, dt: float) -> None:
        super().__init__(config, num_dof, dt, torch.ones(config.num_basis, dtype=torch.float64))

    def basis(self, times: Tensor, init_time: float | Tensor, like: Tensor) -> Tensor:
        start = torch.as_tensor(init_time, dtype=torch.float64).unsqueeze(-1)
        s = (times.double() - start).unsqueeze(-1)  # [..., T, 1]
        power = torch.arange(2, self.num_columns + 2)
        one = torch.ones_like(s)
        position = torch.cat((s**power, one, s), dim=-1)
        velocity = torch.cat((power * s ** (power - 1), 0 * one, one), dim=-1)
        return torch.stack((position, velocity), dim=-2).to(like)


def test_a_primitive_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("top_erl.primitives.registry._FACTORIES", {"prodmp": ProDmp})
    register_primitive("polynomial", Polynomial)
    register_primitive("polynomial", Polynomial)  # a module may be imported twice
    primitive = make_primitive(PrimitiveConfig(kind="polynomial", num_basis=2), num_dof=1, dt=DT)
    params, position, velocity = (torch.tensor(values, dtype=torch.float64) for values in ([2.0, 3.0], [1.0], [0.5]))
    reference = primitive.trajectory(params, torch.tensor([2.0]), 0.0, position, velocity)
    assert reference.stacked().tolist() == [[1 + 1 + 8 + 24, 0.5 + 8 + 36]]
    times = torch.tensor([0.0, 1.0, 2.0, 3.0], dtype=torch.float64)
    positions = primitive.trajectory(params, times, 0.0, position, velocity).position
    torch.testing.assert_close(primitive.fit(positions, times, init_velocity=velocity), params)
    with pytest.raises(UserError, match="There is a primitive 'prodmp' already"):
        register_primitive("prodmp", Polynomial)
    with pytest.raises(UserError, match="did you mean 'polynomial'"):
        make_primitive(PrimitiveConfig(kind="polynom"), num_dof=1, dt=DT)
