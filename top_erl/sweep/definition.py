"""What a sweep is: methods × tasks × seeds × settings. Plain data; the grid follows from it without any simulator."""

from __future__ import annotations

import fnmatch
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from top_erl.config.option_names import option_name
from top_erl.config.run import Scale
from top_erl.config.serialize import read_yaml, write_yaml
from top_erl.errors import UserError, unknown_name
from top_erl.tasks.catalogue import task_ids

FILE = "sweep.yaml"
Options = Mapping[str, str]
"""Options of `top-erl train` without the dashes, and their values as one types them."""
_MOST_SEEDS, _MOST_RUNS = 10_000, 100_000
_LONGEST_NAME = 200
"""Characters of a run's folder, which its log and its lock add to."""
_OWN = {"seed": "seeds", "task": "tasks", "method": "methods", "scale": "scale"}
"""Settings of runs that say which run it is."""


@dataclass(frozen=True)
class Cell:
    """One run of a sweep."""

    name: str
    """Of its folder inside the sweep's; it follows from the others."""
    method: str
    task: str
    scale: str
    seed: int
    variant: str
    """What tells it from others of the same method, task and seed; empty if there are none."""
    options: Options
    """What it changes of the preset."""


@dataclass(frozen=True)
class Sweep:
    """A set of runs."""

    name: str
    """Of the sweep, and of its folder."""
    tasks: tuple[str, ...]
    """Tasks, each once."""
    methods: Mapping[str, Options] = field(default_factory=lambda: {"top_erl": {}})
    """Methods, each with options of its own."""
    seeds: tuple[int, ...] = tuple(range(8))
    """Seeds of every setting."""
    scale: str = "laptop"
    """Preset that every run starts from: laptop or paper."""
    options: Options = field(default_factory=dict)
    """Options of every run."""
    grid: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Options with several values: every combination of them is a variant."""
    variants: Mapping[str, Options] = field(default_factory=dict)
    """Named settings beside each other, such as the parts of an ablation."""
    fresh_episodes: int = 100
    """Episodes on fresh contexts that a finished run is scored on (`evaluation.json`); 0: none."""

    def __post_init__(self) -> None:
        """Check the values."""
        if not re.fullmatch(r"[\w.+-]{1,100}", self.name):
            raise UserError(f"A sweep's name is a word of at most 100 letters, digits, '-' and '_', not {self.name!r}.")
        if self.scale not in get_args(Scale):
            raise unknown_name("scale", self.scale, get_args(Scale))
        for what, values in {"tasks": self.tasks, "methods": tuple(self.methods), "seeds": self.seeds}.items():
            if not values:
                raise UserError(f"The sweep {self.name} has no {what}: name some with --{what}.")
            if len(set(values)) < len(values):
                raise UserError(f"The sweep {self.name} names some of its {what} twice: name each once.")
        if min(self.seeds) < 0 or self.fresh_episodes < 0:
            raise UserError("Seeds and fresh episodes of a sweep must not be negative.")
        for name in itertools.chain(self.options, self.grid, *self.methods.values(), *self.variants.values()):
            if name in _OWN:
                raise UserError(f"{name} is no option of the sweep's runs: use the sweep's {_OWN[name]}.")
        if not all(self.grid.values()):
            raise UserError(f"An option in the grid of the sweep {self.name} has no values: give it some.")

    def settings(self) -> dict[str, Options]:
        """All variants by their labels: named ones, each with every combination of the grid."""
        labels = _labels(self.grid)
        found: dict[str, Options] = {}
        for name, own in (self.variants or {"": {}}).items():
            for values in itertools.product(*self.grid.values()):
                chosen = dict(zip(self.grid, values, strict=True))
                label = ",".join(filter(None, (name, *(labels[item] for item in chosen.items()))))
                found[label] = {**own, **chosen}
        return found

    def cells(self) -> list[Cell]:
        """All runs; those of the first seed come first, so that a sweep that is stopped has seen a little of all."""
        short, settings = _short_names(self.tasks), self.settings()
        count = len(self.seeds) * len(self.tasks) * len(self.methods) * len(settings)
        if count > _MOST_RUNS:
            raise UserError(f"The sweep {self.name} has {count} runs, more than {_MOST_RUNS}: make several of it.")
        cells = [
            Cell(
                name=_folder_name(method, short[task], label, seed),
                method=method,
                task=task,
                scale=self.scale,
                seed=seed,
                variant=label,
                options={**self.options, **own, **changes},
            )
            for seed in self.seeds
            for task in self.tasks
            for method, own in self.methods.items()
            for label, changes in settings.items()
        ]
        longest = max(cells, key=lambda cell: len(cell.name)).name
        if len(longest) > _LONGEST_NAME:
            raise UserError(f"The name of the run {longest[:40]}… is too long for a folder: use shorter values.")
        if len({cell.name for cell in cells}) < len(cells):
            raise UserError(f"Two variants of the sweep {self.name} would share a folder: give them other names.")
        return cells

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `sweep.yaml`."""
        methods = {name: dict(options) for name, options in self.methods.items()}
        return {
            "name": self.name,
            "scale": self.scale,
            "methods": methods if any(methods.values()) else list(methods),
            "tasks": list(self.tasks),
            "seeds": list(self.seeds),
            "options": dict(self.options),
            "grid": {name: list(values) for name, values in self.grid.items()},
            "variants": {name: dict(options) for name, options in self.variants.items()},
            "fresh_episodes": self.fresh_episodes,
        }


def sweep_from_dict(data: Any, where: str) -> Sweep:
    """Build a sweep from plain data; mistakes are named."""
    if not isinstance(data, dict):
        raise UserError(f"{where} should hold a mapping with tasks, methods and seeds.")
    known = set(Sweep.__dataclass_fields__)
    for key in data:
        if key not in known:
            raise unknown_name(f"entry in {where}", str(key), known)
    values = dict(data)
    methods = values.pop("methods", ["top_erl"])
    if not isinstance(methods, dict):
        methods = {str(name): {} for name in _listed(methods)}
    return Sweep(
        name=str(values.get("name", "")),
        scale=str(values.get("scale", "laptop")),
        methods={str(name): _options(own, where) for name, own in methods.items()},
        tasks=expand_tasks([str(task) for task in _listed(values.get("tasks", []))]),
        seeds=_seeds(values.get("seeds", 8), where),
        options=_options(values.get("options"), where),
        grid={
            option_name(name): tuple(_text(value) for value in _listed(choices))
            for name, choices in _mapping(values.get("grid"), where).items()
        },
        variants={str(name): _options(own, where) for name, own in _mapping(values.get("variants"), where).items()},
        fresh_episodes=_whole(values.get("fresh_episodes", 100), "fresh_episodes", where),
    )


def read_sweep(folder: Path) -> Sweep:
    """The sweep that a folder holds."""
    if not (folder / FILE).is_file():
        raise UserError(f"{folder} is not a sweep's folder (it has no {FILE}).")
    return sweep_from_dict(read_yaml(folder / FILE), str(folder / FILE))


def write_sweep(folder: Path, sweep: Sweep) -> None:
    """Write `sweep.yaml`."""
    write_yaml(folder / FILE, sweep.to_dict())


def expand_tasks(names: Sequence[str]) -> tuple[str, ...]:
    """Task names, with patterns such as `metaworld/button-*` replaced by what they match."""
    found: list[str] = []
    for name in names:
        matching = fnmatch.filter(task_ids(), name) if set("*?[") & set(name) else [name]
        if not matching:
            raise UserError(f"No task matches {name!r}; `top-erl tasks` lists them.")
        found += [task for task in matching if task not in found]
    return tuple(found)


def _folder_name(method: str, task: str, variant: str, seed: int) -> str:
    label = re.sub(r"[^A-Za-z0-9_.=,+-]+", "_", variant.replace("%", "pct"))
    return "-".join(filter(None, (method, task, label, f"seed{seed}")))


def _short_names(tasks: Sequence[str]) -> dict[str, str]:
    """Names of tasks for folders: without their namespace, unless that makes two the same."""
    short = {task: _plain(task.rpartition("/")[2]) for task in tasks}
    if len(set(short.values())) == len(short):
        return short
    return {task: _plain(task) for task in tasks}


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "_", name)


def _labels(grid: Mapping[str, tuple[str, ...]]) -> dict[tuple[str, str], str]:
    """What a value of an option is called: the value alone if only one option varies."""
    return {
        (option, value): value if len(grid) == 1 else f"{option.rpartition('.')[2]}={value}"
        for option, values in grid.items()
        for value in values
    }


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _mapping(value: Any, where: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise UserError(f"options, grid and variants of {where} should be mappings, not {value!r}.")
    return {str(name): entry for name, entry in value.items()}


def _options(value: Any, where: str) -> dict[str, str]:
    return {option_name(name): _text(entry) for name, entry in _mapping(value, where).items()}


def _text(value: Any) -> str:
    """A value as it is typed on the command line."""
    if isinstance(value, (list, tuple)):
        return " ".join(map(_text, value))
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)


def _seeds(value: Any, where: str) -> tuple[int, ...]:
    """Seeds: a list of them, or how many, counted from 0."""
    if isinstance(value, (list, tuple)):
        return tuple(_whole(seed, "seeds", where) for seed in value)
    return seeds_in(range(_whole(value, "seeds", where)))


def seeds_in(numbers: range) -> tuple[int, ...]:
    """Seeds that are numbered through; more than any sweep has are refused before there is a list of them."""
    if numbers.stop - numbers.start > _MOST_SEEDS:
        raise UserError(f"A sweep has at most {_MOST_SEEDS} seeds, not {numbers.stop - numbers.start}.")
    return tuple(numbers)


def _whole(value: Any, name: str, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise UserError(f"{name} of {where} should be a whole number, not {value!r}.")
    return value
