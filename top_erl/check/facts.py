"""The facts that a task states about itself, before anything is played."""

from __future__ import annotations

from collections.abc import Iterator

from top_erl.check.findings import Finding, error, hint, warning
from top_erl.tasks import Task, TaskSpec

_FAMILIES = ("", "via_point_reacher", "box_pushing_dense", "box_pushing_sparse", "hopper_jump", "metaworld")


def look(task: Task) -> list[Finding]:
    """Look at `spec`."""
    spec = getattr(task, "spec", None)
    if not isinstance(spec, TaskSpec):
        return [error("spec", f"{type(task).__name__} has no spec: set spec = TaskSpec(id=…, observation_dim=…, …).")]
    return [*_sizes(spec), *_movement(spec), *_words(spec)]


def _sizes(spec: TaskSpec) -> Iterator[Finding]:
    for name in ("observation_dim", "num_dof", "horizon", "stride"):
        value = getattr(spec, name)
        if not isinstance(value, int) or value < 1:
            yield error("spec", f"spec.{name} is {value!r}; set it to a whole number, 1 or more.")
            return
    for name in ("dt", "return_size"):
        if not 0.0 < getattr(spec, name) < float("inf"):
            yield error("spec", f"spec.{name} is {getattr(spec, name)}; set it to a number above 0.")
    if spec.horizon % spec.stride:
        yield error(
            "stride",
            f"spec.stride ({spec.stride}) must divide spec.horizon ({spec.horizon} steps) without remainder, or "
            "--scale paper cannot be used.",
        )
    wrong = [entry for entry in spec.context_mask or () if not 0 <= entry < spec.observation_dim]
    if wrong:
        yield error(
            "context", f"spec.context_mask names entries {wrong}; an observation has 0 to {spec.observation_dim - 1}."
        )


def _movement(spec: TaskSpec) -> Iterator[Finding]:
    duration, tau = spec.horizon * spec.dt, spec.primitive.tau
    if tau > 1.5 * duration:
        yield warning(
            "tau",
            f"spec.primitive.tau is {tau:g} s, an episode lasts {duration:g} s: movements are cut off before their "
            f"end. Set tau={duration:g}.",
        )
    elif tau < 0.35 * duration:
        yield warning(
            "tau",
            f"spec.primitive.tau is {tau:g} s, an episode lasts {duration:g} s: the robot stands at its goal for most "
            f"of it. Set tau={duration:g}, or shorten the episode.",
        )


def _words(spec: TaskSpec) -> Iterator[Finding]:
    if spec.family not in _FAMILIES:
        known = ", ".join(_FAMILIES[1:])
        yield error("spec", f"spec.family is {spec.family!r}; leave it empty, or use one of {known}.")
    if not spec.metrics:
        yield hint("metrics", "spec.metrics is empty: a run will show returns only. Name `success` if there is one.")
    if "success" in spec.metrics and not spec.success_rule:
        yield hint("success", "spec.success_rule is empty: say in one sentence what counts as success.")
    if "success" not in spec.metrics and not spec.success_rule:
        yield hint(
            "success", "spec.metrics names no `success`: without it nobody can say how often the task is solved."
        )
