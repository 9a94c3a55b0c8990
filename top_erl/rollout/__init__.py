"""Episodes: playing them, collecting them, replaying them."""

from top_erl.rollout.collector import EpisodeCollector, Rollout, Scores, check_stride
from top_erl.rollout.player import LocalPlayer, Player, TaskError, WorkerPool
from top_erl.rollout.replay import EpisodeBatch, EpisodeReplay

__all__ = [
    "EpisodeBatch",
    "EpisodeCollector",
    "EpisodeReplay",
    "LocalPlayer",
    "Player",
    "Rollout",
    "Scores",
    "TaskError",
    "WorkerPool",
    "check_stride",
]
