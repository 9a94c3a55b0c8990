"""Start-up and checkpoint times."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.sizes import BOX, LAPTOP
from benchmarks.synthetic import make_learner
from top_erl.experiment.checkpoint import Checkpoint, Progress, load_checkpoint, save_checkpoint


def run(quick: bool) -> list[dict[str, object]]:
    """Seconds to import, and to write and read checkpoints with a replay."""
    rows: list[dict[str, object]] = [
        {"what": f"python -c '{code}'", "seconds": min(_import_seconds(code) for _ in range(3))}
        for code in ("import torch", "import torch, top_erl", "import torch; from top_erl import TopErl")
    ]
    for size, episodes in ((LAPTOP, 1000),) if quick else ((LAPTOP, 3000), (BOX, 5000)):
        learner = make_learner(size, episodes=episodes)
        checkpoint = Checkpoint(Progress(), {}, learner.state_dict(), learner.replay.state_dict())
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "1"
            began = time.perf_counter()
            save_checkpoint(path, checkpoint)
            saved = time.perf_counter()
            load_checkpoint(path, {})
            loaded = time.perf_counter()
        what = f"checkpoint, {size.name}, {episodes} episodes"
        rows.append({"what": f"save {what}", "seconds": saved - began})
        rows.append({"what": f"load {what}", "seconds": loaded - saved})
    return rows


def _import_seconds(code: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - began
