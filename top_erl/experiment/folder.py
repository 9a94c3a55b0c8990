"""A run is a folder: `config.yaml`, `fingerprint.json`, `metrics.csv`, `checkpoints/`, and what is made from them."""

from __future__ import annotations

import contextlib
import json
import logging
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from top_erl.algorithms.divergence import Diverged
from top_erl.config.files import make_own_folder, reading, refuse_link, temporary_path, write_whole
from top_erl.config.run import RunConfig
from top_erl.config.serialize import write_yaml
from top_erl.errors import RunDiverged, RunStopped, UserError
from top_erl.experiment.checkpoint import (
    Checkpoint,
    checkpoint_exists,
    checkpoint_paths,
    is_checkpoint,
    load_checkpoint,
    put_aside,
    rotate,
    save_checkpoint,
    save_tensors,
)
from top_erl.experiment.configs import check_settings, load_config
from top_erl.experiment.fingerprint import fingerprint
from top_erl.experiment.lock import LOCK, FolderLock
from top_erl.experiment.metrics_file import Row, read_metrics, rows_digest
from top_erl.experiment.training import Training
from top_erl.hardware.choice import Hardware, recorded_hardware

_LOG = logging.getLogger("top_erl")

_OURS = (
    *("config.yaml", "fingerprint.json", "metrics.csv", "status.json", "evaluation.json", "curves.png", "wandb_id.txt"),
    *("checkpoints", "best", "failure", "tensorboard", "wandb", "checkpoint"),
)
"""Names in a run folder, or in that of a saved agent, to which we write."""
_BEFORE_A_RUN = {LOCK, temporary_path(Path("config.yaml")).name}
"""What a process that was killed while it made a folder may have left in it."""


class RunFolder:
    """Reads and writes a run's folder."""

    def __init__(self, path: Path, lock: FolderLock | None = None) -> None:
        """Point at a folder; it need not exist yet. `lock` is that of a folder which is held already."""
        self.path, self.shown, self._lock = path.absolute(), path, lock  # an environment may change the directory
        self._made: list[Path] = []

    @staticmethod
    def open(path: Path) -> RunFolder:
        """Open the folder of an existing run."""
        with reading(path):
            if not (path / "config.yaml").is_file():
                near = sorted(p.parent.name for p in path.parent.glob("*/config.yaml")) if path.parent.is_dir() else []
                hint = f" Runs beside it: {', '.join(near[:5])}." if near else ""
                raise UserError(f"{path} is not a run folder (it has no config.yaml).{hint}")
        return RunFolder(path)

    # ------------------------------------------------------------------ making and holding

    def reserve(self) -> None:
        """Make the folder and hold it for a new run; one with anything in it is refused."""
        held = self._lock is not None
        try:
            self._check_free()
            self._make()
            self.hold()
            self._check_free()  # somebody may have been quicker
        except (OSError, UserError) as error:
            if not held:
                self.release()
            if isinstance(error, UserError):
                raise
            raise UserError(f"Cannot make the run folder {self.shown}: {error}; give another --run-dir.") from None

    def _make(self) -> bool:
        """Make the folder and those above it; False if it was there already."""
        missing = [path for path in (self.path, *self.path.parents) if not path.exists()]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self.path.mkdir()
        except FileExistsError:
            return False
        self._made = missing
        return True

    def _check_free(self) -> None:
        """Refuse a folder that holds a run already, or anything else that this run has not written."""
        if (self.path / "config.yaml").exists():
            raise UserError(
                f"{self.shown} holds a run already: go on with `top-erl resume {self.shown}`, or give another "
                "--run-dir."
            )
        others = sorted({each.name for each in self.path.iterdir()} - _BEFORE_A_RUN) if self.path.exists() else []
        if others:
            raise UserError(
                f"{self.shown} is not empty (it holds {', '.join(others[:3])}{', …' if others[3:] else ''}), and a run "
                "needs a folder of its own: give another --run-dir."
            )

    def hold(self) -> None:
        """Keep other processes from writing to the folder until `release`, or until this process ends."""
        if self._lock is None:
            self._lock = FolderLock(self.path)
        try:
            for name in _OURS:  # a name of ours must not lead elsewhere
                refuse_link(self.path / name)
        except UserError:
            self.release()
            raise

    def release(self) -> None:
        """Let others write to the folder."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def discard(self) -> None:
        """Take back a reservation: folders that were made for it go again, unless there is something in them."""
        with contextlib.suppress(OSError):
            if self._made and {each.name for each in self.path.iterdir()} == {LOCK}:
                (self.path / LOCK).unlink()
                for path in self._made:
                    path.rmdir()
        self.release()

    def create(self, training: Training) -> None:
        """Make the folder, hold it, and write what identifies the run."""
        self.reserve()
        try:
            self.write_config(training.config)  # first: it makes the folder a run, and the rest can be written again
            make_own_folder(self.checkpoints)  # now, so that its absence means that it was lost
            self.write_fingerprint(training)
        except OSError as error:
            self.release()
            raise UserError(f"Cannot write to the run folder {self.shown}: {error}; give another --run-dir.") from None

    # ------------------------------------------------------------------ what identifies the run

    def write_config(self, config: RunConfig) -> None:
        """Write `config.yaml`."""
        write_yaml(self.path / "config.yaml", config.to_dict())

    def write_fingerprint(self, training: Training) -> None:
        """Write `fingerprint.json`."""
        text = json.dumps(fingerprint(training), indent=2, ensure_ascii=False)
        write_whole(self.path / "fingerprint.json", text + "\n")

    def config(self) -> RunConfig:
        """Read `config.yaml`."""
        return load_config(self.path / "config.yaml")

    def hardware(self) -> Hardware | None:
        """What the run's first session used, so that resuming gives the same numbers; None if it is not recorded."""
        recorded = self._recorded("hardware")
        if recorded is None:
            return None
        try:
            return recorded_hardware(recorded)
        except (KeyError, TypeError, ValueError):
            _LOG.warning("%s does not say how many threads the run used: chosen anew.", self.path / "fingerprint.json")
            return None

    def bf16_route(self) -> str | None:
        """How the run's first session multiplied in bfloat16; None if it is not recorded."""
        recorded = self._recorded("bf16_route")
        return recorded if isinstance(recorded, str) else None

    def _recorded(self, name: str) -> Any:
        """An entry of `fingerprint.json`; None if there is none."""
        path = self.path / "fingerprint.json"
        with reading(path):
            text = path.read_bytes() if path.exists() else b""
        try:
            return json.loads(text).get(name)
        except (AttributeError, ValueError, RecursionError):
            return None

    # ------------------------------------------------------------------ checkpoints

    @property
    def checkpoints(self) -> Path:
        """Where checkpoints are."""
        return self.path / "checkpoints"

    @property
    def best(self) -> Path:
        """Where the policy of the best evaluation is."""
        return self.path / "best"

    @property
    def saved(self) -> Path:
        """Where the checkpoint of a saved agent is; a run has none."""
        return self.path / "checkpoint"

    def save(self, training: Training) -> None:
        """Save a checkpoint and delete the oldest."""
        refuse_link(self.checkpoints)
        iteration = training.progress.iteration
        checkpoint = replace(training.checkpoint(), rows=rows_digest(self.rows(iteration)))
        save_checkpoint(self.checkpoints / f"{iteration:08d}", checkpoint)
        try:
            rotate(self.checkpoints, training.config.checkpoint.keep, training.belongs_to)
        except OSError as error:
            raise RunStopped(
                f"Could not delete old checkpoints in {self.checkpoints}: {error}. Mend the permissions, then resume "
                "the run."
            ) from error

    def save_best(self, training: Training) -> None:
        """Save the networks as the best so far; without the replay, which playing them does not need."""
        try:
            if self.best.exists() and not is_checkpoint(self.best):
                put_aside(self.best)  # damaged, or not ours
        except OSError as error:
            raise RunStopped(f"Could not replace {self.best}: {error}. Mend that, then resume the run.") from error
        save_checkpoint(self.best, training.checkpoint(with_replay=False))

    def load(
        self, belongs_to: dict[str, Any], iteration: int | None = None, *, fall_back: bool = False
    ) -> Checkpoint | None:
        """Load the newest checkpoint, or that of an iteration; None if the run has none yet.

        With `fall_back`, a damaged checkpoint is passed over for the one before it.
        """
        paths = checkpoint_paths(self.checkpoints)
        if iteration is not None:
            paths = [path for path in paths if int(path.name) == iteration]
            if not paths:
                have = ", ".join(str(int(path.name)) for path in checkpoint_paths(self.checkpoints)) or "none"
                raise UserError(f"{self.shown} has no checkpoint of iteration {iteration}; it has: {have}.")
        while paths:
            try:
                checkpoint = _load_numbered(paths.pop(), belongs_to)
            except UserError as error:  # noqa: PERF203 - at most a few checkpoints
                if not (fall_back and paths):
                    hint = " Add --previous to fall back to the one before it." if paths else ""
                    raise UserError(f"{error}{hint}") from None
                print(f"{error} Trying the one before it.", file=sys.stderr)
            else:
                return self._fitting(checkpoint)
        return None

    def load_best(self, belongs_to: dict[str, Any]) -> Checkpoint:
        """Load the policy of the best evaluation."""
        if not checkpoint_exists(self.best):
            raise UserError(
                f"{self.shown} has no best checkpoint: a run keeps one from its first evaluation on (saved agents and "
                "older runs have none). Use the last one."
            )
        return self._fitting(load_checkpoint(self.best, belongs_to))

    def load_saved(self, belongs_to: dict[str, Any]) -> Checkpoint:
        """Load the checkpoint of a saved agent."""
        return self._fitting(load_checkpoint(self.saved, belongs_to))

    def check_is_run(self) -> None:
        """Refuse the folder of a saved agent where a run is wanted."""
        if checkpoint_exists(self.saved):
            raise UserError(
                f"{self.shown} is a saved agent, not a run: load it in Python with Agent.load and call learn, or train "
                f"anew with top-erl train --config {self.shown / 'config.yaml'}."
            )

    def check_saved(self) -> None:
        """Refuse to save an agent over anything that is not a saved agent."""
        if (self.path / "metrics.csv").exists() or self.checkpoints.exists():
            raise UserError(f"{self.shown} is a run folder, which saves itself; save the agent somewhere else.")
        taken = [name for name in ("config.yaml", "fingerprint.json") if (self.path / name).exists()]
        if checkpoint_exists(self.saved):
            if is_checkpoint(self.saved) or not self.saved.exists():
                return
            taken.append(self.saved.name)
        if taken:
            raise UserError(
                f"{self.shown} holds a {taken[-1]} that is not of a saved agent, and is not replaced: save the agent "
                "somewhere else."
            )

    def _fitting(self, checkpoint: Checkpoint) -> Checkpoint:
        """A checkpoint that was saved with the settings that `config.yaml` has."""
        check_settings(self.path / "config.yaml", checkpoint.config)
        return checkpoint

    def check_not_lost(self) -> None:
        """Refuse to begin anew where a run has come too far to have no checkpoint; asked when it has none."""
        with reading(self.path):
            rows = self.rows(sys.maxsize)
        interval = self.config().checkpoint.interval
        check_settings(self.path / "config.yaml", self.config().to_dict())  # no checkpoint tells what it should be
        if rows and (rows[0]["iteration"] > 1 or rows[-1]["iteration"] > interval or not self.checkpoints.is_dir()):
            raise UserError(
                f"{self.shown} has rows up to iteration {rows[-1]['iteration']:.0f}, but no checkpoint to go on from: "
                f"put its checkpoints/ back, or train anew, top-erl train --config {self.shown / 'config.yaml'}."
            )

    def rows(self, until: int) -> list[Row]:
        """Rows of `metrics.csv` up to an iteration; none if there is no such file."""
        metrics = self.path / "metrics.csv"
        return [row for row in read_metrics(metrics) if row["iteration"] <= until] if metrics.exists() else []

    def check_rows(self, checkpoint: Checkpoint) -> None:
        """Refuse to go on from a checkpoint with other rows than it was saved with; without any it may be wanted."""
        rows = self.rows(checkpoint.progress.iteration)
        if not checkpoint.rows or rows_digest(rows) == checkpoint.rows:
            return
        if (self.path / "metrics.csv").exists():
            raise UserError(
                f"{self.shown / 'metrics.csv'} has lost or changed rows since the checkpoint was saved: put back a "
                "whole copy of it, or delete it to go on without them."
            )
        _LOG.warning("metrics.csv is gone: the run goes on without its rows up to here.")

    def save_failure(self, iteration: int, failure: Diverged) -> RunDiverged:
        """Save the batch that made a step diverge and say what happened."""
        folder = self.path / "failure"
        path = folder / f"iteration_{iteration:08d}_{failure.kind}_step_{failure.number}.safetensors"
        try:
            make_own_folder(folder)
            refuse_link(path)
            save_tensors(path, dict(failure.batch))
            where = f"The batch is saved in {path}."
        except (OSError, SafetensorError, UserError) as error:
            where = f"The batch could not be saved ({error})."
        return RunDiverged(
            f"Training diverged in iteration {iteration}: {failure}. {where} Resuming would only "
            f"repeat this; train anew with a smaller rate, e.g. top-erl train --config {self.shown / 'config.yaml'} "
            f"{failure.remedy}"
        )


def _load_numbered(path: Path, belongs_to: dict[str, Any]) -> Checkpoint:
    """Load a checkpoint of a run; its name is the iteration."""
    checkpoint = load_checkpoint(path, belongs_to)
    if checkpoint.progress.iteration != int(path.name):
        raise UserError(
            f"The checkpoint {path} is of iteration {checkpoint.progress.iteration}, not of the one it is named after; "
            "use an earlier one."
        )
    return checkpoint


def new_run_folder(config: RunConfig, base: Path = Path("runs")) -> RunFolder:
    """Make a folder for a new run, under a name that nobody had, and hold it: of two at once each gets its own."""
    task = re.sub(r"[^A-Za-z0-9_-]+", "_", config.task.rpartition("/")[2])
    stem = f"{config.method}-{task}-seed{config.seed}"
    try:
        for number in range(1, 10_000):
            folder = RunFolder(base / (stem if number == 1 else f"{stem}-{number}"))
            if folder._make():
                folder.hold()
                return folder
    except OSError as error:
        raise UserError(f"Cannot make a run folder in {base}: {error}; give one with --run-dir.") from None
    raise UserError(f"{base} holds thousands of runs of this name already; give a folder with --run-dir.")
