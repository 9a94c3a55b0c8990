"""Weight decay: decoupled and on matrices only for the critic, coupled and on everything for the policy."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from tests.algorithms.top_erl.tiny import batch_of, tiny_config, tiny_learner
from top_erl.algorithms.optim import adam, adam_w, optimizer_tensors, restore_optimizer

RATE, DECAY = 0.1, 0.5
GRADIENTS = (0.3, -0.2, 0.05)


def _adam_by_hand(start: float, decoupled: float, coupled: float) -> float:
    """Adam's recursion for one number, with β = (0.9, 0.999) and ε = 1e-8."""
    value, first, second = start, 0.0, 0.0
    for step, gradient in enumerate(GRADIENTS, start=1):
        value -= RATE * decoupled * value
        gradient += coupled * value
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        value -= RATE * (first / (1 - 0.9**step)) / (math.sqrt(second / (1 - 0.999**step)) + 1e-8)
    return value


def _run(module: nn.Linear, optimizer: torch.optim.Optimizer) -> tuple[float, float]:
    for gradient in GRADIENTS:
        module.weight.grad = torch.full_like(module.weight, gradient)
        module.bias.grad = torch.full_like(module.bias, gradient)
        optimizer.step()
    return module.weight.item(), module.bias.item()


def _linear() -> nn.Linear:
    module = nn.Linear(1, 1)
    nn.init.constant_(module.weight, 2.0)
    nn.init.constant_(module.bias, 2.0)
    return module


def test_critic_decay_is_decoupled_and_spares_vectors() -> None:
    module = _linear()
    weight, bias = _run(module, adam_w(module, RATE, DECAY))
    assert weight == pytest.approx(_adam_by_hand(2.0, decoupled=DECAY, coupled=0.0), rel=1e-5)
    assert bias == pytest.approx(_adam_by_hand(2.0, decoupled=0.0, coupled=0.0), rel=1e-5)
    assert abs(weight - bias) > 0.1


def test_policy_decay_is_coupled_and_spares_nothing() -> None:
    module = _linear()
    weight, bias = _run(module, adam(module, RATE, DECAY))
    expected = _adam_by_hand(2.0, decoupled=0.0, coupled=DECAY)
    assert (weight, bias) == (pytest.approx(expected, rel=1e-5), pytest.approx(expected, rel=1e-5))
    assert abs(expected - _adam_by_hand(2.0, decoupled=DECAY, coupled=0.0)) > 0.01
    assert abs(expected - _adam_by_hand(2.0, decoupled=0.0, coupled=0.0)) > 0.01


def _step_both(mine: nn.Module, theirs: nn.Module, optimizers: list[torch.optim.Optimizer], skip: int = -1) -> None:
    """The same random gradients for both; the one with the index `skip` is missing."""
    for number, (own, other) in enumerate(zip(mine.parameters(), theirs.parameters(), strict=True)):
        own.grad = None if number == skip else torch.randn_like(own)
        other.grad = None if own.grad is None else own.grad.clone()
    for optimizer in optimizers:
        optimizer.step()


@pytest.mark.parametrize("decoupled", [True, False])
def test_steps_are_those_of_pytorch(decoupled: bool) -> None:
    torch.manual_seed(0)
    mine, theirs = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)), nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    theirs.load_state_dict(mine.state_dict())
    lean = (adam_w if decoupled else adam)(mine, RATE, DECAY)
    groups = [{"params": [p for p in theirs.parameters() if (p.dim() == 2) == two]} for two in (True, False)]
    if decoupled:
        stock = torch.optim.AdamW([groups[0] | {"weight_decay": DECAY}, groups[1] | {"weight_decay": 0.0}], lr=RATE)
    else:
        stock = torch.optim.Adam(theirs.parameters(), lr=RATE, weight_decay=DECAY)
    for skip in (-1, -1, 1, -1, -1):  # once a gradient is missing
        _step_both(mine, theirs, [lean, stock], skip)
    lean.load_state_dict(lean.state_dict())
    lean.param_groups[0]["lr"] = stock.param_groups[0]["lr"] = 0.01
    _step_both(mine, theirs, [lean, stock])
    for own, other in zip(mine.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(own, other, rtol=1e-5, atol=1e-6)
    lean.zero_grad()
    assert all(parameter.grad is None for parameter in mine.parameters())


def test_a_module_without_vectors_or_matrices() -> None:
    assert len(adam_w(nn.Embedding(2, 2), RATE, DECAY).param_groups) == 1
    assert len(adam_w(_linear(), RATE, DECAY).param_groups) == 2


def test_groups_of_the_learner() -> None:
    learner = tiny_learner(tiny_config(learn={"critic_decay": 0.1, "policy_decay": 0.2, "critic_rate": 0.3}))
    decayed, spared = learner.critic_optimizer.param_groups
    assert (decayed["weight_decay"], spared["weight_decay"], decayed["lr"], spared["lr"]) == (0.1, 0.0, 0.3, 0.3)
    names = {id(parameter): name for name, parameter in learner.critics.named_parameters()}
    in_decayed = {names[id(parameter)] for parameter in decayed["params"]}
    assert in_decayed == {name for name, parameter in learner.critics.named_parameters() if parameter.dim() == 2}
    assert {f"members.0.{name}.weight" for name in ("state_encoder", "action_encoder", "position_table", "head")} <= (
        in_decayed
    )
    assert len(decayed["params"]) + len(spared["params"]) == len(names)
    (group,) = learner.policy_optimizer.param_groups
    assert group["weight_decay"] == 0.2
    assert {id(parameter) for parameter in group["params"]} == {id(p) for p in learner.policy.parameters()}
    assert any(parameter is learner.policy.raw_covariance for parameter in group["params"])


def test_decay_of_the_covariance_by_hand() -> None:
    """With the gradient g of the loss, Adam's first step is −rate · (g + decay · v) / (|g + decay · v| + ε)."""
    learner = tiny_learner(tiny_config(learn={"policy_decay": 100.0}))
    learner.prefill()
    before = learner.policy.raw_covariance.detach().clone()
    learner.policy_step(batch_of(learner, 0, 1, 2), torch.Generator().manual_seed(0))
    gradient = learner.policy.raw_covariance.grad
    assert gradient is not None
    total = gradient + 100.0 * before
    expected = before - 5e-4 * total / (total.abs() + 1e-8)
    torch.testing.assert_close(learner.policy.raw_covariance.detach(), expected, rtol=0, atol=1e-7)
    assert (total.sign() != gradient.sign()).any()  # the decay decides for some entries


def test_state_of_an_optimizer_goes_through_plain_tensors() -> None:
    module, other = _linear(), _linear()
    optimizer, fresh = adam_w(module, RATE, DECAY), adam_w(other, RATE, DECAY)
    _run(module, optimizer)
    tensors = {name: value.clone() for name, value in optimizer_tensors(optimizer).items()}
    assert set(tensors) == {f"{index}.{name}" for index in (0, 1) for name in ("step", "exp_avg", "exp_avg_sq")}
    assert float(tensors["0.step"]) == 3.0
    other.load_state_dict(module.state_dict())
    restore_optimizer(fresh, tensors)
    assert _run(module, optimizer) == _run(other, fresh)
    assert not optimizer_tensors(adam(_linear(), RATE, DECAY))


def test_learning_rates_fall_linearly_to_their_final_values() -> None:
    learn = {"critic_rate": 1e-2, "policy_rate": 4e-3, "final_rate": 0.25, "critic_steps": 1, "policy_steps": 1}
    learner = tiny_learner(tiny_config(learn=learn), total_iterations=10)
    learner.prefill()
    for iteration, multiplier in ((1, 1.0), (5, 0.7), (11, 0.25), (13, 0.25)):  # 1 − 0.75 · (i − 1)/10, then constant
        learner.iterate(iteration)
        for optimizer, rate in ((learner.critic_optimizer, 1e-2), (learner.policy_optimizer, 4e-3)):
            assert [group["lr"] for group in optimizer.param_groups] == pytest.approx(
                [rate * multiplier] * len(optimizer.param_groups)
            )
