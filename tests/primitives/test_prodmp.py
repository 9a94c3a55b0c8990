"""ProDMP: against mp_pytorch, against an integrated DMP, and what must hold for any setting."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from mp_pytorch.basis_gn import ProDMPBasisGenerator
from mp_pytorch.mp import ProDMP as LibraryProDmp
from mp_pytorch.phase_gn import ExpDecayPhaseGenerator
from scipy.integrate import solve_ivp
from torch import Tensor

from top_erl.errors import UserError
from top_erl.primitives import PrimitiveConfig, ProDmp

HOPPER = PrimitiveConfig(num_basis=3, tau=0.8, bandwidth_factor=3, alpha=10)
DOF, DT = 3, 0.008
SETTINGS = {
    "hopper": (HOPPER, DT),
    "one function": (replace(HOPPER, num_basis=1), DT),
    "two functions": (replace(HOPPER, num_basis=2, relative_goal=True), DT),
    "no auto scale": (replace(HOPPER, auto_scale_basis=False, alpha=25.0, weights_scale=2.0), DT),
    "functions outside": (replace(HOPPER, num_basis=6, num_basis_outside=1, tau=1.5), 0.01),
    "black box": (replace(HOPPER, num_basis=8, tau=1.5, table_length_factor=6, goal_scale=0.3), 0.01),
    # tau is no multiple of dt: the table's spacing and the index disagree, in mp_pytorch as here
    "odd step down": (replace(HOPPER, tau=0.33, alpha_phase=2.0), 0.02),
    "odd step up": (replace(HOPPER, tau=0.35, table_length_factor=3), 0.02),
}


def _library(config: PrimitiveConfig, dt: float = DT) -> LibraryProDmp:
    phase = ExpDecayPhaseGenerator(tau=config.tau, alpha_phase=config.alpha_phase, dtype=torch.float64)
    basis = ProDMPBasisGenerator(
        phase,
        num_basis=config.num_basis,
        basis_bandwidth_factor=config.bandwidth_factor,
        num_basis_outside=config.num_basis_outside,
        dt=dt,
        alpha=config.alpha,
        pre_compute_length_factor=config.table_length_factor,
        dtype=torch.float64,
    )
    return LibraryProDmp(
        basis,
        num_dof=DOF,
        weights_scale=config.weights_scale,
        goal_scale=config.goal_scale,
        auto_scale_basis=config.auto_scale_basis,
        relative_goal=config.relative_goal,
        dtype=torch.float64,
    )


def _draw(primitive: ProDmp, *lead: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    """Random parameters [*lead, P], initial positions and velocities [*lead, D]."""
    sizes = (primitive.num_params, primitive.num_dof, primitive.num_dof)
    params, position, velocity = (torch.randn(*lead, size, dtype=torch.float64).to(dtype) for size in sizes)
    return params, position, velocity


def _steps(primitive: ProDmp, count: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return (torch.arange(1, count + 1, dtype=torch.float64) * primitive.dt).to(dtype)


@pytest.mark.parametrize("name", SETTINGS)
def test_agrees_with_mp_pytorch(name: str) -> None:
    config, dt = SETTINGS[name]
    primitive, library = ProDmp(config, DOF, dt), _library(config, dt)
    params, position, velocity = _draw(primitive, 3)
    end = config.table_length_factor * config.tau
    init_time = torch.tensor([0.0, 0.1 * config.tau, 10 * dt], dtype=torch.float64)
    # from before the initial state to the end of the tables, on and between grid points
    times = torch.linspace(0.0, end, 113, dtype=torch.float64).expand(3, -1).contiguous()
    library.update_inputs(times=times, params=params, init_time=init_time, init_pos=position, init_vel=velocity)
    ours = primitive.trajectory(params, times, init_time, position, velocity)
    for mine, theirs in ((ours.position, library.get_traj_pos()), (ours.velocity, library.get_traj_vel())):
        assert float((mine - theirs).abs().max()) < 1e-10 * max(1.0, float(theirs.abs().max()))


def test_episode_of_hopper_agrees_with_mp_pytorch() -> None:
    primitive, library = ProDmp(HOPPER, DOF, DT), _library(HOPPER)
    params, position, velocity = _draw(primitive, 3)
    factor = torch.randn(3, 12, 12, dtype=torch.float64).tril()
    times = _steps(primitive, 250).expand(3, -1).contiguous()
    zero = torch.zeros(3, dtype=torch.float64)
    library.update_inputs(
        times=times, params=params, params_L=factor, init_time=zero, init_pos=position, init_vel=velocity
    )
    ours = primitive.trajectory(params, times, zero, position, velocity)
    torch.testing.assert_close(ours.position, library.get_traj_pos(), rtol=0, atol=1e-11)
    torch.testing.assert_close(ours.velocity, library.get_traj_vel(), rtol=0, atol=1e-10)
    some = times[:, ::50].contiguous()
    library.update_inputs(
        times=some, params=params, params_L=factor, init_time=zero, init_pos=position, init_vel=velocity
    )
    distribution = primitive.distribution(params, factor, some, zero, position, velocity)
    torch.testing.assert_close(distribution.position_covariance, library.get_traj_pos_cov(), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(distribution.velocity_covariance, library.get_traj_vel_cov(), rtol=1e-10, atol=1e-10)


def _integrated(config: PrimitiveConfig, params: Tensor, start: tuple[float, float, float], times: Tensor) -> Tensor:
    """Eq. (3) of the paper by an adaptive integrator, one degree of freedom: positions, [T]."""
    w, g = params[:-1].numpy(), float(params[-1])
    centers = np.exp(-config.alpha_phase * np.arange(config.num_basis + 1) / (config.num_basis - 1))
    widths = config.bandwidth_factor / np.diff(centers) ** 2

    def derivative(t: float, state: np.ndarray) -> list[float]:
        x = np.exp(-config.alpha_phase * t / config.tau)
        bells = np.exp(-0.5 * widths * (x - centers[:-1]) ** 2)
        force = x * bells @ w / bells.sum()
        y, v = state
        spring = config.alpha * (config.alpha / 4 * (g - y) - config.tau * v)
        return [v, (spring + force) / config.tau**2]

    span = (start[0], float(times[-1]))
    solution = solve_ivp(derivative, span, start[1:], "DOP853", times.numpy(), rtol=1e-11, atol=1e-12)
    return torch.from_numpy(solution.y[0])


def test_equals_the_integrated_dmp() -> None:
    """The tables' trapezoidal rule leaves an error of second order: four times smaller at half the step."""
    start = (0.1, 0.4, -0.7)
    params = torch.tensor([80.0, -200.0, 150.0, 60.0, 0.8], dtype=torch.float64)
    times = torch.arange(2, 21, dtype=torch.float64) * 0.1
    errors = []
    for dt in (1e-2, 5e-3, 5e-4):
        config = PrimitiveConfig(num_basis=4, tau=1.0, auto_scale_basis=False)
        state = [torch.tensor([value], dtype=torch.float64) for value in start[1:]]
        reference = ProDmp(config, 1, dt).trajectory(params, times, start[0], *state)
        errors.append(float((reference.position[:, 0] - _integrated(config, params, start, times)).abs().max()))
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.1)
    assert errors[2] < 2e-6


def test_starts_at_the_initial_state_and_ends_at_the_goal(prodmp: ProDmp) -> None:
    params, position, velocity = _draw(prodmp, 5)
    first_and_last = torch.tensor([0.3, 5.0], dtype=torch.float64)
    reference = prodmp.trajectory(params, first_and_last, 0.3, position, velocity)
    torch.testing.assert_close(reference.position[:, 0], position, rtol=0, atol=1e-12)
    torch.testing.assert_close(reference.velocity[:, 0], velocity, rtol=0, atol=1e-12)
    goal = 0.3 * params[:, 4::5] + (position if prodmp.config.relative_goal else 0)
    torch.testing.assert_close(reference.position[:, 1], goal, rtol=0, atol=1e-4)


@pytest.mark.parametrize("step", [1, 17, 40])
def test_restart_from_its_own_state_changes_nothing(prodmp: ProDmp, step: int) -> None:
    params, position, velocity = _draw(prodmp, 4)
    times = _steps(prodmp, 50)
    whole = prodmp.trajectory(params, times, 0.0, position, velocity)
    middle = (times[step], whole.position[:, step], whole.velocity[:, step])
    rest = prodmp.trajectory(params, times[step:], *middle, goal_origin=position)
    torch.testing.assert_close(rest.stacked(), whole.stacked()[:, step:], rtol=0, atol=1e-12)


def test_leading_axes(prodmp: ProDmp) -> None:
    params, position, velocity = _draw(prodmp, 3, 2)
    times = _steps(prodmp, 6)
    init_time = torch.rand(3, 2, dtype=torch.float64)
    batched = prodmp.trajectory(params, times.expand(3, 2, 6), init_time, position, velocity)
    shared = prodmp.trajectory(params, times, init_time, position, velocity)
    row = prodmp.trajectory(params[1], times, init_time[1], position[1], velocity[1])
    single = prodmp.trajectory(params[1, 0], times, float(init_time[1, 0]), position[1, 0], velocity[1, 0])
    assert batched.position.shape == (3, 2, 6, 2)
    assert single.stacked().shape == (6, 4)
    torch.testing.assert_close(shared.stacked(), batched.stacked())
    torch.testing.assert_close(row.stacked(), batched.stacked()[1])
    torch.testing.assert_close(single.stacked(), batched.stacked()[1, 0])


def test_gradients(prodmp: ProDmp) -> None:
    inputs = [tensor.requires_grad_() for tensor in _draw(prodmp, 2)]
    origin = torch.randn(2, 2, dtype=torch.float64, requires_grad=prodmp.config.relative_goal)
    times = torch.tensor([0.02, 0.05, 0.9], dtype=torch.float64)

    def stacked(params: Tensor, position: Tensor, velocity: Tensor, origin: Tensor) -> Tensor:
        return prodmp.trajectory(params, times, 0.02, position, velocity, origin).stacked()

    assert torch.autograd.gradcheck(stacked, (*inputs, origin))


def test_basis_functions_are_evaluated_only_once(rbf_calls: list[int]) -> None:
    primitive = ProDmp(HOPPER, DOF, DT)
    assert rbf_calls == [501]
    params, position, velocity = _draw(primitive, 2)
    times = _steps(primitive, 7)
    primitive.trajectory(params, times, 0.0, position, velocity)
    primitive.trajectory(params.float(), times.float(), 0.0, position.float(), velocity.float())
    primitive.distribution(params, torch.eye(12, dtype=torch.float64), times, 0.0, position, velocity)
    primitive.segments(
        primitive.grid(times, times).basis(torch.tensor([0]), torch.tensor([[1, 2]])),
        *(tensor.unsqueeze(1) for tensor in (params, position, velocity)),
    )
    assert rbf_calls == [501]


def test_times_in_single_precision_lie_on_the_grid() -> None:
    """Time 500 of Meta-World's step misses its grid point by 3e-5 of a step in float32."""
    primitive = ProDmp(PrimitiveConfig(num_basis=8, tau=5.0), num_dof=4, dt=0.0125)
    index = primitive.tables.locate(_steps(primitive, 2000, torch.float32))
    end_is_upper = torch.tensor([0.0] * 1999 + [1.0], dtype=torch.float64)  # the last point ends the last interval
    assert torch.equal(index.fraction, end_is_upper)
    assert torch.equal(index.lower + index.fraction.long(), torch.arange(1, 2001))


def test_first_use_in_inference_mode_does_not_forbid_gradients(prodmp: ProDmp) -> None:
    params, position, velocity = _draw(prodmp, 2, dtype=torch.float32)
    times = _steps(prodmp, 5, torch.float32)
    with torch.inference_mode():
        prodmp.trajectory(params, times, 0.0, position, velocity)
    params.requires_grad_()
    prodmp.trajectory(params, times, 0.0, position, velocity).stacked().sum().backward()
    assert params.grad is not None


def test_fit_recovers_parameters(prodmp: ProDmp) -> None:
    params, position, velocity = _draw(prodmp, 3)
    times = _steps(prodmp, 75)
    reference = prodmp.trajectory(params, times, 0.0, position, velocity)
    fitted = prodmp.fit(reference.position, times, 0.0, position, velocity, ridge=1e-14)
    torch.testing.assert_close(fitted, params, rtol=0, atol=1e-6)


def test_fit_agrees_with_mp_pytorch() -> None:
    primitive, library = ProDmp(HOPPER, DOF, DT), _library(HOPPER)
    times = torch.arange(120, dtype=torch.float64).expand(2, -1).contiguous() * DT
    demonstration = torch.stack([torch.sin(k * times) for k in (1, 2, 3)], dim=-1)  # [2, T, 3]
    theirs = library.learn_mp_params_from_trajs(times, demonstration)["params"]
    torch.testing.assert_close(primitive.fit(demonstration, times), theirs, rtol=1e-4, atol=1e-4)
    single = primitive.fit(demonstration.float(), times.float())
    assert single.dtype == torch.float32


@pytest.mark.parametrize("time", [5.01, float("nan")])
def test_times_beyond_the_tables_are_refused(prodmp: ProDmp, time: float) -> None:
    params, position, velocity = _draw(prodmp)
    with pytest.raises(UserError, match="raise table_length_factor"):
        prodmp.trajectory(params, torch.tensor([0.1, time]), 0.0, position, velocity)
    with pytest.raises(UserError, match="raise table_length_factor"):
        prodmp.trajectory(params, torch.tensor([0.1]), time, position, velocity)


def test_wrong_shapes_are_refused(prodmp: ProDmp) -> None:
    params, position, velocity = _draw(prodmp)
    times = _steps(prodmp, 3)
    with pytest.raises(UserError, match=r"needs \[\.\.\., 10\]"):
        prodmp.trajectory(params[:-1], times, 0.0, position, velocity)
    with pytest.raises(UserError, match=r"give \[T\]"):
        prodmp.trajectory(params, times[0], 0.0, position, velocity)
    with pytest.raises(UserError, match="at least 2"):
        prodmp.fit(position[None], times[:1])


def test_a_vanishing_basis_function_is_refused() -> None:
    with pytest.raises(UserError, match="lower alpha_phase"):
        ProDmp(replace(HOPPER, alpha_phase=3000.0), DOF, DT)
