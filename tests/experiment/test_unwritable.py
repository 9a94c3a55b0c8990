"""Full disks and folders that may not be read or written: a sentence, and what was saved is intact."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.experiment.variations import SMALL
from top_erl.config.run import LogConfig, RunConfig
from top_erl.errors import RunStopped, UserError
from top_erl.experiment.folder import RunFolder
from top_erl.experiment.metrics_file import Row, Sink, read_metrics
from top_erl.experiment.run import resume_training, run_training
from top_erl.experiment.status_file import read_status
from top_erl.experiment.training import Training

Trainings = Callable[[RunConfig], Training]
ROOT = Path(__file__).parents[2]


class _Full(Sink):
    """Writes no more than some rows."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def write(self, row: Row) -> None:
        self.rows -= 1
        if self.rows < 0:
            raise OSError(errno.ENOSPC, "No space left on device")

    def close(self) -> None:
        if self.rows < 1:
            raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("rows", [4, 6], ids=["in between", "at the end"])
def test_a_sink_on_a_full_disk(
    rows: int, tiny: RunConfig, trainings: Trainings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import top_erl.experiment.run as module

    open_sinks, full = module._open_sinks, _Full(rows)
    monkeypatch.setattr(module, "_open_sinks", lambda *arguments: [*open_sinks(*arguments), full])
    folder, training = RunFolder(tmp_path / "run"), trainings(tiny)
    folder.create(training)
    with pytest.raises(RunStopped, match=r"Could not write to .*run: .*No space left on device. Free some space"):
        run_training(training, folder)
    status = read_status(folder.path)
    assert status is not None
    assert (status.state, "No space left" in status.sentence) == ("stopped", True)
    monkeypatch.setattr(module, "_open_sinks", open_sinks)
    resumed = resume_training(folder)
    run_training(resumed, folder)
    resumed.close()
    assert len(read_metrics(folder.path / "metrics.csv")) == 6


def test_tensorboard_where_it_cannot_write(tiny: RunConfig, trainings: Trainings, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    folder, training = RunFolder(tmp_path / "run"), trainings(replace(tiny, log=LogConfig(tensorboard=True)))
    folder.create(training)
    (folder.path / "tensorboard").write_text("in the way")
    with pytest.raises(RunStopped, match=r"Could not write to .*tensorboard"):
        run_training(training, folder)


def test_a_file_size_limit_in_the_middle_of_a_run(tmp_path: Path) -> None:
    """The system's own error from TensorBoard's writer, which is a thread of its own."""
    pytest.importorskip("tensorboard")
    code = "import resource, signal, sys\nfrom top_erl.cli import main\n"
    code += "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    code += "import top_erl.experiment.run as run\nadvance = run._advance\n"
    code += "def limited(training, folder):\n"
    code += "    row = advance(training, folder)\n"
    code += "    if row['iteration'] == 4: resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500))\n"
    code += "    return row\n"
    code += "run._advance = limited\nsys.exit(main(sys.argv[1:]))"
    words = [*SMALL, "--log.tensorboard", f"--total-env-steps={6 * (4 + 30 * 3)}", "--run-dir", str(tmp_path / "run")]
    words.remove("--log.no-tensorboard")
    done = subprocess.run(
        [sys.executable, "-c", code, "train", *words], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert (done.returncode, "Traceback" in done.stderr) == (1, False), done.stderr
    assert "File too large" in done.stderr
    assert done.stderr.count("\n") == 1
    training = resume_training(RunFolder(tmp_path / "run"), task="tests.rollout.toy_tasks:ToyTask")
    assert training.progress.iteration == 3
    training.close()


# ---------------------------------------------------------------------- permissions


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that others may enter, unlike pytest's own."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o755)
    yield path
    for each in (path, *path.rglob("*")):
        if not each.is_symlink():
            each.chmod(0o755)
    shutil.rmtree(path)


_AS_SOMEBODY_ELSE = """
import contextlib, io, json, os, sys
from top_erl.cli import main
import top_erl.cli.runs, top_erl.cli.show, top_erl.agent, matplotlib.pyplot
from tests.rollout import toy_tasks
def refuse(*arguments):
    raise AssertionError("a warm-up must succeed")
commands = json.load(sys.stdin)
for words in commands["as root"]:  # imports all there is to import: others may not read our Python
    with contextlib.redirect_stdout(io.StringIO()):
        main(words) == 0 or refuse()
if os.geteuid() == 0:
    os.setgid(65534); os.setuid(65534)
for words in commands["as nobody"]:
    out = io.StringIO()
    with contextlib.redirect_stderr(out), contextlib.redirect_stdout(io.StringIO()):
        code = main(words)
    print(json.dumps([code, out.getvalue()]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="permissions are another matter there")
def test_folders_that_may_not_be_read_or_written(public: Path, tiny: RunConfig, trainings: Trainings) -> None:
    pytest.importorskip("matplotlib")
    training = trainings(tiny)
    whole = RunFolder(public / "whole")
    whole.create(training)
    run_training(training, whole)
    closed = {
        "folder": "",
        "config": "config.yaml",
        "fingerprint": "fingerprint.json",
        "metrics": "metrics.csv",
        "checkpoints": "checkpoints",
        "checkpoint": "checkpoints/00000006",
        "meta": "checkpoints/00000006/meta.json",
        "state": "checkpoints/00000006/state.safetensors",
    }
    commands: dict[str, tuple[list[str], int]] = {"evaluate whole": (["evaluate", str(whole.path), "--episodes=2"], 0)}
    commands["resume whole"] = (["resume", str(whole.path)], 2)
    commands["plot whole"] = (["plot", str(whole.path), "--output", str(whole.path / "curves.png")], 2)
    commands["train inside"] = (["train", *SMALL, "--run-dir", str(whole.path / "new")], 2)
    commands["json inside"] = (["evaluate", str(whole.path), "--episodes=2", "--json", str(whole.path / "x.json")], 2)
    for name, file in closed.items():
        path = public / name
        shutil.copytree(whole.path, path)
        (path / file).chmod(0)
        commands[f"evaluate {name}"] = (["evaluate", str(path), "--episodes=2"], 0 if name == "metrics" else 2)
        commands[f"resume {name}"] = (["resume", str(path)], 2)
    mine = str(shutil.copytree(whole.path, public / "mine"))
    first = [
        ["evaluate", mine, "--episodes=2"],
        ["resume", mine],
        ["plot", mine, "--output", str(public / "curves.png")],
    ]
    first.append(["train", *SMALL, "--total-env-steps=1", "--run-dir", str(public / "new")])
    done = subprocess.run(
        [sys.executable, "-c", _AS_SOMEBODY_ELSE],
        input=json.dumps({"as root": first, "as nobody": [words for words, _ in commands.values()]}),
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "MPLCONFIGDIR": str(public)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    for (name, (_, expected)), (code, said) in zip(commands.items(), answers, strict=True):
        assert code == expected, f"{name}: {code}, {said}"
        if expected:
            assert said.startswith("top-erl: Cannot"), f"{name}: {said}"
            assert said.count("\n") == 1, f"{name}: {said}"


def test_a_file_where_a_folder_should_be(tiny: RunConfig, trainings: Trainings, tmp_path: Path) -> None:
    folder, training = RunFolder(tmp_path / "run"), trainings(tiny)
    folder.create(training)
    run_training(training, folder)
    shutil.rmtree(folder.checkpoints)
    folder.checkpoints.write_text("in the way")
    with pytest.raises(UserError, match=r"has rows up to iteration 6, but no checkpoint"):
        resume_training(folder)
