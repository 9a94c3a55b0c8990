"""Frozen copies, moving averages and seeded construction."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from top_erl.models.tools import frozen, frozen_copy, move_towards, seeded


def test_frozen_copy_is_separate_without_gradients_and_in_evaluation_mode() -> None:
    module = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5)).train()
    copy = frozen_copy(module)
    for mine, theirs in zip(module.parameters(), copy.parameters(), strict=True):
        assert torch.equal(mine, theirs)
        assert mine.data_ptr() != theirs.data_ptr()
        assert mine.requires_grad
        assert not theirs.requires_grad
    assert not copy.training
    assert not copy[1].training
    assert module.training
    module[0].weight.data.add_(1.0)
    assert not torch.equal(module[0].weight, copy[0].weight)


def test_move_towards_by_hand() -> None:
    slow, fast = nn.Linear(1, 1), nn.Linear(1, 1)
    slow.weight.data.fill_(2.0)
    slow.bias.data.fill_(-1.0)
    fast.weight.data.fill_(6.0)
    fast.bias.data.fill_(1.0)
    move_towards(slow, fast, 0.25)
    assert float(slow.weight.detach()) == 3.0  # 0.75 · 2 + 0.25 · 6
    assert float(slow.bias.detach()) == -0.5  # 0.75 · (−1) + 0.25 · 1
    move_towards(slow, fast, 0.25)
    assert float(slow.weight.detach()) == 3.75  # 0.75 · 3 + 0.25 · 6
    assert (float(fast.weight.detach()), float(fast.bias.detach())) == (6.0, 1.0)


def test_move_towards_at_rate_one_copies() -> None:
    slow, fast = nn.Linear(3, 2), nn.Linear(3, 2)
    move_towards(slow, fast, 1.0)
    assert torch.equal(slow.weight, fast.weight)
    assert torch.equal(slow.bias, fast.bias)


def test_frozen_lets_gradients_pass_but_computes_none() -> None:
    module, given = nn.Linear(2, 1), torch.ones(1, 2, requires_grad=True)
    with frozen(module):
        assert not any(parameter.requires_grad for parameter in module.parameters())
        module(given).sum().backward()
    assert given.grad is not None
    assert torch.equal(given.grad, module.weight)
    assert module.weight.grad is None
    assert all(parameter.requires_grad for parameter in module.parameters())


def test_frozen_leaves_what_was_frozen_before() -> None:
    module = nn.Linear(2, 1)
    module.bias.requires_grad_(False)
    with frozen(module):
        pass
    assert module.weight.requires_grad
    assert not module.bias.requires_grad


def test_frozen_thaws_after_an_error() -> None:
    module = nn.Linear(2, 1)
    with pytest.raises(ValueError, match="inside"), frozen(module):
        raise ValueError("inside")
    assert all(parameter.requires_grad for parameter in module.parameters())


def test_seeded_repeats_and_restores_the_global_generator() -> None:
    torch.manual_seed(11)
    expected = torch.rand(3)
    torch.manual_seed(11)
    with seeded(5):
        first = torch.rand(4)
    with seeded(5):
        again = torch.rand(4)
    with seeded(6):
        other = torch.rand(4)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.rand(3), expected)
