"""Standardised inputs: identity until fitted, then by hand."""

from __future__ import annotations

import torch

from top_erl.models import CriticConfig, GaussianPolicy, PolicyConfig, Sequences, make_critics
from top_erl.models.standardizer import Standardizer


def test_identity_until_fitted() -> None:
    data = torch.tensor([[100.0, -3.0]])
    assert torch.equal(Standardizer(2)(data), data)


def test_mean_and_spread_by_hand() -> None:
    standardizer = Standardizer(2)
    # first column: mean 4, deviations −2, 0, 2: variance 8/2 = 4; second: constant
    standardizer.fit(torch.tensor([[[2.0, 7.0], [4.0, 7.0], [6.0, 7.0]]]))
    answer = standardizer(torch.tensor([[5.0, 7.0], [0.0, 7.05]]))
    torch.testing.assert_close(answer, torch.tensor([[0.5, 0.0], [-2.0, 5.0]]), rtol=1e-4, atol=0)  # 0.05/0.01


def test_outliers_are_cut_at_ten_spreads() -> None:
    standardizer = Standardizer(1)
    standardizer.fit(torch.tensor([[-1.0], [1.0]]))  # variance 2
    assert standardizer(torch.tensor([1e6, -1e6])).tolist() == [10.0, -10.0]


def test_statistics_are_saved_with_the_network() -> None:
    fitted, fresh = Standardizer(1), Standardizer(1)
    fitted.fit(torch.tensor([[1.0], [5.0]]))
    fresh.load_state_dict(fitted.state_dict())
    data = torch.tensor([4.0])
    assert torch.equal(fresh(data), fitted(data))
    assert not torch.equal(fresh(data), data)
    fitted.load_state_dict(Standardizer(1).state_dict())
    assert torch.equal(fitted(data), data)


@torch.no_grad()
def test_networks_see_standardised_inputs() -> None:
    torch.manual_seed(0)
    states, actions = 5.0 + 3.0 * torch.randn(50, 2), 7.0 - torch.randn(50, 4)
    by_state, by_action = (states.mean(0), states.std(0)), (actions.mean(0), actions.std(0))
    policy = GaussianPolicy(PolicyConfig(hidden=(8,)), 2, 3)
    expected = policy((states - by_state[0]) / by_state[1]).mean
    policy.standardize.fit(states)
    torch.testing.assert_close(policy(states).mean, expected)

    for backend in ("plain", "fast"):
        config = CriticConfig(width=8, heads=2, max_positions=8, backend=backend)
        critics = make_critics(config, 2, 4, 2, torch.device("cpu"))
        raw = Sequences(states[None, :5], torch.tensor([1]), actions[None, None, :3], torch.tensor([2]))
        standard_states = (raw.states - by_state[0]) / by_state[1]
        standard = Sequences(standard_states, raw.starts, (raw.actions - by_action[0]) / by_action[1], raw.counts)
        expected, expected_both = critics(standard), critics.target_values(standard, torch.arange(3))
        critics.fit_standardizers(states, actions)
        torch.testing.assert_close(critics(raw), expected)
        torch.testing.assert_close(critics.target_values(raw, torch.arange(3)), expected_both)
