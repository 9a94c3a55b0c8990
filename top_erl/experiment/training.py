"""One training in memory: task, player, primitive and learner put together, stepped one iteration at a time."""

from __future__ import annotations

import logging
import math
import time
from dataclasses import replace
from typing import Any

import torch

from top_erl.algorithms.method import Method
from top_erl.algorithms.ranking import COLUMN as RANKING
from top_erl.algorithms.registry import METHODS, find_method
from top_erl.algorithms.setup import Setup
from top_erl.config.primitive import PrimitiveConfig
from top_erl.config.run import EpisodicRun, RunConfig, StoredEpisodes
from top_erl.errors import UserError
from top_erl.experiment.checkpoint import Checkpoint, Progress
from top_erl.experiment.metrics import iteration_row, metric_columns
from top_erl.experiment.metrics_file import Row
from top_erl.hardware.choice import Hardware, choose_hardware, prepare_process
from top_erl.hardware.cores import Crowding
from top_erl.models.bf16 import bf16_is_faster
from top_erl.primitives import Primitive, make_primitive
from top_erl.primitives.plans import PlanMovements
from top_erl.rollout.collector import EpisodeCollector, Scores
from top_erl.rollout.pool import make_player
from top_erl.rollout.replanning import ReplanningCollector, check_parts
from top_erl.seeding import episode_seeds
from top_erl.tasks import TaskSpec, make_task
from top_erl.tasks.goals import GoalRule

_LOG = logging.getLogger("top_erl")


class Training:
    """A run's state and how to advance it. Knows nothing of files, signals or the screen."""

    def __init__(self, config: RunConfig, hardware: Hardware | None = None) -> None:
        """Build everything; `hardware` is what an earlier session of the same run used."""
        self.config = config
        method = find_method(config.method)
        self.task = make_task(config.task)
        self.spec = self.task.spec
        if config.evaluation.stop_at_success is not None and "success" not in self.spec.metrics:
            raise UserError(f"{self.spec.id} measures no success, so that evaluation.stop_at_success cannot end a run.")
        self.hardware = hardware or choose_hardware(config, self.task)
        prepare_process(self.hardware.threads)
        self.total_iterations = config.total_iterations(self.spec.horizon)
        self.progress = Progress()
        self.plays_only = False
        """Whether a policy alone was restored: it can be played, and there is nothing to learn on with."""
        self._crowding = Crowding(self.hardware.threads) if self.hardware.threads > 1 else None
        device = _device(config.hardware.device)
        if config.hardware.precision == "bf16":
            _check_bf16(method, device)
        primitive = None
        if isinstance(config, EpisodicRun):
            primitive = make_primitive(config.primitive, self.spec.num_dof, self.spec.dt)
            _check_rest(config.primitive, self.spec)
        setup = Setup(
            task=self.task,
            spec=self.spec,
            seed=config.seed,
            total_iterations=self.total_iterations,
            device=device,
            primitive=primitive,
            collector=None if primitive is None else self._collector(method, primitive),
        )
        self.learner = method.build(config, setup)
        if config.hardware.precision == "bf16":
            self.learner.use_bf16()

    def _collector(self, method: Method, primitive: Primitive) -> EpisodeCollector:
        """Make what plays the policy's episodes; methods without a replay of episodes take them as they are."""
        algorithm, spec = self.config.hyper_parameters, self.spec
        stored, plan = algorithm.stored if method.stores_episodes else StoredEpisodes(), algorithm.replanning
        player = make_player(self.task, self.config.task, self.hardware.workers, algorithm.timeout)
        options: dict[str, Any] = {
            "seed": self.config.seed,
            "stride": stored.stride,
            "reward_scale": stored.reward_scale,
            "reward_shift": stored.reward_shift,
            "reward_floor": stored.reward_floor,
            "keep_behaviour": method.keeps_behaviour and stored.behaviour,
            "wide_share": stored.wide_share,
            "wide_factor": stored.wide_factor,
            "goal_rule": self._goal_rule() if stored.goalless else None,
        }
        if not plan.replans(spec.horizon):
            return EpisodeCollector(player, spec, primitive, **options)
        check_parts(self.task.plays_in_parts, spec.id)
        movements = PlanMovements(primitive, spec.horizon, every=plan.every, clock=plan.clock, tau=plan.tau)
        options |= {"every": plan.every, "random": plan.random, "reference_input": plan.reference_input}
        return ReplanningCollector(player, spec, movements, **options)

    def _goal_rule(self) -> GoalRule:
        """The task's goals, which episodes are to be counted anew for."""
        if self.spec.goal_rule is None:
            raise UserError(
                f"{self.spec.id} has no goal_rule, so nobody knows what its episodes would have paid for another goal: "
                "use --learn.hindsight 0."
            )
        return self.spec.goal_rule

    @property
    def belongs_to(self) -> dict[str, Any]:
        """What a checkpoint must agree with to fit this run."""
        return {
            "task": self.spec.id,
            "task version": self.spec.version,
            "method": self.config.method,
            "seed": self.config.seed,
        }

    def extend(self, total_env_steps: int) -> None:
        """Set a new end of the run."""
        self.config = replace(self.config, total_env_steps=total_env_steps)
        self.total_iterations = self.config.total_iterations(self.spec.horizon)
        self.learner.total_iterations = self.total_iterations

    def advance(self) -> Row:
        """Do one iteration, evaluate if it is due, and return its numbers."""
        self.check_learns()
        began = time.perf_counter()
        torch.set_num_threads(self.hardware.threads)  # another training in this process may have set others
        iteration = self.progress.iteration + 1
        steps_before = self.learner.env_steps
        self.learner.prefill()
        stats = self.learner.iterate(iteration)
        speed = (self.learner.env_steps - steps_before) / (time.perf_counter() - began)
        due = self.evaluation_due(iteration)
        evaluation, ranking = (self.evaluate(), self._ranking()) if due else (None, {})
        self.progress = Progress(
            iteration,
            self.learner.episodes_collected,
            self.learner.env_steps,
            self.progress.wall_time + time.perf_counter() - began,
        )
        if self._crowding is not None and self._crowding.begins():
            _LOG.warning(
                "This run's %d threads do not have their cores to themselves, and wait for each other: that is slow. "
                "If other programs go on using the cores, stop it with Ctrl-C and resume it with --threads 1.",
                self.hardware.threads,
            )
        return iteration_row(self.progress, stats, evaluation, speed) | ranking

    def check_learns(self) -> None:
        """Refuse to train on with a policy alone."""
        if self.plays_only:
            raise UserError(
                f"This agent of {self.config.task} is a policy alone, without the critic: it can be played, but does "
                "not learn on. Train anew with its config.yaml."
            )

    def evaluation_due(self, iteration: int) -> bool:
        """Whether an iteration ends with an evaluation: the first, the last, and every `interval`-th."""
        return iteration in (1, self.total_iterations) or iteration % self.config.evaluation.interval == 0

    def evaluate(self, episodes: int | None = None, stream: str = "evaluation") -> Scores:
        """Play the deterministic policy on the seeds of a stream of their own."""
        count = episodes or self.config.evaluation.episodes
        return self.learner.evaluate(episode_seeds(self.config.seed, stream, 0, count))

    @property
    def columns(self) -> list[str]:
        """All columns of its rows, in order."""
        own = (*self.learner.columns, RANKING) if self.learner.ranks_movements else self.learner.columns
        return metric_columns(self.spec.metrics, own)

    def remarks(self) -> list[str]:
        """What to say before the first iteration."""
        said = self.config.hyper_parameters.remarks(self.spec.horizon)
        if self.config.evaluation.ranking_contexts and not self.learner.ranks_movements:
            said = [*said, f"{RANKING} is not measured: the critic of {self.config.method} values no whole movements."]
        return said

    def _ranking(self) -> Row:
        """How well the critic ranks movements, if that is wanted and can be said; always of the same contexts."""
        contexts = self.config.evaluation.ranking_contexts
        if not (contexts and self.learner.ranks_movements):
            return {}
        found = self.learner.rank_movements(contexts, seed=self.config.seed, stream="ranking").mean
        return {} if math.isnan(found) else {RANKING: found}

    def checkpoint(self, *, with_replay: bool = True, policy_only: bool = False) -> Checkpoint:
        """The state at the end of an iteration; with `policy_only`, what is needed to play it."""
        replay = self.learner.replay_state() if with_replay and not policy_only else {}
        state = self.learner.policy_state() if policy_only else self.learner.state_dict()
        config = self.config.to_dict()
        return Checkpoint(self.progress, self.belongs_to, state, replay, config, policy_only=policy_only)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Take over a checkpoint's state; everything random follows from the counters."""
        try:
            if checkpoint.policy_only:
                self.learner.load_policy(checkpoint.state)
            else:
                self._restore_learner(checkpoint)
            self.learner.episodes_collected = checkpoint.progress.episodes
            self.learner.env_steps = checkpoint.progress.env_steps
        except UserError:
            raise
        except (RuntimeError, KeyError, ValueError) as error:
            raise UserError(
                "The checkpoint does not fit this configuration: use the config.yaml it was saved with. "
                f"{str(error).splitlines()[-1].strip()}"
            ) from None
        self.progress, self.plays_only = checkpoint.progress, checkpoint.policy_only

    def _restore_learner(self, checkpoint: Checkpoint) -> None:
        """Take over all that was learned, after a look at all of it."""
        self.learner.check_state(checkpoint.state, checkpoint.replay)
        self.learner.load_state_dict(checkpoint.state)
        if checkpoint.replay:
            self.learner.load_replay_state(checkpoint.replay)

    def close(self) -> None:
        """Release the task and the workers."""
        self.learner.close()
        self.task.close()


def _check_rest(primitive: PrimitiveConfig, spec: TaskSpec) -> None:
    """Refuse a movement that would end at rest after the episode is over."""
    if primitive.end_at_rest and primitive.tau > spec.duration + 0.01 * spec.dt:
        raise UserError(
            f"primitive.tau is {primitive.tau:g} s, but an episode of {spec.id} lasts {spec.duration:g} s: to end at "
            f"rest within it, use --primitive.tau {spec.duration:g} or less."
        )


def _check_bf16(method: Method, device: torch.device) -> None:
    """Refuse bfloat16 for a method that has it not, and warn where it is slow."""
    if not method.has_bf16:
        able = ", ".join(other.name for other in METHODS if other.has_bf16)
        raise UserError(f"{method.name} has no matrix products in bf16, only {able} has: use --precision float32.")
    if not bf16_is_faster(device):
        _LOG.warning("This processor has no bfloat16 instructions that we know of: --precision float32 is faster.")


def _device(name: str) -> torch.device:
    """Check that a device exists."""
    try:
        device = torch.device(name)
        float(torch.zeros((), dtype=torch.float64, device=device))  # reads a number, which `meta` cannot
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"The device {name!r} cannot be used here ({reason}); use --device cpu.") from None
    return device
