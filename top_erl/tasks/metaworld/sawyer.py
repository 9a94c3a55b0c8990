"""What a simulator of a Meta-World task does itself, in front of Meta-World's own class.

* Poses are looked up once, observations built in place, contacts read as arrays.
* A start is a pure function of the task vector, which says where object and goal are. Meta-World resets twice, each
  time with a new vector, and some tasks then show the object where the other vector had put it. Here both passes use
  one vector. The first puts the model's bodies in their places, the second starts the episode.
* The hand moves to its first place with the same 250 physics steps, but in the second pass only, and not at all if the
  model's bodies are where they were at the last start.
* An instant can be noted and gone back to.

None of it changes a number: with the same vector and actions, everything equals Meta-World's to the last bit. The one
exception is the first observation of window-close, which there shows the handle 0.2 m beside its place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from top_erl.errors import UserError
from top_erl.tasks.rendering import mujoco

Array = NDArray[np.float64]

_STATE = mujoco.mjtState.mjSTATE_INTEGRATION
_HAND_STEPS = 50
"""Control steps in which the hand moves to its first place."""
_OPEN = (-1.0, 1.0)
"""Commands of the two fingers that open the gripper."""
_NOT_SAVED = frozenset({"_np_random", "_np_random_seed", "_hand_cache", "_fresh"})
"""Attributes that belong to the simulator, not to the episode."""


@dataclass(frozen=True)
class Saved:
    """An instant of a simulation, for coming back to it."""

    state: Array
    """What the physics needs to go on."""
    body_pos: Array
    """Where the model's bodies are fixed, [bodies, 3]."""
    site_pos: Array
    """Where the model's sites are fixed, [sites, 3]."""
    attributes: dict[str, Any]
    """The Python side: goal, start positions, counters."""


class QuickSawyer:
    """What a simulator does instead of Meta-World's class, which stands behind it in the method resolution order."""

    _moved_last = False
    """Whether the placing ends with a joint that is moved and not followed by a forward pass."""
    model: Any
    data: Any
    frame_skip: int
    action_scale: float
    mocap_low: Array
    mocap_high: Array
    hand_init_pos: Array
    curr_path_length: int
    sawyer_observation_space: Any
    np_random: np.random.Generator
    _target_pos: Array
    _prev_obs: Array
    _last_rand_vec: Array

    def __init__(self, **options: Any) -> None:
        """Build the model and note how everything stands before the first start."""
        super().__init__(**options)
        self._partially_observable = False  # the goal is part of the observation
        self._set_task_called = True
        self.seeded_rand_vec = True
        self.__dict__.pop("sawyer_observation_space", None)  # it was made for a hidden goal
        self.observation_space = self.sawyer_observation_space
        self._bounds = self.sawyer_observation_space.low, self.sawyer_observation_space.high
        self._hand_cache: tuple[bytes, Array] | None = None
        self._moving_hand = True
        self._draws = 0
        self._fresh = self.save()

    def _initialize_simulation(self) -> tuple[Any, Any]:
        """Load the model and find everything by name once; poses are views of the simulator's memory."""
        model, data = super()._initialize_simulation()  # type: ignore[misc]
        self._hand = data.body("hand").xpos
        self._claws = data.body("rightclaw").xpos, data.body("leftclaw").xpos
        self._finger_tips = data.site("rightEndEffector").xpos, data.site("leftEndEffector").xpos
        self._pads = data.geom("leftpad_geom").id, data.geom("rightpad_geom").id
        self._bodies = {model.body(i).name: data.body(i).xpos for i in range(model.nbody)}
        self._sites = {model.site(i).name: data.site(i).xpos for i in range(model.nsite)}
        return model, data

    # Starts

    def start(self, generator: np.random.Generator, vector: Array | None = None) -> Array:
        """Begin an episode from a task vector, drawn with the generator unless given; the first observation, [39]."""
        self.restore(self._fresh)
        self.np_random = generator
        self._freeze_rand_vec = vector is not None
        if vector is not None:
            self._last_rand_vec = vector
        self._place(moving_hand=False)  # draws the vector; the model's bodies go where it says
        self._freeze_rand_vec = True
        observation = self._place(moving_hand=True)
        if self._moved_last:
            mujoco.mj_kinematics(self.model, self.data)
            observation = self._get_obs()
        self._prev_obs = observation[:18].copy()
        observation[18:36] = self._prev_obs
        return observation

    def _place(self, moving_hand: bool) -> Array:
        """Run Meta-World's placing of hand, objects and goal on a simulator that was just reset."""
        self._moving_hand, self._draws = moving_hand, 0
        mujoco.mj_resetData(self.model, self.data)
        mujoco.mj_kinematics(self.model, self.data)
        observation: Array = self.reset_model()  # type: ignore[attr-defined]
        return observation

    def _reset_hand(self, steps: int = _HAND_STEPS) -> None:
        """Move the hand to its first place; Meta-World's method then notes where it is."""
        if self._moving_hand:
            self._move_hand(steps * self.frame_skip)
        super()._reset_hand(steps=0)  # type: ignore[misc]

    def _move_hand(self, physics_steps: int) -> None:
        """Make the physics steps that move the hand; the state before the last one is kept.

        The last step is made in any case, because it leaves behind the poses that the placing reads.
        """
        model, data = self.model, self.data
        key = model.body_pos.tobytes()  # all that a task vector changes and physics depends on
        if self._hand_cache is None or self._hand_cache[0] != key:
            data.mocap_pos[0] = self.hand_init_pos
            data.mocap_quat[0] = (1, 0, 1, 0)
            data.ctrl[:] = _OPEN
            mujoco.mj_step(model, data, nstep=physics_steps - 1)
            self._hand_cache = key, self._state()
        else:
            mujoco.mj_setState(model, data, self._hand_cache[1], _STATE)
        mujoco.mj_step(model, data)

    def _get_state_rand_vec(self) -> Array:
        """Give the task vector; asked for a second time, the first was refused (object and goal too close)."""
        self._draws += 1
        if self._freeze_rand_vec and self._draws > 1:
            raise UserError(f"The task vector {self._last_rand_vec} puts the object too close to the goal.")
        vector: Array = super()._get_state_rand_vec()  # type: ignore[misc]
        return vector

    # Instants

    def save(self) -> Saved:
        """Note this instant."""
        attributes = {name: value for name, value in self.__dict__.items() if name not in _NOT_SAVED}
        return Saved(self._state(), self.model.body_pos.copy(), self.model.site_pos.copy(), attributes)

    def restore(self, saved: Saved) -> None:
        """Go back to an instant that was noted in this simulator; the next step sees no difference."""
        kept = {name: self.__dict__[name] for name in _NOT_SAVED if name in self.__dict__}
        self.__dict__.clear()
        self.__dict__.update(saved.attributes, **kept)
        self.model.body_pos[:] = saved.body_pos
        self.model.site_pos[:] = saved.site_pos
        mujoco.mj_setState(self.model, self.data, saved.state, _STATE)
        mujoco.mj_kinematics(self.model, self.data)  # for pictures; the physics needs only the state

    def _state(self) -> Array:
        """Copy the simulator's state."""
        state = np.empty(mujoco.mj_stateSize(self.model, _STATE))
        mujoco.mj_getState(self.model, self.data, state, _STATE)
        return state

    # Steps

    def advance(self, action: Array) -> tuple[Array, float, dict[str, Any]]:
        """Make one control step; observation [39], reward and info."""
        model, data = self.model, self.data
        shift = np.minimum(np.maximum(action[:3], -1), 1) * self.action_scale
        data.mocap_pos[0] = np.minimum(np.maximum(data.mocap_pos[0] + shift, self.mocap_low), self.mocap_high)
        data.mocap_quat[0] = (1, 0, 1, 0)
        data.ctrl[:] = (action[3], -action[3])
        mujoco.mj_step(model, data, nstep=self.frame_skip)
        mujoco.mj_forward(model, data)  # in full: its accelerations are where the next step's solver starts from
        self.curr_path_length += 1
        observation = self._get_obs()
        np.maximum(observation, self._bounds[0], out=observation)
        np.minimum(observation, self._bounds[1], out=observation)
        reward, info = self.evaluate_state(observation, action)  # type: ignore[attr-defined]
        return observation, reward, info

    def _get_obs(self) -> Array:
        """Build the observation, [39]: this instant, the one before, the goal."""
        observation = np.empty(39)
        observation[:18] = now = self._get_curr_obs_combined_no_goal()
        observation[18:36] = self._prev_obs
        observation[36:] = self._target_pos
        self._prev_obs = now
        return observation

    def _get_curr_obs_combined_no_goal(self) -> Array:
        """Observe hand, gripper and up to two objects, [18]."""
        now = np.zeros(18)
        right, left = self._claws
        between = right - left
        now[:3] = self._hand
        now[3] = min(float(np.sqrt(between.dot(between))) / 0.1, 1.0)
        position, quaternion = self._get_pos_objects(), self._get_quat_objects()  # type: ignore[attr-defined]
        now[4:7], now[7:11] = position[:3], quaternion[:4]
        if len(position) > 3:
            now[11:14], now[14:18] = position[3:], quaternion[4:]
        return now

    # What Meta-World's rewards ask for

    def get_endeff_pos(self) -> Array:
        """Position of the hand, a live view."""
        return self._hand

    @property
    def tcp_center(self) -> Array:
        """The middle between the finger tips."""
        right, left = self._finger_tips
        return (right + left) / 2.0

    def get_body_com(self, body_name: str) -> Array:
        """Position of a body, a live view."""
        return self._bodies[body_name]

    def _get_site_pos(self, site_name: str) -> Array:
        """Position of a site."""
        return self._sites[site_name].copy()

    def touching_object(self, object_geom_id: int) -> bool:
        """Whether both finger pads press on a geom."""
        contacts, force = self.data.contact, self.data.efc_force
        pressure = [0.0, 0.0]
        for pair, address in zip(contacts.geom.tolist(), contacts.efc_address.tolist(), strict=True):
            if object_geom_id in pair:
                for side, pad in enumerate(self._pads):
                    if pad in pair:
                        pressure[side] += force[address]
        return pressure[0] > 0 and pressure[1] > 0
