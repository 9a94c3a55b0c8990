"""How episodes are cut: candidate lengths, offsets, the padded last segment."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from top_erl.algorithms.top_erl.segments import (
    FixedCount,
    FixedLength,
    RandomSegments,
    RestsOfEpisode,
    Segmentation,
    Segments,
    SegmentsConfig,
    every_state,
    plan_starts,
)
from top_erl.errors import UserError

EXAMPLE = Segments(horizon=10, length=4, count=2, offset=3, stride=4)


def _generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _draws(rule: Segmentation, horizon: int, count: int, *, padded: bool) -> list[Segments]:
    generator = _generator()
    return [rule.draw(horizon, generator, padded=padded) for _ in range(count)]


# ---- lengths


def test_candidate_lengths_of_100_steps() -> None:
    expected = [4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 16, 20, 25, 33, 50, 100]
    assert RandomSegments(25).lengths(100) == expected
    assert len(expected) == 16


def test_candidate_lengths_of_250_steps() -> None:
    expected = [10, 11, 12, 13, 14, 15, 16, 17, 19, 20, 22, 25, 27, 31, 35, 41, 50, 62, 83, 125, 250]
    assert RandomSegments(25).lengths(250) == expected
    assert len(expected) == 21


def test_candidate_lengths_of_a_short_episode_are_at_least_one() -> None:
    assert RandomSegments(25).lengths(5) == [1, 2, 5]


def test_lengths_are_uniform_over_distinct_values() -> None:
    """Not over the number of segments: 4 and 100 steps are as likely as each other."""
    draws = 8000
    counts = Counter(segments.length for segments in _draws(RandomSegments(25), 100, draws, padded=False))
    assert sorted(counts) == RandomSegments(25).lengths(100)
    # A count is binomial with mean 500 and standard deviation √(8000 · 1/16 · 15/16) = 21.7.
    assert all(abs(count - 500) < 5 * 21.7 for count in counts.values())


@pytest.mark.parametrize(("count", "length"), [(25, 4), (3, 33), (1, 100), (200, 1)])
def test_fixed_count(count: int, length: int) -> None:
    rule = SegmentsConfig(kind="fixed_count", count=count).build()
    assert rule == FixedCount(count)
    assert rule.lengths(100) == [length]


@pytest.mark.parametrize(("fraction", "length"), [(0.05, 5), (0.25, 25), (1.0, 100), (0.001, 1)])
def test_fixed_length(fraction: float, length: int) -> None:
    rule = SegmentsConfig(kind="fixed_length", fraction=fraction).build()
    assert rule == FixedLength(fraction)
    assert rule.lengths(100) == [length]


@pytest.mark.parametrize(
    ("config", "tokens", "remark"),
    [
        (SegmentsConfig(), 25, ""),
        (SegmentsConfig("rests"), 25, ""),
        (SegmentsConfig("fixed_count"), 25, "Segments have 1 of 25 tokens: 25 in an episode."),
        (SegmentsConfig("fixed_count"), 100, "Segments have 4 of 100 tokens: 25 in an episode."),
        (SegmentsConfig("fixed_count"), 20, "Segments have 1 of 20 tokens: 20 in an episode, not 25."),
        (SegmentsConfig("fixed_count"), 40, "Segments have 1 of 40 tokens: 40 in an episode, not 25."),
        (SegmentsConfig("fixed_length", fraction=0.05), 25, "Segments have 1 of 25 tokens: 4 %, not 5 %."),
        (SegmentsConfig("fixed_length", fraction=0.1), 25, "Segments have 2 of 25 tokens: 8 %, not 10 %."),
        (SegmentsConfig("fixed_length", fraction=0.5), 25, "Segments have 12 of 25 tokens: 48 %, not 50 %."),
        (SegmentsConfig("fixed_length", fraction=0.2), 25, "Segments have 5 of 25 tokens: 20 %."),
        (SegmentsConfig("fixed_length", fraction=0.05), 100, "Segments have 5 of 100 tokens: 5 %."),
    ],
)
def test_what_fixed_segments_come_to(config: SegmentsConfig, tokens: int, remark: str) -> None:
    assert config.remark(tokens) == remark


def test_random_is_the_default() -> None:
    assert SegmentsConfig().build() == RandomSegments(25)
    assert SegmentsConfig(count=10).build() == RandomSegments(10)


# ---- offsets


def test_offsets_are_uniform_from_zero_to_length_minus_one() -> None:
    counts = Counter(int(segments.starts[0]) for segments in _draws(FixedLength(0.4), 10, 4000, padded=True))
    assert sorted(counts) == [0, 1, 2, 3]
    # binomial with mean 1000 and standard deviation √(4000 · 1/4 · 3/4) = 27.4
    assert all(abs(count - 1000) < 5 * 27.4 for count in counts.values())


@pytest.mark.parametrize("padded", [True, False], ids=["critic", "policy"])
def test_the_whole_episode_has_no_offset(padded: bool) -> None:
    for segments in _draws(FixedCount(1), 10, 20, padded=padded):
        assert segments.starts.tolist() == [0]
        assert segments.length == 10


@pytest.mark.parametrize("padded", [True, False], ids=["critic", "policy"])
def test_a_whole_segment_always_fits(padded: bool) -> None:
    draws = _draws(FixedLength(0.75), 12, 200, padded=padded)
    assert {int(segments.starts[0]) for segments in draws} == {0, 1, 2, 3}  # 9 steps of 12
    assert all(segments.counts[0] == 9 for segments in draws)


def test_every_step_is_covered_for_the_critic_and_none_twice() -> None:
    for horizon in (1, 2, 7, 10, 25, 50):
        for segments in _draws(RandomSegments(25), horizon, 60, padded=True):
            inside = segments.actions[segments.mask[:, 1:] > 0].tolist()
            assert inside == list(range(int(segments.starts[0]), horizon))  # all but the head before the offset
            assert segments.starts[0] < segments.length
            assert segments.counts.sum() == len(inside)


def test_the_policy_gets_whole_segments_only() -> None:
    for horizon in (1, 2, 7, 10, 25, 50):
        for segments in _draws(RandomSegments(25), horizon, 60, padded=False):
            offset, length = int(segments.starts[0]), segments.length
            assert len(segments.starts) == (horizon - offset) // length
            assert segments.mask.all()
            assert (segments.counts == length).all()


def test_no_padded_segment_starts_at_the_very_end() -> None:
    starts = {tuple(segments.starts.tolist()) for segments in _draws(FixedLength(0.5), 10, 200, padded=True)}
    assert starts == {(0, 5), (1, 6), (2, 7), (3, 8), (4, 9)}  # with offset 0 it would start at 10: dropped


def test_same_generator_same_cut() -> None:
    first = RandomSegments(25).draw(100, _generator(3), padded=True)
    again = RandomSegments(25).draw(100, _generator(3), padded=True)
    assert torch.equal(first.starts, again.starts)
    assert first.length == again.length


@pytest.mark.parametrize("padded", [True, False], ids=["critic", "policy"])
def test_rests_of_the_episode(padded: bool) -> None:
    """One segment to the end; the whole episode in a quarter of the cuts, and in a tenth of the others."""
    rule = SegmentsConfig("rests").build()
    assert rule == RestsOfEpisode(0.25)
    draws = _draws(rule, 10, 4000, padded=padded)
    assert all(cut.starts.tolist() == [10 - cut.length] and cut.mask.all() for cut in draws)
    counts = Counter(int(cut.starts[0]) for cut in draws)
    # binomial: 0.25 + 0.75 / 10 = 0.325, so mean 1300 and standard deviation 29.6; the others mean 300, 16.7
    assert abs(counts.pop(0) - 1300) < 5 * 29.6
    assert sorted(counts) == list(range(1, 10))
    assert all(abs(count - 300) < 5 * 16.7 for count in counts.values())
    assert max(rule.lengths(10)) == 10  # what `movement_values` asks for


# ---- the worked example: T = 10, L = 4, offset 3


def test_worked_example() -> None:
    rule = FixedLength(0.4)
    seed = next(seed for seed in range(100) if int(rule.draw(10, _generator(seed), padded=True).starts[0]) == 3)
    segments = rule.draw(10, _generator(seed), padded=True)
    assert segments.starts.tolist() == [3, 7]
    assert segments.actions.tolist() == [[3, 4, 5, 6], [7, 8, 9, 10]]
    assert segments.mask.tolist() == [[1, 1, 1, 1, 1], [1, 1, 1, 1, 0]]
    assert segments.counts.tolist() == [4, 3]
    assert rule.draw(10, _generator(seed), padded=False).starts.tolist() == [3]


def test_to_another_device_keeps_the_cut() -> None:
    segments = EXAMPLE.to(torch.device("cpu"))
    assert (segments.starts.tolist(), segments.horizon, segments.length) == ([3, 7], 10, 4)


def test_a_segment_from_every_state() -> None:
    segments = every_state(4, 3, torch.device("cpu"))
    assert segments.starts.tolist() == [0, 1, 2, 3]
    assert segments.counts.tolist() == [3, 3, 2, 1]
    assert segments.inside.tolist() == [[0, 1, 2], [1, 2, 3], [2, 3, 3], [3, 3, 3]]


# ---- configuration


@pytest.mark.parametrize("settings", [{"count": 0}, {"fraction": 0.0}, {"fraction": 1.1}, {"whole": 1.5}], ids=str)
def test_impossible_settings_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(UserError, match=r"segments\."):
        SegmentsConfig(**settings)  # type: ignore[arg-type]


def test_a_cut_is_made_once_for_each_device() -> None:
    drawn = [RandomSegments(25).draw(100, _generator(3), padded=True) for _ in range(2)]
    assert drawn[0] is drawn[1]
    assert drawn[0].to(torch.device("cpu")) is drawn[0]
    moved = [segments.to(torch.device("meta")) for segments in drawn]
    assert moved[0] is moved[1]
    assert moved[0].inside.device.type == "meta"


def test_what_follows_an_action() -> None:
    segments = EXAMPLE
    after, inside = segments.following
    assert after.tolist() == [[4, 5, 6, 7], [8, 9, 9, 9]]
    assert inside.tolist() == [[True] * 4, [True, True, False, False]]
    assert segments.inside.tolist() == [[3, 4, 5, 6], [7, 8, 9, 9]]
    assert segments.mask.tolist() == [[1] * 5, [1, 1, 1, 1, 0]]


def test_first_use_in_inference_mode_does_not_forbid_gradients() -> None:
    with torch.inference_mode():
        cut = FixedCount(4).draw(39, _generator(0), padded=True)
        kept = (cut.starts, cut.actions, cut.inside, cut.mask, *cut.following, cut.counts)
    assert not any(tensor.is_inference() for tensor in kept)
    data = torch.zeros(39, requires_grad=True)
    data[cut.inside].sum().backward()
    assert data.grad is not None


def test_plans_of_a_policy_step_start_at_every_state_that_may_have_one() -> None:
    """25 tokens, five of a plan: even instants, an end that cuts a plan off, and random instants."""
    generator = torch.Generator().manual_seed(0)
    for lengths, last in (([5], 20), ([3, 5], 22), ([1, 2, 3, 4, 5], 24)):
        seen: Counter[int] = Counter()
        for _ in range(400):
            cut = plan_starts(25, lengths, 2, generator)
            assert cut.length in lengths
            assert int(cut.actions.max()) < 25, "nothing is padding"
            seen.update(cut.starts.tolist())
        assert sorted(seen) == list(range(last + 1))
        assert min(seen[start] for start in range(21)) > 0.7 * max(seen.values())
