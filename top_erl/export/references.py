"""References for given contexts as a table of numbers.

Axes: `B` contexts, `S` observation entries, `T` times, `D` degrees of freedom.
"""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from top_erl.agent import Agent
from top_erl.config.files import write_whole
from top_erl.errors import UserError
from top_erl.export.export import check_free, episodic
from top_erl.limits import Limits
from top_erl.primitives import Reference
from top_erl.rollout.replanning import plan_every

Array = NDArray[np.float64]


def export_references(
    agent: Agent, contexts: Path, output: Path, *, limits: Limits | None = None, force: bool = False
) -> int:
    """Write the references of an agent for the contexts of a file; returns how many.

    A context is a row: an observation, or an observation, a measured position and a measured velocity. The first row
    may name the columns. A reference is T + 1 rows: context, time, positions, velocities, the first at time 0 with the
    measured state.

    Args:
        agent: Of an episodic method.
        contexts: CSV file.
        output: CSV file.
        limits: Refuse references that exceed them.
        force: Replace a file that is there.
    """
    check_free(output, force=force)
    learner = episodic(agent)
    if every := plan_every(learner.collector):
        raise UserError(
            f"This agent replans every {every} steps by what it observes then, so no table can hold its references: "
            "export the policy itself, -o policy.onnx."
        )
    spec = learner.collector.spec
    rows = _read_contexts(contexts, spec.observation_dim, spec.num_dof)
    observation = rows[:, : spec.observation_dim]
    if rows.shape[1] > spec.observation_dim:
        position, velocity = np.split(rows[:, spec.observation_dim :], 2, axis=1)
    else:
        position, velocity = agent.training.task.measured_state(observation)
    reference = agent.predict(observation, position, velocity, limits=limits)
    assert isinstance(reference, Reference)
    names = spec.dof_names or tuple(f"dof{number}" for number in range(spec.num_dof))
    start = np.concatenate((position, velocity), axis=-1)[:, None]  # [B, 1, 2D]
    states = np.concatenate((start, reference.stacked().numpy()), axis=1)  # [B, T + 1, 2D]
    _write_table(output, names, spec.dt, states)
    return len(rows)


def _read_contexts(file: Path, observation_dim: int, num_dof: int) -> Array:
    """Rows of numbers, [B, S] or [B, S + 2D]."""
    try:
        lines = [line for line in csv.reader(io.StringIO(file.read_text(encoding="utf-8-sig"))) if line]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"Cannot read the contexts in {file}: {error}.") from None
    first = 1 if lines and not _numbers(lines[0]) else 0  # a header
    sizes = (observation_dim, observation_dim + 2 * num_dof)
    rows = []
    for number, line in enumerate(lines[first:], first + 1):
        values = _numbers(line)
        if len(line) not in sizes or not values:
            raise UserError(
                f"Row {number} of {file} is not a context: it needs {sizes[0]} finite numbers, the observation, or "
                f"{sizes[1]} with the measured position and velocity."
            )
        rows.append(values)
    if not rows or len({len(row) for row in rows}) > 1:
        raise UserError(f"{file} needs rows of contexts, all with the same columns.")
    return np.array(rows)


def _numbers(line: list[str]) -> list[float]:
    """The numbers of a row; none if some are not."""
    try:
        values = [float(word) for word in line]
    except ValueError:
        return []
    return values if all(map(math.isfinite, values)) else []


def _write_table(file: Path, names: tuple[str, ...], dt: float, states: Array) -> None:
    """States of references at 0, dt, …: [B, T + 1, 2D]."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["context", "time", *(f"{kind}_{name}" for kind in ("position", "velocity") for name in names)])
    for context, rows in enumerate(states):
        for step, row in enumerate(rows):
            writer.writerow([context, f"{step * dt:.9g}", *(repr(float(value)) for value in row)])
    try:
        write_whole(file, text.getvalue())
    except OSError as error:
        raise UserError(f"Cannot write {file}: {error}.") from None
