"""How long segments of a fixed length are: whole tokens. Plain numbers, for learners and for reports."""

from __future__ import annotations


def length_of_count(tokens: int, count: int) -> int:
    """Tokens of each of `count` segments of an episode, rounded down; at least one."""
    return max(1, tokens // count)


def length_of_fraction(tokens: int, fraction: float) -> int:
    """Tokens of a segment that is a fraction of an episode, to the nearest (a half: to the even one); at least one."""
    return max(1, round(tokens * fraction))


def per_cent(length: int, tokens: int) -> str:
    """A segment's share of an episode, e.g. `4 %`."""
    return f"{100 * length / tokens:.3g} %"
