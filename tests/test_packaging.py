"""What is built holds the whole package, and says what pyproject.toml says. `make dist` installs it and tries it."""

from __future__ import annotations

import email
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from pathlib import Path

import pytest

import top_erl

ROOT = Path(__file__).parents[1]
BUILD = "from setuptools import build_meta as b; b.build_wheel('out'); b.build_sdist('out')"
NOT_THERE = shutil.ignore_patterns(
    *(".git", ".venv*", "__pycache__", "*.egg-info", "build", "dist", "results", "runs", ".*cache", "sweeps")
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with both, built from a copy: nothing is left behind in the checkout."""
    copy = tmp_path_factory.mktemp("built") / "source"
    shutil.copytree(ROOT, copy, ignore=NOT_THERE)
    done = subprocess.run([sys.executable, "-c", BUILD], cwd=copy, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return copy / "out"


def files_of_the_package() -> set[str]:
    paths = (path.relative_to(ROOT) for path in (ROOT / "top_erl").rglob("*") if path.is_file())
    return {path.as_posix() for path in paths if "__pycache__" not in path.parts}


def read_wheel(built: Path) -> tuple[set[str], Message, str]:
    """Names in the wheel, its metadata, its entry points."""
    (path,) = built.glob("*.whl")
    assert path.name == f"top_erl-{top_erl.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(path) as wheel:
        names = set(wheel.namelist())
        texts = {name.split("/")[-1]: name for name in names if ".dist-info/" in name}
        metadata = email.message_from_bytes(wheel.read(texts["METADATA"]))
        return names, metadata, wheel.read(texts["entry_points.txt"]).decode()


def test_the_wheel_is_the_package(built: Path) -> None:
    names, metadata, entry_points = read_wheel(built)
    assert {name for name in names if ".dist-info/" not in name} == files_of_the_package()
    assert {"py.typed", "scene.xml", "page.html", "page.css", "page.js"} <= {name.split("/")[-1] for name in names}
    assert metadata["Version"] == top_erl.__version__
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Requires-Python"] == ">=3.10"
    assert set(metadata.get_all("Provides-Extra", [])) == extras_in_readme()
    assert "top-erl = top_erl.cli:main" in entry_points


def extras_in_readme() -> set[str]:
    """The table of extras in README."""
    section = (ROOT / "README.md").read_text().split("| extra | for |")[1].split("\n\n")[0]
    return set(re.findall(r"^\| `(\w+)`", section, re.MULTILINE))


def test_the_source_distribution_has_the_package_and_what_a_user_reads(built: Path) -> None:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert files_of_the_package() <= names
    assert {"pyproject.toml", "LICENSE", "README.md", "CHANGELOG.md", "CITATION.cff", "constraints.txt"} <= names
    assert {"docs/tasks.md", "examples/pusher.py", "examples/first_steps.ipynb"} <= names
    assert not any(name.startswith(("tests", "results", "benchmarks")) for name in names)
