"""The 50 Meta-World tasks: names, contexts, what counts as success. Imports nothing heavy.

Observation (39): hand 3, gripper opening 1, first object's position 3 and quaternion 4, second object's 3 and 4 (zeros
if there is none); the same 18 entries one step ago; goal 3.
"""

from __future__ import annotations

from dataclasses import dataclass

from top_erl.config.primitive import PrimitiveConfig
from top_erl.tasks.contract import TaskSpec

HORIZON = 500
"""T: control steps per episode (6.25 seconds)."""
DT = 0.0125
"""Seconds per control step."""
OBSERVATION_DIM = 39
NUM_DOF = 4
"""Degrees of freedom of a reference: x, y, z of the hand's target in metres, and the gripper's command."""
GRIPPER_START = -1.719e-4
"""Measured slide of the open gripper's right finger at the start of every episode, in metres."""
VERSION = "3.1.1"
"""Release of the package `metaworld` whose models and rewards are used."""

_GOAL = (36, 37, 38)
_OBJECT_AND_GOAL = (4, 5, 6, *_GOAL)
_MIDDLE, _NEAR, _LEFT = (0.0, 0.6, 0.2), (0.0, 0.4, 0.2), (-0.5, 0.6, 0.2)


@dataclass(frozen=True)
class Facts:
    """What is known about a task without its simulator."""

    description: str
    """One sentence that says what to do."""
    success: str
    """When the task counts as solved, after the last step."""
    hand: tuple[float, float, float] = _MIDDLE
    """Where the hand is at the start of every episode."""
    context: tuple[int, ...] = _OBJECT_AND_GOAL
    """Observation entries for black-box methods: the goal, and the object where its place varies."""


TASKS: dict[str, Facts] = {
    "assembly-v3": Facts("Put a ring on a peg.", "the ring is around the peg, within 2 cm", context=_GOAL),
    "basketball-v3": Facts(
        "Dunk a ball into a basket.", "the ball is within 8 cm of the basket (heights count double)"
    ),
    "bin-picking-v3": Facts("Carry a cube from one bin to another.", "the cube is within 5 cm of the other bin"),
    "box-close-v3": Facts("Put the lid on a box.", "the lid is within 8 cm of its place"),
    "button-press-topdown-v3": Facts(
        "Press a button from above.", "the button is pressed to 2.4 cm above its end", _NEAR
    ),
    "button-press-topdown-wall-v3": Facts(
        "Press a button from above, behind a wall.", "the button is pressed to 2.4 cm above its end", _NEAR
    ),
    "button-press-v3": Facts("Press a button from the front.", "the button is pressed to 2 cm before its end", _NEAR),
    "button-press-wall-v3": Facts(
        "Press a button from the front, behind a wall.", "the button is pressed to 3 cm before its end", _NEAR
    ),
    "coffee-button-v3": Facts(
        "Press the button of a coffee machine.", "the button is pressed to 2 cm before its end", _NEAR
    ),
    "coffee-pull-v3": Facts(
        "Pull a mug from a coffee machine to a goal.", "the mug is within 3.5 cm of the goal", _NEAR
    ),
    "coffee-push-v3": Facts("Push a mug under a coffee machine.", "the mug is within 3.5 cm of the goal", _NEAR),
    "dial-turn-v3": Facts("Turn a dial by half a turn.", "the dial's mark is within 7 cm of its goal"),
    "disassemble-v3": Facts("Take a ring off a peg.", "the ring is above the peg", _NEAR),
    "door-close-v3": Facts("Close a door.", "the handle is within 8 cm of its goal", _LEFT),
    "door-lock-v3": Facts("Lock a door by turning its lock.", "the lock is turned to within 2 cm of its end"),
    "door-open-v3": Facts("Open a door.", "the handle is within 8 cm of its goal, sideways"),
    "door-unlock-v3": Facts("Unlock a door by turning its lock.", "the lock is turned to within 2 cm of its end"),
    "drawer-close-v3": Facts("Push a drawer shut.", "the handle is within 6.5 cm of its goal"),
    "drawer-open-v3": Facts("Pull a drawer open.", "the handle is within 3 cm of its goal"),
    "faucet-close-v3": Facts("Turn a faucet clockwise.", "the handle is within 7 cm of its goal", _NEAR),
    "faucet-open-v3": Facts("Turn a faucet counter-clockwise.", "the handle is within 7 cm of its goal", _NEAR),
    "hammer-v3": Facts("Hammer a nail into a wall.", "the nail is driven in by 9 cm", _NEAR),
    "hand-insert-v3": Facts("Put a cube into a hole with the hand.", "the cube is within 5 cm of the goal"),
    "handle-press-side-v3": Facts("Press a handle down, from the side.", "the handle is within 2 cm of its end"),
    "handle-press-v3": Facts("Press a handle down.", "the handle is within 2 cm of its end"),
    "handle-pull-side-v3": Facts("Pull a handle up, from the side.", "the handle is within 8 cm of its goal"),
    "handle-pull-v3": Facts("Pull a handle up.", "the handle is within 5 cm of its goal's height"),
    "lever-pull-v3": Facts("Pull a lever up by a quarter turn.", "the lever is within 7.5 degrees of upright", _NEAR),
    "peg-insert-side-v3": Facts(
        "Insert a peg into a box, from the side.", "the peg's head is within 7 cm of the hole (y and z count double)"
    ),
    "peg-unplug-side-v3": Facts("Pull a plug out of a box, sideways.", "the plug is within 7 cm of the goal"),
    "pick-out-of-hole-v3": Facts(
        "Lift a cube out of a hole to a goal.", "the cube is within 7 cm of the goal", context=_GOAL
    ),
    "pick-place-v3": Facts("Carry a puck to a goal in the air.", "the puck is within 7 cm of the goal"),
    "pick-place-wall-v3": Facts("Carry a puck over a wall to a goal.", "the puck is within 7 cm of the goal"),
    "plate-slide-back-side-v3": Facts(
        "Slide a plate out of a cabinet, sideways.", "the plate is within 7 cm of the goal", context=_GOAL
    ),
    "plate-slide-back-v3": Facts(
        "Slide a plate out of a cabinet.", "the plate is within 7 cm of the goal", context=_GOAL
    ),
    "plate-slide-side-v3": Facts(
        "Slide a plate into a cabinet, sideways.", "the plate is within 7 cm of the goal", context=_GOAL
    ),
    "plate-slide-v3": Facts("Slide a plate into a cabinet.", "the plate is within 7 cm of the goal", context=_GOAL),
    "push-back-v3": Facts("Pull a cube back to a goal.", "the cube is within 7 cm of the goal"),
    "push-v3": Facts("Push a puck to a goal.", "the puck is within 5 cm of the goal"),
    "push-wall-v3": Facts("Push a puck around a wall to a goal.", "the puck is within 7 cm of the goal"),
    "reach-v3": Facts("Reach a goal in the air.", "the gripper is within 5 cm of the goal"),
    "reach-wall-v3": Facts("Reach a goal behind a wall.", "the gripper is within 5 cm of the goal"),
    "shelf-place-v3": Facts("Put a cube on a shelf.", "the cube is within 7 cm of the goal"),
    "soccer-v3": Facts("Kick a ball into a goal.", "the ball is within 7 cm of the goal (x counts triple)"),
    "stick-pull-v3": Facts(
        "Pull a box by putting a stick through its handle.",
        "the stick is in the handle and the handle is within 12 cm of the goal",
    ),
    "stick-push-v3": Facts("Push a box with a stick.", "the box is within 12 cm of the goal"),
    "sweep-into-v3": Facts("Sweep a cube into a hole.", "the cube is within 5 cm of the hole, seen from above"),
    "sweep-v3": Facts("Sweep a cube off the table.", "the cube is within 5 cm of the goal"),
    "window-close-v3": Facts("Slide a window shut.", "the handle is within 5 cm of its goal, sideways", _NEAR),
    "window-open-v3": Facts("Slide a window open.", "the handle is within 5 cm of its goal, sideways", _NEAR),
}
"""All tasks by their Meta-World names."""

PRIMITIVE = PrimitiveConfig(
    num_basis=8, tau=5.0, bandwidth_factor=5.0, weights_scale=0.1, goal_scale=0.1, relative_goal=True
)
"""The movement primitive of the published experiments."""


def task_id(name: str) -> str:
    """Name a Meta-World task as this package does: `metaworld/reach-v3`."""
    return f"metaworld/{name}"


def jumping_id(name: str) -> str:
    """Name of the same task with a goal that jumps, e.g. `metaworld/reach-jump-v3` for `reach-v3`."""
    return task_id(name).replace("-v3", "-jump-v3")


def task_spec(name: str) -> TaskSpec:
    """Collect the facts about a Meta-World task, e.g. `reach-v3`."""
    facts = TASKS[name]
    return TaskSpec(
        id=task_id(name),
        observation_dim=OBSERVATION_DIM,
        num_dof=NUM_DOF,
        horizon=HORIZON,
        dt=DT,
        metrics=("success", "success_any", "obj_to_target"),
        primitive=PRIMITIVE,
        stride=5,
        return_size=1000.0,
        context_mask=facts.context,
        version=VERSION,
        success_rule=f"After the last step, {facts.success}.",
        description=facts.description,
        family="metaworld",
        dof_names=("x", "y", "z", "gripper"),
        dof_units=("m", "m", "m", "command"),
    )
