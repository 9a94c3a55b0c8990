"""ProMP: against recorded trajectories of mp_pytorch 0.1.4, and by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from top_erl.errors import UserError
from top_erl.primitives import PrimitiveConfig, ProMp

Recording = dict[str, Tensor]
PLAIN = PrimitiveConfig(num_basis=5, tau=3.0, bandwidth_factor=3.0, weights_scale=0.7, num_basis_outside=1)
PADDED = replace(PLAIN, num_basis_outside=0, num_zero_start=1)
REST = (0.0, torch.zeros(2), torch.zeros(2))


def test_recorded_trajectory(recording: Callable[[str], Recording]) -> None:
    rec = recording("promp")
    primitive = ProMp(PLAIN, 2, 0.02)
    reference = primitive.trajectory(rec["params"], rec["times"], *REST)
    torch.testing.assert_close(primitive.rbf.centers, rec["centers"], rtol=0, atol=1e-12)
    torch.testing.assert_close(primitive.rbf.bandwidths, rec["bandwidth"], rtol=1e-12, atol=0)
    torch.testing.assert_close(reference.position, rec["pos"], rtol=0, atol=1e-9)
    torch.testing.assert_close(reference.velocity, rec["vel"], rtol=0, atol=1e-9)
    single = primitive.trajectory(rec["params"].float(), rec["times"], *REST)
    torch.testing.assert_close(single.position, rec["pos_f32"], rtol=0, atol=1e-5)


def test_recorded_covariance(recording: Callable[[str], Recording]) -> None:
    rec = recording("promp")
    distribution = ProMp(PLAIN, 2, 0.02).distribution(rec["params"], rec["params_L"], rec["cov_times"], *REST)
    torch.testing.assert_close(distribution.position_covariance, rec["pos_cov"], rtol=0, atol=1e-9)


def test_recorded_zero_padded_trajectory(recording: Callable[[str], Recording]) -> None:
    rec = recording("promp")
    reference = ProMp(PADDED, 2, 0.02).trajectory(rec["params"], rec["times"], 0.0, rec["init_pos"], REST[2])
    torch.testing.assert_close(reference.position, rec["zero_pos"], rtol=0, atol=1e-9)
    torch.testing.assert_close(reference.velocity, rec["zero_vel"], rtol=0, atol=1e-9)


def test_equal_weights_stand_still_and_hold_after_tau() -> None:
    """The functions sum to one, so equal weights give their common value, scaled."""
    primitive = ProMp(PrimitiveConfig(num_basis=4, tau=2.0, weights_scale=0.5), 1, 0.1)
    times = torch.tensor([0.0, 0.5, 2.0, 9.0])
    reference = primitive.trajectory(torch.full((4,), 3.0), times, 0.0, *torch.zeros(2, 1))
    torch.testing.assert_close(reference.position, torch.full((4, 1), 1.5))
    moving = primitive.trajectory(torch.arange(4.0), times, 0.0, *torch.zeros(2, 1)).position
    assert torch.equal(moving[2], moving[3])


def test_velocity_is_a_forward_difference() -> None:
    primitive = ProMp(PrimitiveConfig(num_basis=3), 1, 0.1)
    times = torch.tensor([0.0, 0.1, 0.3], dtype=torch.float64)
    reference = primitive.trajectory(torch.randn(3, dtype=torch.float64), times, 0.0, *torch.zeros(2, 1))
    y = reference.position[:, 0]
    expected = torch.stack(((y[1] - y[0]) / 0.1, (y[2] - y[1]) / 0.2, (y[2] - y[1]) / 0.2))
    torch.testing.assert_close(reference.velocity[:, 0], expected)


def test_gradients() -> None:
    primitive = ProMp(PADDED, 2, 0.02)
    times = torch.tensor([0.1, 1.0, 2.0], dtype=torch.float64)
    params = torch.randn(2, 10, dtype=torch.float64, requires_grad=True)
    start = torch.randn(2, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda w, y: primitive.trajectory(w, times, 0.0, y, torch.zeros(2)).stacked(), (params, start)
    )


def test_segments_of_a_movement_keep_its_velocities() -> None:
    """Also where a segment ends, with every step as an action or every third."""
    primitive = ProMp(PADDED, 2, 0.1)
    params, start = torch.randn(4, 1, 10, dtype=torch.float64), torch.randn(4, 1, 2, dtype=torch.float64)
    times = torch.arange(1, 31, dtype=torch.float64) * 0.1
    whole = primitive.trajectory(params[:, 0], times, 0.0, start[:, 0], 0 * start[:, 0]).stacked()  # [4, 30, 4]
    for stride in (1, 3):
        action_times = times[::stride]
        first = torch.arange(0, len(action_times), 5)
        actions = first[:, None] + torch.arange(5)
        basis = primitive.grid(action_times, action_times - 0.1).basis(torch.zeros_like(first), actions)
        made = primitive.segments(basis, params, start, 0 * start)
        torch.testing.assert_close(made, whole[:, ::stride][:, actions], rtol=0, atol=1e-12)


def test_a_movement_cannot_be_restarted() -> None:
    primitive = ProMp(PLAIN, 2, 0.02)
    times = torch.arange(1, 5, dtype=torch.float64) * 0.02
    with pytest.raises(UserError, match=r"cannot be restarted in the middle of a movement; .* use a ProDMP or a DMP"):
        primitive.trajectory(torch.zeros(10), times, 0.02, *REST[1:])
    assert primitive.grid(times, times - 0.02).table[1:].isnan().all()


def test_errors() -> None:
    primitive = ProMp(PLAIN, 2, 0.02)
    with pytest.raises(UserError, match="at least 2"):
        primitive.trajectory(torch.zeros(10), torch.zeros(1), *REST)
    with pytest.raises(UserError, match="ridge"):
        primitive.fit(torch.zeros(4, 2), torch.arange(4.0), ridge=0.0)
