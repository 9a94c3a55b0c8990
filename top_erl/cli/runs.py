"""The subcommands of `top-erl` that train or evaluate, one function each."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, make_dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from top_erl.agent import Agent, Which
from top_erl.algorithms.registry import METHODS
from top_erl.cli.extensions import IMPORTED
from top_erl.cli.faults import RUNS
from top_erl.cli.outputs import check_output_file
from top_erl.cli.parsing import option_value, parse
from top_erl.cli.pictures import FILMS, check_picture_file
from top_erl.cli.video import check_renders, film_policy
from top_erl.config.options import start_for
from top_erl.config.run import RunConfig
from top_erl.errors import RunDiverged, RunStopped, UserError
from top_erl.experiment.configs import load_config, refuse_unnamed_code
from top_erl.experiment.expected import warning_before
from top_erl.experiment.folder import RunFolder, new_run_folder
from top_erl.experiment.fresh import write_scores
from top_erl.experiment.metrics import check_log, writes_tensorboard
from top_erl.experiment.presets import preset
from top_erl.experiment.run import resume_training, run_training
from top_erl.experiment.training import Training
from top_erl.experiment.zoo import in_zoo
from top_erl.report.curves import plot_runs, plotting_available
from top_erl.rollout.collector import Scores
from top_erl.seeding import episode_seeds
from top_erl.tasks.opengl import choose_for_environments

TRAIN_HELP = """\
Train a policy. Options start from the preset for --task, --method and --scale.

  top-erl train --seed 1 --total-env-steps 200000       another seed, a shorter run
  top-erl train --task my_module:MyTask                 an environment of your own
  top-erl train --learn.target clipped                  an option of the critic's target
  top-erl train --segments.kind fixed_count --segments.count 25    an ablation: 25 segments of fixed length
  top-erl train --trust-region.projection none          another: no trust region, and no entropy bound
  top-erl train --config runs/NAME/config.yaml          repeat a run, perhaps with changes
"""


@dataclass(frozen=True)
class TrainOptions:
    """Options of `top-erl train`."""

    run: Annotated[RunConfig, tyro.conf.arg(name="")]
    """What to train."""
    run_dir: Path | None = None
    """Folder of the run; default: a new one in runs/."""
    config: Path | None = None
    """Start from the config.yaml of another run instead of a preset."""


@dataclass(frozen=True)
class ResumeOptions:
    """Options of `top-erl resume`."""

    run_dir: Annotated[Path, tyro.conf.Positional]
    """Folder of the run."""
    previous: bool = False
    """Fall back to an earlier checkpoint if the newest is damaged."""
    total_env_steps: int | None = None
    """Train to this many control steps instead of the configured ones; schedules stretch to the new end."""
    task: str | None = None
    """Name the run's task if it is code of your own, module:Class."""
    workers: int | None = None
    """Worker processes in this session, instead of as many as before; the numbers do not depend on them."""
    threads: int | None = None
    """Threads of torch in this session, instead of as many as before; its last digits differ."""
    device: str | None = None
    """Torch device in this session, instead of the one before; its last digits differ. (No GPU was at hand to try.)"""


@dataclass(frozen=True)
class EvaluateOptions:
    """Options of `top-erl evaluate`."""

    run_dir: Annotated[Path, tyro.conf.Positional]
    """Folder of the run, or of a saved agent; or zoo/NAME, an agent that comes with the package."""
    episodes: int | None = None
    """Episodes to play, each with a fresh context; default: 100, or with --video those that are filmed."""
    seed: int = 0
    """Which fresh contexts."""
    which: Which = "last"
    """Which checkpoint of the run to play: the last one, or the one with the best evaluation."""
    previous: bool = False
    """Fall back to an earlier checkpoint if the newest is damaged."""
    task: str | None = None
    """Name the run's task if it is code of your own, module:Class."""
    json: Path | None = None
    """Also write the numbers to this file."""
    device: str | None = None
    """Torch device to use instead of the run's, e.g. cpu. (No GPU was at hand to try others.)"""
    video: Path | None = None
    """Also film the first episodes into this file (mp4 or gif)."""
    video_episodes: int = 1
    """Episodes to film."""

    @property
    def played(self) -> int:
        """Episodes to play."""
        return self.episodes if self.episodes is not None else self.video_episodes if self.video is not None else 100


def train(words: list[str]) -> int:
    """Train anew."""
    config_file = option_value(words, "config", "")
    if config_file:
        start = load_config(Path(config_file))
    else:
        method, task, scale = (
            option_value(words, name, getattr(RunConfig, name)) for name in ("method", "task", "scale")
        )
        start = preset(method, task, scale)
    options = _train_options(words, start)
    if config_file:
        refuse_unnamed_code(options.run, option_value(words, "task", ""))
    console = Console()
    training, folder = _begin(options, console)
    hardware = training.hardware
    console.out(
        f"{options.run.method} on {options.run.task}, seed {options.run.seed}: {training.total_iterations} iterations\n"
        f"{hardware.threads} thread(s), {hardware.workers or 'no'} worker(s), into {folder.shown}",
        highlight=False,
    )
    if not config_file and (warning := warning_before(options.run, start)):
        console.out(warning, highlight=False)
    return _run(training, folder, console)


def _train_options(words: list[str], start: RunConfig) -> TrainOptions:
    """Parse the options of `top-erl train`, and once more if something follows from them."""
    kind = _options_of(type(start))
    help_text = f"{TRAIN_HELP}\nValues of --method:\n  {', '.join(method.name for method in METHODS)}"

    def parsed(default: RunConfig) -> TrainOptions:
        return parse(kind, words, prog="top-erl train", description=help_text, default=kind(default))

    options = parsed(start)
    better = start_for(start, options.run)
    return options if better == start else parsed(better)


def _begin(options: TrainOptions, console: Console) -> tuple[Training, RunFolder]:
    """Take a folder and build the training; if that fails, there is no folder."""
    check_log(options.run.log)
    folder = new_run_folder(options.run) if options.run_dir is None else RunFolder(options.run_dir)
    folder.reserve()
    try:
        with console.status(f"getting {options.run.task} ready, and timing an episode of it"):
            training = Training(options.run)
        folder.create(training)
    except BaseException:
        folder.discard()
        raise
    RUNS.append(folder.path)
    return training, folder


def _options_of(run: type[RunConfig]) -> type[TrainOptions]:
    """The options of `top-erl train` for a method: those of its configuration."""
    field = ("run", Annotated[run, tyro.conf.arg(name="")])
    return make_dataclass("TrainOptions", [field], bases=(TrainOptions,), frozen=True)


def resume(words: list[str]) -> int:
    """Go on with a run."""
    options = parse(ResumeOptions, words, prog="top-erl resume", description="Go on with a run that was stopped.")
    folder = RunFolder.open(in_zoo(options.run_dir))
    folder.check_is_run()
    check_log(folder.config().log)
    RUNS.append(folder.path)
    training = resume_training(
        folder,
        fall_back=options.previous,
        total_env_steps=options.total_env_steps,
        workers=options.workers,
        threads=options.threads,
        device=options.device,
        task=options.task,
    )
    console = Console()
    done, total = training.progress.iteration, training.total_iterations
    console.out(f"{folder.shown}: going on after iteration {done} of {total}", highlight=False)
    if done >= total:
        console.out("This run is complete; --total-env-steps trains it further.", highlight=False)
        training.close()
        folder.release()
        return 0
    return _run(training, folder, console)


def evaluate(words: list[str]) -> int:
    """Play the trained policy on fresh contexts."""
    options = parse(
        EvaluateOptions,
        words,
        prog="top-erl evaluate",
        description="Play the trained policy, without exploration, on contexts it has never seen.",
    )
    if min(options.played, options.video_episodes) < 1 or options.seed < 0:
        raise UserError("--episodes and --video-episodes must be at least 1, and --seed must not be negative.")
    if options.json is not None:
        check_output_file(options.json)
    if options.video is not None:
        check_picture_file(options.video, FILMS)
        choose_for_environments()
    options = _rooted(options)
    agent = Agent.load(
        options.run_dir, task=options.task, device=options.device, previous=options.previous, which=options.which
    )
    try:
        return _evaluate(agent, options)
    finally:
        agent.close()


def _rooted(options: EvaluateOptions) -> EvaluateOptions:
    """The same files, wherever an environment goes."""
    files = {name: getattr(options, name) for name in ("json", "video")}
    return replace(options, **{name: path and path.absolute() for name, path in files.items()})


def _evaluate(agent: Agent, options: EvaluateOptions) -> int:
    """Play, show the scores, and write what was asked for."""
    if options.video is not None:
        check_renders(agent.training.task)
    console = Console()
    episodes = f"{options.played} fresh episode{'s' if options.played > 1 else ''}"
    with console.status(f"playing {episodes}"):
        scores = agent.evaluate(options.played, options.seed)
    title = f"{agent.training.spec.id}: {episodes} after {agent.num_timesteps:,} steps"
    title += f", {options.which} checkpoint"
    console.print(_score_table(scores, title))
    if scores.failures:
        console.out(f"{scores.failures} of {options.played} episodes failed and are left out.", highlight=False)
    if options.json is not None:
        write_scores(options.json, scores)
    if options.video is not None:
        seeds = episode_seeds(options.seed, "fresh", 0, min(options.video_episodes, options.played))
        film_policy(agent, seeds, options.video, console)
    return 0


def _run(training: Training, folder: RunFolder, console: Console) -> int:
    """Train, then say how it went and how to go on."""
    again = _typed(folder.shown, training.config.task)
    try:
        end = run_training(training, folder, console=console)
    except RunDiverged:
        raise  # resuming would repeat it
    except RunStopped:
        console.out(f"The run stopped. Go on from its last checkpoint with: top-erl resume {again}", highlight=False)
        raise
    finally:
        training.close()
    if not end.finished:
        console.out(f"Stopped after iteration {training.progress.iteration} and saved. Go on with:", highlight=False)
        console.out(f"  top-erl resume {again}", highlight=False)
        return 130
    if plotting_available():
        plot_runs([folder.path], folder.path / "curves.png")
        console.out(f"Learning curves: {folder.shown / 'curves.png'}", highlight=False)
    if writes_tensorboard(training.config.log):
        console.out(f"All numbers: tensorboard --logdir {shlex.quote(str(folder.shown.parent))}", highlight=False)
    console.out(f"Try it on fresh contexts: top-erl evaluate {again}", highlight=False)
    return 0


def _typed(path: Path, task: str) -> str:
    """A run folder as it is typed in a shell, with the task if that is code and must be named, and what it imports."""
    named = f" --task {shlex.quote(task)}" if ":" in task else ""
    return shlex.quote(str(path)) + named + "".join(f" --import {shlex.quote(name)}" for name in IMPORTED)


def _score_table(scores: Scores, title: str) -> Table:
    """Mean, spread and range of returns and metrics."""
    table = Table("", "mean", "std", "min", "median", "max", title=title, title_justify="left")
    for name, values in {"return": scores.returns, **scores.metrics}.items():
        numbers = (values.mean(), values.std(), values.min(), np.median(values), values.max())
        table.add_row(name, *(f"{number:.3f}" for number in numbers))
    return table
