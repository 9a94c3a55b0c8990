"""Optimisers as the authors set them up, and a learner's state as plain tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn


def adam_w(module: nn.Module, rate: float, decay: float) -> torch.optim.Optimizer:
    """AdamW with decoupled decay on matrices only; biases and normalisation are left alone."""
    matrices = [p for p in module.parameters() if p.dim() >= 2]
    vectors = [p for p in module.parameters() if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": decay}, {"params": vectors, "weight_decay": 0.0}]
    return _BriefAdamW([group for group in groups if group["params"]], lr=rate, fused=True)


def adam(module: nn.Module, rate: float, decay: float) -> torch.optim.Optimizer:
    """Adam with coupled (L2) decay on everything."""
    return _BriefAdam(module.parameters(), lr=rate, weight_decay=decay, fused=True)


class _Brief(torch.optim.Optimizer):
    """Steps after the first go straight to the fused kernel.

    PyTorch's own step collects and checks the same tensors every time, which for small networks takes longer than the
    kernel itself. Hooks around a step are not called, and gradients are forgotten, never set to zero.
    """

    kernel: Callable[..., object]
    _moments: list[list[list[Tensor]]] | None = None
    """First and second moments and step counts of each group's parameters, found once."""

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Move all parameters."""
        gradients = [[parameter.grad for parameter in group["params"]] for group in self.param_groups]
        if closure is not None:
            raise ValueError("These optimisers take no closure.")
        if self._moments is None:
            self._moments = self._find_moments()
        if self._moments is None or any(gradient is None for own in gradients for gradient in own):
            super().step()  # makes the moments
            return
        for group, own, (first, second, steps) in zip(self.param_groups, gradients, self._moments, strict=True):
            torch._foreach_add_(steps, 1)
            numbers = {key: group[key] for key in ("lr", "weight_decay", "eps", "amsgrad", "maximize")}
            beta1, beta2 = group["betas"]
            self.kernel(group["params"], own, first, second, [], steps, beta1=beta1, beta2=beta2, **numbers)

    def _find_moments(self) -> list[list[list[Tensor]]] | None:
        """The moments, if there are any yet."""
        if not all(self.state.get(parameter) for group in self.param_groups for parameter in group["params"]):
            return None
        states = [[self.state[parameter] for parameter in group["params"]] for group in self.param_groups]
        return [[[state[key] for state in own] for key in ("exp_avg", "exp_avg_sq", "step")] for own in states]

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over other moments."""
        super().load_state_dict(state_dict)
        self._moments = None

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Optimise more parameters."""
        super().add_param_group(param_group)
        self._moments = None

    step.hooked = True  # type: ignore[attr-defined]  # what PyTorch would wrap around it takes as long again

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget all gradients."""
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None


class _BriefAdam(_Brief, torch.optim.Adam):
    kernel = staticmethod(torch._fused_adam_)


class _BriefAdamW(_Brief, torch.optim.AdamW):
    kernel = staticmethod(torch._fused_adamw_)


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Change the learning rate of all parameters."""
    for group in optimizer.param_groups:
        group["lr"] = rate


def flatten_state(
    modules: Mapping[str, nn.Module], optimizers: Mapping[str, torch.optim.Optimizer]
) -> dict[str, Tensor]:
    """All tensors of networks and optimisers under `name.key`."""
    parts: dict[str, dict[str, Tensor]] = {name: dict(module.state_dict()) for name, module in modules.items()}
    parts.update({name: optimizer_tensors(optimizer) for name, optimizer in optimizers.items()})
    return {f"{name}.{key}": value for name, part in parts.items() for key, value in part.items()}


def restore_state(
    state: Mapping[str, Tensor],
    modules: Mapping[str, nn.Module],
    optimizers: Mapping[str, torch.optim.Optimizer],
) -> None:
    """Put back what `flatten_state` made."""

    def part(name: str) -> dict[str, Tensor]:
        return {key.removeprefix(f"{name}."): value for key, value in state.items() if key.startswith(f"{name}.")}

    for name, module in modules.items():
        module.load_state_dict(part(name))
    for name, optimizer in optimizers.items():
        restore_optimizer(optimizer, part(name))


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Flatten the optimiser's moments and step counts to `index.name` → tensor."""
    state = optimizer.state_dict()["state"]
    return {f"{index}.{name}": value for index, entry in state.items() for name, value in entry.items()}


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Put back what `optimizer_tensors` flattened; rates and decays stay as configured."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        index, name = key.split(".", 1)
        state.setdefault(int(index), {})[name] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
