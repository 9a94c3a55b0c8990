"""Tokens written straight into one matrix, against linear layers, a sum and a concatenation."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from top_erl.models.fast.tokens import embed

EPISODES, SEGMENTS, LENGTH, STATE, ACTION, WIDTH = 3, 4, 5, 2, 3, 6


def _inputs(segments: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = (
        (EPISODES, segments, STATE),
        (EPISODES, segments, LENGTH, ACTION),
        (segments, LENGTH + 1, WIDTH),
        (WIDTH, STATE),
        (WIDTH, ACTION),
    )
    drawn = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
    return [tensor.requires_grad_() for tensor in drawn]


def _plainly(inputs: list[Tensor], tail: int) -> Tensor:
    """[R, E]: the full segments of all episodes, then the last ones."""
    state, actions, place, state_weight, action_weight = inputs
    tokens = torch.cat(((state @ state_weight.mT).unsqueeze(2), actions @ action_weight.mT), dim=2) + place
    if tail == LENGTH:
        return tokens.reshape(-1, WIDTH)
    both = (tokens[:, :-1], tokens[:, -1:, : tail + 1])
    return torch.cat([part.reshape(-1, WIDTH) for part in both])


@pytest.mark.parametrize("segments", [SEGMENTS, 1])
@pytest.mark.parametrize("tail", [LENGTH, 3, 1])
def test_tokens_and_all_gradients(segments: int, tail: int) -> None:
    inputs = _inputs(segments)
    state, actions, place, *weights = inputs
    rows, layout = embed(state, actions, place, (weights[0], weights[1]), tail)
    expected = _plainly(inputs, tail)
    torch.testing.assert_close(rows, expected, rtol=0, atol=1e-12)
    assert sum(count * length for count, length in layout) == len(rows)
    pull = torch.randn(rows.shape, dtype=torch.float64)
    ours = torch.autograd.grad((rows * pull).sum(), inputs)
    theirs = torch.autograd.grad((expected * pull).sum(), inputs)
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=1e-12)


def test_layout_names_full_segments_first() -> None:
    state, actions, place, *weights = _inputs(SEGMENTS)
    assert embed(state, actions, place, (weights[0], weights[1]), 2)[1] == ((9, 6), (3, 3))
    assert embed(state, actions, place, (weights[0], weights[1]), LENGTH)[1] == ((12, 6),)


def test_only_what_is_asked_for_has_a_gradient() -> None:
    state, actions, place, *weights = (tensor.detach() for tensor in _inputs(SEGMENTS))
    actions.requires_grad_()
    rows, _ = embed(state, actions, place, (weights[0], weights[1]), 3)
    rows.sum().backward()
    assert actions.grad is not None
    assert (actions.grad[:, -1, 3:] == 0).all()  # padding was not embedded
    assert (actions.grad[:, :-1] != 0).all()
