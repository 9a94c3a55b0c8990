"""Write a page of hyper-parameters for every method, from the presets themselves (`make docs` does it).

From the project's root: python docs/preset_pages.py
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, get_args, get_type_hints

from sphinx.pycode import ModuleAnalyzer

from top_erl.algorithms.method import Method
from top_erl.algorithms.registry import METHODS
from top_erl.config.option_names import options_of
from top_erl.config.run import RunConfig, Scale
from top_erl.experiment.presets import preset

FAMILIES = {
    "via-point arm": "top_erl/ViaPointReacher-v0",
    "Box Pushing, dense": "top_erl/BoxPushingDense-v0",
    "Box Pushing, sparse": "top_erl/BoxPushingSparse-v0",
    "Hopper Jump, sparse": "top_erl/HopperJumpSparse-v0",
    "Meta-World": "metaworld/reach-v3",
}
"""A task of each family that has settings of its own."""
NO_PRESET = ("task", "method", "scale", "seed", "checkpoint", "log", "hardware")
"""Parts of a configuration that are the same whatever is learned."""


def write_preset_pages(folder: Path) -> None:
    """Write the page of every method, and leave one alone that is as it should be."""
    folder.mkdir(exist_ok=True)
    pages = {folder / f"{method.name}.md": _page(method) for method in METHODS}
    for path in set(folder.glob("*.md")) - set(pages):
        path.unlink()
    for path, text in pages.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def _page(method: Method) -> str:
    """The page of a method."""
    runs = {scale: {name: preset(method.name, id, scale) for name, id in FAMILIES.items()} for scale in get_args(Scale)}
    options = {name: path for name, path, _ in options_of(method.run) if path.partition(".")[0] not in NO_PRESET}
    shown = {
        name: {scale: [_shown(attrgetter(path)(run)) for run in runs[scale].values()] for scale in runs}
        for name, path in options.items()
    }
    same = {name for name, values in shown.items() if len({text for row in values.values() for text in row}) == 1}
    lines = [f"# `{method.name}`", "", method.description, ""]
    for scale in runs:
        lines += [f"## `--scale {scale}`", ""]
        rows = [[f"`--{name}`", *values[scale]] for name, values in shown.items() if name not in same]
        lines += _table(["option", *FAMILIES], rows)
    meanings = {name: _meaning(method.run, path) for name, path in options.items()}
    lines += ["## What they mean", "", "A value stands here if it is the same for all tasks and scales.", ""]
    first = next(iter(runs))
    rows = [[f"`--{name}`", shown[name][first][0] if name in same else "", meanings[name]] for name in shown]
    return "\n".join([*lines, *_table(["option", "value", "meaning"], rows)])


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table in Markdown."""
    cells = [head, ["---"] * len(head), *rows]
    return [*(f"| {' | '.join(text.replace('|', chr(92) + '|') for text in row)} |" for row in cells), ""]


def _shown(value: Any) -> str:
    """A value as it is typed on the command line."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return " ".join(map(_shown, value)) or "none"
    if isinstance(value, int):
        return f"{value:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")
    return f"{value:g}".replace("e-0", "e-") if isinstance(value, float) else str(value)


def _meaning(run: type[RunConfig], path: str) -> str:
    """What the docstring of an option says, which is where `--help` has it from."""
    *outer, last = path.split(".")
    kind: Any = run
    for word in outer:
        kind = get_type_hints(kind)[word]
    for owner in inspect.getmro(kind):
        found = ModuleAnalyzer.for_module(owner.__module__).find_attr_docs().get((owner.__qualname__, last))
        if found:
            return " ".join(" ".join(found).split())
    raise LookupError(f"{kind.__name__}.{last} has no docstring.")


if __name__ == "__main__":
    write_preset_pages(Path(__file__).parent / "hyperparameters")
