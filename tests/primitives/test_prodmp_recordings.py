"""ProDMP against recorded trajectories of mp_pytorch 0.1.4 (Box Pushing and Meta-World settings)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from top_erl.primitives import PrimitiveConfig, ProDmp

Recording = dict[str, Tensor]


@pytest.fixture(params=["box", "metaworld"])
def recorded(request: pytest.FixtureRequest, recording: Callable[[str], Recording]) -> Recording:
    return recording(f"prodmp_{request.param}")


def _primitive(rec: Recording) -> ProDmp:
    return ProDmp(
        PrimitiveConfig(
            num_basis=int(rec["num_basis"]),
            tau=float(rec["tau"]),
            bandwidth_factor=float(rec["bandwidth_factor"]),
            alpha=float(rec["alpha"]),
            alpha_phase=float(rec["alpha_phase"]),
            weights_scale=float(rec["weights_scale"]),
            goal_scale=float(rec["goal_scale"]),
            relative_goal=bool(rec["relative_goal"]),
            table_length_factor=int(rec["table_length_factor"]),
        ),
        num_dof=int(rec["num_dof"]),
        dt=float(rec["dt"]),
    )


def _close(ours: Tensor, theirs: Tensor, atol: float = 1e-9) -> None:
    torch.testing.assert_close(ours, theirs, rtol=0.0, atol=atol)


def test_basis_and_scales(recorded: Recording) -> None:
    primitive = _primitive(recorded)
    _close(primitive.tables.rbf.centers, recorded["centers_p"])
    torch.testing.assert_close(primitive.tables.rbf.bandwidths, recorded["bandwidth"], rtol=1e-11, atol=0)
    torch.testing.assert_close(primitive.tables.auto_scale, recorded["auto_scale"], rtol=1e-11, atol=0)
    torch.testing.assert_close(primitive.scale, recorded["weights_goal_scale"], rtol=1e-11, atol=0)


def test_tables(recorded: Recording) -> None:
    primitive = _primitive(recorded)
    rows = primitive.tables.motions[:: int(recorded["table_step"])]
    _close(rows[:, 0], recorded["table_pos"], atol=1e-12)
    _close(rows[:, 1] * recorded["tau"], recorded["table_vel"], atol=1e-12)  # recorded per scaled time


def test_trajectory(recorded: Recording) -> None:
    rec = recorded
    reference = _primitive(rec).trajectory(
        rec["params"], rec["times"], rec["init_time"], rec["init_pos"], rec["init_vel"]
    )
    _close(reference.position, rec["pos"])
    _close(reference.velocity, rec["vel"])


@pytest.mark.parametrize("state", ["mid_same", "mid_pert"])
def test_trajectory_from_the_middle(recorded: Recording, state: str) -> None:
    rec = recorded
    start = (rec["mid_init_time"], rec[f"{state}_init_pos"], rec[f"{state}_init_vel"])
    reference = _primitive(rec).trajectory(rec["params"], rec["mid_times"], *start)
    _close(reference.position, rec[f"{state}_pos"])
    _close(reference.velocity, rec[f"{state}_vel"])


def test_trajectory_between_grid_points(recorded: Recording) -> None:
    rec = recorded
    reference = _primitive(rec).trajectory(
        rec["params"], rec["off_times"], rec["off_init_time"], rec["init_pos"], rec["init_vel"]
    )
    _close(reference.position, rec["off_pos"])
    _close(reference.velocity, rec["off_vel"])


def test_relative_goal_keeps_its_origin(recording: Callable[[str], Recording]) -> None:
    rec = recording("prodmp_metaworld")
    start = (rec["mid_init_time"], rec["mid_same_init_pos"], rec["mid_same_init_vel"])
    reference = _primitive(rec).trajectory(rec["params"], rec["mid_times"], *start, goal_origin=rec["init_pos"])
    _close(reference.position, rec["relgoal_exact_pos"])


def test_distribution(recorded: Recording) -> None:
    rec = recorded
    start = (rec["init_time"], rec["init_pos"], rec["init_vel"])
    ours = _primitive(rec).distribution(rec["params"], rec["params_L"], rec["cov_times"], *start)
    _close(ours.mean_position, rec["mean_flat"])
    _close(ours.position_covariance, rec["pos_cov"])
    _close(ours.velocity_covariance, rec["vel_cov"])
    _close(ours.position_std, rec["pos_std"])


def test_distribution_of_pairs_of_times(recorded: Recording) -> None:
    """Joint Gaussians of two times each, as temporally-correlated methods score trajectories."""
    rec = recorded
    mean, factor = rec["params"][:, None], rec["params_L"][:, None]  # [3, 1, P], [3, 1, P, P]
    start = (rec["init_time"][:, None], rec["init_pos"][:, None], rec["init_vel"][:, None])
    ours = _primitive(rec).distribution(mean, factor, rec["pair_times"], *start)  # times [3, 24, 2]
    _close(ours.mean_position, rec["pair_mean"])
    _close(ours.position_covariance[: len(rec["pair_cov"])], rec["pair_cov"])
    _close(ours.log_prob(rec["pair_sample_pos"]), rec["pair_logp"])


def test_single_precision(recorded: Recording) -> None:
    rec = recorded
    inputs = [rec[key].float() for key in ("params", "times", "init_time", "init_pos", "init_vel")]
    reference = _primitive(rec).trajectory(*inputs)
    speed = float(rec["vel"].abs().max())
    assert reference.position.dtype == reference.velocity.dtype == torch.float32
    # the recorded float32 values carry the rounding of float32 tables; ours are nearer to the exact ones
    _close(reference.position, rec["pos_f32"], atol=1e-5)
    _close(reference.velocity, rec["vel_f32"], atol=1e-5 * speed)
    _close(reference.position.double(), rec["pos"], atol=1e-6)
    _close(reference.velocity.double(), rec["vel"], atol=1e-6 * speed)
