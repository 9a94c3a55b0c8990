"""What a check has to say: findings, and the numbers they rest on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Level = Literal["error", "warning", "hint"]
"""error: a rule of the contract is broken; warning: learning will suffer; hint: worth a look, may well be right."""


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong or unwise."""

    level: Level
    about: str
    """What it is about, in a word or two: `units`, `horizon`."""
    sentence: str
    """What is the case, and what to do."""


@dataclass(frozen=True)
class Report:
    """All that a check of a task found."""

    task: str
    """The task's id."""
    findings: list[Finding]
    """Errors first."""
    numbers: dict[str, str] = field(default_factory=dict)
    """What was measured, in words, by name."""

    @property
    def has_errors(self) -> bool:
        """Whether the task breaks a rule of the contract."""
        return any(finding.level == "error" for finding in self.findings)

    def to_dict(self) -> dict[str, object]:
        """Plain data, for a file."""
        return {
            "task": self.task,
            "findings": [vars(finding) for finding in self.findings],
            "numbers": self.numbers,
        }


def error(about: str, sentence: str) -> Finding:
    """A rule of the contract is broken."""
    return Finding("error", about, sentence)


def warning(about: str, sentence: str) -> Finding:
    """Learning will suffer."""
    return Finding("warning", about, sentence)


def hint(about: str, sentence: str) -> Finding:
    """Worth a look, and may well be right."""
    return Finding("hint", about, sentence)
