"""`python -m results.make`: write all tables into the Markdown files and draw all figures."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from results.make.campaign import before_and_now, behaviours, campaign_groups, campaign_total, draw_campaign
from results.make.expected import expected
from results.make.faults import FAULTS
from results.make.figures import FIGURES, draw
from results.make.learning import LEARNING
from results.make.markdown import Tables, fill, pages
from results.make.paper import paper_claims
from results.make.plans import PLANS
from results.make.speed import SPEED
from results.make.sweeps import draw_sweep, sweep_folders, sweep_table, take
from top_erl.errors import UserError
from top_erl.experiment.expected import FILE

ROOT = Path(__file__).resolve().parents[2]


def tables(results: Path) -> Tables:
    """All tables by name; each is made when it is asked for."""
    known = {name: partial(make, results) for name, make in {**LEARNING, **PLANS, **SPEED, **FAULTS}.items()}
    known["metaworld_total"] = partial(campaign_total, results)
    known["metaworld_groups"] = partial(campaign_groups, results)
    known["metaworld_behaviour"] = partial(behaviours, results)
    known["metaworld_before"] = partial(before_and_now, results)
    known["paper"] = partial(paper_claims, results)
    return known | {f"sweep_{folder.name}": partial(sweep_table, folder) for folder in sweep_folders(results)}


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
    drawn = [folder / f"{name}.png" for name in FIGURES] + draw_campaign(root / "results", folder)
    return drawn + [path for sweep in sweep_folders(root / "results") for path in draw_sweep(sweep, folder)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Write tables and figures into this repository, or into a copy of its Markdown files."""
    parser = argparse.ArgumentParser(prog="python -m results.make", description=__doc__)
    parser.add_argument("--into", type=Path, default=ROOT, help="a folder laid out like this repository")
    parser.add_argument("--tables-only", action="store_true", help="draw no figures")
    parser.add_argument("--take", type=Path, metavar="SWEEP", help="first copy the raw files of this sweep's folder")
    options = parser.parse_args(arguments)
    try:
        if options.take is not None:
            print(f"raw files: {take(options.take, ROOT / 'results').relative_to(ROOT)}")
        changed = write_tables(ROOT, options.into)
        expectations = options.into / FILE.relative_to(ROOT)
        expectations.parent.mkdir(parents=True, exist_ok=True)
        expectations.write_text(expected(ROOT / "results") + "\n", encoding="utf-8")
    except UserError as error:
        parser.exit(1, f"{error}\n")
    print(f"tables: {', '.join(map(str, changed)) or 'nothing has changed'}")
    if not options.tables_only:
        print(f"figures: {', '.join(path.name for path in draw_figures(ROOT, options.into))}")


if __name__ == "__main__":
    main()
