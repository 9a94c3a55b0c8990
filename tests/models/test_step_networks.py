"""Networks of single steps: the squashed policy against torch's distributions, the critic's causality."""

from __future__ import annotations

import pytest
import torch
from torch.distributions import Normal, TanhTransform, TransformedDistribution

from top_erl.errors import UserError
from top_erl.models.step_critic import StepCritic, StepCriticConfig
from top_erl.models.step_policy import StepPolicy, StepPolicyConfig


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("layer_norm", [False, True])
def test_densities_are_those_of_torch(layer_norm: bool) -> None:
    policy = StepPolicy(StepPolicyConfig((8, 7), (6,), layer_norm=layer_norm), 3, 2).double()
    for net in (policy.mean_net, policy.std_net):
        torch.nn.init.normal_(net[-1].weight, std=0.2)  # not as small as at the start
    state, noise = torch.randn(2, 5, 3, dtype=torch.float64), torch.randn(2, 5, 2, dtype=torch.float64)
    action, log_prob = policy.sample(state, noise)
    mean, std = policy.mean_net(state), policy.std_net(state).clamp(-20.0, 2.0).exp()
    theirs = TransformedDistribution(Normal(mean, std), [TanhTransform()])
    torch.testing.assert_close(action, torch.tanh(mean + std * noise))
    torch.testing.assert_close(log_prob, theirs.log_prob(action).sum(-1), rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(policy.mode(state), torch.tanh(mean))
    assert float(std.detach().std()) > 0.02  # depends on the state


def test_a_fresh_policy_explores_around_zero() -> None:
    policy = StepPolicy(StepPolicyConfig(), 4, 2)
    state = torch.randn(100, 4)
    policy.requires_grad_(False)
    assert float(policy.mode(state).abs().max()) < 0.1
    assert float((policy.std_net(state).exp() - 1.0).abs().max()) < 0.1
    assert torch.isfinite(policy.sample(state, torch.full((100, 2), 50.0))[1]).all()


def test_a_prefix_knows_nothing_of_later_actions_and_all_of_earlier_ones() -> None:
    critic = StepCritic(StepCriticConfig(width=16, heads=4), 3, 2, longest=6)
    assert not [name for name, _ in critic.named_parameters() if name.endswith("bias")]
    state, actions = torch.randn(4, 3), torch.randn(4, 6, 2)
    values = critic(state, actions)
    assert values.shape == (4, 6)
    torch.testing.assert_close(critic(state, actions[:, :3]), values[:, :3], rtol=0, atol=1e-6)
    changed = actions.clone()
    changed[:, 2] += 1.0
    moved = (critic(state, changed) - values).abs().amin(0)
    assert moved[:2].tolist() == [0.0, 0.0]
    assert bool((moved[2:] > 0).all())
    assert bool(((critic(state + 1.0, actions) - values).abs() > 0).all())


def test_a_critic_with_biases_and_without_normalisation() -> None:
    config = StepCriticConfig(width=16, heads=4, layers=1, layer_norm=False, bias=True, initial="fan_in")
    critic = StepCritic(config, 3, 2, longest=6)
    names = [name for name, _ in critic.named_parameters()]
    assert {"state_encoder.bias", "action_encoder.bias", "head.bias"} <= set(names)
    assert not [name for name in names if "norm" in name]
    critic(torch.randn(4, 3), torch.randn(4, 6, 2)).sum().backward()
    assert all(parameter.grad is not None for parameter in critic.parameters())


def test_positions_matter() -> None:
    """The same action twice: a sequence, not a bag."""
    critic = StepCritic(StepCriticConfig(width=16, heads=4), 3, 2, longest=6)
    state, actions = torch.randn(4, 3), torch.randn(4, 2, 2)
    one, two = critic(state, actions)[:, -1], critic(state, actions.flip(1))[:, -1]
    assert float((one - two).detach().abs().min()) > 1e-6


def test_what_cannot_be_is_told() -> None:
    with pytest.raises(UserError, match=r"critic.width \(10\) must be a multiple of critic.heads \(4\)"):
        StepCriticConfig(width=10)
    with pytest.raises(UserError, match=r"critic\.width, heads and layers must be at least 1"):
        StepCriticConfig(layers=0)
    with pytest.raises(UserError, match="need at least one unit"):
        StepPolicyConfig(hidden=(8, 0))
