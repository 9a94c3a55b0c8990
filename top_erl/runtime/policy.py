"""An exported policy: from what is observed and measured to a reference.

Axes: `B` plans, `S` observation entries, `T` times, `D` degrees of freedom.
"""

from __future__ import annotations

import hashlib
import json
import operator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from top_erl.errors import UserError, unknown_name
from top_erl.limits import Limits, check_limits
from top_erl.runtime.backends import BACKENDS, INDEX, INPUTS, ORIGIN, PLAN_TIMES, Backend, Compute
from top_erl.runtime.onnx_file import read_graph
from top_erl.runtime.reference import PlannedReference

Array = NDArray[np.float64]

FORMAT, PLANS_FORMAT = 1, 2
"""Of the card: of one plan an episode, and of several. Others are refused."""
_SIZES = ("observation_dim", "num_dof", "horizon")


class Policy:
    """Plans references; `card` says what was exported."""

    def __init__(self, model: bytes, card: dict[str, Any], backend: Backend = "numpy") -> None:
        """Take the bytes of a graph and its card; `load` reads them from files."""
        if backend not in BACKENDS:
            raise unknown_name("backend", backend, BACKENDS)
        self.card = card
        self.observation_dim, self.num_dof, self.horizon = (int(card[name]) for name in _SIZES)
        self.dt = float(card["dt"])
        self.plan_every = int(card.get("plan_every") or 0)
        """Control steps between two plans; 0: one plan an episode."""
        self.limits = Limits.from_dict(card["limits"], self.num_dof) if card.get("limits") else None
        self._check_plans(model)
        self._compute: Compute = BACKENDS[backend](model)

    def _check_plans(self, model: bytes) -> None:
        """Refuse a card whose plans are not those of its graph."""
        times = read_graph(model).constants.get(PLAN_TIMES, np.empty(0)).ravel()
        steps = np.arange(0, self.horizon, self.plan_every) if self.plan_every else np.empty(0)
        if len(times) != len(steps) or not np.allclose(times, steps * self.dt):
            raise UserError("The card says another time between two plans than its graph has: export the policy anew.")

    @classmethod
    def load(cls, path: str | Path, backend: Backend = "numpy") -> Policy:
        """Read `policy.onnx` and the card `policy.json` beside it.

        Args:
            path: The graph.
            backend: `numpy`, or `onnxruntime` if it is installed.
        """
        file = Path(path)
        card_file = file.with_suffix(".json")
        try:
            model, text = file.read_bytes(), card_file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"Cannot read the exported policy {file} with its card {card_file}: {error}.") from None
        card = _read_card(card_file, text)
        if hashlib.sha256(model).hexdigest() != card["sha256"]:
            raise UserError(f"{file} is not the graph that {card_file.name} belongs to: it is damaged, or of another.")
        return cls(model, card, backend)

    def __call__(
        self,
        observation: ArrayLike,
        position: ArrayLike,
        velocity: ArrayLike,
        *,
        step: int = 0,
        origin: ArrayLike | None = None,
    ) -> PlannedReference:
        """Plan the reference of a movement that begins now, or the next plan in the middle of an episode.

        Args:
            observation: Raw observation, as the task gives it, [S] or [B, S].
            position: Measured position, [D] or [B, D]; in the middle of an episode that of the reference now.
            velocity: Measured velocity, or that of the reference, likewise.
            step: Control steps made so far in the episode, a multiple of `plan_every`.
            origin: Position with which the episode began, likewise; not needed at its start.

        Returns:
            Positions and velocities at dt, 2 dt, … from now to the end: [T, D] or [B, T, D], float64, less `step` of T.
        """
        step = self._checked_step(step, origin)
        values = {INPUTS[0]: observation, INPUTS[1]: position, INPUTS[2]: velocity}
        if self.plan_every:
            values[ORIGIN] = origin if step and origin is not None else position  # an episode begins where it begins
        given = {name: _checked(name, value, self._size(name)) for name, value in values.items()}
        lead = given[INPUTS[0]].shape[:-1]
        if any(value.shape[:-1] != lead for value in given.values()):
            shapes = ", ".join(f"{name} {value.shape}" for name, value in given.items())
            raise UserError(f"Give one position and one velocity for each observation, not {shapes}.")
        batch: dict[str, NDArray[Any]] = {
            name: np.ascontiguousarray(np.atleast_2d(value), dtype=np.float32) for name, value in given.items()
        }
        if self.plan_every:
            batch[INDEX] = np.full(len(batch[INPUTS[0]]), step // self.plan_every, dtype=np.int64)
        left = self.horizon - step
        desired = [values[:, :left].astype(np.float64) for values in self._compute(batch)]  # [B, T, D] each
        if not lead:
            desired = [values[0] for values in desired]
        return PlannedReference(desired[0], desired[1], given[INPUTS[1]], given[INPUTS[2]], self.dt)

    def _size(self, name: str) -> int:
        """How many numbers an input has."""
        return self.observation_dim if name == INPUTS[0] else self.num_dof

    def _checked_step(self, given: int, origin: ArrayLike | None) -> int:
        """Refuse an instant at which this policy makes no plan."""
        try:
            step = operator.index(given)
        except TypeError:
            raise UserError(f"step must be a whole number of control steps, not {given!r}.") from None
        if not step:
            return step
        if not self.plan_every:
            raise UserError("This policy makes one plan an episode, at its start: step must be 0.")
        if not 0 < step < self.horizon or step % self.plan_every:
            raise UserError(
                f"This policy plans every {self.plan_every} of {self.horizon} control steps; there is no plan at step "
                f"{step}."
            )
        if origin is None:
            raise UserError("In the middle of an episode the policy needs origin, the position with which it began.")
        return step

    def check(self, reference: PlannedReference, limits: Limits | None = None) -> None:
        """Raise a `UserError` if a reference exceeds limits, by default those of the card; without any, do nothing."""
        limits = limits or self.limits
        if limits is not None:
            check_limits(reference.exceeds(limits))


def _read_card(file: Path, text: str) -> dict[str, Any]:
    try:
        card = json.loads(text)
        version = card["format"]
        if version in (FORMAT, PLANS_FORMAT):
            wanted = (*_SIZES, "dt", "sha256", *(("plan_every",) if version == PLANS_FORMAT else ()))
            missing = [name for name in wanted if name not in card]
            if missing:
                raise KeyError(missing[0])
            if version == PLANS_FORMAT and not 0 < operator.index(card["plan_every"]) < card["horizon"]:
                raise ValueError(card["plan_every"])
            return dict(card)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UserError(f"{file} is not the card of an exported policy, or is damaged; export it anew.") from None
    raise UserError(
        f"{file} has format {version}, this version reads formats {FORMAT} and {PLANS_FORMAT}: export the policy anew."
    )


def _checked(name: str, value: ArrayLike, size: int) -> Array:
    """Numbers of the right size, [size] or [B, size]; NaN and infinity are refused."""
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise UserError(f"The {name} must be numbers, {size} of them, not {value!r}.") from None
    if array.ndim not in (1, 2) or array.shape[-1] != size or not array.size:
        raise UserError(f"The {name} has shape {array.shape}; this policy needs ({size},), or (B, {size}).")
    if not np.isfinite(array).all():
        entry = int(np.argwhere(~np.isfinite(array))[0][-1])
        raise UserError(f"Entry {entry} of the {name} is {array[~np.isfinite(array)][0]}: do not move on it.")
    return array
