"""Kinematics by hand, dynamics against an independent integration of the same equation."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import solve_ivp

from top_erl.tasks.via_point_reacher.arm import PlanarArm

Array = NDArray[np.float64]


def test_stretched_arm_reaches_its_length() -> None:
    arm = PlanarArm()
    np.testing.assert_allclose(arm.tip(np.zeros(5)), [1.0, 0.0])
    np.testing.assert_allclose(arm.tip(np.array([np.pi / 2, 0, 0, 0, 0])), [0.0, 1.0], atol=1e-15)


def test_joint_points_by_hand() -> None:
    # Up, right, right again (down), straight on, left: a staircase of 0.2 m links.
    quarter = np.pi / 2
    points = PlanarArm().joint_points(np.array([quarter, -quarter, -quarter, 0.0, quarter]))
    expected = [[0, 0], [0, 0.2], [0.2, 0.2], [0.2, 0.0], [0.2, -0.2], [0.4, -0.2]]
    np.testing.assert_allclose(points, expected, atol=1e-15)


def test_start_points_up_and_is_bent() -> None:
    arm = PlanarArm()
    # Link angles from upright: 0.6, 0.3, 0, -0.3, -0.6, so x cancels.
    height = 0.2 * (2 * np.cos(0.6) + 2 * np.cos(0.3) + 1)
    np.testing.assert_allclose(arm.tip(np.array(arm.start)), [0.0, height], atol=1e-15)


def test_control_by_hand_and_its_limits() -> None:
    arm = PlanarArm()
    position, velocity = np.zeros(5), np.zeros(5)
    action = arm.control(position, velocity, np.full(5, 0.02), np.full(5, 0.1))
    # Joint 0: (250 * 0.02 + 17.5 * 0.1) / 30; the other joints have the same ratios.
    np.testing.assert_allclose(action, np.full(5, 6.75 / 30))
    assert (arm.control(position, velocity, np.full(5, 9.0), velocity) == 1.0).all()
    assert (arm.control(position, velocity, np.full(5, -9.0), velocity) == -1.0).all()


def test_one_substep_by_hand() -> None:
    arm = PlanarArm(substeps=1)
    position, velocity = arm.advance(np.zeros(5), np.full(5, 2.0), np.full(5, 0.5))
    # acceleration = 0.5 * 60 - 1 * 2 = 28; velocity 2 + 0.02 * 28; position moves with the new velocity.
    np.testing.assert_allclose(velocity, 2.56)
    np.testing.assert_allclose(position, 0.0512)


def test_torque_beyond_the_limit_is_clipped() -> None:
    arm = PlanarArm()
    start = np.array(arm.start), np.zeros(5)
    for wild, full in ((7.0, 1.0), (-7.0, -1.0)):
        np.testing.assert_array_equal(arm.advance(*start, np.full(5, wild)), arm.advance(*start, np.full(5, full)))


def integrate(arm: PlanarArm, actions: Array) -> tuple[Array, Array]:
    """Integrate the equation of motion to high accuracy, the torque held within each control step."""
    inertia, damping = np.array(arm.inertia), np.array(arm.damping)
    state = np.concatenate([arm.start, np.zeros(5)])
    for action in actions:
        torque = np.clip(action, -1, 1) * np.array(arm.torque_limit)

        def slope(_: float, state: Array, torque: Array = torque) -> Array:
            return np.concatenate([state[5:], (torque - damping * state[5:]) / inertia])

        state = solve_ivp(slope, (0.0, arm.dt), state, rtol=1e-9, atol=1e-9).y[:, -1]
    return state[:5], state[5:]


@pytest.mark.parametrize(("substeps", "tolerance"), [(4, 0.03), (400, 3e-4)])  # first order in the substep
def test_dynamics_converge_to_the_equation_of_motion(substeps: int, tolerance: float) -> None:
    arm = PlanarArm(substeps=substeps)
    time = np.arange(50)[:, None] * arm.dt
    actions = np.sin(2 * np.pi * time + np.arange(5))
    position, velocity = np.array(arm.start), np.zeros(5)
    for action in actions:
        position, velocity = arm.advance(position, velocity, action)
    expected_position, expected_velocity = integrate(arm, actions)
    np.testing.assert_allclose(position, expected_position, atol=tolerance)
    np.testing.assert_allclose(velocity, expected_velocity, atol=tolerance)


def test_smooth_references_are_followed_closely_but_not_perfectly() -> None:
    arm = PlanarArm()
    share = np.arange(1, 51) / 50
    smooth = 10 * share**3 - 15 * share**4 + 6 * share**5  # rest to rest in one second
    speed = 30 * share**2 - 60 * share**3 + 30 * share**4
    offset = np.array([1.0, -0.8, 0.6, 0.4, -0.2])
    position, velocity, lag = np.array(arm.start), np.zeros(5), 0.0
    for step in range(50):
        desired = np.array(arm.start) + smooth[step] * offset
        action = arm.control(position, velocity, desired, speed[step] * offset)
        position, velocity = arm.advance(position, velocity, action)
        lag = max(lag, np.abs(desired - position).max())
    assert 0.005 < lag < 0.05
