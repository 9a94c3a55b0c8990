"""The state-value network and the running statistics of its inputs."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from top_erl.errors import UserError
from top_erl.models import RunningNormalizer, ValueConfig, ValueNetwork


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


# ---- the network


@pytest.mark.parametrize("hidden", [(16, 32), (64, 8)], ids=["growing", "shrinking"])
def test_layers_are_orthogonal_with_the_authors_gains(hidden: tuple[int, ...]) -> None:
    network = ValueNetwork(ValueConfig(hidden=hidden), 10)
    linears = [module for module in network.modules() if isinstance(module, nn.Linear)]
    assert [layer.out_features for layer in linears] == [*hidden, 1]
    for layer, gain in zip(linears, (math.sqrt(2.0), math.sqrt(2.0), 1.0), strict=True):
        weight = layer.weight.detach()
        product = weight @ weight.T if weight.shape[0] <= weight.shape[1] else weight.T @ weight
        torch.testing.assert_close(product, gain**2 * torch.eye(len(product)), rtol=0, atol=1e-5 * gain**2)
        assert not layer.bias.any()


def test_value_by_hand() -> None:
    network = ValueNetwork(ValueConfig(hidden=(2,), activation="relu"), 3)
    first, _, second = network.net
    with torch.no_grad():
        first.weight.copy_(torch.tensor([[1.0, 0.0, 2.0], [0.0, 1.0, -1.0]]))
        first.bias.copy_(torch.tensor([0.5, 0.0]))
        second.weight.copy_(torch.tensor([[3.0, 10.0]]))
        second.bias.fill_(-1.0)
    # hidden: 1 + 6 + 0.5 = 7.5 and max(0, 2 - 3) = 0, so V = 3 · 7.5 - 1
    assert network(torch.tensor([1.0, 2.0, 3.0])).item() == pytest.approx(21.5)


@pytest.mark.parametrize("shape", [(5,), (2, 3, 5), (7, 5)])
def test_shape_of_values(shape: tuple[int, ...]) -> None:
    assert ValueNetwork(ValueConfig(hidden=(4,)), 5)(torch.randn(shape)).shape == shape[:-1]


def test_only_the_chosen_entries_are_seen() -> None:
    network = ValueNetwork(ValueConfig(hidden=(4,)), 5, inputs=(3, 1))
    state = torch.randn(2, 5)
    other = state.clone()
    other[:, [0, 2, 4]] = 9.0
    torch.testing.assert_close(network(state), network(other), rtol=0, atol=0)
    torch.testing.assert_close(network.select(state), state[:, [3, 1]])
    assert not torch.equal(network(state), network(state + 1.0))
    assert not [name for name in network.state_dict() if "inputs" in name]


@pytest.mark.parametrize("inputs", [(), (5,), (-1,)])
def test_impossible_entries_are_refused(inputs: tuple[int, ...]) -> None:
    with pytest.raises(UserError, match="sees the entries"):
        ValueNetwork(ValueConfig(), 5, inputs)


@pytest.mark.parametrize("hidden", [(), (8, 0)])
def test_impossible_layers_are_refused(hidden: tuple[int, ...]) -> None:
    with pytest.raises(UserError, match=r"critic\.hidden"):
        ValueConfig(hidden=hidden)


# ---- running statistics


def test_starts_as_the_identity_nearly() -> None:
    data = torch.randn(4, 3, dtype=torch.float64)
    torch.testing.assert_close(RunningNormalizer(3)(data), data, rtol=1e-8, atol=0)


def test_merging_by_hand() -> None:
    """One entry, one batch of two: 1e-4 states of mean 0 and variance 1, and two of mean 4 and variance 8."""
    normalizer = RunningNormalizer(1)
    normalizer.update(torch.tensor([[2.0], [6.0]]))
    total = 2.0 + 1e-4
    assert float(normalizer.count) == pytest.approx(total, rel=1e-15)
    assert float(normalizer.mean) == pytest.approx(4.0 * 2.0 / total, rel=1e-14)
    squares = 1.0 * 1e-4 + 8.0 * 2.0 + 4.0**2 * 1e-4 * 2.0 / total
    assert float(normalizer.variance) == pytest.approx(squares / total, rel=1e-14)


def test_many_batches_are_as_one_nearly() -> None:
    data = 3.0 + 2.0 * torch.randn(5, 400, 2, dtype=torch.float64)
    normalizer = RunningNormalizer(2)
    for batch in data:
        normalizer.update(batch)
    rows = data.flatten(0, 1).numpy()
    np.testing.assert_allclose(normalizer.mean.numpy(), rows.mean(0), rtol=1e-6)
    np.testing.assert_allclose(normalizer.variance.numpy(), rows.var(0), rtol=4e-3)  # each batch's is unbiased
    normal = normalizer(data)
    assert float(normal.mean().abs()) < 1e-6
    assert float(normal.std()) == pytest.approx(1.0, abs=4e-3)


def test_all_leading_axes_are_states() -> None:
    data = torch.randn(4, 6, 3)
    first, second = RunningNormalizer(3), RunningNormalizer(3)
    first.update(data)
    second.update(data.flatten(0, 1))
    assert torch.equal(first.mean, second.mean)
    assert float(first.count) == pytest.approx(24.0001)


def test_constant_entries_stay_small() -> None:
    normalizer = RunningNormalizer(2)
    data = torch.tensor([[7.0, 0.0]]).expand(1000, 2)
    normalizer.update(data)
    assert float(normalizer(data).abs().max()) < 0.01


def test_statistics_are_float64_and_saved() -> None:
    normalizer = RunningNormalizer(2)
    normalizer.update(torch.randn(10, 2))
    assert normalizer(torch.randn(3, 2)).dtype == torch.float32
    restored = RunningNormalizer(2)
    restored.load_state_dict(normalizer.state_dict())
    for name, value in normalizer.state_dict().items():
        assert value.dtype == torch.float64
        assert torch.equal(value, restored.state_dict()[name])


def test_one_state_changes_nothing() -> None:
    normalizer = RunningNormalizer(2)
    normalizer.update(torch.ones(1, 2))
    assert not normalizer.mean.any()
