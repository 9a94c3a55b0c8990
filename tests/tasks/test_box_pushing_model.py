"""The scene of Box Pushing and its inverse kinematics."""

from __future__ import annotations

import math

import numpy as np
import pytest

from top_erl.tasks.box_pushing.arm import HOME, POINTING_DOWN, POSITION_MAX, POSITION_MIN
from top_erl.tasks.box_pushing.inverse_kinematics import InverseKinematics
from top_erl.tasks.box_pushing.model import drawing_model, simulation_model
from top_erl.tasks.rendering import mujoco


def test_sizes_and_masses() -> None:
    model = simulation_model(False)
    assert (model.nq, model.nv, model.nu) == (16, 15, 7)
    assert model.body("link1").subtreemass[0] == pytest.approx(15.8057, abs=1e-4)
    assert model.body("rod").mass[0] == pytest.approx(1000 * math.pi * 0.01**2 * 0.3)
    box = model.body("box")
    assert box.mass[0] == pytest.approx(2.004)
    assert box.ipos == pytest.approx([0.0, 0.0, 9.68e-5], abs=1e-7)
    assert sorted(box.inertia) == pytest.approx([0.0017521, 0.0017521, 0.0033467], abs=1e-7)
    assert model.opt.timestep == 0.002


def test_only_what_can_be_touched_is_simulated() -> None:
    simulated, drawn = simulation_model(False), drawing_model()
    assert ((simulated.geom_contype == 1) & (simulated.geom_conaffinity == 1)).all()
    assert set(simulated.geom_group) == {0, 3}
    assert set(drawn.geom_group) == {0, 2, 3}
    only_seen = drawn.geom_group == 2
    assert (drawn.geom_contype[only_seen] == 0).all()
    assert (drawn.geom_conaffinity[only_seen] == 0).all()
    assert drawn.ngeom - only_seen.sum() == simulated.ngeom
    dynamic = simulated.body_weldid != 0
    np.testing.assert_array_equal(simulated.body_mass[dynamic], drawn.body_mass[dynamic])
    np.testing.assert_array_equal(simulated.body_inertia[dynamic], drawn.body_inertia[dynamic])


def test_the_collision_routine_is_a_choice() -> None:
    flag = mujoco.mjtDisableBit.mjDSBL_NATIVECCD.value
    assert simulation_model(False).opt.disableflags == flag
    assert simulation_model(True).opt.disableflags == 0


@pytest.mark.parametrize("position", [(0.3, -0.45, 0.14), (0.6, 0.45, 0.14), (0.45, 0.0, 0.14), (0.4, 0.2, 0.3)])
def test_inverse_kinematics_brings_the_hand_there(position: tuple[float, float, float]) -> None:
    model = simulation_model(False)
    data = mujoco.MjData(model)
    body = model.body("tool_centre").id
    joints = InverseKinematics(model, data, body).solve(position, POINTING_DOWN)
    assert (joints >= POSITION_MIN).all()
    assert (joints <= POSITION_MAX).all()
    data.qpos[:7] = joints
    mujoco.mj_kinematics(model, data)
    assert data.xpos[body] == pytest.approx(position, abs=2e-4)
    quaternion = data.xquat[body] * np.sign(data.xquat[body][1])
    assert quaternion == pytest.approx(POINTING_DOWN, abs=4e-3)


def test_inverse_kinematics_depends_on_its_goal_only() -> None:
    model = simulation_model(False)
    used = InverseKinematics(model, mujoco.MjData(model), model.body("tool_centre").id)
    used.solve((0.5, 0.3, 0.14), POINTING_DOWN)
    fresh = InverseKinematics(model, mujoco.MjData(model), model.body("tool_centre").id)
    goal = (0.35, -0.2, 0.14)
    assert used.solve(goal, POINTING_DOWN).tobytes() == fresh.solve(goal, POINTING_DOWN).tobytes()


def test_a_goal_out_of_reach_ends_the_search() -> None:
    model = simulation_model(False)
    solver = InverseKinematics(model, mujoco.MjData(model), model.body("tool_centre").id)
    joints = solver.solve((3.0, 0.0, 0.14), POINTING_DOWN)
    assert np.isfinite(joints).all()
    assert (joints != HOME).any()
