from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import brentq, minimize
from torch import Tensor
from torch.autograd import gradcheck

from top_erl.trust_region.gaussian import Gaussian, kl_covariance_part
from top_erl.trust_region.kl import project_factor, project_std, solve_weight

from .problems import (
    factor_from_eigenvalues,
    generator,
    mixed_pair,
    random_factor,
    random_tensor,
    reference_kl,
    relative_error,
)


def stable_kl(a: Tensor, b: Tensor) -> Tensor:
    """The library's cancellation-free formula, for bounds where the textbook one has no digits left."""
    mean = a.new_zeros(a.shape[:-1])
    return kl_covariance_part(Gaussian(mean, a), Gaussian(mean, b))


# ---- the solution


@pytest.mark.parametrize("dim", [1, 2, 5, 30])
@pytest.mark.parametrize("bound", [5e-4, 0.02, 0.3])
def test_on_the_bound_or_untouched(dim: int, bound: float) -> None:
    gen = generator(dim)
    old = random_factor(gen, 8, dim)
    # Relative eigenvalues around 4 in the even rows (far outside each bound) and around 1 in the odd ones.
    spread = torch.tensor([4.0, 1.0]).double().repeat(4)[:, None] * (1 + 1e-4 * random_tensor(gen, 8, dim))
    new = torch.stack([factor_from_eigenvalues(gen, o, e) for o, e in zip(old, spread, strict=True)])
    result = project_factor(new, old, bound)
    assert result.active.tolist() == [True, False] * 4
    expected = torch.full((4,), bound, dtype=torch.float64)
    torch.testing.assert_close(reference_kl(result.factor[::2], old[::2]), expected, rtol=1e-9, atol=0)
    assert torch.equal(result.factor[1::2], new[1::2])
    assert torch.equal(result.weight[1::2], torch.ones(4, dtype=torch.float64))
    assert torch.equal(result.factor, result.factor.tril())
    assert (result.factor.diagonal(dim1=-2, dim2=-1) > 0).all()


def test_one_dimension_by_hand() -> None:
    # P = 1: the projected variance v lies between 1 and 9 and solves 1/2 (v - 1 - log v) = 0.1.
    variance = brentq(lambda v: 0.5 * (v - 1 - np.log(v)) - 0.1, 1.0, 9.0, xtol=1e-15)
    result = project_factor(torch.tensor([[3.0]]).double(), torch.eye(1).double(), 0.1)
    assert float(result.factor) ** 2 == pytest.approx(variance, rel=1e-12)
    # 1/v = t/9 + (1 - t)
    assert float(result.weight) == pytest.approx((1 - 1 / variance) / (1 - 1 / 9), rel=1e-12)


@pytest.mark.parametrize("dim", [2, 3, 10])
def test_no_feasible_point_is_closer_to_the_new_covariance(dim: int) -> None:
    gen = generator(10 + dim)
    new, old, bound = random_factor(gen, dim), random_factor(gen, dim), 0.02
    best = project_factor(new, old, bound).factor
    # Steps of all sizes from the solution, and from the old covariance.
    size = 10 ** (-6 + 6 * torch.rand(20_000, 1, 1, generator=gen, dtype=torch.float64))
    start = torch.where((torch.arange(20_000) % 4 == 0)[:, None, None], old, best)
    candidates = start + size * random_tensor(gen, 20_000, dim, dim).tril()
    candidates = candidates[(candidates.diagonal(dim1=-2, dim2=-1) > 0).all(-1)]
    feasible = candidates[reference_kl(candidates, old) <= bound]
    assert len(feasible) > 2_000
    assert (reference_kl(feasible, new) >= reference_kl(best, new) - 1e-12).all()


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("bound", [5e-3, 0.3])
def test_agrees_with_a_generic_solver(dim: int, bound: float) -> None:
    gen = generator(20 + dim)
    old = random_factor(gen, dim)
    new = factor_from_eigenvalues(gen, old, 10 ** random_tensor(gen, dim).clamp(-1, 1) * 3)
    rows, columns = np.tril_indices(dim)

    def divergence(entries: np.ndarray, reference: Tensor) -> float:
        factor = np.zeros((dim, dim))
        factor[rows, columns] = entries
        ratio = np.linalg.solve(reference.numpy(), factor)
        return float(0.5 * ((ratio**2).sum() - dim) - np.log(np.abs(np.diag(ratio))).sum())

    solution = minimize(
        divergence,
        old.numpy()[rows, columns],
        args=(new,),
        method="SLSQP",
        constraints={"type": "ineq", "fun": lambda entries: bound - divergence(entries, old)},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    projected = project_factor(new, old, bound).factor.numpy()
    np.testing.assert_allclose(projected[rows, columns], solution.x, atol=2e-6)


def dense_reference(new: Tensor, old: Tensor, bound: float) -> tuple[Tensor, Tensor]:
    """Textbook solution with dense inverses: multiplier by Brent's method, gradient by the implicit rule.

    Returns the covariance, differentiable in `new`, and the multiplier η.
    """
    new_precision, old_precision = torch.linalg.inv(new @ new.mT), torch.linalg.inv(old @ old.mT)

    def covariance(eta: Tensor) -> Tensor:
        return torch.linalg.inv((new_precision + eta * old_precision) / (1 + eta))

    def excess(eta: Tensor) -> Tensor:
        sigma = covariance(eta)
        trace = (old_precision * sigma).sum()
        return 0.5 * (trace - len(old) - torch.logdet(old_precision @ sigma)) - bound

    with torch.no_grad():
        root = brentq(
            lambda eta: float(excess(torch.tensor(eta, dtype=torch.float64))),
            0.0,
            1e6,
            xtol=1e-12,
            rtol=1e-14,
        )
    eta = torch.tensor(root, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(excess(eta), eta)
    implicit = eta.detach() - excess(eta.detach()) / slope  # one Newton step carries the derivative of the root
    return covariance(implicit), eta.detach()


@pytest.mark.parametrize(("dim", "bound"), [(3, 0.02), (30, 0.02), (63, 5e-4), (63, 0.1)])
def test_agrees_with_dense_algebra(dim: int, bound: float) -> None:
    gen = generator(dim)
    old, upstream = random_factor(gen, dim), random_tensor(gen, dim, dim)
    new = random_factor(gen, dim).requires_grad_()
    covariance, eta = dense_reference(new, old, bound)
    (expected,) = torch.autograd.grad((torch.linalg.cholesky(covariance) * upstream).sum(), new)

    result = project_factor(new, old, bound)
    (gradient,) = torch.autograd.grad((result.factor * upstream).sum(), new)
    factor = result.factor.detach()
    assert float(1 / result.weight - 1) == pytest.approx(float(eta), rel=1e-9)
    assert relative_error(factor @ factor.mT, covariance.detach()) < 1e-11
    assert relative_error(gradient, expected.tril()) < 1e-9
    assert float(reference_kl(factor, old)) == pytest.approx(bound, rel=1e-9)


# ---- the gradient


@pytest.mark.parametrize("dim", [1, 2, 3, 5])
def test_gradient_full(dim: int) -> None:
    new, old = mixed_pair(generator(dim), 4, dim, False, False)
    active = project_factor(new.factor, old.factor, 0.01).active
    assert not active[1::2].any()
    assert active[::2].any()
    new.factor.requires_grad_()
    assert gradcheck(lambda x: project_factor(x.tril(), old.factor, 0.01).factor, (new.factor,))


@pytest.mark.parametrize("dim", [1, 2, 3, 5])
def test_gradient_diagonal(dim: int) -> None:
    new, old = mixed_pair(generator(dim), 4, dim, False, True)
    active = project_std(new.factor, old.factor, 0.01).active
    assert not active[1::2].any()
    assert active[::2].any()
    new.factor.requires_grad_()
    assert gradcheck(lambda x: project_std(x, old.factor, 0.01).factor, (new.factor,))


@pytest.mark.parametrize("scale", [0.2, 1.0 + 1e-9, 5.0])
@pytest.mark.parametrize("dim", [1, 3, 10])
def test_repeated_eigenvalues(dim: int, scale: float) -> None:
    """New = scale² · old: all relative eigenvalues are equal, where autograd through `eigh` gives NaN."""
    gen = generator(dim)
    old = random_factor(gen, dim)
    new = (scale * old).requires_grad_()
    result = project_factor(new, old, 1e-3)
    (gradient,) = torch.autograd.grad((result.factor * random_tensor(gen, dim, dim)).sum(), new)
    assert gradient.isfinite().all()
    assert bool(result.active) == (abs(scale - 1) > 0.1)
    if result.active:
        assert float(reference_kl(result.factor.detach(), old)) == pytest.approx(1e-3, rel=1e-9)
        # The projection of c · old is the same for all c > 1 (and all c < 1): the radial derivative is zero.
        assert abs(float((gradient * new.detach()).sum())) < 1e-12


def test_repeated_eigenvalues_pass_gradcheck() -> None:
    new = (3 * torch.eye(3, dtype=torch.float64)).requires_grad_()
    old = torch.eye(3, dtype=torch.float64)
    assert gradcheck(lambda x: project_factor(x.tril(), old, 0.05).factor, (new,))


def test_old_is_a_constant() -> None:
    gen = generator(5)
    new, old = random_factor(gen, 3).requires_grad_(), random_factor(gen, 3).requires_grad_()
    result = project_factor(new, old, 1e-3)
    result.factor.sum().backward()
    assert old.grad is None
    assert not result.weight.requires_grad


# ---- hard conditions


@pytest.mark.parametrize("bound", [1e-8, 1e-6, 5e-4, 1e-2, 1.0])
@pytest.mark.parametrize("exponents", [(-10.0, 10.0), (-10.0, 0.0), (0.0, 10.0), (-1.0, 1.0)])
@pytest.mark.parametrize("dim", [2, 10, 63])
def test_extreme_eigenvalues(dim: int, exponents: tuple[float, float], bound: float) -> None:
    """Relative eigenvalues from 1e-10 to 1e10: finite, and on the bound to 1e-9 (measured: 4e-11)."""
    gen = generator(dim)
    low, high = exponents
    old = random_factor(gen, dim)
    powers = torch.linspace(low, high, dim, dtype=torch.float64)
    new = factor_from_eigenvalues(gen, old, 10**powers).requires_grad_()
    result = project_factor(new, old, bound)
    (gradient,) = torch.autograd.grad((result.factor * random_tensor(gen, dim, dim)).sum(), new)
    assert bool(result.active)
    assert gradient.isfinite().all()
    factor = result.factor.detach()
    assert float(stable_kl(factor, old)) == pytest.approx(bound, rel=1e-9)
    # The independent textbook formula loses up to 63 · 1e-16 / 1e-8 of its digits.
    assert float(reference_kl(factor, old)) == pytest.approx(bound, rel=1e-9, abs=3e-14)


@pytest.mark.parametrize("ratio", [1e-12, 1e-5, 1e5, 1e9, 1e12])
def test_extreme_deviations_on_the_diagonal(ratio: float) -> None:
    old = torch.ones(3, dtype=torch.float64)
    new = torch.tensor([ratio, 1.0, 0.5], dtype=torch.float64, requires_grad=True)
    result = project_std(new, old, 1e-3)
    (gradient,) = torch.autograd.grad(result.factor.square().sum(), new)
    assert gradient.isfinite().all()
    factor = torch.diag(result.factor.detach())
    assert float(reference_kl(factor, torch.diag(old))) == pytest.approx(1e-3, rel=1e-9)


def test_an_infinite_bound_changes_nothing() -> None:
    gen = generator(6)
    new, old = random_factor(gen, 3), random_factor(gen, 3)
    assert torch.equal(project_factor(new, old, float("inf")).factor, new)


# ---- shared, diagonal, precision


def test_diagonal_is_a_special_case_of_full() -> None:
    gen = generator(7)
    new = (0.5 + torch.rand(6, 5, generator=gen, dtype=torch.float64)).requires_grad_()
    old = 0.5 + torch.rand(6, 5, generator=gen, dtype=torch.float64)
    upstream = random_tensor(gen, 6, 5)
    diagonal = project_std(new, old, 0.05)
    full = project_factor(torch.diag_embed(new), torch.diag_embed(old), 0.05)
    torch.testing.assert_close(torch.diag_embed(diagonal.factor), full.factor, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(diagonal.weight, full.weight, rtol=1e-12, atol=0)
    (one,) = torch.autograd.grad((diagonal.factor * upstream).sum(), new)
    (two,) = torch.autograd.grad((full.factor * torch.diag_embed(upstream)).sum(), new)
    torch.testing.assert_close(one, two, rtol=1e-10, atol=1e-13)


def test_projecting_once_equals_projecting_each_copy() -> None:
    gen = generator(8)
    new, old, upstream = (
        random_factor(gen, 4).requires_grad_(),
        random_factor(gen, 4),
        random_tensor(gen, 7, 4, 4),
    )
    once = project_factor(new, old, 0.01).factor
    copies = project_factor(new.expand(7, 4, 4), old, 0.01).factor
    torch.testing.assert_close(once.expand(7, 4, 4), copies, rtol=1e-14, atol=1e-15)
    (one,) = torch.autograd.grad((once * upstream).sum(), new)
    (two,) = torch.autograd.grad((copies * upstream).sum(), new)
    torch.testing.assert_close(one, two, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("diagonal", [False, True])
def test_float32_in_and_out(diagonal: bool) -> None:
    new, old = mixed_pair(generator(9), 4, 30, False, diagonal)
    project = project_std if diagonal else project_factor
    exact = project(new.factor, old.factor, 5e-4)
    new32 = new.factor.float().requires_grad_()
    single = project(new32, old.factor.float(), 5e-4)
    single.factor.sum().backward()
    assert single.factor.dtype == single.weight.dtype == torch.float32
    assert new32.grad is not None
    assert new32.grad.dtype == torch.float32
    torch.testing.assert_close(single.factor.double(), exact.factor, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("spread", [1e-6, 1e-2, 0.5, 30.0])
@pytest.mark.parametrize("bound", [1e-8, 5e-4, 0.05, 10.0])
def test_one_covariance_has_the_weight_it_has_among_many(spread: float, bound: float) -> None:
    ratios = (spread * torch.randn(20, 7, generator=generator(0), dtype=torch.float64)).exp()  # r
    excess = ratios - 1
    excess[0] = 0.0
    weights, active = solve_weight(excess, bound)
    for row, weight, moved in zip(excess, weights, active, strict=True):
        alone, alone_moved = solve_weight(row, bound)
        assert bool(alone_moved) == bool(moved)
        torch.testing.assert_close(alone, weight, rtol=1e-9, atol=0)
        if moved:  # it lies on the bound: 1/2 Σ log(1 + tρ) - tρ / (1 + tρ) = ε
            scaled = alone * row
            divergence = 0.5 * (torch.log1p(scaled) - scaled / (1 + scaled)).sum()
            if spread < 1e-3:  # where the two terms cancel, the first of the series is exact enough
                divergence = 0.25 * scaled.square().sum()
            assert float(divergence) == pytest.approx(bound, rel=1e-5)
