"""An exported policy: from what is observed and measured to a reference.

Axes: `B` plans, `S` observation entries, `T` times, `D` degrees of freedom.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from top_erl.errors import UserError, unknown_name
from top_erl.limits import Limits, check_limits
from top_erl.runtime.backends import BACKENDS, INPUTS, Backend, Compute
from top_erl.runtime.reference import PlannedReference

Array = NDArray[np.float64]

FORMAT = 1
"""Of the card; another one is refused."""
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
        self.limits = Limits.from_dict(card["limits"], self.num_dof) if card.get("limits") else None
        self._compute: Compute = BACKENDS[backend](model)

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

    def __call__(self, observation: ArrayLike, position: ArrayLike, velocity: ArrayLike) -> PlannedReference:
        """Plan the reference of a movement that begins now.

        Args:
            observation: Raw observation, as the task gives it, [S] or [B, S].
            position: Measured position, [D] or [B, D].
            velocity: Measured velocity, likewise.

        Returns:
            Positions and velocities at dt, 2 dt, …, T dt: [T, D] or [B, T, D], float64.
        """
        sizes = (self.observation_dim, self.num_dof, self.num_dof)
        given = [
            _checked(name, value, size)
            for name, value, size in zip(INPUTS, (observation, position, velocity), sizes, strict=True)
        ]
        lead = given[0].shape[:-1]
        if any(value.shape[:-1] != lead for value in given):
            shapes = ", ".join(f"{name} {value.shape}" for name, value in zip(INPUTS, given, strict=True))
            raise UserError(f"Give one position and one velocity for each observation, not {shapes}.")
        batch = {
            name: np.ascontiguousarray(np.atleast_2d(value), dtype=np.float32)
            for name, value in zip(INPUTS, given, strict=True)
        }
        desired = [values.astype(np.float64) for values in self._compute(batch)]  # [B, T, D] each
        if not lead:
            desired = [values[0] for values in desired]
        return PlannedReference(desired[0], desired[1], given[1], given[2], self.dt)

    def check(self, reference: PlannedReference, limits: Limits | None = None) -> None:
        """Raise a `UserError` if a reference exceeds limits, by default those of the card; without any, do nothing."""
        limits = limits or self.limits
        if limits is not None:
            check_limits(reference.exceeds(limits))


def _read_card(file: Path, text: str) -> dict[str, Any]:
    try:
        card = json.loads(text)
        version = card["format"]
        if version == FORMAT:
            missing = [name for name in (*_SIZES, "dt", "sha256") if name not in card]
            if missing:
                raise KeyError(missing[0])
            return dict(card)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UserError(f"{file} is not the card of an exported policy, or is damaged; export it anew.") from None
    raise UserError(f"{file} has format {version}, this version reads format {FORMAT}: export the policy anew.")


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
