"""Try what may go wrong: `python -m faults [--minutes 15] [--quick] [--only NAME] [--json FILE] [--table]`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date
from importlib import import_module
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from faults.bench import a_bench
from faults.scenario import SCENARIOS, Outcome, Scenario, run
from faults.sessions import ROOT
from results.make.__main__ import write_tables
from results.make.faults import FILE
from top_erl import __version__

FAMILIES = ("kill", "damage", "forged", "disk", "hostile", "together", "environments", "growth")
"""Modules here, in the order of the table; each enters its scenarios into the list."""

for _family in FAMILIES:
    import_module(f"faults.{_family}")


@dataclass(frozen=True)
class Report:
    """What was tried, where and when."""

    quick: bool
    seed: int
    rows: dict[str, Outcome]

    @property
    def lost(self) -> int:
        """Promises that were not kept."""
        return sum(outcome.lost for outcome in self.rows.values())

    def to_dict(self) -> dict[str, Any]:
        """As it is written to the JSON file."""
        return {
            "made_on": date.today().isoformat(),
            "top_erl": __version__,
            "python": platform.python_version(),
            "system": platform.platform(),
            "cores": os.cpu_count(),
            "root": os.geteuid() == 0,
            "quick": self.quick,
            "seed": self.seed,
            "minutes": round(sum(outcome.seconds for outcome in self.rows.values()) / 60, 1),
            "scenarios": [
                {"name": name, "sentence": SCENARIOS[name].sentence, **asdict(outcome)}
                for name, outcome in self.rows.items()
            ],
        }


def try_all(scenarios: Sequence[Scenario], minutes: float, quick: bool, seed: int, console: Console) -> Report:
    """Make the attempts of some scenarios; each gets its share of the time that is left."""
    until = time.monotonic() + 60 * minutes
    rows: dict[str, Outcome] = {}
    with a_bench(seed) as bench:
        for number, chosen in enumerate(scenarios):
            share = chosen.share / sum(other.share for other in scenarios[number:])
            left = until - time.monotonic()
            bench.begin(chosen.name)
            if left > 0:
                outcome = run(chosen, bench, left * share, chosen.quick if quick else None)
            else:
                outcome = Outcome(0, 0, 0, "no time was left")
            rows[chosen.name] = outcome
            console.print(
                f"{chosen.name}: tried {outcome.tried}, survived {outcome.survived}, lost {outcome.lost} "
                f"in {outcome.seconds:.0f} s{'. ' + outcome.note if outcome.note else ''}",
                highlight=False,
                markup=False,
                soft_wrap=True,
            )
    return Report(quick, seed, rows)


def chosen_scenarios(only: str, quick: bool) -> list[Scenario]:
    """The scenarios whose names, or families, are named; all if none is."""
    names = [name for name in only.split(",") if name]
    known = SCENARIOS.keys() | {chosen.family for chosen in SCENARIOS.values()}
    if unknown := [name for name in names if name not in known]:
        raise SystemExit(f"there is no scenario {', '.join(unknown)}; choose from {', '.join(SCENARIOS)}")
    found = [chosen for chosen in SCENARIOS.values() if not names or {chosen.name, chosen.family} & set(names)]
    return [chosen for chosen in found if chosen.quick] if quick else found


def main(arguments: Sequence[str] | None = None) -> int:
    """Try, print a table and write the JSON file; 1 if anything was lost."""
    parser = argparse.ArgumentParser(
        prog="python -m faults", description="Try what may go wrong, and count what is lost."
    )
    parser.add_argument("--minutes", type=float, default=15.0, help="time for all scenarios together")
    parser.add_argument("--quick", action="store_true", help="an attempt or two of each family")
    parser.add_argument("--only", default="", help="scenarios or families, separated by commas")
    parser.add_argument("--seed", type=int, default=0, help="of everything that is left to luck here")
    parser.add_argument("--json", type=Path, default=Path("faults/last.json"), help="where the outcome goes")
    parser.add_argument("--table", action="store_true", help="keep the outcome in results/, and write it into the docs")
    options = parser.parse_args(arguments)
    if sys.platform != "linux":
        parser.error("this looks into /proc, and runs on Linux only")
    console = Console()
    report = try_all(
        chosen_scenarios(options.only, options.quick), options.minutes, options.quick, options.seed, console
    )
    text = json.dumps(report.to_dict(), indent=1) + "\n"
    options.json.write_text(text, encoding="utf-8")
    console.print(_table(report))
    console.print(f"outcome: {options.json}")
    if options.table:
        kept = ROOT / "results" / FILE
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(text, encoding="utf-8")
        console.print(f"tables: {', '.join(map(str, write_tables(ROOT, ROOT)))}")
    return 1 if report.lost else 0


def _table(report: Report) -> Table:
    table = Table("scenario", "tried", "survived", "lost", title="faults", title_justify="left")
    for name, outcome in report.rows.items():
        table.add_row(name, *(str(number) for number in (outcome.tried, outcome.survived, outcome.lost)))
    table.add_row("sum", *(str(sum(column)) for column in _columns(report)), style="bold")
    return table


def _columns(report: Report) -> list[list[int]]:
    outcomes = report.rows.values()
    return [[getattr(outcome, name) for outcome in outcomes] for name in ("tried", "survived", "lost")]


if __name__ == "__main__":
    sys.exit(main())
