from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from top_erl.trust_region import Gaussian, KlProjection, W2Projection, kl_mean_part
from top_erl.trust_region.mean import interpolation_weight, project_mean

from .problems import generator, mixed_pair


def test_by_hand() -> None:
    # Old N(0, diag(2², 1)), new mean (4, 0): mean part 1/2 (4/2)² = 2. Bound 0.5: weight sqrt(0.5/2) = 1/2.
    old = Gaussian(torch.zeros(1, 2), torch.tensor([2.0, 1.0]), diagonal=True)
    new = Gaussian(torch.tensor([[4.0, 0.0]]), old.factor, diagonal=True)
    assert KlProjection(0.5, 1.0).project(new, old).gaussian.mean.tolist() == [[2.0, 0.0]]
    # Squared Euclidean distance 16, bound 1: weight 1/4. In units of the deviation it is 4: weight 1/2.
    assert W2Projection(1.0, 1.0).project(new, old).gaussian.mean.tolist() == [[1.0, 0.0]]
    scaled = W2Projection(1.0, 1.0, scale_prec=True)
    assert scaled.project(new, old).gaussian.mean.tolist() == [[2.0, 0.0]]


def test_on_the_bound_and_untouched_inside() -> None:
    new, old = mixed_pair(generator(0), 6, 4, False, False)
    result = KlProjection(0.01, 0.01).project(new, old)
    distance = kl_mean_part(result.gaussian, old)
    assert result.mean_active.tolist() == [True, False] * 3
    torch.testing.assert_close(distance[::2], torch.full((3,), 0.01, dtype=torch.float64), rtol=1e-12, atol=0)
    assert torch.equal(result.gaussian.mean[1::2], new.mean[1::2])


def test_gradient_loses_the_radial_part() -> None:
    # ∂μ*/∂μ_new = sqrt(ε/m) [I - δ δᵀ Q / (2 m)] with δ = μ_new - μ_old and m = 1/2 δᵀ Q δ
    new, old = mixed_pair(generator(1), 1, 3, False, False)
    layer = KlProjection(0.01, 0.01)

    def projected_mean(mean: torch.Tensor) -> torch.Tensor:
        return layer.project(Gaussian(mean, new.factor), old).gaussian.mean

    jacobian = torch.autograd.functional.jacobian(projected_mean, new.mean)[0, :, 0]
    delta = (new.mean - old.mean)[0]
    precision = torch.linalg.inv(old.covariance()[0])
    part = 0.5 * delta @ precision @ delta
    radial = torch.outer(delta, precision @ delta) / (2 * part)
    torch.testing.assert_close(jacobian, (0.01 / part).sqrt() * (torch.eye(3) - radial))


def test_agrees_with_a_generic_solver() -> None:
    new, old = mixed_pair(generator(2), 1, 3, False, False)
    precision = torch.linalg.inv(old.covariance()[0]).numpy()
    new_mean, old_mean = new.mean[0].numpy(), old.mean[0].numpy()

    def distance(mean: np.ndarray, centre: np.ndarray) -> float:
        return float(0.5 * (mean - centre) @ precision @ (mean - centre))

    solution = minimize(
        lambda mean: distance(mean, new_mean),
        old_mean,
        method="SLSQP",
        constraints={"type": "ineq", "fun": lambda mean: 0.02 - distance(mean, old_mean)},
        options={"ftol": 1e-15, "maxiter": 200},
    )
    projected = KlProjection(0.02, 1.0).project(new, old).gaussian.mean[0].numpy()
    np.testing.assert_allclose(projected, solution.x, atol=1e-6)


@pytest.mark.parametrize("bound", [0.1, float("inf")])
def test_equal_means_have_a_clean_gradient(bound: float) -> None:
    new = torch.ones(2, 3, requires_grad=True)
    old = torch.ones(2, 3)
    mean, active = project_mean(new, old, (new - old).square().sum(-1), bound)
    mean.sum().backward()
    assert not active.any()
    assert new.grad is not None
    assert torch.equal(new.grad, torch.ones(2, 3))


def test_weight_is_one_on_the_bound_itself() -> None:
    weight, active = interpolation_weight(torch.tensor([0.25, 0.5, 1.0]), 0.25)
    assert active.tolist() == [False, True, True]
    torch.testing.assert_close(weight, torch.tensor([1.0, 0.5**0.5, 0.5]))
