"""The Gaussian policy: how it starts, how its covariance is laid out, and where gradients go."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn

from top_erl.errors import UserError
from top_erl.models import GaussianPolicy, PolicyConfig
from top_erl.models.mlp import Activation, mlp


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def _linears(net: nn.Module) -> list[nn.Linear]:
    return [module for module in net.modules() if isinstance(module, nn.Linear)]


def _rows_product(weight: Tensor) -> Tensor:
    """WᵀW or WWᵀ, whichever is the smaller: a multiple of the identity for an orthogonal W."""
    return weight @ weight.T if weight.shape[0] <= weight.shape[1] else weight.T @ weight


# ---- the mean network


@pytest.mark.parametrize("sizes", [(3, 16, 32, 5), (40, 16, 8, 30)], ids=["growing", "shrinking"])
def test_mean_net_is_orthogonal_with_the_authors_gains(sizes: tuple[int, ...]) -> None:
    policy = GaussianPolicy(PolicyConfig(hidden=sizes[1:-1]), sizes[0], sizes[-1])
    linears = _linears(policy.mean_net)
    assert [(layer.in_features, layer.out_features) for layer in linears] == list(pairwise(sizes))
    for layer, gain in zip(linears, (math.sqrt(2.0), math.sqrt(2.0), 0.01), strict=True):
        product = _rows_product(layer.weight.detach())
        torch.testing.assert_close(product, gain**2 * torch.eye(len(product)), rtol=0, atol=1e-5 * gain**2)
        assert not layer.bias.any()


@torch.no_grad()
@pytest.mark.parametrize(
    ("activation", "negative"),
    [("leaky_relu", -0.02), ("relu", 0.0), ("tanh", math.tanh(-2.0))],
)
def test_activation_stands_between_layers_only(activation: Activation, negative: float) -> None:
    net = mlp((1, 1, 1), activation, output_gain=0.01)
    for layer in _linears(net):
        nn.init.ones_(layer.weight)
    hidden = float(net(torch.tensor([-2.0])))
    assert hidden == pytest.approx(negative, rel=1e-6)  # the last layer passes it on as it is
    _linears(net)[1].bias.data.fill_(-5.0)
    assert float(net(torch.tensor([-2.0]))) == pytest.approx(negative - 5.0, rel=1e-6)


def test_mean_is_the_mean_net_of_the_state() -> None:
    policy = GaussianPolicy(PolicyConfig(hidden=(4,)), 3, 2)
    state = torch.randn(5, 3)
    first, second = _linears(policy.mean_net)
    hidden = state @ first.weight.T + first.bias
    hidden = torch.where(hidden > 0, hidden, 0.01 * hidden)
    torch.testing.assert_close(policy(state).mean, hidden @ second.weight.T + second.bias)


# ---- the covariance


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
@pytest.mark.parametrize(("initial_std", "min_std"), [(1.0, 1e-5), (0.99, 1e-4), (0.3, 0.1), (7.0, 0.0)])
def test_initial_std_is_exact(covariance: str, initial_std: float, min_std: float) -> None:
    config = PolicyConfig(hidden=(8,), covariance=covariance, initial_std=initial_std, min_std=min_std)  # type: ignore[arg-type]
    gaussian = GaussianPolicy(config, 3, 4)(torch.randn(2, 3))
    expected = initial_std * torch.eye(4)
    torch.testing.assert_close(gaussian.matrix_factor(), expected, rtol=2e-6, atol=0)
    assert gaussian.diagonal == (covariance == "diagonal")
    assert gaussian.shared


def test_contextual_std_starts_near_the_initial_one_and_varies_with_the_state() -> None:
    policy = GaussianPolicy(PolicyConfig(hidden=(8,), contextual=True, initial_std=0.5), 3, 4)
    gaussian = policy(torch.randn(6, 3))
    assert gaussian.factor.shape == (6, 4, 4)
    # The second network's last layer has gain 0.01, so that raw entries differ from the start by about 0.01.
    torch.testing.assert_close(gaussian.matrix_factor(), 0.5 * torch.eye(4).expand(6, 4, 4), rtol=0, atol=0.05)
    assert (gaussian.factor[0] - gaussian.factor[1]).abs().max() > 1e-4
    at_zero = policy(torch.zeros(1, 3))  # biases are zero: only the trained vector is left
    torch.testing.assert_close(at_zero.matrix_factor()[0], 0.5 * torch.eye(4), rtol=2e-6, atol=0)


def test_contextual_gains_and_biases() -> None:
    policy = GaussianPolicy(PolicyConfig(hidden=(16, 16), contextual=True), 3, 4)
    assert policy.covariance_net is not None
    linears = _linears(policy.covariance_net)
    assert linears[-1].out_features == 4 + 6
    for layer, gain in zip(linears, (math.sqrt(2.0), math.sqrt(2.0), 0.01), strict=True):
        product = _rows_product(layer.weight.detach())
        torch.testing.assert_close(product, gain**2 * torch.eye(len(product)), rtol=0, atol=1e-5 * gain**2)
        assert not layer.bias.any()


def test_layout_is_diagonal_then_strictly_lower_rows() -> None:
    policy = GaussianPolicy(PolicyConfig(hidden=(4,), min_std=0.5), 2, 3)
    assert policy.raw_covariance.shape == (6,)
    policy.raw_covariance.data = torch.tensor([0.0, 1.0, -1.0, 10.0, 20.0, 21.0])

    def diagonal(raw: float) -> float:
        return math.log(1.0 + math.exp(raw)) + 0.5  # softplus + min_std

    expected = torch.tensor(
        [
            [diagonal(0.0), 0.0, 0.0],
            [10.0, diagonal(1.0), 0.0],
            [20.0, 21.0, diagonal(-1.0)],
        ]
    )
    torch.testing.assert_close(policy(torch.zeros(1, 2)).factor, expected)


def test_diagonal_layout() -> None:
    policy = GaussianPolicy(PolicyConfig(hidden=(4,), covariance="diagonal", min_std=0.25), 2, 2)
    policy.raw_covariance.data = torch.tensor([0.0, 2.0])
    expected = torch.tensor([math.log(2.0) + 0.25, math.log(1.0 + math.exp(2.0)) + 0.25])
    torch.testing.assert_close(policy(torch.zeros(1, 2)).factor, expected)


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_std_never_falls_below_min_std(covariance: str) -> None:
    config = PolicyConfig(hidden=(4,), covariance=covariance, min_std=1e-3)  # type: ignore[arg-type]
    policy = GaussianPolicy(config, 2, 3)
    policy.raw_covariance.data[:3] = -200.0
    torch.testing.assert_close(policy(torch.zeros(1, 2)).scale(), torch.full((3,), 1e-3), rtol=1e-6, atol=0)


# ---- gradients


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
@pytest.mark.parametrize("contextual", [False, True], ids=["shared", "contextual"])
def test_gradients_reach_every_parameter(covariance: str, contextual: bool) -> None:
    config = PolicyConfig(hidden=(6, 6), covariance=covariance, contextual=contextual)  # type: ignore[arg-type]
    policy = GaussianPolicy(config, 3, 4)
    gaussian = policy(torch.randn(10, 3))
    weight = torch.randn(10, 4)
    ((gaussian.sample(torch.randn(10, 4)) * weight).sum() + gaussian.entropy().sum()).backward()
    for name, parameter in policy.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0.0, name
    assert policy.raw_covariance.grad is not None
    assert (policy.raw_covariance.grad != 0.0).all()


def test_gradient_of_the_covariance_vector_by_hand() -> None:
    policy = GaussianPolicy(PolicyConfig(hidden=(4,)), 2, 2)
    raw = [0.3, -0.7, 2.0]
    policy.raw_covariance.data = torch.tensor(raw)
    noise = torch.tensor([[1.5, -0.5]])
    policy(torch.zeros(1, 2)).sample(noise).sum().backward()
    # w_0 = L_00 n_0 and w_1 = L_10 n_0 + L_11 n_1, with d softplus(v)/dv = 1/(1 + e^-v)
    expected = [1.5 / (1 + math.exp(-0.3)), -0.5 / (1 + math.exp(0.7)), 1.5]
    torch.testing.assert_close(policy.raw_covariance.grad, torch.tensor(expected))


def test_index_of_the_layout_is_not_saved() -> None:
    policy = GaussianPolicy(PolicyConfig(hidden=(4,)), 2, 3)
    assert not [name for name in policy.state_dict() if "lower" in name]


# ---- configuration


@pytest.mark.parametrize(
    "settings",
    [{"hidden": ()}, {"hidden": (8, 0)}, {"min_std": -0.1}, {"min_std": 1.0}, {"initial_std": 1e-6}],
    ids=str,
)
def test_impossible_settings_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(UserError, match="policy"):
        PolicyConfig(**settings)  # type: ignore[arg-type]
