from __future__ import annotations

import pytest
import torch

from top_erl.errors import RunStopped, UserError
from top_erl.trust_region import FactorizationError, FrobeniusProjection, Gaussian, KlProjection, W2Projection
from top_erl.trust_region.factor import check_factor, factorize

NAN = float("nan")


def test_factorize_names_the_indefinite_matrix() -> None:
    matrices = torch.eye(2).repeat(4, 1, 1)
    matrices[2] = torch.tensor([[1.0, 2.0], [2.0, 1.0]])  # eigenvalues 3 and -1
    with pytest.raises(FactorizationError, match=r"the covariance \(batch row 2\).*smallest eigenvalue is -1,"):
        factorize(matrices, "the covariance")


def test_factorize_names_nan() -> None:
    with pytest.raises(FactorizationError, match=r"^the covariance cannot be factorised: it contains NaN"):
        factorize(torch.tensor([[1.0, NAN], [NAN, 1.0]]), "the covariance")


@pytest.mark.parametrize("layer", [KlProjection(0.1, 0.1), W2Projection(0.1, 0.1), FrobeniusProjection(0.1, 0.1)])
def test_projection_names_the_broken_factor(layer: KlProjection) -> None:
    good = Gaussian(torch.zeros(4, 2), torch.eye(2).repeat(4, 1, 1))
    broken = torch.eye(2).repeat(4, 1, 1)
    broken[3, 1, 1] = -0.1
    with pytest.raises(FactorizationError, match=r"the new policy \(batch row 3\).*diagonal entry -0.1"):
        layer.project(Gaussian(good.mean, broken), good)
    broken[1, 1, 0] = NAN
    with pytest.raises(FactorizationError, match=r"the old policy \(batch row 1\).*NaN or infinity"):
        layer.project(good, Gaussian(good.mean, broken))


def test_shared_and_diagonal_factors_are_checked() -> None:
    with pytest.raises(FactorizationError, match=r"^the covariance cannot .* diagonal entry 0,"):
        check_factor(torch.tensor([1.0, 0.0]), True, "the covariance")
    with pytest.raises(FactorizationError, match=r"^the covariance cannot .* NaN"):
        check_factor(torch.tensor([1.0, NAN]), True, "the covariance")
    check_factor(torch.eye(3), False, "the covariance")


def test_nan_mean_is_named() -> None:
    mean = torch.zeros(4, 2)
    old = Gaussian(mean.clone(), torch.eye(2))
    mean[2, 0] = NAN
    with pytest.raises(RunStopped, match=r"the mean of the new policy \(batch row 2\) contains NaN"):
        KlProjection(0.1, 0.1).project(Gaussian(mean, torch.eye(2)), old)


def test_the_error_stops_a_run_and_is_shown_to_the_user() -> None:
    assert issubclass(FactorizationError, UserError)
    assert FactorizationError.exit_code == 1
