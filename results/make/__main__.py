"""`python -m results.make`: write all tables into the Markdown files and draw all figures."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from results.make.figures import FIGURES, draw
from results.make.learning import LEARNING
from results.make.markdown import Tables, fill, pages
from results.make.speed import SPEED
from top_erl.errors import UserError

ROOT = Path(__file__).resolve().parents[2]


def tables(results: Path) -> Tables:
    """All tables by name; each is made when it is asked for."""
    return {name: partial(make, results) for name, make in {**LEARNING, **SPEED}.items()}


def write_tables(root: Path, into: Path) -> list[Path]:
    """Fill the Markdown files below `into` from the raw files of `root`; return those that changed."""
    known, changed = tables(root / "results"), []
    for page in pages(into):
        text = (into / page).read_text(encoding="utf-8")
        filled = fill(text, known, str(page))
        if filled != text:
            (into / page).write_text(filled, encoding="utf-8")
            changed.append(page)
    return changed


def draw_figures(root: Path, into: Path) -> list[Path]:
    """Draw the figures into `into/results/figures`."""
    folder = into / "results" / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    for name in FIGURES:
        draw(name, root / "results", folder / f"{name}.png")
    return [folder / f"{name}.png" for name in FIGURES]


def main(arguments: Sequence[str] | None = None) -> None:
    """Write tables and figures into this repository, or into a copy of its Markdown files."""
    parser = argparse.ArgumentParser(prog="python -m results.make", description=__doc__)
    parser.add_argument("--into", type=Path, default=ROOT, help="a folder laid out like this repository")
    parser.add_argument("--tables-only", action="store_true", help="draw no figures")
    options = parser.parse_args(arguments)
    try:
        changed = write_tables(ROOT, options.into)
    except UserError as error:
        parser.exit(1, f"{error}\n")
    print(f"tables: {', '.join(map(str, changed)) or 'nothing has changed'}")
    if not options.tables_only:
        print(f"figures: {', '.join(path.name for path in draw_figures(ROOT, options.into))}")


if __name__ == "__main__":
    main()
