"""What importing costs and brings along, and that the rooms of the house depend on each other in one direction."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXTRAS = {
    "tensorboard",
    "wandb",
    "matplotlib",
    "imageio_ffmpeg",
    "metaworld",
    "stable_baselines3",
    "ray",
    "plotly",
    "scipy",
    "onnx",
    "onnxruntime",
}


def _python(code: str) -> str:
    """Run code in a fresh process and return what it prints."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def _modules(code: str) -> set[str]:
    """Top-level modules that code has imported."""
    return set(_python(f"import sys\n{code}\nprint(*{{name.partition('.')[0] for name in sys.modules}})").split())


@pytest.mark.parametrize(
    "code",
    [
        "import top_erl",
        "import top_erl.tasks",
        "import top_erl.rollout.worker",
        "import top_erl.runtime",
        "from top_erl.tasks import make_task, task_ids; [make_task(id).spec for id in task_ids()]",
    ],
)
def test_importing_needs_neither_torch_nor_extras(code: str) -> None:
    assert not _modules(code) & (EXTRAS | {"torch", "rich", "tyro", "mujoco"})


@pytest.mark.parametrize(
    "code",
    [
        "from top_erl import TopErl",
        "import top_erl.cli.runs",
        "from top_erl import *",
        "import gymnasium, top_erl; gymnasium.make('top_erl/ViaPointReacher-v0').reset(seed=0)",
    ],
)
def test_using_imports_no_extras(code: str) -> None:
    assert not _modules(code) & EXTRAS


def test_import_adds_little_to_torch() -> None:
    """Processor time, not the clock, since other work may share the machine; the best of a few tries."""
    code = """
        import time, torch
        began = time.process_time()
        import top_erl
        print(time.process_time() - began)
    """
    code = "\n".join(line.strip() for line in code.splitlines())
    added = min(float(_python(code)) for _ in range(3))
    assert 0.0 < added <= 0.3


def test_every_public_name_is_there() -> None:
    import top_erl

    assert set(top_erl.__all__) == set(top_erl._WHERE)
    for name in top_erl.__all__:
        assert getattr(top_erl, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'TopErk'"):
        top_erl.TopErk  # noqa: B018
    assert top_erl.__version__


# ---------------------------------------------------------------------- the rooms

ALLOWED = {
    "errors": set(),
    "seeding": set(),
    "limits": {"errors"},
    "runtime": {"errors", "limits"},
    "config": {"errors"},
    "primitives": {"errors", "config", "limits"},
    "trust_region": {"errors"},
    "models": {"errors", "trust_region"},
    "tasks": {"errors", "config"},
    "hardware": {"errors", "config", "tasks"},
    "rollout": {"errors", "seeding", "hardware", "primitives", "trust_region", "models", "tasks"},
    "algorithms": {
        *("errors", "seeding", "config", "hardware", "primitives", "trust_region", "models", "tasks", "rollout"),
    },
    "experiment": {
        *("errors", "seeding", "config", "hardware", "primitives", "trust_region", "models", "tasks", "rollout"),
        "algorithms",
    },
    "check": {"errors", "config", "primitives", "tasks", "algorithms"},
    "sweep": {"errors", "seeding", "config", "hardware", "tasks", "algorithms", "experiment"},
    "report": {"errors", "config", "experiment", "sweep"},
    "inspection": {
        *("errors", "seeding", "config", "primitives", "models", "tasks", "rollout", "algorithms", "experiment"),
        *("agent", "report"),
    },
    "export": {
        *("errors", "limits", "runtime", "seeding", "config", "primitives", "models", "tasks", "algorithms"),
        *("rollout", "experiment", "agent"),
    },
}
"""What each room may import of the others. The agent and the command line may import anything."""

FILES = sorted((ROOT / "top_erl").rglob("*.py"))


def _imports(file: Path) -> set[str]:
    """Dotted names that a file imports from the package."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{file}: imports are written in full here"
            found.add(str(node.module))
            if node.module == "top_erl":
                found |= {f"top_erl.{alias.name}" for alias in node.names}
    return {name for name in found if name.startswith("top_erl.")}


@pytest.mark.parametrize("room", ALLOWED)
def test_dependencies_point_downward(room: str) -> None:
    files = [file for file in FILES if file.relative_to(ROOT / "top_erl").parts[0].removesuffix(".py") == room]
    assert files
    for file in files:
        others = {name.split(".")[1] for name in _imports(file)} - {room}
        assert others <= ALLOWED[room], f"{file.relative_to(ROOT)} imports {sorted(others - ALLOWED[room])}"


def test_the_report_reads_files_only() -> None:
    """Of the experiment it takes what reads a run folder, nothing that trains."""
    for file in FILES:
        if "report" in file.relative_to(ROOT / "top_erl").parts[:-1]:
            others = {name for name in _imports(file) if not name.startswith("top_erl.report.")}
            assert others <= {
                "top_erl.errors",
                "top_erl.experiment.enough",
                "top_erl.experiment.metrics_file",
                "top_erl.config.files",
                "top_erl.config.segments",
                "top_erl.config.serialize",
                "top_erl.experiment.lock",
                "top_erl.experiment.status_file",
                "top_erl.sweep.definition",
                "top_erl.sweep.folder",
            }


# ---------------------------------------------------------------------- cycles and sizes


def _module(file: Path) -> str:
    name = ".".join(file.relative_to(ROOT).with_suffix("").parts)
    return name.removesuffix(".__init__")


def _graph() -> dict[str, set[str]]:
    """Which modules each module imports anywhere, inside functions too; that packages come with them is left out."""
    modules = {_module(file) for file in FILES}
    graph = {}
    for file in FILES:
        names = set()
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                inner = {f"{node.module}.{alias.name}" for alias in node.names} & modules
                names |= inner or {node.module}
        graph[_module(file)] = (names & modules) - {_module(file)}
    return graph


def _cycle(graph: dict[str, set[str]]) -> list[str]:
    """Modules that import each other in a circle; empty if there are none."""
    done: set[str] = set()

    def visit(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return []
        for other in sorted(graph.get(name, ())):
            if found := visit(other, [*path, name]):
                return found
        done.add(name)
        return []

    return next((found for name in sorted(graph) if (found := visit(name, []))), [])


def test_no_modules_import_each_other_not_even_inside_functions() -> None:
    assert _cycle(_graph()) == []
    assert _cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]  # it does find one


def test_no_function_is_longer_than_45_lines() -> None:
    long = [
        f"{_module(file)}.{node.name}: {node.end_lineno - node.lineno + 1} lines"
        for file in FILES
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and (node.end_lineno or 0) - node.lineno + 1 > 45
    ]
    assert long == []
