"""Optimisers as the authors set them up, and a learner's state as plain tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn


def adam_w(
    module: nn.Module, rate: float, decay: float, betas: tuple[float, float] = (0.9, 0.999)
) -> torch.optim.Optimizer:
    """AdamW with decoupled decay on matrices only; biases and normalisation are left alone."""
    matrices = [p for p in module.parameters() if p.dim() >= 2]
    vectors = [p for p in module.parameters() if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": decay}, {"params": vectors, "weight_decay": 0.0}]
    return _LeanAdamW([group for group in groups if group["params"]], lr=rate, betas=betas, fused=True)


def adam(module: nn.Module, rate: float, decay: float) -> torch.optim.Optimizer:
    """Adam with coupled (L2) decay on everything."""
    return _LeanAdam(module.parameters(), lr=rate, weight_decay=decay, fused=True)


class _Lean(torch.optim.Optimizer):
    """PyTorch's fused kernel without the ceremony around it, which takes 4 % of a critic step of laptop size.

    Nothing is remembered between steps but what PyTorch's own optimiser keeps in `state`. Hooks around a step are not
    called, and gradients are forgotten, never set to zero.
    """

    kernel: Callable[..., object]

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Move all parameters; the first step, which makes the moments, is PyTorch's own."""
        parameters = [parameter for group in self.param_groups for parameter in group["params"]]
        if closure is not None or not all(p.grad is not None and self.state.get(p) for p in parameters):
            super().step(closure)
            return
        for group in self.param_groups:
            own = group["params"]
            moments = [[self.state[p][key] for p in own] for key in ("exp_avg", "exp_avg_sq", "step")]
            torch._foreach_add_(moments[2], 1)
            numbers = {key: group[key] for key in ("lr", "weight_decay", "eps", "amsgrad", "maximize")}
            (beta1, beta2), gradients = group["betas"], [p.grad for p in own]
            self.kernel(own, gradients, *moments[:2], [], moments[2], beta1=beta1, beta2=beta2, **numbers)

    step.hooked = True  # type: ignore[attr-defined]  # what PyTorch would wrap around it takes as long again

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget all gradients."""
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None


class _LeanAdam(_Lean, torch.optim.Adam):
    kernel = staticmethod(torch._fused_adam_)


class _LeanAdamW(_Lean, torch.optim.AdamW):
    kernel = staticmethod(torch._fused_adamw_)


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Change the learning rate of all parameters."""
    for group in optimizer.param_groups:
        group["lr"] = rate


def flatten_state(
    modules: Mapping[str, nn.Module], optimizers: Mapping[str, torch.optim.Optimizer]
) -> dict[str, Tensor]:
    """All tensors of networks and optimisers under `name.key`."""
    tensors: dict[str, dict[str, Tensor]] = {name: dict(module.state_dict()) for name, module in modules.items()}
    tensors.update({name: optimizer_tensors(optimizer) for name, optimizer in optimizers.items()})
    return {f"{name}.{key}": value for name, own in tensors.items() for key, value in own.items()}


def restore_state(
    state: Mapping[str, Tensor], modules: Mapping[str, nn.Module], optimizers: Mapping[str, torch.optim.Optimizer]
) -> None:
    """Put back what `flatten_state` made."""

    def tensors(name: str) -> dict[str, Tensor]:
        return {key.removeprefix(f"{name}."): value for key, value in state.items() if key.startswith(f"{name}.")}

    for name, module in modules.items():
        module.load_state_dict(tensors(name))
    for name, optimizer in optimizers.items():
        restore_optimizer(optimizer, tensors(name))


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
