"""A run is a folder: `config.yaml`, `fingerprint.json`, `metrics.csv`, `checkpoints/`, and what is made from them."""

from __future__ import annotations

import json
import platform
import re
import sys
from dataclasses import asdict
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from top_erl.algorithms.divergence import Diverged
from top_erl.config.run import EpisodicRun, RunConfig
from top_erl.config.serialize import write_whole, write_yaml
from top_erl.errors import RunDiverged, UserError
from top_erl.experiment.checkpoint import Checkpoint, checkpoint_paths, load_checkpoint, rotate, save_checkpoint
from top_erl.experiment.configs import load_config
from top_erl.experiment.lock import FolderLock
from top_erl.experiment.training import Training
from top_erl.hardware.choice import Hardware
from top_erl.hardware.cores import available_cores

_PACKAGES = ("top-erl", "torch", "numpy", "gymnasium", "mujoco", "metaworld", "safetensors")
_STEP_PACKAGES = ("stable-baselines3", "pink-noise-rl")
"""Packages that decide the numbers of step-based methods only."""


class RunFolder:
    """Reads and writes a run's folder."""

    def __init__(self, path: Path, lock: FolderLock | None = None) -> None:
        """Point at a folder; it need not exist yet. `lock` is that of a folder which is held already."""
        self.path, self.shown, self._lock = path.absolute(), path, lock  # an environment may change the directory

    @staticmethod
    def open(path: Path) -> RunFolder:
        """Open the folder of an existing run."""
        if not (path / "config.yaml").is_file():
            near = sorted(p.parent.name for p in path.parent.glob("*/config.yaml")) if path.parent.is_dir() else []
            hint = f" Runs beside it: {', '.join(near[:5])}." if near else ""
            raise UserError(f"{path} is not a run folder (it has no config.yaml).{hint}")
        return RunFolder(path)

    def check_free(self) -> None:
        """Refuse a folder that holds a run already."""
        if (self.path / "config.yaml").exists():
            raise UserError(
                f"{self.shown} holds a run already: go on with `top-erl resume {self.shown}`, or give another "
                "--run-dir."
            )

    def hold(self) -> None:
        """Keep other processes from writing to the folder until `release`, or until this process ends."""
        if self._lock is None:
            self._lock = FolderLock(self.path)

    def release(self) -> None:
        """Let others write to the folder."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def create(self, training: Training) -> None:
        """Make the folder, hold it, and write what identifies the run."""
        self.check_free()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self.hold()
            self.check_free()  # somebody may have been quicker
            self.write_fingerprint(training)
            self.write_config(training.config)  # last: it makes the folder a run
        except OSError as error:
            raise UserError(f"Cannot make the run folder {self.shown}: {error}; give another --run-dir.") from None

    def write_config(self, config: RunConfig) -> None:
        """Write `config.yaml`."""
        write_yaml(self.path / "config.yaml", config.to_dict())

    def write_fingerprint(self, training: Training) -> None:
        """Write `fingerprint.json`."""
        text = json.dumps(_fingerprint(training), indent=2, ensure_ascii=False)
        write_whole(self.path / "fingerprint.json", text + "\n")

    def config(self) -> RunConfig:
        """Read `config.yaml`."""
        return load_config(self.path / "config.yaml")

    def hardware(self) -> Hardware | None:
        """What the run's first session used, so that resuming gives the same numbers; None if it is not recorded."""
        try:
            recorded = self._recorded("hardware")
            return Hardware(int(recorded["threads"]), int(recorded["workers"]))
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None

    def bf16_route(self) -> str | None:
        """How the run's first session multiplied in bfloat16; None if it is not recorded."""
        try:
            return str(self._recorded("bf16_route"))
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None

    def _recorded(self, name: str) -> Any:
        """An entry of `fingerprint.json`."""
        return json.loads((self.path / "fingerprint.json").read_text(encoding="utf-8"))[name]

    # ------------------------------------------------------------------ checkpoints

    @property
    def checkpoints(self) -> Path:
        """Where checkpoints are."""
        return self.path / "checkpoints"

    def save(self, training: Training) -> None:
        """Save a checkpoint and delete the oldest."""
        save_checkpoint(self.checkpoints / f"{training.progress.iteration:08d}", training.checkpoint())
        rotate(self.checkpoints, training.config.checkpoint.keep)

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
                return load_checkpoint(paths.pop(), belongs_to)
            except UserError as error:  # noqa: PERF203 - at most a few checkpoints
                if not (fall_back and paths):
                    hint = " Add --previous to fall back to the one before it." if paths else ""
                    raise UserError(f"{error}{hint}") from None
                print(f"{error} Trying the one before it.", file=sys.stderr)
        return None

    def save_failure(self, iteration: int, failure: Diverged) -> RunDiverged:
        """Save the batch that made a step diverge and say what happened."""
        folder = self.path / "failure"
        folder.mkdir(exist_ok=True)
        path = folder / f"iteration_{iteration:08d}_{failure.kind}_step_{failure.number}.safetensors"
        save_file({name: tensor.cpu().contiguous().clone() for name, tensor in failure.batch.items()}, path)
        return RunDiverged(
            f"Training diverged in iteration {iteration}: {failure}. The batch is saved in {path}. Resuming would only "
            f"repeat this; train anew with a smaller rate, e.g. top-erl train --config {self.shown / 'config.yaml'} "
            f"{failure.remedy}"
        )


def new_run_path(config: RunConfig, base: Path = Path("runs")) -> Path:
    """A folder name for a new run that does not exist yet."""
    task = re.sub(r"[^A-Za-z0-9_-]+", "_", config.task.rpartition("/")[2])
    stem = f"{config.method}-{task}-seed{config.seed}"
    candidates = (base / (stem if number == 1 else f"{stem}-{number}") for number in range(1, 10_000))
    return next(path for path in candidates if not path.exists())


def _fingerprint(training: Training) -> dict[str, Any]:
    """What this run is made of: versions, seed, machine, task."""
    installed = {package.name.replace("_", "-"): package.version for package in metadata.distributions()}
    wanted = _PACKAGES if isinstance(training.config, EpisodicRun) else (*_PACKAGES, *_STEP_PACKAGES)
    versions = {name: installed[name] for name in wanted if name in installed}
    return {
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "seed": training.config.seed,
        "task": training.spec.id,
        "task_version": training.spec.version,
        "success_rule": training.spec.success_rule,
        "horizon": training.spec.horizon,
        "python": platform.python_version(),
        "packages": versions,
        "machine": {"system": platform.platform(), "processor": platform.machine(), "cores": available_cores()},
        "hardware": asdict(training.hardware),
        "bf16_route": training.learner.bf16_route,
    }
