"""The agent: TOP-ERL in three lines.

agent = TopErl("top_erl/ViaPointReacher-v0", seed=0)
agent.learn(total_env_steps=200_000)
reference = agent.predict(observation)

`Agent` is the same for every method: `Agent("top_erl/ViaPointReacher-v0", method="sac")`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from rich.console import Console

from top_erl.algorithms.episodic import EpisodicLearner
from top_erl.errors import UserError
from top_erl.experiment.callbacks import CallbackLike, as_callback
from top_erl.experiment.checkpoint import Checkpoint, checkpoint_exists, load_checkpoint, save_checkpoint
from top_erl.experiment.config import RunConfig
from top_erl.experiment.folder import RunFolder
from top_erl.experiment.hardware import Hardware
from top_erl.experiment.presets import preset
from top_erl.experiment.run import RunEnd, run_training
from top_erl.experiment.training import Training
from top_erl.experiment.trust import check_trusted
from top_erl.primitives import Reference
from top_erl.rollout import Scores
from top_erl.seeding import episode_seeds

if TYPE_CHECKING:
    from typing_extensions import Self


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
        self.training.extend(self.num_timesteps + total_env_steps)
        folder = None if run_dir is None else RunFolder(Path(run_dir))
        if folder is not None:
            folder.create(self.training)
            if self.training.progress.iteration:
                folder.save(self.training)  # what was learned before belongs to the run
        hooks = as_callback(callback)
        hooks.init_callback(self)
        self.last_run: RunEnd = run_training(self.training, folder, hooks, Console() if progress_bar else None)
        return self

    def evaluate(self, episodes: int = 100, seed: int = 0) -> Scores:
        """Play the deterministic policy on fresh contexts, which neither training nor its evaluations see."""
        if episodes < 1 or seed < 0:
            raise UserError("An evaluation needs at least 1 episode, and a seed that is not negative.")
        seeds = episode_seeds(seed, "fresh", 0, episodes)
        return self.training.learner.evaluate(seeds)

    def save(self, path: str | Path, *, replay: bool = True) -> None:
        """Save to a folder; with the replay, a loaded agent goes on learning exactly as this one would."""
        folder = Path(path)
        if (folder / "metrics.csv").exists():
            raise UserError(f"{folder} is a run folder, which saves itself; save the agent somewhere else.")
        folder.mkdir(parents=True, exist_ok=True)
        save_checkpoint(folder / "checkpoint", self.training.checkpoint(with_replay=replay))
        run = RunFolder(folder)
        run.write_fingerprint(self.training)
        run.write_config(self.config)

    @classmethod
    def load(
        cls, path: str | Path, *, task: str | None = None, device: str | None = None, previous: bool = False
    ) -> Self:
        """Load an agent saved by `save`, or the newest checkpoint of a run folder.

        Args:
            path: the folder.
            task: name a task that is code of your own, `module:Class`, unless it has been imported already: loading
                a stranger's folder must not import what it asks for.
            device: torch device to use instead of the saved one.
            previous: fall back to an earlier checkpoint of a run if the newest is damaged.
        """
        folder = RunFolder.open(Path(path))
        config = folder.config()
        check_trusted(config, task)
        if device is not None:
            config = replace(config, hardware=replace(config.hardware, device=device))
        agent = cls(config=config, hardware=folder.hardware())
        saved = folder.path / "checkpoint"
        if checkpoint_exists(saved):
            checkpoint: Checkpoint | None = load_checkpoint(saved, agent.training.belongs_to)
        else:
            checkpoint = folder.load(agent.training.belongs_to, fall_back=previous)
        if checkpoint is None:
            raise UserError(f"{folder.path} has no checkpoint yet.")
        agent.training.restore(checkpoint)
        return agent

    def close(self) -> None:
        """Release simulators and worker processes."""
        self.training.close()


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

    @torch.no_grad()
    def predict(
        self,
        observation: ArrayLike,
        position: ArrayLike | None = None,
        velocity: ArrayLike | None = None,
        *,
        deterministic: bool = True,
        generator: torch.Generator | None = None,
    ) -> Reference:
        """Predict the reference for an episode that starts with this observation.

        Args:
            observation: raw first observation, [S] or [B, S].
            position: measured position, [D] or [B, D]; read off the observation if the task knows how.
            velocity: measured velocity, likewise.
            deterministic: use the policy's mean; otherwise sample.
            generator: source of the sample.

        Returns:
            Positions and velocities at times dt, 2 dt, …, T dt: [T, D], or [B, T, D], each.
        """
        observed = np.asarray(observation, dtype=np.float64)
        spec = self.training.spec
        if observed.shape[-1:] != (spec.observation_dim,) or observed.ndim > 2:
            raise UserError(
                f"{spec.id} has observations of {spec.observation_dim} entries, not shape {observed.shape}."
            )
        if position is None or velocity is None:
            measured = self.training.task.measured_state(observed)
            position = measured[0] if position is None else position
            velocity = measured[1] if velocity is None else velocity
        params = self._params(observed, deterministic, generator)
        return self._learner.collector.primitive.trajectory(
            params,
            torch.arange(1, spec.horizon + 1, dtype=torch.float64) * spec.dt,
            init_time=0.0,
            init_position=torch.as_tensor(np.asarray(position, dtype=np.float64)),
            init_velocity=torch.as_tensor(np.asarray(velocity, dtype=np.float64)),
        )

    def _params(
        self, observed: NDArray[np.float64], deterministic: bool, generator: torch.Generator | None
    ) -> torch.Tensor:
        """Primitive parameters for first observations, [S] to [P] or [B, S] to [B, P], in float64."""
        state = np.concatenate((observed, np.zeros_like(observed[..., :1])), axis=-1)  # time is 0
        policy = self._learner.policy
        device = policy.raw_covariance.device
        gaussian = policy(torch.as_tensor(np.atleast_2d(state), dtype=torch.float32, device=device))
        params = gaussian.mean
        if not deterministic:
            params = gaussian.sample(torch.randn(params.shape, generator=generator).to(device))
        return params.double().cpu().reshape(*observed.shape[:-1], -1)

    @property
    def _learner(self) -> EpisodicLearner:
        learner = self.training.learner
        assert isinstance(learner, EpisodicLearner)
        return learner
