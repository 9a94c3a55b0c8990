from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from top_erl.trust_region.w2 import factor_distance, project_factor, project_std, std_distance, symmetric_root

from .problems import generator, mixed_pair, random_factor, random_tensor

SCALES = pytest.mark.parametrize("scale_prec", [False, True])


def trace_distance(a: Tensor, b: Tensor, scale_prec: bool) -> Tensor:
    """The distance as it is written with traces; roots [..., P, P] by eigenvalues."""

    def root(factor: Tensor) -> Tensor:
        values, basis = torch.linalg.eigh(factor @ factor.mT)
        return basis @ torch.diag_embed(values.sqrt()) @ basis.mT

    s_a, s_b = root(a), root(b)
    if scale_prec:  # tr(I + S_b⁻¹ Σ_a S_b⁻¹ - 2 S_b⁻¹ S_a)
        inverse = torch.linalg.inv(s_b)
        whole = torch.eye(a.shape[-1]) + inverse @ s_a @ s_a @ inverse - 2 * inverse @ s_a
    else:  # tr(Σ_a + Σ_b - 2 S_b S_a)
        whole = s_a @ s_a + s_b @ s_b - 2 * s_b @ s_a
    return whole.diagonal(dim1=-2, dim2=-1).sum(-1)


def test_symmetric_root_squares_to_the_covariance() -> None:
    factor = random_factor(generator(0), 5, 4)
    root = symmetric_root(factor)
    torch.testing.assert_close(root, root.mT)
    torch.testing.assert_close(root @ root, factor @ factor.mT)
    assert (torch.linalg.eigvalsh(root) > 0).all()


@pytest.mark.parametrize("factor", [torch.eye(3).double(), 2 * torch.eye(3).double(), None])
def test_root_gradient_also_at_repeated_eigenvalues(factor: Tensor | None) -> None:
    start = random_factor(generator(1), 2, 3) if factor is None else factor.clone()
    assert gradcheck(lambda x: symmetric_root(x), (start.requires_grad_(),))


@SCALES
def test_distance_is_the_trace_formula(scale_prec: bool) -> None:
    gen = generator(2)
    a, b = random_factor(gen, 5, 4), random_factor(gen, 5, 4)
    torch.testing.assert_close(factor_distance(a, b, scale_prec), trace_distance(a, b, scale_prec))


@SCALES
def test_on_the_bound_or_untouched(scale_prec: bool) -> None:
    new, old = mixed_pair(generator(3), 6, 4, False, False)
    factor, active = project_factor(new.factor, old.factor, 1e-3, scale_prec)
    assert active.tolist() == [True, False] * 3
    distance = trace_distance(factor, old.factor, scale_prec)[::2]
    torch.testing.assert_close(distance, torch.full((3,), 1e-3, dtype=torch.float64), rtol=1e-9, atol=0)
    assert torch.equal(factor[1::2], new.factor[1::2])
    assert torch.equal(factor, factor.tril())


@SCALES
def test_no_feasible_point_is_closer(scale_prec: bool) -> None:
    gen = generator(4)
    new, old, bound = random_factor(gen, 3), random_factor(gen, 3), 0.01
    best, _ = project_factor(new, old, bound, scale_prec)
    root, new_root, old_root = symmetric_root(best), symmetric_root(new), symmetric_root(old)
    size = 10 ** (-6 + 5 * torch.rand(5_000, 1, 1, generator=gen, dtype=torch.float64))
    noise = size * random_tensor(gen, 5_000, 3, 3)
    candidates = root + noise + noise.mT
    unit = torch.linalg.inv(old_root) if scale_prec else torch.eye(3).double()  # the metric of the old Gaussian

    def distance(a: Tensor, b: Tensor) -> Tensor:
        return ((a - b) @ unit).square().sum((-2, -1))

    feasible = candidates[distance(candidates, old_root) <= bound]
    assert len(feasible) > 500
    assert (distance(feasible, new_root) >= distance(root, new_root) - 1e-12).all()


@SCALES
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_gradient(dim: int, scale_prec: bool) -> None:
    new, old = mixed_pair(generator(dim), 4, dim, False, False)
    new.factor.requires_grad_()
    assert gradcheck(lambda x: project_factor(x.tril(), old.factor, 1e-3, scale_prec)[0], (new.factor,))
    diagonal, old_diagonal = mixed_pair(generator(dim), 4, dim, False, True)
    diagonal.factor.requires_grad_()
    assert gradcheck(lambda x: project_std(x, old_diagonal.factor, 1e-3, scale_prec)[0], (diagonal.factor,))


@SCALES
def test_equal_covariances_have_a_clean_gradient(scale_prec: bool) -> None:
    old = torch.eye(3, dtype=torch.float64)
    new = old.clone().requires_grad_()
    factor, active = project_factor(new, old, 0.1, scale_prec)
    factor.sum().backward()
    assert not active
    assert new.grad is not None
    assert torch.equal(new.grad, torch.ones(3, 3, dtype=torch.float64))


@SCALES
def test_diagonal_is_a_special_case_of_full(scale_prec: bool) -> None:
    new, old = mixed_pair(generator(5), 6, 4, False, True)
    std, active = project_std(new.factor, old.factor, 1e-3, scale_prec)
    full, full_active = project_factor(new.matrix_factor(), old.matrix_factor(), 1e-3, scale_prec)
    torch.testing.assert_close(torch.diag_embed(std), full)
    assert torch.equal(active, full_active)
    torch.testing.assert_close(
        std_distance(new.factor, old.factor, scale_prec),
        factor_distance(new.matrix_factor(), old.matrix_factor(), scale_prec),
    )
