"""Segments: the fast path of an off-policy update must equal plain trajectories."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from top_erl.primitives import ProDmp
from top_erl.primitives.tables import ProDmpTables

STARTS = torch.tensor([0, 7, 30])
ACTIONS = STARTS[:, None] + torch.arange(12)  # [K, L]; the condition at index s is one step before action s


def _times(primitive: ProDmp, stretch: float) -> tuple[Tensor, Tensor]:
    grid = torch.arange(51, dtype=torch.float64) * primitive.dt * stretch
    return grid[1:], grid[:-1]


def _draw(primitive: ProDmp, batch: int) -> tuple[Tensor, Tensor, Tensor]:
    dofs = primitive.num_dof
    params = torch.randn(batch, 3, primitive.num_params, dtype=torch.float64)
    position, velocity = torch.randn(2, batch, 3, dofs, dtype=torch.float64)
    return params, position, velocity


@pytest.mark.parametrize("stretch", [1.0, 1.37], ids=["on grid", "off grid"])
def test_segments_equal_trajectories(prodmp: ProDmp, stretch: float) -> None:
    action_times, condition_times = _times(prodmp, stretch)
    params, position, velocity = _draw(prodmp, 5)
    origin = torch.randn(5, 1, 2, dtype=torch.float64)
    basis = prodmp.grid(action_times, condition_times).basis(STARTS, ACTIONS)
    actions = prodmp.segments(basis, params, position, velocity, origin)
    assert actions.shape == (5, 3, 12, 4)
    assert basis.shape == (3, 12, 2, 7)
    for k, start in enumerate(STARTS):
        state = (condition_times[start], position[:, k], velocity[:, k])
        expected = prodmp.trajectory(params[:, k], action_times[ACTIONS[k]], *state, origin[:, 0])
        torch.testing.assert_close(actions[:, k], expected.stacked(), rtol=0, atol=1e-12)


def test_all_segments_from_the_start_of_the_episode(prodmp: ProDmp) -> None:
    action_times, condition_times = _times(prodmp, 1.0)
    params, position, velocity = (tensor[:, :1] for tensor in _draw(prodmp, 4))  # [B, 1, ...]
    basis = prodmp.grid(action_times, condition_times).basis(torch.zeros(3, dtype=torch.long), ACTIONS)
    actions = prodmp.segments(basis, params, position, velocity)
    whole = prodmp.trajectory(params[:, 0], action_times, 0.0, position[:, 0], velocity[:, 0]).stacked()
    torch.testing.assert_close(actions, whole[:, ACTIONS], rtol=0, atol=1e-12)


def test_leading_axes_and_shared_parameters(prodmp: ProDmp) -> None:
    basis = prodmp.grid(*_times(prodmp, 1.0)).basis(STARTS, ACTIONS)
    params, position, velocity = _draw(prodmp, 6)
    actions = prodmp.segments(basis, params[:, :1], position, velocity)
    one = prodmp.segments(basis, params[2, :1], position[2], velocity[2])
    two = prodmp.segments(basis, *(tensor.unflatten(0, (2, 3)) for tensor in (params[:, :1], position, velocity)))
    torch.testing.assert_close(one, actions[2])
    torch.testing.assert_close(two.flatten(0, 1), actions)


def test_gradients(prodmp: ProDmp) -> None:
    basis = prodmp.grid(*_times(prodmp, 1.0)).basis(STARTS, ACTIONS[:, ::5])
    inputs = [tensor.requires_grad_() for tensor in _draw(prodmp, 1)]
    assert torch.autograd.gradcheck(lambda *given: prodmp.segments(basis, *given), inputs)


def test_single_precision(prodmp: ProDmp) -> None:
    times = _times(prodmp, 1.0)
    drawn = _draw(prodmp, 4)
    exact = prodmp.segments(prodmp.grid(*times).basis(STARTS, ACTIONS), *drawn)
    grids = (
        prodmp.grid(*(tensor.float() for tensor in times)),
        prodmp.grid(*times, dtype=torch.float32),
    )
    for grid in grids:
        actions = prodmp.segments(grid.basis(STARTS, ACTIONS), *(tensor.float() for tensor in drawn))
        assert actions.dtype == torch.float32
        torch.testing.assert_close(actions.double(), exact, rtol=1e-5, atol=1e-5)


def test_basis_only_gathers(prodmp: ProDmp, monkeypatch: pytest.MonkeyPatch) -> None:
    grid = prodmp.grid(*_times(prodmp, 1.0))

    def refuse(*_: object) -> None:
        raise AssertionError("computed anew")

    for name in ("locate", "lookup", "transition"):
        monkeypatch.setattr(ProDmpTables, name, refuse)
    prodmp.segments(grid.basis(STARTS, ACTIONS), *_draw(prodmp, 2))


def test_actions_before_the_start_of_a_segment_are_not_there(prodmp: ProDmp) -> None:
    table = prodmp.grid(*_times(prodmp, 1.0)).table  # [50, 50, 2, 7]: action j lies one step after condition j
    there = table.isfinite().all(-1).all(-1)
    assert torch.equal(there, torch.ones(50, 50).triu(-1).bool())
