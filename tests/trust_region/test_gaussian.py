from __future__ import annotations

import math

import pytest
import torch
from torch.distributions import MultivariateNormal
from torch.distributions import kl_divergence as torch_kl

from top_erl.errors import UserError
from top_erl.trust_region import Gaussian, kl_covariance_part, kl_divergence, kl_mean_part

from .problems import generator, random_gaussian, random_tensor, reference_kl

KINDS = pytest.mark.parametrize(("shared", "diagonal"), [(False, False), (True, False), (False, True), (True, True)])


def torch_distribution(gaussian: Gaussian) -> MultivariateNormal:
    return MultivariateNormal(gaussian.mean, scale_tril=gaussian.matrix_factor())


@KINDS
def test_density_and_entropy_match_torch(shared: bool, diagonal: bool) -> None:
    gen = generator(0)
    gaussian = random_gaussian(gen, 5, 4, shared, diagonal)
    reference = torch_distribution(gaussian)
    value = random_tensor(gen, 5, 4)
    torch.testing.assert_close(gaussian.log_prob(value), reference.log_prob(value))
    torch.testing.assert_close(gaussian.entropy().expand(5), reference.entropy())
    torch.testing.assert_close(gaussian.covariance().expand(5, 4, 4), reference.covariance_matrix)
    torch.testing.assert_close(gaussian.std().expand(5, 4), reference.stddev)
    assert gaussian.shared == shared
    assert gaussian.entropy().shape == (() if shared else (5,))


@KINDS
def test_samples_are_mean_plus_factor_times_noise(shared: bool, diagonal: bool) -> None:
    gen = generator(1)
    gaussian = random_gaussian(gen, 3, 2, shared, diagonal)
    noise = random_tensor(gen, 3, 6, 2)  # [B, K, P]
    many = gaussian.sample_many(noise)
    factor = gaussian.matrix_factor().expand(3, 2, 2)
    expected = gaussian.mean[:, None] + torch.einsum("bij,bkj->bki", factor, noise)
    torch.testing.assert_close(many, expected)
    torch.testing.assert_close(gaussian.sample(noise[:, 0]), expected[:, 0])
    # The density of many samples is the density of each.
    per_sample = gaussian.per_sample().log_prob(many)
    torch.testing.assert_close(per_sample[:, 4], gaussian.log_prob(many[:, 4]))


@pytest.mark.parametrize("first", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("second", [(False, False), (True, False), (False, True), (True, True)])
def test_kl_matches_torch(first: tuple[bool, bool], second: tuple[bool, bool]) -> None:
    gen = generator(2)
    a, b = random_gaussian(gen, 5, 3, *first), random_gaussian(gen, 5, 3, *second)
    torch.testing.assert_close(kl_divergence(a, b), torch_kl(torch_distribution(a), torch_distribution(b)))
    covariance = kl_covariance_part(a, b)
    assert covariance.shape == (() if first[0] and second[0] else (5,))
    torch.testing.assert_close(kl_mean_part(a, b) + covariance, kl_divergence(a, b))


@pytest.mark.parametrize("first", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("second", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("constant", [True, False])
def test_gradients_of_kl_match_torch(first: tuple[bool, bool], second: tuple[bool, bool], constant: bool) -> None:
    gen = generator(5)
    a, b = random_gaussian(gen, 5, 3, *first), random_gaussian(gen, 5, 3, *second)
    leaves = [tensor.requires_grad_() for tensor in (a.mean, a.factor)]
    if not constant:
        leaves += [tensor.requires_grad_() for tensor in (b.mean, b.factor)]
    weight = random_tensor(gen, 5)
    found = torch.autograd.grad((weight * kl_divergence(a, b)).sum(), leaves)
    exact = torch.autograd.grad((weight * torch_kl(torch_distribution(a), torch_distribution(b))).sum(), leaves)
    for ours, theirs in zip(found, exact, strict=True):
        lower = theirs.tril() if theirs.shape[-2:] == (3, 3) and theirs.dim() > 1 else theirs
        torch.testing.assert_close(ours.tril() if lower is not theirs else ours, lower)


def test_kl_by_hand() -> None:
    # P = 1, a = N(1, 2²), b = N(0, 1): mean part 1/2, covariance part 1/2 (4 - 1 - log 4) = 0.806853
    a = Gaussian(torch.tensor([[1.0]]), torch.tensor([[2.0]]))
    b = Gaussian(torch.tensor([[0.0]]), torch.tensor([[1.0]]))
    assert float(kl_mean_part(a, b)) == 0.5
    assert float(kl_covariance_part(a, b)) == pytest.approx(0.5 * (3 - math.log(4)))


def test_covariance_part_keeps_its_digits_in_float32() -> None:
    # KL ≈ 2e-5 in 63 dimensions. The textbook sum, of terms of size 63, loses that in float32.
    gen = generator(3)
    b = random_gaussian(gen, 1, 63, True, False)
    a = Gaussian(b.mean, b.factor * (1 + 1e-3 * torch.rand(63, 1, generator=gen, dtype=torch.float64)))
    exact = reference_kl(a.factor, b.factor)
    single = kl_covariance_part(a.to(torch.float32), b.to(torch.float32))
    assert float(exact) < 5e-5
    assert float(single) == pytest.approx(float(exact), rel=1e-3)


def test_detach_cuts_the_gradient() -> None:
    gaussian = Gaussian(torch.zeros(2, 3, requires_grad=True), torch.eye(3, requires_grad=True))
    assert gaussian.entropy().requires_grad
    assert not gaussian.detach().mean.requires_grad
    assert not gaussian.detach().factor.requires_grad


def test_from_covariance_factorises() -> None:
    gaussian = random_gaussian(generator(4), 3, 4, False, False)
    again = Gaussian.from_covariance(gaussian.mean, gaussian.covariance())
    torch.testing.assert_close(again.factor, gaussian.factor)


@pytest.mark.parametrize(
    ("factor", "diagonal"),
    [(torch.ones(2), False), (torch.ones(3, 2), False), (torch.ones(2), True), (torch.tensor(1.0), True)],
)
def test_wrong_shapes_are_refused(factor: torch.Tensor, diagonal: bool) -> None:
    with pytest.raises(UserError, match=r"mean \(5, 3\) needs"):
        Gaussian(torch.zeros(5, 3), factor, diagonal)
