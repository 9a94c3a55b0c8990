"""The numbers of a run: one row per iteration, to CSV always, to TensorBoard and W&B when wanted."""

from __future__ import annotations

import importlib.util
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from top_erl.algorithms.learner import IterationStats
from top_erl.config.files import write_whole
from top_erl.config.run import LogConfig
from top_erl.errors import missing_extra
from top_erl.experiment.checkpoint import Progress
from top_erl.experiment.metrics_file import CsvSink, Row, Sink
from top_erl.rollout.collector import Scores


def iteration_row(progress: Progress, stats: IterationStats, evaluation: Scores | None, speed: float) -> Row:
    """Flatten one iteration to named numbers."""
    row: Row = {
        "iteration": progress.iteration,
        "episodes": progress.episodes,
        "env_steps": progress.env_steps,
        "wall_time": round(progress.wall_time, 3),
        "steps_per_second": round(speed, 1),
    }
    if evaluation is not None:
        row.update(score_row("evaluation", evaluation))
    row.update(score_row("exploration", stats.exploration))
    row.update(stats.numbers)
    row["failed_episodes"] = stats.exploration.failures + (evaluation.failures if evaluation is not None else 0)
    return row


def metric_columns(task_metrics: Sequence[str], statistics: Sequence[str]) -> list[str]:
    """All columns of `metrics.csv`, in order: counters, scores, the method's statistics."""
    columns = ["iteration", "episodes", "env_steps", "wall_time", "steps_per_second"]
    for prefix in ("evaluation", "exploration"):
        columns += [f"{prefix}_return", *(f"{prefix}_{name}" for name in task_metrics)]
    return [*columns, *statistics, "failed_episodes"]


def score_row(prefix: str, scores: Scores) -> Row:
    """Means of returns and task metrics; nothing if no episode could be played."""
    if not len(scores.returns):
        return {}
    row = {f"{prefix}_return": float(scores.returns.mean())}
    row.update({f"{prefix}_{name}": float(values.mean()) for name, values in scores.metrics.items()})
    return row


def check_log(log: LogConfig) -> None:
    """Refuse to log where that is not possible, before a run's folder is made."""
    if log.wandb != "off" and importlib.util.find_spec("wandb") is None:
        raise missing_extra("wandb", "wandb", "--log.wandb")


def writes_tensorboard(log: LogConfig) -> bool:
    """Whether a run writes TensorBoard events."""
    return log.tensorboard and importlib.util.find_spec("tensorboard") is not None


class TensorBoardSink(Sink):
    """TensorBoard events, against environment steps."""

    def __init__(self, folder: Path, purge_from: int) -> None:
        """Open the writer; events from environment step `purge_from` on belong to work that was lost."""
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(folder), purge_step=purge_from)

    def write(self, row: Row) -> None:
        """Write every number as a scalar, grouped by its first word."""
        for name, value in row.items():
            group, _, rest = name.partition("_")
            tag = f"{group}/{rest}" if group in ("evaluation", "exploration", "critic", "policy") else f"run/{name}"
            self._writer.add_scalar(tag, value, int(row["env_steps"]))

    def close(self) -> None:
        """Flush and close; the flush tells what the writer's thread could not write."""
        self._writer.flush()
        self._writer.close()


class WandbSink(Sink):
    """Weights & Biases, offline or online."""

    def __init__(self, folder: Path, log: LogConfig, config: Mapping[str, Any]) -> None:
        """Start a W&B run that lives in the run folder; resuming goes on with the same one."""
        check_log(log)
        import wandb

        assert log.wandb != "off"

        id_file = folder / "wandb_id.txt"
        run_id = id_file.read_text().strip() if id_file.exists() else secrets.token_hex(4)
        write_whole(id_file, run_id)
        self._run = wandb.init(
            project=log.wandb_project,
            name=folder.name,
            id=run_id,
            resume="allow" if log.wandb == "online" else None,
            mode=log.wandb,
            dir=str(folder),
            config=dict(config),
        )

    def write(self, row: Row) -> None:
        """Log the row against environment steps."""
        self._run.log(row, step=int(row["env_steps"]))

    def close(self) -> None:
        """Finish the W&B run."""
        self._run.finish()


def make_sinks(
    folder: Path, log: LogConfig, config: Mapping[str, Any], columns: list[str], progress: Progress
) -> list[Sink]:
    """Open all sinks of a run that goes on from `progress`."""
    sinks: list[Sink] = []
    if log.wandb != "off":
        sinks.append(WandbSink(folder, log, config))
    if writes_tensorboard(log):
        sinks.append(TensorBoardSink(folder / "tensorboard", progress.env_steps + 1))
    return [CsvSink(folder / "metrics.csv", columns, progress.iteration), *sinks]
