"""Environments that raise, hang, exit or lie in one episode of twenty, and tasks that are wrong altogether."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from faults import broken_tasks
from faults.bench import Bench
from faults.runs import EPISODIC, STEPWISE, rows_written
from faults.scenario import Attempt, Lost, scenario
from top_erl.experiment.status_file import read_status

_COMMON = ["--evaluation.interval=8", "--evaluation.episodes=3", "--log.no-tensorboard", "--threads=1", "--run-dir=run"]
_EPISODIC = [*EPISODIC, *_COMMON, f"--total-env-steps={2 * 30 * broken_tasks.HORIZON}"]
_STEPWISE = [
    *STEPWISE,
    *_COMMON,
    "--learn.update-every=20",
    "--learn.learning-starts=40",
    f"--collect.steps={4 * broken_tasks.HORIZON}",
    f"--total-env-steps={4 * 15 * broken_tasks.HORIZON}",
]
_PPO = [
    *("--method=ppo", "--collect.environments=2", "--networks.policy-hidden=8", "--networks.critic-hidden=8"),
    *("--learn.epochs=1", "--learn.batch-size=20"),
    *_COMMON,
    *_STEPWISE[-2:],
]
METHODS = {"top_erl": _EPISODIC, "sac": _STEPWISE, "ppo": _PPO}

BAD_EPISODES = ("StepRaises", "StepNan", "ResetRaises", "ResetNan", "Exits")
DEADLY = ("ExitsHard", "Crashes", "Hangs")
WRONG = (
    "WrongShape",
    "WrongReward",
    "NoHorizon",
    "WrongSize",
    "NoSpec",
    "SpecIsText",
    "MissingMetric",
    "CannotBeMade",
    "not_a_task",
)


@scenario(
    "environments.episodes",
    "an environment raises, returns NaN or exits in one episode of twenty: the run goes on to its end without those",
    quick=1,
    share=2.0,
)
def episodes(bench: Bench) -> Iterator[Attempt]:
    """Per episode and per step, in this process and in a worker."""
    for name in BAD_EPISODES:
        for method in METHODS:
            yield Attempt(f"{name}, {method}", partial(_goes_on, bench, name, [*METHODS[method], "--workers=0"]))
        yield Attempt(f"{name}, worker", partial(_goes_on, bench, name, [*_EPISODIC, "--workers=1"]))


@scenario(
    "environments.deadly",
    "an environment kills its worker process, or hangs in it: a new worker takes over, and the run goes on to its end",
    share=2.0,
)
def deadly(bench: Bench) -> Iterator[Attempt]:
    """`os._exit`, a segmentation fault, and a step that never ends."""
    for name in DEADLY:
        for workers in (1, 2):
            patience = ["--collect.timeout=5"] if name == "Hangs" else []
            words = [*_EPISODIC, f"--workers={workers}", *patience]
            yield Attempt(f"{name}, {workers} worker(s)", partial(_goes_on, bench, name, words))


@scenario(
    "environments.harmless",
    "an environment ends early, or changes the working directory: a run like any other",
)
def harmless(bench: Bench) -> Iterator[Attempt]:
    """Nothing fails, and all that is written is in the run's folder, which was named relative to where it began."""
    for name in ("EndsEarly", "MovesAway"):
        for method, words in METHODS.items():
            yield Attempt(f"{name}, {method}", partial(_like_any_other, bench, name, [*words, "--workers=0"]))
        yield Attempt(f"{name}, worker", partial(_like_any_other, bench, name, [*_EPISODIC, "--workers=1"]))


@scenario(
    "environments.wrong",
    "a task that is wrong altogether: a sentence that names it, and no traceback",
    share=2.0,
)
def wrong(bench: Bench) -> Iterator[Attempt]:
    """Shapes, sizes, missing parts, and modules that cannot be imported."""
    for name in WRONG:
        for workers in (0, 1):
            yield Attempt(f"{name}, {workers} workers", partial(_refused, bench, f"broken_tasks:{name}", workers))
    for name in ("WrongShape", "WrongReward"):
        yield Attempt(f"{name}, sac", partial(_refused, bench, f"broken_tasks:{name}", 0, _STEPWISE))
    for task in ("broken_tasks:Nothing", "no_such_module:Task", "raising:Task", "unreadable:Task", "broken_tasks:"):
        yield Attempt(task, partial(_refused, bench, task, 0))


def _room(bench: Bench) -> Path:
    """A folder with modules of tasks."""
    room = bench.room()
    shutil.copy(broken_tasks.__file__, room / "broken_tasks.py")
    (room / "raising.py").write_text("1 / 0\n", encoding="utf-8")
    (room / "unreadable.py").write_text("def\n", encoding="utf-8")
    return room


def _trained(bench: Bench, name: str, words: list[str]) -> tuple[Path, str]:
    """Train a broken task to its end; the run, and what was printed."""
    room = _room(bench)
    output = bench.start("train", f"--task=broken_tasks:{name}", *words, folder=room).succeeds()
    status = read_status(room / "run")
    if status is None or status.state != "finished" or rows_written(room / "run") != status.total_iterations:
        raise Lost("the run ended before its end")
    return room, output


def _goes_on(bench: Bench, name: str, words: list[str]) -> None:
    """Demand that bad episodes are left out, and named with their seeds."""
    _, output = _trained(bench, name, words)
    seeds = {int(seed) for seed in re.findall(r"seed (\d+)", output)}
    if not any(seed % 20 == 0 for seed in seeds) or "episode" not in output:
        raise Lost("no bad episode was named with its seed")


def _like_any_other(bench: Bench, name: str, words: list[str]) -> None:
    room, output = _trained(bench, name, words)
    if "left out" in output:
        raise Lost("a good episode was left out")
    if strays := [path.name for path in (room / "elsewhere").rglob("*") if path.is_file()]:
        raise Lost(f"written elsewhere: {strays[0]}")


def _refused(bench: Bench, task: str, workers: int, words: list[str] | None = None) -> None:
    room = _room(bench)
    words = _EPISODIC if words is None else words
    bench.start("train", f"--task={task}", *words, f"--workers={workers}", folder=room).refuses()


# ---------------------------------------------------------------------- programs of users

_PROGRAM = """
import sys
from top_erl import TopErl
from top_erl.hardware.choice import Hardware

if __name__ == "__main__":
    agent = TopErl("broken_tasks:PointTask", hardware=Hardware(threads=1, workers=2))
    agent.learn(total_env_steps=1, progress_bar=False)
    print("trained", flush=True)
    {end}
"""
_ENDS = {"falls off its end": ("pass", 0), "calls sys.exit": ("sys.exit(0)", 0), "raises": ("raise LookupError", 1)}


@scenario(
    "environments.programs", "a program with workers that never calls close() ends by itself, with nothing left over"
)
def programs(bench: Bench) -> Iterator[Attempt]:
    """However it ends."""
    for how, (line, code) in _ENDS.items():
        yield Attempt(how, partial(_ends_by_itself, bench, line, code))


def _ends_by_itself(bench: Bench, line: str, code: int) -> None:
    session = bench.sessions.script(_PROGRAM.format(end=line), _room(bench))
    try:
        ended = session.wait()
    except Lost as lost:
        if code and "LookupError" in str(lost):  # a traceback of the program's own, which is as it should be
            return
        raise
    if ended != code:
        raise Lost(f"exit code {ended} instead of {code}: {session.last_line()}")
