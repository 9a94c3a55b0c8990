"""Run the benchmarks: `python -m benchmarks [--quick] [--only steps,growth] [--json FILE]`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import attention, growth, products, rollouts, startup, steps
from top_erl.hardware.choice import prepare_process
from top_erl.hardware.cores import available_cores

SECTIONS = {
    "products": products.run,
    "steps": steps.run,
    "attention": attention.run,
    "memory": growth.memory,
    "growth": growth.growth,
    "rollouts": rollouts.run,
    "overlap": rollouts.overlap,
    "startup": startup.run,
}


def main() -> None:
    """Run the sections asked for, print a table each, and write one JSON file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure speed on this machine.")
    parser.add_argument("--quick", action="store_true", help="small sizes only, a minute in all")
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections, separated by commas")
    parser.add_argument("--json", type=Path, default=Path("benchmarks/last.json"), help="where the numbers go")
    parser.add_argument("--threads", type=int, default=available_cores(), help="threads of torch")
    options = parser.parse_args()
    sections = options.only.split(",")
    if unknown := [name for name in sections if name not in SECTIONS]:
        parser.error(f"there is no section {', '.join(unknown)}; choose from {', '.join(SECTIONS)}")
    prepare_process(options.threads)
    console = Console(width=140)
    results: dict[str, object] = {"threads": options.threads} | products.machine()
    console.print(", ".join(f"{name} {value}" for name, value in results.items()), highlight=False)
    for name in sections:
        rows = SECTIONS[name](options.quick)
        results[name] = rows
        console.print(_table(name, rows))
        options.json.write_text(json.dumps(results, indent=1), encoding="utf-8")
    console.print(f"numbers: {options.json}")


def _table(title: str, rows: list[dict[str, object]]) -> Table:
    table = Table(*rows[0], title=title, title_justify="left")
    for row in rows:
        table.add_row(*(_cell(value) for value in row.values()))
    return table


def _cell(value: object) -> str:
    if isinstance(value, list):
        return " ".join(_cell(item) for item in value)
    return (
        f"{value:.3g}"
        if isinstance(value, float) and abs(value) < 1000
        else f"{value:.0f}"
        if isinstance(value, float)
        else str(value)
    )


if __name__ == "__main__":
    main()
