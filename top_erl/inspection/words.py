"""What the pictures say, in sentences with their key numbers, and those numbers by name.

Axes: `B` contexts or episodes, `T` times, `D` degrees of freedom.
"""

from __future__ import annotations

import math

import numpy as np

from top_erl.algorithms.ranking import CriticRanking
from top_erl.inspection.correlation import CorrelationMap
from top_erl.inspection.reconditioning import Reconditioned, explanation
from top_erl.inspection.spread import Spread
from top_erl.inspection.values import CriticValues

Numbers = dict[str, float]
Words = tuple[str, Numbers]

GOOD_RANKING, LOW_RANKING = 0.4, 0.2
"""Rank correlations from which on we call a critic's order good, and below which low; docs/inspect.md has examples."""


def spread_words(found: Spread) -> Words:
    """How far the policy explores, and how far its movements differ between contexts."""
    of_dof = found.std.mean(axis=(0, 1))  # [D]
    numbers = {"exploration": float(of_dof.mean()), "largest_exploration": float(of_dof.max())}
    count = len(found.mean)
    sentence = (
        f"In {_count(count, 'fresh context')} positions vary by {numbers['exploration']:.2g} (one standard deviation, "
        f"mean over time), most in degree of freedom {of_dof.argmax() + 1} ({numbers['largest_exploration']:.2g})."
    )
    if count > 1:
        numbers["between_contexts"] = apart = float(found.mean.std(axis=0, ddof=1).mean())
        more = "more" if apart > numbers["exploration"] else "less"
        sentence += f" The mean movement varies by {apart:.2g} from context to context, {more} than by exploration."
    return sentence, numbers


def correlation_words(found: CorrelationMap) -> Words:
    """How positions hang together, over time and over degrees of freedom."""
    dof = found.num_dof
    steps = len(found.correlation) // dof
    blocks = found.correlation.reshape(dof, steps, dof, steps).swapaxes(1, 2)  # [D, D, T, T]
    own = blocks[np.arange(dof), np.arange(dof)]  # [D, T, T]
    half = float(np.nanmean(np.diagonal(own, offset=steps // 2, axis1=1, axis2=2)))
    sentence = f"Positions of one degree of freedom half an episode apart are correlated by {half:.2f} on average"
    if dof == 1:
        return f"{sentence}.", {"half_an_episode_apart": half}
    between = float(np.nanmean(np.abs(blocks[~np.eye(dof, dtype=bool)])))
    others = f"those of different degrees of freedom by {between:.2f} (absolute)"
    if between == 0.0:
        others = "those of different degrees of freedom not at all: the covariance is diagonal"
    return f"{sentence}, {others}.", {"half_an_episode_apart": half, "between_dof": between}


def values_words(found: CriticValues) -> Words:
    """How much of what was received the critic expects."""
    sentences: list[str] = []
    numbers: Numbers = {}
    for kind in found.kinds:
        name = kind.name.replace("$", "")
        symbol = name[0]
        numbers |= {f"explained_variance_{symbol}": kind.explained, f"mean_error_{symbol}": kind.bias}
        what = f"{kind.explained:.2f} of the variance of what was received"
        if kind.explained < 0.0:
            what = f"nothing of what was received (explained variance {kind.explained:.2f})"
        high = "high" if kind.bias > 0.0 else "low"
        sentences.append(f"{name}, explains {what} and is too {high} by {abs(kind.bias):.2g} on average")
    return f"In {len(found.returns)} fresh episodes with exploration {'; '.join(sentences)}.", numbers


def segments_words(found: Reconditioned) -> Words:
    """How far old and new movements are apart where segments start."""
    (position, velocity), left = found.jumps()
    numbers = {"apart": float(position), "velocities_apart": float(velocity), "left": float(left.max())}
    return explanation(found).replace("\n", " "), numbers


def ranking_words(found: CriticRanking) -> Words:
    """Whether the critic tells better from worse movements of one context, and what that means."""
    numbers = {"critic_ranking": found.mean, "overall": found.overall}
    error = ""
    if not math.isnan(found.error):
        numbers["critic_ranking_error"] = found.error
        error = f" ± {found.error:.2f}"
    known = int(np.isfinite(found.correlations).sum())
    left = len(found.values) - known
    without = f" ({_count(left, 'context')} without differences left out)" if left else ""
    over_all = "no correlation" if math.isnan(found.overall) else f"a correlation of {found.overall:.2f}"
    sentence = (
        f"critic_ranking {found.mean:.2f}{error}: the rank correlation of the critic's values and the returns of "
        f"{max(map(len, found.values))} movements of one context, mean over {_count(known, 'context')}{without}; over "
        f"all movements there is {over_all}. {verdict(found.mean)}"
    )
    return sentence, {name: value for name, value in numbers.items() if not math.isnan(value)}


def verdict(ranking: float) -> str:
    """What a rank correlation within contexts means for the policy."""
    if ranking >= GOOD_RANKING:
        return "The critic tells better from worse movements."
    if ranking >= LOW_RANKING:
        return "The critic tells better from worse movements, but only roughly."
    return (
        "The critic hardly tells better from worse movements, and that is all the policy asks it. As long as the task "
        "is not solved, this holds the policy back: docs/inspect.md says what to try."
    )


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
