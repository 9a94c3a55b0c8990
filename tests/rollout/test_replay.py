"""The replay: a ring of whole episodes."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from top_erl.errors import UserError
from top_erl.rollout.replay import EpisodeBatch, EpisodeReplay
from top_erl.trust_region import Gaussian

STEPS, STATE, DOF, PARAMS = 5, 3, 2, 4


def _episodes(numbers: list[int], behaviour: Gaussian | None = None) -> EpisodeBatch:
    """Episodes whose every entry tells which episode, step and field it belongs to."""
    number = torch.tensor(numbers, dtype=torch.float32)[:, None, None] * 1000
    step = torch.arange(STEPS, dtype=torch.float32)[:, None] * 10
    fields = [number + step + torch.arange(width) / 8 + field for field, width in enumerate((STATE, 2 * DOF, 2 * DOF))]
    return EpisodeBatch(*fields, reward=(number + step + 9)[..., 0], behaviour=behaviour)


def _held(replay: EpisodeReplay) -> list[int]:
    """Numbers of the episodes in the ring's slots."""
    batch = replay.gather(torch.arange(len(replay)))
    return (batch.reward[:, 0] // 1000).int().tolist()


def _assert_same(found: EpisodeBatch, expected: EpisodeBatch) -> None:
    for name in ("state", "reference", "action", "reward"):
        torch.testing.assert_close(getattr(found, name), getattr(expected, name), rtol=0, atol=0)


def test_gather_returns_what_was_added() -> None:
    replay = EpisodeReplay(10)
    replay.add(_episodes([1, 2, 3]))
    batch = replay.gather(torch.tensor([2, 0, 2]))
    _assert_same(batch, _episodes([3, 1, 3]))
    assert (len(batch), batch.horizon, batch.behaviour) == (3, STEPS, None)


def test_gather_copies() -> None:
    replay = EpisodeReplay(2)
    replay.add(_episodes([1, 2]))
    batch = replay.gather(torch.tensor([0]))
    replay.add(_episodes([3]))
    _assert_same(batch, _episodes([1]))


def test_the_first_steps_of_all_episodes() -> None:
    replay = EpisodeReplay(10)
    replay.add(_episodes([1, 2, 3]))
    whole = _episodes([1, 2, 3])
    first = replay.gather_first()
    assert (len(first), first.horizon) == (3, 1)
    torch.testing.assert_close(first.state, whole.state[:, :1])
    torch.testing.assert_close(first.reward, whole.reward[:, :1])


def test_tensors_to_save() -> None:
    batch = _episodes([1, 2, 3])
    assert list(batch.tensors()) == ["state", "reference", "action", "reward"]
    assert batch.tensors()["reward"] is batch.reward


def test_the_oldest_give_way() -> None:
    replay = EpisodeReplay(5)
    replay.add(_episodes([1, 2, 3]))
    assert _held(replay) == [1, 2, 3]
    replay.add(_episodes([4, 5, 6, 7]))  # wraps in the middle of a batch
    assert _held(replay) == [6, 7, 3, 4, 5]
    replay.add(_episodes([8, 9, 10, 11, 12]))
    assert sorted(_held(replay)) == [8, 9, 10, 11, 12]
    assert (len(replay), replay.total_added) == (5, 12)


def test_draws_uniformly_with_replacement() -> None:
    replay = EpisodeReplay(8)
    replay.add(_episodes(list(range(5))))
    drawn = replay.draw(50_000, torch.Generator().manual_seed(0))
    share = torch.bincount(drawn, minlength=8) / 50_000
    torch.testing.assert_close(share[:5], torch.full((5,), 0.2), rtol=0, atol=0.01)  # 5.6 standard deviations
    assert share[5:].sum() == 0
    repeats = (drawn[1:] == drawn[:-1]).float().mean()
    assert repeats == pytest.approx(0.2, abs=0.01)  # independent, so an episode follows itself as often as any other


def test_draws_repeat_with_the_generator() -> None:
    replay = EpisodeReplay(8)
    replay.add(_episodes(list(range(8))))
    first, second = (replay.draw(20, torch.Generator().manual_seed(3)) for _ in range(2))
    assert first.tolist() == second.tolist()


def _gaussian(kind: str, numbers: list[int]) -> Gaussian:
    mean = torch.tensor(numbers, dtype=torch.float32)[:, None] + torch.arange(PARAMS) / 8
    size = (PARAMS,) if "diagonal" in kind else (PARAMS, PARAMS)
    generator = torch.Generator().manual_seed(0)
    shape = size if "shared" in kind else (len(numbers), *size)
    factor = torch.rand(shape, generator=generator) + 0.1
    return Gaussian(mean, factor if "diagonal" in kind else factor.tril(), diagonal="diagonal" in kind)


KINDS = ["shared full", "contextual full", "shared diagonal", "contextual diagonal"]


@pytest.mark.parametrize("kind", KINDS)
def test_behaviour_is_kept(kind: str) -> None:
    replay = EpisodeReplay(4)
    behaviour = _gaussian(kind, [1, 2, 3])
    replay.add(_episodes([1, 2, 3], behaviour))
    found = replay.gather(torch.tensor([2, 0])).behaviour
    assert found is not None
    assert found.diagonal is behaviour.diagonal
    torch.testing.assert_close(found.mean, behaviour.mean[[2, 0]], rtol=0, atol=0)
    factor = behaviour.factor.expand(3, *found.factor.shape[1:])
    torch.testing.assert_close(found.factor, factor[[2, 0]], rtol=0, atol=0)


def _copied(replay: EpisodeReplay) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in replay.state_dict().items()}


@pytest.mark.parametrize("kind", [None, *KINDS])
@pytest.mark.parametrize("added", [[1, 2], [1, 2, 3, 4], [1, 2, 3, 4, 5, 6]], ids=["part", "full", "wrapped"])
def test_state_round_trip(kind: str | None, added: list[int]) -> None:
    replay, other = EpisodeReplay(4), EpisodeReplay(4)
    for first in range(0, len(added), 2):
        numbers = added[first : first + 2]
        replay.add(_episodes(numbers, _gaussian(kind, numbers) if kind else None))
    other.load_state_dict(_copied(replay))
    for ring in (replay, other):  # they go on in the same way
        ring.add(_episodes([8, 9], _gaussian(kind, [8, 9]) if kind else None))
    index = torch.arange(len(replay))
    _assert_same(other.gather(index), replay.gather(index))
    found, expected = other.gather(index).behaviour, replay.gather(index).behaviour
    assert (found is None) == (expected is None) == (kind is None)
    if found is not None and expected is not None:
        torch.testing.assert_close(found.factor, expected.factor, rtol=0, atol=0)
        torch.testing.assert_close(found.mean, expected.mean, rtol=0, atol=0)
    assert other.total_added == replay.total_added


def test_state_holds_only_what_is_there() -> None:
    replay = EpisodeReplay(1000)
    replay.add(_episodes([1, 2]))
    assert len(replay.state_dict()["steps"]) == 2


def test_an_empty_replay_round_trips() -> None:
    other = EpisodeReplay(4)
    other.load_state_dict(_copied(EpisodeReplay(4)))
    assert len(other) == 0
    other.add(_episodes([1]))
    assert _held(other) == [1]


def test_refuses_more_than_it_holds() -> None:
    with pytest.raises(UserError, match="holds 2 episodes, fewer than the 3"):
        EpisodeReplay(2).add(_episodes([1, 2, 3]))


def test_refuses_to_draw_from_nothing() -> None:
    with pytest.raises(UserError, match="empty"):
        EpisodeReplay(2).draw(1, torch.Generator())


@pytest.mark.parametrize("capacity", [3, 5])
def test_refuses_a_state_of_another_capacity(capacity: int) -> None:
    replay = EpisodeReplay(4)
    replay.add(_episodes([1, 2, 3, 4]))
    replay.add(_episodes([5, 6]))
    with pytest.raises(UserError, match=f"capacity of {capacity}"):
        EpisodeReplay(capacity).load_state_dict(_copied(replay))
