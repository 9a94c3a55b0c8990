"""Saved tensors held against what a learner expects, before any of them is taken over.

The optimisers' kernels trust the sizes they are given: moments of another size than their parameters would be read and
written past their ends. So a saved state is checked as a whole, by name, shape and type; it may come from anybody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from top_erl.errors import UserError

_ADAM = {"step", "exp_avg", "exp_avg_sq"}
"""What Adam keeps for a parameter."""


def check_state(
    found: Mapping[str, Tensor], expected: Mapping[str, Tensor], optimizers: Mapping[str, torch.optim.Optimizer]
) -> None:
    """Refuse a saved state that is not one of a learner.

    Args:
        found: The saved tensors.
        expected: The state of the learner that is to take them over; of its optimisers only the names matter, since
            they have no moments before their first step.
        optimizers: Its optimisers, by the first word of their tensors' names.
    """

    def of_optimizer(name: str) -> bool:
        return name.partition(".")[0] in optimizers

    own = {name: tensor for name, tensor in found.items() if not of_optimizer(name)}
    check_tensors(own, {name: tensor for name, tensor in expected.items() if not of_optimizer(name)})
    for name, optimizer in optimizers.items():
        prefix = f"{name}."
        _check_moments(name, {key: value for key, value in found.items() if key.startswith(prefix)}, optimizer)


def check_tensors(found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    """Refuse tensors that differ from others in their names, shapes or types."""
    for name in (*expected, *found):
        if name not in found:
            raise does_not_fit(f"{name} is missing")
        if name not in expected:
            raise does_not_fit(f"{name} is not known here")
        check_tensor(name, found[name], expected[name].shape, expected[name].dtype)


def check_tensor(name: str, found: Tensor, shape: Sequence[int], dtype: torch.dtype) -> None:
    """Refuse a tensor of another shape or type."""
    if tuple(found.shape) != tuple(shape) or found.dtype != dtype:
        raise does_not_fit(f"{name} is {_describe(found.shape, found.dtype)}, not {_describe(shape, dtype)}")


def check_episodes(
    found: Mapping[str, Tensor],
    *,
    capacity: int,
    steps: int,
    widths: tuple[int, int, int, int],
    gaussian: tuple[int, tuple[int, ...]] | None,
    plan: int = 0,
    goalless: tuple[int, int] | None = None,
) -> None:
    """Refuse a saved `EpisodeReplay` that is not one of a certain capacity with episodes of a certain kind.

    Args:
        found: The saved tensors.
        capacity: Episodes that the replay holds at most.
        steps: T: stored steps per episode.
        widths: Entries of state, reference, action and reward.
        gaussian: Entries of the mean and shape of the factor of the episodes' Gaussians; None if they are not kept.
        plan: Entries that a plan has at the step where it starts; 0 if plans are not kept.
        goalless: Control steps, and entries of what is kept of each for other goals; None if nothing is.
    """
    held = len(found["steps"]) if "steps" in found and found["steps"].dim() else 0
    mean, factor = gaussian or (0, ())
    row = [held, mean + torch.Size(factor).numel()] if gaussian else [0]
    whole = {"total_added": [], "widths": [4], "factor_shape": [len(factor) if held else 0]}
    shapes = {"steps": [held, steps, sum(widths)] if held else [0], "gaussians": row if held else [0], **whole}
    if plan and held:
        shapes["plans"] = [held, steps, plan]
    if goalless and held:
        shapes["goalless"] = [held, *goalless]
    counted = {name: torch.empty(shape, dtype=torch.long if name in whole else None) for name, shape in shapes.items()}
    options = {"steps": "collect.stride", "gaussians": "trust_region.anchor", "factor_shape": "trust_region.anchor"}
    for name in options.keys() & found.keys():
        if list(found[name].shape) != shapes[name]:
            raise does_not_fit(f"its replay was made with another {options[name]}, or {name} has been changed")
    check_tensors(found, counted)
    added = int(found["total_added"])
    if added < 0 or held != min(added, capacity):
        raise does_not_fit(f"its replay holds {held} of {added} episodes, and here it has a capacity of {capacity}")
    for name, numbers in (("widths", widths), ("factor_shape", factor)):
        if held and found[name].tolist() != list(numbers):
            raise does_not_fit(f"{name} of its replay is {found[name].tolist()}, not {list(numbers)}")


def does_not_fit(reason: str) -> UserError:
    """Build the error for a saved tensor that is not what it should be."""
    return UserError(
        f"The checkpoint does not fit this configuration ({reason}): use the config.yaml it was saved with."
    )


def _check_moments(name: str, found: Mapping[str, Tensor], optimizer: torch.optim.Optimizer) -> None:
    """Refuse moments that are not of an optimiser's parameters; one that has not been moved yet has none."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    kept: dict[int, set[str]] = {}
    for key, tensor in found.items():
        _, index, moment = (*key.split(".", 2), "", "")[:3]
        if not (index.isascii() and index.isdecimal() and str(int(index)) == index and int(index) < len(parameters)):
            raise does_not_fit(f"{key} is not known here: {name} has {len(parameters)} parameters")
        parameter = parameters[int(index)]
        if moment == "step":
            check_tensor(key, tensor, (), torch.float32)
            if not (torch.isfinite(tensor) and tensor >= 0 and tensor == tensor.round()):
                raise does_not_fit(f"{key} is {float(tensor)}, which counts no steps")
        else:
            check_tensor(key, tensor, parameter.shape, parameter.dtype)
        kept.setdefault(int(index), set()).add(moment)
    if isinstance(optimizer, (torch.optim.Adam, torch.optim.AdamW)):
        for number, moments in kept.items():
            if moments != _ADAM:
                odd = ", ".join(sorted(moments ^ _ADAM))
                raise does_not_fit(f"{name}.{number} has not the moments of Adam: {odd}")


def _describe(shape: Sequence[int], dtype: torch.dtype) -> str:
    return f"{str(dtype).removeprefix('torch.')} of shape {list(shape)}"
