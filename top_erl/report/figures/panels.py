"""What a panel shows: runs of one task, or of all Meta-World tasks together, and which of their numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from top_erl.report.records import SUCCESS, Collection, RunRecord

HEIGHT, RETURN = "evaluation_max_height", "evaluation_return"
MEASURES = {HEIGHT: "maximum height in m", SUCCESS: "success rate", RETURN: "return"}
"""What is drawn of a run's evaluations, the first that a task has, and how it is called. A jump is measured by its
height, as in the paper."""
_METAWORLD = "metaworld/"
_TITLES = {
    "top_erl/HopperJump-v0": "Hopper Jump (dense)",
    "top_erl/HopperJumpSparse-v0": "Hopper Jump (sparse)",
    "top_erl/BoxPushingDense-v0": "Box Pushing (dense)",
    "top_erl/BoxPushingSparse-v0": "Box Pushing (sparse)",
    "top_erl/BoxPushingDense-v1": "Box Pushing (dense, relative)",
    "top_erl/BoxPushingSparse-v1": "Box Pushing (sparse, relative)",
    "top_erl/BoxPushingFixedStartDense-v0": "Box Pushing, fixed start (dense)",
    "top_erl/BoxPushingFixedStartSparse-v0": "Box Pushing, fixed start (sparse)",
    "top_erl/ViaPointReacher-v0": "Via-point reacher",
}
"""Names of tasks, in the order of their panels."""


@dataclass(frozen=True)
class Panel:
    """One set of axes and the runs drawn in it."""

    title: str
    column: str
    runs: list[RunRecord]

    @property
    def measure(self) -> str:
        """What stands beside the vertical axis."""
        return MEASURES[self.column]

    @property
    def tasks(self) -> list[str]:
        """Tasks of the runs, sorted."""
        return sorted({run.task for run in self.runs})

    def groups(self) -> dict[tuple[str, str], list[RunRecord]]:
        """Runs by method and variant."""
        found: dict[tuple[str, str], list[RunRecord]] = {}
        for run in self.runs:
            found.setdefault((run.method, run.variant), []).append(run)
        return found


def runs_of(runs: Collection | Sequence[RunRecord]) -> list[RunRecord]:
    """The runs of a collection, or those given."""
    return list(runs.runs if isinstance(runs, Collection) else runs)


def task_title(task: str) -> str:
    """A task's name for readers."""
    return _TITLES.get(task) or re.sub(r"-v\d+$", "", task.rpartition("/")[2].rpartition(":")[2])


def family_panels(runs: Sequence[RunRecord]) -> list[Panel]:
    """A panel for Meta-World as a whole and one for every other task, in the paper's order (Fig. 4)."""
    metaworld = [run for run in runs if run.task.startswith(_METAWORLD)]
    tasks = {run.task for run in metaworld}
    if len(tasks) < 2:
        return task_panels(runs)
    title = "Meta-World 50" if len(tasks) == 50 else f"Meta-World, {len(tasks)} tasks"
    return _panel(title, metaworld) + task_panels([run for run in runs if run.task not in tasks])


def task_panels(runs: Sequence[RunRecord]) -> list[Panel]:
    """A panel for every task: known ones in the order of the table above, others before them by name."""
    order = list(_TITLES)
    by_task: dict[str, list[RunRecord]] = {}
    for run in runs:
        by_task.setdefault(run.task, []).append(run)
    tasks = sorted(by_task, key=lambda task: (order.index(task) if task in _TITLES else -1, task))
    return [panel for task in tasks for panel in _panel(task_title(task), by_task[task])]


def _panel(title: str, runs: Sequence[RunRecord]) -> list[Panel]:
    """The panel of the first measure that any of the runs has; none if nothing was measured yet."""
    for column in MEASURES:
        measured = [run for run in runs if run.last(column) is not None]
        if measured:
            return [Panel(title, column, measured)]
    return []
