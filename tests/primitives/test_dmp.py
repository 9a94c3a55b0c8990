"""DMP: against recorded trajectories of mp_pytorch 0.1.4, and by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from top_erl.errors import UserError
from top_erl.primitives import Dmp, PrimitiveConfig, ProDmp

Recording = dict[str, Tensor]
CONFIG = PrimitiveConfig(num_basis=5, tau=3.0, bandwidth_factor=2.0, alpha=25.0)


def _start() -> tuple[Tensor, Tensor, Tensor]:
    """Parameters [3, P], initial positions and velocities [3, 2]."""
    params = torch.randn(3, 12, dtype=torch.float64)
    position, velocity = torch.randn(2, 3, 2, dtype=torch.float64)
    return params, position, velocity


def test_recorded_trajectory(recording: Callable[[str], Recording]) -> None:
    rec = recording("dmp")
    primitive = Dmp(CONFIG, 2, 0.02)
    inputs = [rec[key] for key in ("params", "times", "init_time", "init_pos", "init_vel")]
    reference = primitive.trajectory(*inputs)
    torch.testing.assert_close(primitive.rbf.centers, rec["centers"], rtol=0, atol=1e-12)
    torch.testing.assert_close(primitive.rbf.bandwidths, rec["bandwidth"], rtol=1e-11, atol=0)
    torch.testing.assert_close(reference.position, rec["pos"], rtol=0, atol=1e-9)
    torch.testing.assert_close(reference.velocity, rec["vel"], rtol=0, atol=1e-9)
    single = primitive.trajectory(*(tensor.float() for tensor in inputs))
    torch.testing.assert_close(single.position, rec["pos_f32"], rtol=0, atol=1e-5)
    torch.testing.assert_close(single.velocity, rec["vel_f32"], rtol=0, atol=1e-5)


def test_two_steps_by_hand() -> None:
    """Tau 1, dt 0.1, alpha 4 (beta 1), one weight of 2, goal 1, from y = 0, dy = 1."""
    primitive = Dmp(PrimitiveConfig(num_basis=1, tau=1.0, alpha=4.0), 1, 0.1)
    times = torch.tensor([0.0, 0.1, 0.2], dtype=torch.float64)
    zero, one = torch.zeros(1, dtype=torch.float64), torch.ones(1, dtype=torch.float64)
    reference = primitive.trajectory(torch.tensor([2.0, 1.0], dtype=torch.float64), times, 0.0, zero, one)
    x = torch.exp(-3 * times)
    force = 2 * x * torch.exp(-0.5 * 3 * (x - torch.exp(torch.tensor(-1.5))) ** 2)
    z1 = 1 + 0.1 * (4 * ((1 - 0) - 1) + force[0])
    y1 = 0.1 * z1
    z2 = z1 + 0.1 * (4 * ((1 - y1) - z1) + force[1])
    y2 = y1 + 0.1 * z2
    torch.testing.assert_close(reference.position[:, 0], torch.stack((zero[0], y1, y2)), rtol=0, atol=1e-7)
    torch.testing.assert_close(reference.velocity[:, 0], torch.stack((one[0], z1, z2)), rtol=0, atol=1e-7)


def test_any_control_step_after_the_initial_state_can_be_asked_for() -> None:
    primitive = Dmp(CONFIG, 2, 0.02)
    times = torch.arange(11, dtype=torch.float64) * 0.02
    params, position, velocity = _start()
    whole = primitive.trajectory(params, times, 0.0, position, velocity)
    some = primitive.trajectory(params, times[3::2], torch.zeros(3), position, velocity)
    torch.testing.assert_close(some.stacked(), whole.stacked()[:, 3::2])
    torch.testing.assert_close(whole.velocity[:, 0], velocity)
    for off, start in ((0.01, 0.0), (0.0, 0.06)):
        with pytest.raises(UserError, match="use a ProDMP"):
            primitive.trajectory(params, times + off, start, position, velocity)


def test_nears_the_prodmp_with_a_small_step() -> None:
    """Both solve Eq. (3) of the paper; the difference is Euler's error, of first order."""
    params, position, velocity = _start()
    params = params * 10
    config = PrimitiveConfig(num_basis=5, tau=3.0, auto_scale_basis=False)
    errors = []
    for dt in (0.01, 0.005, 0.001):
        times = torch.arange(1, round(3 / dt) + 1, dtype=torch.float64) * dt
        dmp = Dmp(config, 2, dt)
        prodmp = ProDmp(config, 2, dt)
        euler = dmp.trajectory(params, times, 0.0, position, velocity).position
        closed = prodmp.trajectory(params, times, 0.0, position, velocity).position
        errors.append(float((euler - closed).abs().max()))
    assert errors[0] / errors[1] == pytest.approx(2, rel=0.1)
    assert errors[2] < 0.01


def test_leading_axes_and_gradients() -> None:
    primitive = Dmp(CONFIG, 2, 0.02)
    times = torch.arange(1, 5, dtype=torch.float64) * 0.02
    params, position, velocity = (tensor.requires_grad_() for tensor in _start())
    assert primitive.trajectory(params[0], times, 0.0, position[0], velocity[0]).position.shape == (4, 2)
    assert primitive.trajectory(params[:, None], times, 0.0, position, velocity).position.shape == (
        3,
        3,
        4,
        2,
    )
    assert torch.autograd.gradcheck(
        lambda w, y, v: primitive.trajectory(w, times, 0.0, y, v).stacked(), (params, position, velocity)
    )
