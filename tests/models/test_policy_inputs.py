"""The Gaussian policy as on-policy methods use it: a part of the state goes in, a covariance is written back."""

from __future__ import annotations

import pytest
import torch

from top_erl.errors import UserError
from top_erl.models import GaussianPolicy, PolicyConfig


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def test_only_the_chosen_entries_are_seen() -> None:
    policy = GaussianPolicy(PolicyConfig(hidden=(6,), contextual=True), 5, 3, inputs=(4, 0))
    state = torch.randn(2, 5)
    other = state.clone()
    other[:, [1, 2, 3]] = 9.0
    first, second = policy(state), policy(other)
    torch.testing.assert_close(first.mean, second.mean, rtol=0, atol=0)
    torch.testing.assert_close(first.factor, second.factor, rtol=0, atol=0)
    alone = GaussianPolicy(PolicyConfig(hidden=(6,), contextual=True), 2, 3)
    alone.load_state_dict(policy.state_dict())  # the choice is not part of the saved state
    torch.testing.assert_close(alone(state[:, [4, 0]]).mean, first.mean, rtol=0, atol=0)


def test_all_entries_by_default() -> None:
    policy = GaussianPolicy(PolicyConfig(hidden=(6,)), 5, 3)
    state = torch.randn(2, 5)
    assert policy.select(state) is state


@pytest.mark.parametrize("inputs", [(), (3,), (-1,)])
def test_impossible_entries_are_refused(inputs: tuple[int, ...]) -> None:
    with pytest.raises(UserError, match="sees the entries"):
        GaussianPolicy(PolicyConfig(), 3, 2, inputs)


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-14)])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 50.0])
def test_set_factor_is_the_inverse(covariance: str, dtype: torch.dtype, tolerance: float, scale: float) -> None:
    config = PolicyConfig(hidden=(4,), covariance=covariance, min_std=1e-4)  # type: ignore[arg-type]
    policy = GaussianPolicy(config, 2, 5).to(dtype)
    factor = scale * torch.randn(5, 5, dtype=dtype).tril(-1) + torch.diag(scale * (0.5 + torch.rand(5, dtype=dtype)))
    wanted = factor.diagonal() if covariance == "diagonal" else factor
    policy.set_factor(wanted)
    found = policy(torch.zeros(1, 2, dtype=dtype)).factor
    torch.testing.assert_close(found, wanted, rtol=tolerance, atol=tolerance * scale)
    assert policy.raw_covariance.requires_grad


def test_a_factor_at_the_smallest_std_can_be_set() -> None:
    policy = GaussianPolicy(PolicyConfig(hidden=(4,), covariance="diagonal", min_std=0.1), 2, 2)
    policy.set_factor(torch.tensor([0.1, 0.05]))
    assert policy.raw_covariance.isfinite().all()
    torch.testing.assert_close(policy(torch.zeros(1, 2)).factor, torch.tensor([0.1, 0.1]))


def test_a_contextual_covariance_cannot_be_set() -> None:
    policy = GaussianPolicy(PolicyConfig(hidden=(4,), contextual=True), 2, 2)
    with pytest.raises(UserError, match="cannot be set"):
        policy.set_factor(torch.eye(2))
