"""What a preset has for a field of the published tables: a setting, or what is measured on the networks it makes."""

from __future__ import annotations

import math
from functools import cached_property, reduce
from typing import Any

import torch
from torch import nn

from top_erl.algorithms.registry import find_method
from top_erl.algorithms.setup import Setup
from top_erl.config.run import RunConfig
from top_erl.tasks import make_task

REACHER = "top_erl/ViaPointReacher-v0"


class Measured:
    """A preset, and a step-based learner made from it when one is needed."""

    def __init__(self, config: RunConfig) -> None:
        self.config, self.algorithm = config, config.algorithm  # type: ignore[attr-defined]
        self.horizon = make_task(config.task).spec.horizon
        self._computed = {
            "<episode length>": lambda: self.horizon,
            "<iterations>": lambda: config.total_iterations(self.horizon),
            "<control steps>": lambda: config.total_env_steps,
            "<iterations of falling rates>": self._rate_iterations,
            "<episodes before learning starts>": lambda: (
                self.algorithm.learn.policy_start * self.algorithm.collect.episodes
            ),
            "<width of a head>": lambda: self.algorithm.critic.width // self.algorithm.critic.heads,
            "<optimizer>": self._optimizer,
            "<epochs of the critic>": self._critic_epochs,
            "<number of minibatches>": lambda: self.algorithm.collect.steps / self.algorithm.learn.batch_size,
            "<learning starts>": lambda: self.algorithm.prefill_episodes,
            "<critic clip>": lambda: self._clip("clip_range_vf"),
            "<importance ratio clip>": lambda: self._clip("clip_range"),
            "<importance ratio clip after a quarter of the run>": lambda: self._clip_at("clip_range", 0.25),
            "<importance ratio clip at the end>": lambda: self._clip_at("clip_range", 1.0),
            "<orthogonal initialization>": self._orthogonal,
            "<initialization>": self._initialization,
            "<hidden activation>": self._hidden_activation,
            "<initial std>": self._initial_std,
            "<normalized observations>": lambda: self.learner.normalizer is not None,
            "<normalized rewards>": lambda: self.learner.normalizer is not None,
        }

    def value(self, field: str) -> Any:
        """What the preset has for a field."""
        if field in self._computed:
            return self._computed[field]()
        found = reduce(getattr, field.split("."), self.config)
        return list(found) if isinstance(found, tuple) else found

    def close(self) -> None:
        """Release the learner's simulators."""
        if "learner" in vars(self):
            self.learner.close()

    @cached_property
    def learner(self) -> Any:
        """A learner on the reacher, which is cheap; networks depend on the task by their input."""
        task = make_task(REACHER)
        setup = Setup(task, task.spec, 0, 10, torch.device("cpu"))
        return find_method(self.config.method).build(self.config, setup)

    @property
    def _policy(self) -> Any:
        return self.learner.model.policy

    def _rate_iterations(self) -> int:
        return self.algorithm.learn.rate_iterations or self.config.total_iterations(self.horizon)

    def _critic_epochs(self) -> int:
        return getattr(self.algorithm.learn, "epochs", 0) or self.algorithm.learn.gradient_steps

    def _optimizer(self) -> str:
        """The class that all optimisers are of."""
        (name,) = {type(optimizer).__name__.lower() for optimizer in self.learner.optimizers().values()}
        return name

    def _clip_at(self, which: str, share: float) -> float:
        """A clip when a share of the run is over."""
        self.learner.total_iterations, self.learner.iteration = 10_000, 1 + round(share * 10_000)
        return float(getattr(self.learner.model, which)(0.123))

    def _clip(self, which: str) -> float | str:
        """A clip as the tables write it."""
        first, half = (self._clip_at(which, share) for share in (0.0, 0.5))
        return first if first == half else f"lin_{first:g}"

    def _linears(self) -> list[nn.Linear]:
        return [module for module in self._policy.modules() if isinstance(module, nn.Linear)]

    def _orthogonal(self) -> bool:
        """Whether the rows or columns of the first layer are orthogonal and of equal length."""
        matrix = self._linears()[0].weight.detach()
        gram = matrix.T @ matrix if matrix.shape[0] > matrix.shape[1] else matrix @ matrix.T
        return bool(torch.allclose(gram, gram[0, 0] * torch.eye(len(gram)), atol=1e-4))

    def _initialization(self) -> str:
        """Uniform weights up to 1 / √in are what the fan-in gives; Xavier's are uniform up to √(6 / (in + out))."""
        linears, bounds = self._linears(), {"fanin": lambda weight: math.sqrt(1 / weight.shape[1])}
        if hasattr(self._policy, "transformer"):
            block = self._policy.transformer.blocks[0]
            linears = [block.attention.query, block.attention.out, block.gate_mlp.of_reset, block.mlp_in, block.mlp_out]
            bounds = {"xavier": lambda weight: math.sqrt(6 / sum(weight.shape))}
        ((name, bound),) = bounds.items()
        shares = [float(linear.weight.detach().abs().max()) / bound(linear.weight) for linear in linears]
        return name if all((0.98 if name == "xavier" else 0.9) < share < 1.0001 for share in shares) else "another"

    def _hidden_activation(self) -> str:
        """What updates and hidden units of a gated transformer look like: never negative, some zero, most not."""
        inputs: list[torch.Tensor] = []
        blocks = self._policy.transformer.blocks
        for block in blocks:
            block.mlp_out.register_forward_pre_hook(lambda _, given: inputs.append(given[0]))
            for gate in (block.gate_attention, block.gate_mlp):
                gate.register_forward_pre_hook(lambda _, given: inputs.append(given[1]))
        self._policy(torch.randn(100, self.learner.observer.size))
        assert len(inputs) == 3 * len(blocks)
        return "relu" if all(values.min() == 0.0 < values.max() for values in inputs) else "another"

    def _initial_std(self) -> float:
        """Standard deviation that exploration starts with."""
        if not hasattr(self._policy, "actor"):
            return round(float(self._policy.log_std.detach().exp().mean()), 6)
        with torch.no_grad():  # a network's output, and near 1 as its weights happen to be drawn
            inputs = torch.randn(1000, self.learner.observer.size)
            _, log_std, _ = self._policy.actor.get_action_dist_params(inputs)
        std = float(log_std.exp().mean())
        return 1.0 if 0.8 < std < 1.25 else std
