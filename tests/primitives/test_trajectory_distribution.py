"""Gaussians over trajectories: samples, densities and gradients."""

from __future__ import annotations

import torch

from top_erl.primitives import ProDmp
from top_erl.primitives.distribution import propagate


def test_propagation_equals_the_kronecker_product() -> None:
    design, factor = torch.randn(4, 3), torch.randn(6, 6)  # T = 4, G = 3, D = 2
    expected = torch.kron(torch.eye(2), design) @ factor
    torch.testing.assert_close(propagate(design, factor), expected)


def test_covariance_of_samples(prodmp: ProDmp) -> None:
    """A linear map of many parameters drawn from N(mean, L L^T) has the predicted moments."""
    mean, factor = torch.randn(10, dtype=torch.float64), 0.3 * torch.randn(10, 10, dtype=torch.float64).tril()
    position, velocity = torch.randn(2, 2, dtype=torch.float64)
    start = (0.0, position, velocity)
    times = torch.tensor([0.2, 0.7, 1.1], dtype=torch.float64)
    distribution = prodmp.distribution(mean, factor, times, *start, regularization=0.0)
    params = mean + torch.randn(100_000, 10, dtype=torch.float64) @ factor.T
    samples = prodmp.trajectory(params, times, *start)
    for values, flat_mean, covariance in (
        (samples.position, distribution.mean_position, distribution.position_covariance),
        (samples.velocity, distribution.mean_velocity, distribution.velocity_covariance),
    ):
        flat = values.mT.flatten(-2)  # [S, D * T]
        spread = float(covariance.diagonal().max())
        torch.testing.assert_close(flat.mean(0), flat_mean, rtol=0, atol=0.02 * spread**0.5)
        torch.testing.assert_close(flat.T.cov(), covariance, rtol=0, atol=0.02 * spread)


def test_density_agrees_with_torch(prodmp: ProDmp) -> None:
    mean, factor = torch.randn(3, 10, dtype=torch.float64), torch.randn(3, 10, 10, dtype=torch.float64).tril()
    position, velocity = torch.randn(2, 3, 2, dtype=torch.float64)
    times = torch.tensor([0.2, 0.7], dtype=torch.float64)
    ours = prodmp.distribution(mean, factor, times, 0.0, position, velocity)
    sample = torch.randn(3, 2, 2, dtype=torch.float64)
    expected = torch.distributions.MultivariateNormal(ours.mean_position, ours.position_covariance)
    torch.testing.assert_close(ours.log_prob(sample), expected.log_prob(sample.mT.flatten(-2)))
    deviation = ours.position_covariance.diagonal(dim1=-2, dim2=-1).sqrt().unflatten(-1, (2, 2)).mT
    torch.testing.assert_close(ours.position_std, deviation)


def test_regularisation_is_a_constant_of_the_batch(prodmp: ProDmp) -> None:
    """The largest variance of all rows counts, and no gradient flows through it."""
    factor = torch.diag_embed(torch.tensor([[1.0], [10.0]], dtype=torch.float64).expand(2, 10)).requires_grad_()
    zero = torch.zeros(2, dtype=torch.float64)
    times = torch.tensor([0.5], dtype=torch.float64)
    mean = torch.zeros(2, 10, dtype=torch.float64)
    with_it, without = (
        prodmp.distribution(mean, factor, times, 0.0, zero, zero, regularization=fraction).position_covariance
        for fraction in (1e-2, 0.0)
    )
    jitter = 1e-2 * without.max().item()
    expected = without + jitter * torch.eye(2, dtype=torch.float64)
    torch.testing.assert_close(with_it, expected)
    gradients = [torch.autograd.grad(values.sum(), factor, retain_graph=True)[0] for values in (with_it, without)]
    assert torch.equal(*gradients)
