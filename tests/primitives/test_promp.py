"""ProMP: against recorded trajectories of mp_pytorch 0.1.4, and by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from top_erl.errors import UserError
from top_erl.primitives import ProMp, ProMpConfig

Recording = dict[str, Tensor]
PLAIN = ProMpConfig(2, num_basis=5, tau=3.0, bandwidth_factor=3.0, weights_scale=0.7, num_basis_outside=1)
PADDED = ProMpConfig(2, num_basis=5, tau=3.0, bandwidth_factor=3.0, weights_scale=0.7, num_zero_start=1)


def test_recorded_trajectory(recording: Callable[[str], Recording]) -> None:
    rec = recording("promp")
    primitive = ProMp(PLAIN)
    reference = primitive.trajectory(rec["params"], rec["times"])
    torch.testing.assert_close(primitive.rbf.centers, rec["centers"], rtol=0, atol=1e-12)
    torch.testing.assert_close(primitive.rbf.bandwidths, rec["bandwidth"], rtol=1e-12, atol=0)
    torch.testing.assert_close(reference.position, rec["pos"], rtol=0, atol=1e-9)
    torch.testing.assert_close(reference.velocity, rec["vel"], rtol=0, atol=1e-9)
    single = primitive.trajectory(rec["params"].float(), rec["times"])
    torch.testing.assert_close(single.position, rec["pos_f32"], rtol=0, atol=1e-5)


def test_recorded_covariance(recording: Callable[[str], Recording]) -> None:
    rec = recording("promp")
    distribution = ProMp(PLAIN).distribution(rec["params"], rec["params_L"], rec["cov_times"])
    torch.testing.assert_close(distribution.position_covariance, rec["pos_cov"], rtol=0, atol=1e-9)
    with pytest.raises(UserError, match="use a ProDMP"):
        _ = distribution.velocity_covariance


def test_recorded_zero_padded_trajectory(recording: Callable[[str], Recording]) -> None:
    rec = recording("promp")
    reference = ProMp(PADDED).trajectory(rec["params"], rec["times"], init_position=rec["init_pos"])
    torch.testing.assert_close(reference.position, rec["zero_pos"], rtol=0, atol=1e-9)
    torch.testing.assert_close(reference.velocity, rec["zero_vel"], rtol=0, atol=1e-9)
    with pytest.raises(UserError, match="pass init_position"):
        ProMp(PADDED).trajectory(rec["params"], rec["times"])


def test_equal_weights_stand_still_and_hold_after_tau() -> None:
    """The functions sum to one, so equal weights give their common value, scaled."""
    primitive = ProMp(ProMpConfig(num_dof=1, num_basis=4, tau=2.0, weights_scale=0.5))
    times = torch.tensor([0.0, 0.5, 2.0, 9.0])
    reference = primitive.trajectory(torch.full((4,), 3.0), times)
    torch.testing.assert_close(reference.position, torch.full((4, 1), 1.5))
    moving = primitive.trajectory(torch.arange(4.0), times).position
    assert torch.equal(moving[2], moving[3])


def test_velocity_is_a_forward_difference() -> None:
    primitive = ProMp(ProMpConfig(num_dof=1, num_basis=3))
    times = torch.tensor([0.0, 0.1, 0.3], dtype=torch.float64)
    reference = primitive.trajectory(torch.randn(3, dtype=torch.float64), times)
    y = reference.position[:, 0]
    expected = torch.stack(((y[1] - y[0]) / 0.1, (y[2] - y[1]) / 0.2, (y[2] - y[1]) / 0.2))
    torch.testing.assert_close(reference.velocity[:, 0], expected)


@pytest.mark.parametrize("config", [PLAIN, PADDED], ids=["plain", "padded"])
def test_fit_recovers_weights(config: ProMpConfig) -> None:
    primitive = ProMp(config)
    params = torch.randn(2, 3, primitive.num_params, dtype=torch.float64)
    times = torch.linspace(0, 3, 60, dtype=torch.float64)
    start = torch.randn(2, 3, 2, dtype=torch.float64)
    positions = primitive.trajectory(params, times, init_position=start).position  # [2, 3, T, 2]
    torch.testing.assert_close(primitive.fit(positions, times, start), params, rtol=0, atol=1e-6)
    assert primitive.fit(positions[0, 0], times).shape == (primitive.num_params,)


def test_gradients() -> None:
    primitive = ProMp(PADDED)
    times = torch.tensor([0.1, 1.0, 2.0], dtype=torch.float64)
    params = torch.randn(2, 10, dtype=torch.float64, requires_grad=True)
    start = torch.randn(2, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda w, y: primitive.trajectory(w, times, init_position=y).stacked(), (params, start)
    )


def test_errors() -> None:
    primitive = ProMp(PLAIN)
    with pytest.raises(UserError, match="at least 2"):
        primitive.trajectory(torch.zeros(10), torch.zeros(1))
    with pytest.raises(UserError, match="ridge"):
        primitive.fit(torch.zeros(4, 2), torch.arange(4.0), ridge=0.0)
