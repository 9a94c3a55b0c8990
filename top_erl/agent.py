"""The agent: TOP-ERL in three lines.

agent = TopErl("top_erl/ViaPointReacher-v0", seed=0)
agent.learn(total_env_steps=200_000)
reference = agent.predict(observation)

`Agent` is the same for every method: `Agent("top_erl/ViaPointReacher-v0", method="sac")`.

Axes: `B` episodes, `T` control steps, `S` observation entries, `D` degrees of freedom, `P` primitive parameters, `A`
action entries.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from rich.console import Console

from top_erl.algorithms.episodic import EpisodicLearner
from top_erl.closed_loop import Action, PlayedEpisode, next_action, next_reference, play_episode
from top_erl.config.run import RunConfig
from top_erl.errors import UserError, unknown_name
from top_erl.experiment.callbacks import CallbackLike, as_callback
from top_erl.experiment.checkpoint import Checkpoint, checkpoint_exists, save_checkpoint
from top_erl.experiment.configs import refuse_unnamed_code
from top_erl.experiment.folder import RunFolder
from top_erl.experiment.fresh import play_fresh
from top_erl.experiment.metrics import check_log
from top_erl.experiment.presets import preset
from top_erl.experiment.run import RunEnd, run_training
from top_erl.experiment.training import Training
from top_erl.experiment.zoo import in_zoo
from top_erl.hardware.choice import Hardware
from top_erl.limits import Limits, check_limits
from top_erl.primitives import Reference
from top_erl.rollout.collector import Scores
from top_erl.tasks import EpisodeStarts, Task, TaskSpec
from top_erl.tasks.checks import non_finite_word

if TYPE_CHECKING:
    from typing_extensions import Self

Array = NDArray[np.float64]
Which = Literal["last", "best"]
"""Which checkpoint of a run to load."""


class Agent:
    """An agent of any method that learns one task."""

    def __init__(
        self,
        task: str | None = None,
        *,
        method: str = "top_erl",
        seed: int = 0,
        scale: str = "laptop",
        config: RunConfig | None = None,
        hardware: Hardware | None = None,
    ) -> None:
        """Make an untrained agent.

        Args:
            task: id of the task, or `module:Class` of your own.
            method: how it learns, see `top-erl methods`.
            seed: seed of everything random.
            scale: preset, `laptop` or `paper`.
            config: a whole configuration instead; it then says task, method, seed and scale.
            hardware: threads and workers; chosen for this machine if None.
        """
        if (task is None) == (config is None):
            raise UserError(f"Give {type(self).__name__} a task, or a whole config, but not both.")
        self.training = Training(config or preset(method, str(task), scale, seed), hardware)

    @property
    def config(self) -> RunConfig:
        """The configuration."""
        return self.training.config

    @property
    def num_timesteps(self) -> int:
        """Control steps collected so far."""
        return self.training.progress.env_steps

    def learn(
        self,
        total_env_steps: int,
        callback: CallbackLike = None,
        *,
        run_dir: str | Path | None = None,
        progress_bar: bool = True,
    ) -> Self:
        """Train for (at least) this many more control steps.

        Args:
            total_env_steps: control steps to collect in this call.
            callback: a callback, a list of them, or a function of the iteration's numbers; False stops training.
            run_dir: folder for metrics and checkpoints; None: nothing is written.
            progress_bar: show progress.

        Returns:
            The agent itself.
        """
        hooks = as_callback(callback)
        self.training.check_learns()
        self.training.extend(self.num_timesteps + total_env_steps)
        folder = None if run_dir is None else RunFolder(Path(run_dir))
        if folder is not None:
            check_log(self.config.log)
            folder.create(self.training)
            if self.training.progress.iteration:
                folder.save(self.training)  # what was learned before belongs to the run
        hooks.init_callback(self)
        self.last_run: RunEnd = run_training(self.training, folder, hooks, Console() if progress_bar else None)
        return self

    def evaluate(self, episodes: int = 100, seed: int = 0) -> Scores:
        """Play the deterministic policy on fresh contexts, which neither training nor its evaluations see."""
        if episodes < 1 or seed < 0:
            raise UserError("An evaluation needs at least 1 episode, and a seed that is not negative.")
        return play_fresh(self.training, episodes, seed)

    def predict(
        self,
        observation: ArrayLike,
        position: ArrayLike | None = None,
        velocity: ArrayLike | None = None,
        *,
        deterministic: bool = True,
        generator: torch.Generator | None = None,
        step: int = 0,
        limits: Limits | None = None,
        reference: ArrayLike | None = None,
        origin: ArrayLike | None = None,
    ) -> Reference | Action:
        """Predict the reference of a whole episode, or with a step-based method the action of one step.

        An episodic method is given the first observation of an episode. One that replans (`--plan.every`) may also be
        asked later, with the step and the reference that is being tracked: it answers its next plan. A step-based one
        is given the raw observation before each step. GTrXL remembers the steps before: they must be asked for in order
        from 0, of as many episodes each time; `learn`, `evaluate` and `load` end the episode.

        Args:
            observation: raw observation, [S] or [B, S].
            position: measured position, [D] or [B, D] like the observation; read off it if the task knows how.
            velocity: measured velocity, likewise.
            deterministic: use the policy's mean; otherwise sample. Step-based methods have the mean only.
            generator: source of the sample.
            step: control steps made so far in the episode, for methods that are asked in the middle of it.
            limits: what the robot can do; a reference that exceeds it is refused (`Reference.exceeds` says where).
            reference: what is being tracked now, positions, then velocities, [2D] or [B, 2D], to replan from there.
            origin: position at the episode's start, [D] or [B, D], to replan where a relative goal counts from there.

        Returns:
            Positions and velocities at times dt, 2 dt, …, T dt: [T, D], or [B, T, D], each; of a next plan those after
            `step`. Or actions, [A] or [B, A], within the bounds of the environment.
        """
        learner, observed = self.training.learner, _checked(self.training.spec, observation)
        if not isinstance(learner, EpisodicLearner):
            alone = deterministic and all(given is None for given in (position, velocity, limits, reference, origin))
            return next_action(self.training, observed, step, alone)
        noise = None if deterministic else _noise(learner, len(np.atleast_2d(observed)), generator)
        if step or reference is not None:
            current, start = self._given(reference=reference, origin=origin)
            return next_reference(learner, step, observed, current, start, noise=noise, limits=limits)
        starts = _starts(self.training.task, observed, position, velocity)
        return _reference(learner, starts, noise, observed.ndim == 1, limits)

    def _given(self, **values: ArrayLike | None) -> list[Array | None]:
        """What was given by these names, as arrays of finite numbers."""
        spec = self.training.spec
        return [None if value is None else _finite(spec, name, value) for name, value in values.items()]

    def play(self, where: Task | gym.Env[Any, Any] | None = None, seed: int = 0) -> PlayedEpisode:
        """Play one episode with the policy's mean, in closed loop if it replans; with episodic methods.

        Args:
            where: a task like the one that was learned, or an environment of it; None: the agent's own task.
            seed: of the episode.
        """
        return play_episode(self.training, where, seed)

    def save(self, path: str | Path, *, replay: bool = True, policy_only: bool = False) -> None:
        """Save to a folder; with the replay, a loaded agent goes on learning exactly as this one would.

        With `policy_only` the folder is small, and what is loaded from it can be played, but learns no more. An agent
        that was saved there before is replaced; anything else of the same name is left alone.
        """
        policy_only = policy_only or self.training.plays_only
        folder = RunFolder(Path(path))
        try:
            folder.check_saved()
            folder.hold()
            folder.check_saved()  # somebody may have been quicker
            checkpoint = self.training.checkpoint(with_replay=replay, policy_only=policy_only)
            save_checkpoint(folder.saved, checkpoint)
            folder.write_fingerprint(self.training)
            folder.write_config(self.config)
        except OSError as error:
            raise UserError(f"Cannot save the agent in {path}: {error}; save it somewhere else.") from None
        finally:
            folder.release()

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        task: str | None = None,
        device: str | None = None,
        previous: bool = False,
        which: Which = "last",
    ) -> Self:
        """Load an agent saved by `save`, a checkpoint of a run folder, or an agent that comes with the package.

        Args:
            path: the folder; `zoo/NAME` for an agent of the package.
            task: name a task that is code of your own, `module:Class`, unless it has been imported already: loading
                a stranger's folder must not import what it asks for.
            device: torch device to use instead of the saved one.
            previous: fall back to an earlier checkpoint of a run if the newest is damaged.
            which: the `last` checkpoint of a run, or the `best` by its evaluations: of success, or of the return if
                the task has none. That one comes without its replay.
        """
        if which not in get_args(Which):
            raise unknown_name("checkpoint", which, get_args(Which))
        folder = RunFolder.open(in_zoo(Path(path)))
        config = folder.config()
        refuse_unnamed_code(config, task)
        if device is not None:
            config = replace(config, hardware=replace(config.hardware, device=device))
        agent = cls(config=config, hardware=folder.hardware())
        try:
            agent.training.restore(_load(folder, agent.training, which, previous))
        except BaseException:
            agent.close()
            raise
        return agent

    def close(self) -> None:
        """Release simulators and worker processes."""
        self.training.close()

    def __enter__(self) -> Self:
        """Use the agent in a `with` block, which closes it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close, however the block ends."""
        self.close()


class TopErl(Agent):
    """An agent that learns reference trajectories for one task with TOP-ERL."""

    def __init__(
        self,
        task: str | None = None,
        *,
        seed: int = 0,
        scale: str = "laptop",
        config: RunConfig | None = None,
        hardware: Hardware | None = None,
    ) -> None:
        """Make an untrained agent; the arguments are those of `Agent`."""
        if config is not None and config.method != "top_erl":
            raise UserError(f"This is a run of {config.method}, not of top_erl: use Agent instead of TopErl.")
        super().__init__(task, seed=seed, scale=scale, config=config, hardware=hardware)

    def predict(self, *arguments: Any, **options: Any) -> Reference:
        """Predict the reference for an episode that starts with an observation; the arguments of `Agent.predict`."""
        return cast(Reference, super().predict(*arguments, **options))


def _load(folder: RunFolder, training: Training, which: Which, previous: bool) -> Checkpoint:
    """The checkpoint of a saved agent, or one of a run."""
    if which == "best":
        return folder.load_best(training.belongs_to)
    if checkpoint_exists(folder.saved):
        return folder.load_saved(training.belongs_to)
    checkpoint = folder.load(training.belongs_to, fall_back=previous)
    if checkpoint is None:
        raise UserError(f"{folder.shown} has no checkpoint yet.")
    return checkpoint


def _checked(spec: TaskSpec, observation: ArrayLike) -> Array:
    """Raw observations of a task, [S] or [B, S]."""
    observed = _finite(spec, "observation", observation)
    if observed.shape[-1:] != (spec.observation_dim,) or observed.ndim > 2 or not observed.size:
        raise UserError(f"{spec.id} has observations of {spec.observation_dim} entries, not shape {observed.shape}.")
    return observed


def _finite(spec: TaskSpec, name: str, value: ArrayLike) -> Array:
    """Numbers, all of them finite."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise UserError(f"The {name} for {spec.id} must be an array of numbers, not {type(value).__name__}.") from error
    if not np.isfinite(array).all():
        raise UserError(f"The {name} for {spec.id} holds {non_finite_word(array)}: there is no movement from there.")
    return array


def _starts(task: Task, observed: Array, position: ArrayLike | None, velocity: ArrayLike | None) -> EpisodeStarts:
    """First instants of episodes with these observations, [S] or [B, S]; what was not measured is read off them."""
    batch, spec = np.atleast_2d(observed), task.spec
    given = {"position": position, "velocity": velocity}
    if position is None or velocity is None:
        known = dict(zip(given, task.measured_state(batch), strict=True))  # [B, D] each
    expected = (*observed.shape[:-1], spec.num_dof)
    state: dict[str, Array] = {}
    for name, value in given.items():
        measured = _finite(spec, name, np.reshape(known[name], expected) if value is None else value)
        if measured.shape != expected:
            raise UserError(
                f"{spec.id} needs a {name} of shape {expected}, one of {spec.num_dof} entries for each observation, "
                f"not of shape {measured.shape}."
            )
        state[name] = np.atleast_2d(measured)
    return EpisodeStarts(batch, state["position"], state["velocity"])


def _noise(learner: EpisodicLearner, count: int, generator: torch.Generator | None) -> torch.Tensor:
    """What `count` samples of the policy are made of, [B, P]."""
    return torch.randn((count, learner.primitive.num_params), generator=generator)


def _reference(
    learner: EpisodicLearner, starts: EpisodeStarts, noise: torch.Tensor | None, single: bool, limits: Limits | None
) -> Reference:
    """The movement of the policy's mean, or of a sample with noise, [B, P]; a single one without the batch axis.

    One that exceeds the limits raises a `UserError` which names the worst value.
    """
    reference, _, _ = learner.collector.plan(learner.policy, starts, noise)
    if limits is not None:
        found = reference.exceeds(limits, learner.collector.spec.dt, (starts.position, starts.velocity))
        check_limits(found)
    return Reference(reference.position[0], reference.velocity[0]) if single else reference
