"""What the laptop presets have reached: `expected.json`, made from the raw files of `results/` by `make results`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from top_erl.config.run import RunConfig

FILE = Path(__file__).with_name("expected.json")
LEARNED = 0.1
"""Success on fresh contexts below which a preset is said not to learn its task."""


@dataclass(frozen=True)
class Expected:
    """What TOP-ERL's laptop preset reached on a task, on fresh contexts."""

    metric: str
    """`success`, or what a task without success is judged by."""
    value: float
    """Its mean over contexts and seeds."""
    seeds: int
    """Runs that this is of."""
    env_steps: int
    """Control steps of each."""
    minutes: float
    """Of the longest; other programs may have run beside it, so at most."""

    @property
    def learned(self) -> bool:
        """Whether the preset is known to learn the task."""
        return self.metric != "success" or self.value >= LEARNED

    def __str__(self) -> str:
        """One phrase for people."""
        runs = f"{self.seeds} seed{'s' if self.seeds > 1 else ''}"
        reached = f"{self.metric.replace('_', ' ')} {self.value:.2f} on fresh contexts after {self.env_steps:,} steps"
        return f"{reached}, {self.minutes:.0f} minutes at most on two cores ({runs})"


@cache
def expected_results() -> dict[str, Expected]:
    """What is known, by task."""
    return {task: Expected(**known) for task, known in json.loads(FILE.read_text(encoding="utf-8")).items()}


def warning_before(config: RunConfig, preset: RunConfig) -> str:
    """What to say before a run whose preset, unchanged, is known not to learn; empty if there is nothing to say."""
    known = expected_results().get(config.task)
    unchanged = config.hyper_parameters == preset.hyper_parameters and config.total_env_steps <= preset.total_env_steps
    if config.method != "top_erl" or config.scale != "laptop" or known is None or known.learned or not unchanged:
        return ""
    return f"This preset is known not to learn {config.task}: {known}."
