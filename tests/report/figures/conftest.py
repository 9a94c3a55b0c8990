"""Runs for figures: invented, written as folders and read back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.report.synthetic import BOX_DENSE, BOX_SPARSE, HOPPER, Invented, write_run
from top_erl.report.records import RunRecord, collect

Make = Callable[..., list[RunRecord]]


def read(folders: Iterable[Path], variant: str = "") -> list[RunRecord]:
    """Read runs back, as those of a cell with a variant."""
    return [replace(run, variant=variant) for run in collect(list(folders)).runs]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Write runs of one method and variant on some tasks, and read them."""

    def runs(method: str, tasks: Iterable[str], seeds: int = 2, variant: str = "", **settings: Any) -> list[RunRecord]:
        place = tmp_path / f"{method}-{variant.replace('%', 'pct')}"
        return read(
            [
                write_run(place, Invented(method, task, seed, **{"rows": 12, "planned": 12, **settings}))
                for task in tasks
                for seed in range(seeds)
            ],
            variant,
        )

    return runs


@pytest.fixture
def compared(make: Make) -> list[RunRecord]:
    """Three methods on two Meta-World tasks, the jump, and both boxes, two seeds."""
    tasks = ["metaworld/reach-v3", "metaworld/push-v3", HOPPER, BOX_DENSE, BOX_SPARSE]
    return [run for method in ("sac", "top_erl", "bbrl_cov") for run in make(method, tasks)]


@pytest.fixture
def ablated(make: Make) -> list[RunRecord]:
    """Two targets, two components and two segment lengths with the random ones, two seeds."""
    variants = {"q": 0.9, "v": 0.8, "dropout": 0.5, "full": 0.8, "random": 0.8, "5%": 0.3, "50%": 0.5}
    targets = {"q": {"learn": {"target": "q"}}, "v": {"learn": {"target": "v"}}}
    return [
        run
        for name, skill in variants.items()
        for run in make("top_erl", [BOX_DENSE], 2, name, skill=skill, algorithm=targets.get(name, {}))
    ]
