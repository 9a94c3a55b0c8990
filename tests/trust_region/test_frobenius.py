from __future__ import annotations

import pytest
import torch
from torch.autograd import gradcheck

from top_erl.trust_region.frobenius import factor_distance, project_factor, project_std, std_distance

from .problems import generator, mixed_pair, random_factor, random_tensor


def test_by_hand() -> None:
    # Variances 1 and 5: squared distance 16. Bound 4: weight 1/2, so the projected variance is 3.
    factor, active = project_factor(torch.tensor([[5.0]]).sqrt(), torch.eye(1), 4.0)
    assert bool(active)
    assert float(factor) ** 2 == pytest.approx(3.0)


def test_on_the_bound_or_untouched() -> None:
    new, old = mixed_pair(generator(0), 6, 4, False, False)
    factor, active = project_factor(new.factor, old.factor, 0.01)
    assert active.tolist() == [True, False] * 3
    distance = torch.linalg.matrix_norm(factor @ factor.mT - old.covariance())[::2] ** 2
    torch.testing.assert_close(distance, torch.full((3,), 0.01, dtype=torch.float64), rtol=1e-9, atol=0)
    assert torch.equal(factor[1::2], new.factor[1::2])


def test_no_feasible_point_is_closer() -> None:
    gen = generator(1)
    new, old, bound = random_factor(gen, 3), random_factor(gen, 3), 0.01
    best, _ = project_factor(new, old, bound)
    size = 10 ** (-6 + 5 * torch.rand(5_000, 1, 1, generator=gen, dtype=torch.float64))
    candidates = best + size * random_tensor(gen, 5_000, 3, 3).tril()
    feasible = candidates[factor_distance(candidates, old) <= bound]
    assert len(feasible) > 500
    assert (factor_distance(feasible, new) >= factor_distance(best, new) - 1e-12).all()


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_gradient(dim: int) -> None:
    new, old = mixed_pair(generator(dim), 4, dim, False, False)
    new.factor.requires_grad_()
    assert gradcheck(lambda x: project_factor(x.tril(), old.factor, 0.01)[0], (new.factor,))
    diagonal, old_diagonal = mixed_pair(generator(dim), 4, dim, False, True)
    diagonal.factor.requires_grad_()
    assert gradcheck(lambda x: project_std(x, old_diagonal.factor, 0.01)[0], (diagonal.factor,))


def test_diagonal_is_a_special_case_of_full() -> None:
    new, old = mixed_pair(generator(2), 6, 4, False, True)
    std, active = project_std(new.factor, old.factor, 0.01)
    full, full_active = project_factor(new.matrix_factor(), old.matrix_factor(), 0.01)
    torch.testing.assert_close(torch.diag_embed(std), full)
    assert torch.equal(active, full_active)
    torch.testing.assert_close(
        std_distance(new.factor, old.factor), factor_distance(new.matrix_factor(), old.matrix_factor())
    )
