"""Attention of every kind, against a loop over sequences, heads and tokens."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from top_erl.models.fast.attention import (
    LONGEST_BATCHED,
    AttentionAfter,
    BatchedAttention,
    CausalAttention,
    FusedAttention,
    PairAttention,
    attention_of_one,
    fused_attention,
    group_size,
    make_attention,
)

HEADS, WIDTH = 2, 6


def _by_loops(query_key_value: Tensor) -> Tensor:
    """[N, M, 3E] to [N, M, E], differentiable."""
    size = WIDTH // HEADS
    sequences = []
    for sequence in query_key_value:
        query, key, value = sequence.split(WIDTH, dim=-1)
        tokens = []
        for i in range(len(sequence)):
            mixed = []
            for head in range(HEADS):
                at = slice(head * size, (head + 1) * size)
                scores = torch.stack([(query[i, at] * key[j, at]).sum() / math.sqrt(size) for j in range(i + 1)])
                shares = scores.exp() / scores.exp().sum()
                mixed.append(sum(share * value[j, at] for j, share in enumerate(shares)))
            tokens.append(torch.cat(mixed))
        sequences.append(torch.stack(tokens))
    return torch.stack(sequences)


def _inputs(count: int, length: int) -> Tensor:
    return torch.randn(count, length, 3 * WIDTH, dtype=torch.float64)


@pytest.mark.parametrize(("count", "length"), [(8, 2), (7, 2), (6, 3), (5, 5), (4, 9), (2, 17), (1, 1), (3, 1)])
@pytest.mark.parametrize("kind", [BatchedAttention, FusedAttention])
def test_every_kind_equals_the_loops_with_its_gradient(kind: type[CausalAttention], count: int, length: int) -> None:
    tokens = _inputs(count, length).requires_grad_()
    pull = torch.randn(count, length, WIDTH, dtype=torch.float64)
    expected, attention = _by_loops(tokens), kind(HEADS)
    mixed = attention.forward(tokens.detach())
    assert mixed.shape == expected.shape
    assert torch.allclose(mixed, expected, atol=1e-12)
    (expected * pull).sum().backward()
    assert torch.allclose(attention.backward(pull), tokens.grad, atol=1e-12)


@pytest.mark.parametrize("count", [1, 7, 64])
def test_pairs_equal_the_loops_with_their_gradient(count: int) -> None:
    test_every_kind_equals_the_loops_with_its_gradient(PairAttention, count, 2)
    assert isinstance(make_attention(2, HEADS), PairAttention)


@pytest.mark.parametrize("size", [1.0, 6.0, 30.0])
def test_pairs_with_scores_of_any_size(size: float) -> None:
    """Scores up to several thousands: one of the two weights vanishes."""
    tokens = size * torch.randn(MANY, 2, 3 * HEADS * 4, generator=torch.Generator().manual_seed(1))
    _compare_with_double(tokens, tolerance=1e-5 * size**3, attention=PairAttention(HEADS))


@pytest.mark.parametrize(("count", "length"), [(8, 1), (7, 2), (5, 5), (4, 9), (2, 17)])
def test_attention_after_a_token_equals_the_loops_without_it(count: int, length: int) -> None:
    tokens = _inputs(count, 1 + length).requires_grad_()
    pull = torch.randn(count, length, WIDTH, dtype=torch.float64)
    expected = _by_loops(tokens)[:, 1:]
    attention = AttentionAfter(HEADS, tokens.detach()[:, 0, WIDTH:])
    assert torch.allclose(attention.forward(tokens.detach()[:, 1:].contiguous()), expected, atol=1e-12)
    (expected * pull).sum().backward()
    assert torch.allclose(attention.backward(pull), tokens.grad[:, 1:], atol=1e-12)


def test_single_precision_agrees_between_the_kinds() -> None:
    for length in (2, 5, 26, 60, 101, 251):
        tokens = torch.randn(32, length, 3 * 128)
        assert torch.allclose(BatchedAttention(8).forward(tokens), fused_attention(tokens, 8), atol=1e-5)


@pytest.mark.parametrize("length", [1, 2, 4, 20, 21, 40])
def test_attention_of_one_is_one_row_of_all(length: int) -> None:
    tokens = _inputs(6, length)
    index = torch.randint(length, (6,))
    query, key, value = tokens.chunk(3, dim=-1)
    rows = torch.arange(6)
    expected = fused_attention(tokens, HEADS)[rows, index]
    assert torch.allclose(attention_of_one(query[rows, index], key, value, index, HEADS), expected, atol=1e-12)


def test_sequences_of_a_group_do_not_see_each_other() -> None:
    tokens = _inputs(8, 2)
    before = BatchedAttention(HEADS).forward(tokens)
    tokens[3] += 1.0
    changed = (BatchedAttention(HEADS).forward(tokens) != before).flatten(1).any(1)
    assert changed.tolist() == [index == 3 for index in range(8)]


@pytest.mark.parametrize(
    ("count", "length", "expected"),
    [
        (32, 2, 8),  # 16 tokens
        (32, 3, 8),  # 6 does not divide 32
        (96, 3, 6),  # 18 tokens
        (7, 2, 7),  # the only divisor above one
        (13, 5, 1),  # 13 sequences would be too many: nothing fits
        (32, 26, 1),  # long enough alone
    ],
)
def test_group_size(count: int, length: int, expected: int) -> None:
    assert group_size(count, length) == expected


def test_long_sequences_take_the_fused_kernel() -> None:
    assert isinstance(make_attention(LONGEST_BATCHED, HEADS), BatchedAttention)
    assert isinstance(make_attention(LONGEST_BATCHED + 1, HEADS), FusedAttention)


MANY = 270  # sequences of 17 tokens: enough for weights by exponentials and sums


def _compare_with_double(tokens: Tensor, tolerance: float, attention: CausalAttention | None = None) -> None:
    pull = torch.randn(*tokens.shape[:2], tokens.shape[2] // 3, generator=torch.Generator().manual_seed(2))
    exact = tokens.double().requires_grad_()
    expected = fused_attention(exact, HEADS)
    (expected * pull).sum().backward()
    assert exact.grad is not None
    batched = attention or BatchedAttention(HEADS)
    torch.testing.assert_close(batched.forward(tokens).double(), expected.detach(), rtol=0, atol=tolerance)
    torch.testing.assert_close(batched.backward(pull).double(), exact.grad, rtol=0, atol=tolerance)


@pytest.mark.parametrize("size", [1.0, 2.0, 3.0, 6.0])
def test_scores_of_any_size(size: float) -> None:
    """Scores up to 8, 31, 69 and 280; the last overflow unless a row's largest score is subtracted."""
    noise = torch.randn(MANY, 17, 3 * HEADS * 4, generator=torch.Generator().manual_seed(1))
    _compare_with_double(size * noise, tolerance=1e-5 * size**3)


@pytest.mark.parametrize("size", [5.0, 13.0, 20.0])
def test_scores_that_are_all_very_negative(size: float) -> None:
    """Scores about -50, -340 and -800: their exponentials vanish, the weights must not."""
    tokens = 0.1 * torch.randn(MANY, 17, 3, HEADS, 4, generator=torch.Generator().manual_seed(1))
    tokens[:, :, 0] += size
    tokens[:, :, 1] -= size
    _compare_with_double(tokens.flatten(2), tolerance=1e-4 * size)


@pytest.mark.parametrize("count", [2, 270])
def test_nan_stays_nan(count: int) -> None:
    tokens = torch.zeros(count, 17, 3 * HEADS * 4)
    tokens[1, 2, 0] = torch.nan
    mixed = BatchedAttention(HEADS).forward(tokens)
    assert torch.isnan(mixed[1, 2]).any()
    assert torch.isfinite(mixed[:, :2]).all()
