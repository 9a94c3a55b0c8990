"""Try an installed top_erl, far from its source: commands, a tiny training, and the files that come with the package.

`make dist` runs this with the Python of a bare environment, in an empty folder:

    python smoke.py VERSION           what the package needs by itself
    python smoke.py VERSION report    with the extra `report`: the page
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata, resources
from pathlib import Path

RUN = "run"
TINY = ["--total-env-steps", "4000", "--threads", "1", "--workers", "0", "--run-dir", RUN]


def said(*words: str, code: int = 0) -> str:
    """What `top-erl` answers; it must end with this exit code."""
    command = [str(Path(sys.executable).with_name("top-erl")), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != code:
        sys.exit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    print(f"ok  top-erl {' '.join(words)}")
    return done.stdout + done.stderr


def check_place(version: str) -> None:
    """The package is the installed one, and says the version that the file's name has."""
    import top_erl

    assert Path(top_erl.__file__).is_relative_to(sys.prefix), f"imported from {top_erl.__file__}, not the wheel"
    assert top_erl.__version__ == metadata.version("top-erl") == version
    assert resources.files("top_erl").joinpath("py.typed").is_file()
    assert said("--version").strip() == version


def check_commands() -> None:
    """Help, lists, a training of a few iterations, its evaluation."""
    for command in ("train", "evaluate", "plot", "sweep", "report", "check", "export"):
        assert "usage: top-erl" in said(command, "--help")
    assert "usage: top-erl COMMAND" in said("--help")
    assert "top_erl/ViaPointReacher-v0" in said("tasks")
    assert "[metaworld]" in said("train", "--task", "metaworld/reach-v3", code=2)  # an extra that is not there
    assert "TOP-ERL" in said("methods")
    said("train", *TINY)
    said("evaluate", RUN, "--episodes", "5", "--json", "evaluation.json")
    assert len(json.loads(Path("evaluation.json").read_text())["return"]) == 5
    said("resume", RUN)


def check_scenes() -> None:
    """Tasks that read scenes from the package's files play an episode's start."""
    from top_erl.tasks import make_task

    for name in ("top_erl/BoxPushingDense-v0", "top_erl/HopperJumpSparse-v0"):
        task = make_task(name)
        assert task.begin([0]).observation.shape == (1, task.spec.observation_dim)
        task.close()
        print(f"ok  {name}")


def check_page() -> None:
    """The page of a run, from HTML, CSS and scripts that come with the package."""
    said("plot", RUN, "--output", "curves.png")
    said("report", RUN, "-o", "page")
    page = next(Path("page").glob("*.html")).read_text()
    for file in resources.files("top_erl.report.page").iterdir():
        if file.name.endswith((".js", ".css")):
            assert file.read_text().strip().splitlines()[-1] in page, f"{file.name} is not on the page"


if __name__ == "__main__":
    check_place(sys.argv[1])
    if "report" in sys.argv[2:]:
        check_page()
    else:
        check_commands()
        check_scenes()
