"""How an episode is cut into segments (Sec. 4.2, and Sec. 4.5 on random lengths).

A cut has one length L for the whole batch and a random offset, drawn anew for every gradient step. The critic also
trains on a last, padded segment that may run past the end of the episode; the policy leaves it out.

Axes: `K` segments, `L` actions per segment, `T` steps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as fn

from top_erl.config.segments import length_of_count, length_of_fraction, per_cent
from top_erl.errors import UserError

_CPU = torch.device("cpu")


@dataclass(frozen=True)
class Segments:
    """Where the segments of one cut lie. Equal cuts are one object, whose tensors are made once (`_shared`)."""

    horizon: int
    """T: steps of the episode."""
    length: int
    """L: actions per segment."""
    count: int
    """K: segments."""
    offset: int
    """Time index of the first segment's first state."""
    stride: int
    """Steps from one segment's first state to the next one's: `length` if they follow each other."""
    device: torch.device = _CPU
    """Where the tensors are."""

    def shortened(self, most: int) -> Segments:
        """Segments with the same first states, of `most` actions at most."""
        return self if self.length <= most else _shared(replace(self, length=most))

    def to(self, device: torch.device) -> Segments:
        """The same cut on another device."""
        return self if self.device == device else _shared(replace(self, device=device))

    @cached_property
    @torch.inference_mode(False)  # what is made once must be fit for gradients later on, here and below
    def starts(self) -> Tensor:
        """Time index of each segment's first state and action, [K]."""
        return self.offset + self.stride * torch.arange(self.count, device=self.device)

    @cached_property
    @torch.inference_mode(False)
    def actions(self) -> Tensor:
        """Time index of every action, [K, L]; at `horizon` and beyond it is padding."""
        return self.starts[:, None] + torch.arange(self.length, device=self.device)

    @cached_property
    @torch.inference_mode(False)
    def inside(self) -> Tensor:
        """Time index of every action, [K, L], with the last one of the episode in place of padding."""
        return self.actions.clamp(max=self.horizon - 1)

    @cached_property
    @torch.inference_mode(False)
    def counts(self) -> Tensor:
        """How many actions of each segment lie inside the episode, [K]."""
        return (self.horizon - self.starts).clamp(max=self.length)

    @cached_property
    @torch.inference_mode(False)
    def mask(self) -> Tensor:
        """1 for the outputs [V, Q_1, …, Q_L] of a segment that have a target, 0 for padding, [K, L + 1]."""
        return fn.pad((self.actions < self.horizon).float(), (1, 0), value=1.0)

    @cached_property
    @torch.inference_mode(False)
    def following(self) -> tuple[Tensor, Tensor]:
        """Time index of the state after every action (at the end: the last one), and whether there is one, [K, L]."""
        after = self.actions + 1
        return after.clamp(max=self.horizon - 1), after < self.horizon

    @cached_property
    @torch.inference_mode(False)
    def later(self) -> Tensor:
        """Time index of every state that may follow an action of a segment, `offset` + 1 … T - 1."""
        return torch.arange(self.offset + 1, self.horizon, device=self.device)


@lru_cache(maxsize=4096)  # an episode of 100 tokens has 462 cuts, one of 250 has 1298
def _shared(segments: Segments) -> Segments:
    """The first cut that was equal to this one, with what has been worked out for it."""
    return segments


def every_state(horizon: int, length: int, device: torch.device) -> Segments:
    """A segment from every state of an episode; the last ones run past its end."""
    return _shared(Segments(horizon, length, count=horizon, offset=0, stride=1, device=device))


def plan_starts(horizon: int, lengths: list[int], stride: int, generator: torch.Generator) -> Segments:
    """Segments of one of the lengths, that begin every `stride` steps after a random offset and end in the episode."""
    length = lengths[_randint(len(lengths), generator)]
    last = horizon - length  # where the last one may begin
    offset = _randint(min(stride, last + 1), generator)
    return _shared(Segments(horizon, length, (last - offset) // stride + 1, offset, stride))


def rests_of_episode(horizon: int, apart: int, generator: torch.Generator) -> list[Segments]:
    """From a random state within every `apart` steps of the episode to its end: cuts of one segment each."""
    starts = [first + _randint(min(apart, horizon - first), generator) for first in range(0, horizon, apart)]
    return [_rest(horizon, start) for start in starts]


def _rest(horizon: int, start: int) -> Segments:
    """One segment, from a state to the end of the episode."""
    return _shared(Segments(horizon, horizon - start, 1, start, stride=horizon - start))


class Segmentation(ABC):
    """A rule that says how long the segments of a cut are."""

    @abstractmethod
    def lengths(self, horizon: int) -> list[int]:
        """Candidate lengths for an episode of `horizon` steps; each cut picks one uniformly."""

    def draw(self, horizon: int, generator: torch.Generator, *, padded: bool) -> Segments:
        """Draw a cut; `padded` adds the last segment that may run past the end."""
        choices = self.lengths(horizon)
        length = choices[_randint(len(choices), generator)]
        offset = _randint(min(length, horizon - length + 1), generator)  # one whole segment always fits
        count, rest = divmod(horizon - offset, length)
        return _shared(Segments(horizon, length, count + (padded and rest > 0), offset, stride=length))


@dataclass(frozen=True)
class RandomSegments(Segmentation):
    """Uniform over the distinct lengths ⌊T/n⌋, n = 1 … `max_count` (the method's default)."""

    max_count: int = 25

    def lengths(self, horizon: int) -> list[int]:
        """Distinct lengths, ascending."""
        return sorted({horizon // n for n in range(1, min(self.max_count, horizon) + 1)})


@dataclass(frozen=True)
class FixedCount(Segmentation):
    """Always ⌊T/count⌋ actions per segment (the ablation with 25 segments)."""

    count: int = 25

    def lengths(self, horizon: int) -> list[int]:
        """The one length."""
        return [length_of_count(horizon, self.count)]


@dataclass(frozen=True)
class FixedLength(Segmentation):
    """Always the same fraction of the episode (the ablation with 5 % to 100 %)."""

    fraction: float = 0.5

    def lengths(self, horizon: int) -> list[int]:
        """The one length."""
        return [length_of_fraction(horizon, self.fraction)]


@dataclass(frozen=True)
class RestsOfEpisode(Segmentation):
    """One segment, from a random state to the end of the episode (not in the paper).

    Its last target is a return, without anything estimated, and it is the longest that can be asked of the critic from
    that state. Random lengths seldom are: of a plan that is valued to the end, say.
    """

    whole: float = 0.25
    """Share of the cuts that are the whole episode."""

    def lengths(self, horizon: int) -> list[int]:
        """All of them."""
        return list(range(1, horizon + 1))

    def draw(self, horizon: int, generator: torch.Generator, *, padded: bool) -> Segments:
        """Draw a cut; there is nothing to pad."""
        whole = float(torch.rand((), generator=generator)) < self.whole
        start = 0 if whole else _randint(horizon, generator)
        return _rest(horizon, start)


@dataclass(frozen=True)
class SegmentsConfig:
    """How episodes are cut into segments."""

    kind: Literal["random", "fixed_count", "fixed_length", "rests"] = "random"
    """Random lengths; the fixed ones of the ablations: so many segments, or so much of an episode; or one segment,
    from a random state to the end. Segments are whole tokens (see collect.stride), so a run with fixed ones begins by
    saying how long they are."""
    count: int = 25
    """Largest number of segments (random), or their number (fixed_count; the paper's ablation: 25): each has the tokens
    of an episode divided by it, rounded down, but at least one."""
    fraction: float = 0.5
    """Length as a fraction of the episode (fixed_length), rounded to whole tokens: of 25 tokens, 0.05, 0.1 and 0.5 are
    1, 2 and 12, so 4, 8 and 48 %."""
    whole: float = 0.25
    """Share of the cuts that are whole episodes (rests): what a first plan that is valued to the end asks for."""

    def __post_init__(self) -> None:
        """Check the values."""
        if self.count < 1:
            raise UserError("segments.count must be at least 1.")
        if not 0.0 < self.fraction <= 1.0:
            raise UserError("segments.fraction must lie in (0, 1], e.g. 0.25 for a quarter of the episode.")
        if not 0.0 <= self.whole <= 1.0:
            raise UserError("segments.whole must lie in [0, 1].")

    def build(self) -> Segmentation:
        """Make the rule."""
        if self.kind == "random":
            return RandomSegments(self.count)
        if self.kind == "rests":
            return RestsOfEpisode(self.whole)
        return FixedCount(self.count) if self.kind == "fixed_count" else FixedLength(self.fraction)

    def remark(self, tokens: int) -> str:
        """What fixed segments come to in an episode of so many tokens; empty for others."""
        if self.kind in ("random", "rests"):
            return ""
        (length,) = self.build().lengths(tokens)
        found, asked = per_cent(length, tokens), f"{100 * self.fraction:.3g} %"
        if self.kind == "fixed_count":
            found, asked = f"{tokens // length} in an episode", str(self.count)
            same = tokens // length == self.count
        else:
            same = found == asked
        return f"Segments have {length} of {tokens} tokens: {found}{'' if same else f', not {asked}'}."


def _randint(high: int, generator: torch.Generator) -> int:
    return int(torch.randint(high, (), generator=generator))
