"""The whole check of a task, from its facts to how fast it plays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from top_erl.check import (
    context,
    facts,
    goals,
    movement,
    outcomes,
    repeatable,
    rewards,
    shapes,
    timing,
    tracking,
    units,
)
from top_erl.check.findings import Finding, Report
from top_erl.check.picture import draw_tracking
from top_erl.check.probe import Evidence, probe
from top_erl.errors import UserError
from top_erl.tasks import Task, make_task

_LOOKS: tuple[Callable[[Evidence], list[Finding]], ...] = (
    repeatable.look,
    timing.look,
    units.look,
    tracking.look,
    movement.look,
    rewards.look,
    outcomes.look,
    context.look,
    goals.look,
)
"""What is looked at once a task can be played, one kind of finding each."""
_ORDER = ("error", "warning", "hint")


def check_task(name: str, episodes: int = 16, picture: Path | None = None) -> Report:
    """Play a task and say what is wrong or unwise.

    Args:
        name: The task's id, or `module:Class`.
        episodes: Seeds to play, at least 2; each is played standing still and with a random movement.
        picture: Where to draw references against what the robot did; None: nowhere.
    """
    if episodes < 2:
        raise UserError("--episodes must be at least 2: episodes are compared with each other.")
    task = make_task(name)
    try:
        return _checked(task, lambda: make_task(name), episodes, picture)
    finally:
        task.close()


def _checked(task: Task, make: Callable[[], Task], episodes: int, picture: Path | None) -> Report:
    """Check a task that could be made; what cannot be played is not looked at any further."""
    findings = facts.look(task)
    if not any(finding.level == "error" for finding in findings):
        findings += shapes.look(task)
    if any(finding.level == "error" for finding in findings):
        return Report(task.spec.id, _sorted(findings))
    played = shapes.explained(task, lambda: probe(task, make, episodes))
    if isinstance(played, Finding):
        return Report(task.spec.id, _sorted([*findings, played]))
    for look in _LOOKS:
        found = shapes.explained(task, lambda look=look: look(played))  # type: ignore[misc]
        findings += [found] if isinstance(found, Finding) else found
    if picture is not None:
        draw_tracking(played, picture)
    return Report(task.spec.id, _sorted(findings), _numbers(played))


def _sorted(findings: list[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: _ORDER.index(finding.level))


def _numbers(played: Evidence) -> dict[str, str]:
    """What was measured, for the table."""
    numbers: dict[str, str] = {}
    for module in (movement, tracking, rewards, outcomes, timing):
        numbers.update(module.numbers(played))
    return numbers
