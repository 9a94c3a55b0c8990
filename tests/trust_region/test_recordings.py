"""Agreement with recorded projections of an independent float64 implementation.

Each recording holds four states (the last one inside the trust region) and two pairs of bounds. The recorded
gradients belong to the loss sum(tril(L* ⊙ G_L)) + sum(μ* ⊙ G_mean).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from top_erl.trust_region import Gaussian, KlProjection, kl_covariance_part, kl_mean_part
from top_erl.trust_region.kl import project_factor

DATA = Path(__file__).parents[1] / "data"
BOUNDS = [(0.005, 0.0005), (0.1, 0.02)]


def close(value: Tensor, recorded: Tensor, tolerance: float = 1e-12) -> None:
    scale = float(recorded.abs().max())
    torch.testing.assert_close(value.detach(), recorded, rtol=0.0, atol=tolerance * scale)


@pytest.fixture(params=["kl_3d", "kl_10d"])
def recording(request: pytest.FixtureRequest) -> dict[str, Tensor]:
    with np.load(DATA / f"{request.param}.npz") as file:
        return {name: torch.tensor(file[name]) for name in file.files}


@pytest.mark.parametrize(("mean_bound", "covariance_bound"), BOUNDS)
def test_projection_agrees(recording: dict[str, Tensor], mean_bound: float, covariance_bound: float) -> None:
    prefix = f"epsm{mean_bound}_epsc{covariance_bound}_"
    new = Gaussian(recording["mean_new"].requires_grad_(), recording["L_new"].requires_grad_())
    old = Gaussian(recording["mean_old"], recording["L_old"])
    layer = KlProjection(mean_bound, covariance_bound)

    result = layer.project(new, old)
    projected = result.gaussian
    loss = (projected.factor * recording["G_L"]).tril().sum() + (projected.mean * recording["G_mean"]).sum()
    loss.backward()

    assert torch.equal(result.covariance_active, recording[prefix + "active"])
    assert torch.equal(result.mean_active, recording[prefix + "mean_part"] > mean_bound)
    close(projected.mean, recording[prefix + "mean_proj"])
    close(projected.factor, recording[prefix + "L_proj"])
    assert new.mean.grad is not None
    assert new.factor.grad is not None
    close(new.mean.grad, recording[prefix + "grad_mean_new"])
    close(new.factor.grad, recording[prefix + "grad_L_new"])
    close(kl_mean_part(new, old), recording[prefix + "mean_part"])
    close(kl_covariance_part(projected, old), recording[prefix + "kl_cov_proj_old"], 1e-11)
    close(projected.entropy(), recording[prefix + "entropy"])


@pytest.mark.parametrize(("mean_bound", "covariance_bound"), BOUNDS)
def test_weight_and_multiplier_agree(recording: dict[str, Tensor], mean_bound: float, covariance_bound: float) -> None:
    prefix = f"epsm{mean_bound}_epsc{covariance_bound}_"
    weight = project_factor(recording["L_new"], recording["L_old"], covariance_bound).weight
    close(weight, recording[prefix + "t"])
    close(1 / weight - 1, recording[prefix + "eta"])  # t = 1 / (1 + η)


@pytest.mark.parametrize(("mean_bound", "covariance_bound"), BOUNDS)
def test_regression_loss_agrees(recording: dict[str, Tensor], mean_bound: float, covariance_bound: float) -> None:
    prefix = f"epsm{mean_bound}_epsc{covariance_bound}_"
    new = Gaussian(recording["mean_new"], recording["L_new"])
    layer = KlProjection(mean_bound, covariance_bound)
    projected = layer.project(new, Gaussian(recording["mean_old"], recording["L_old"])).gaussian

    mean_part, covariance_part = recording[prefix + "tr_loss_mean"], recording[prefix + "tr_loss_cov"]
    close(kl_mean_part(new, projected), mean_part)
    close(kl_covariance_part(new, projected), covariance_part)
    close(layer.regression_loss(new, projected), (mean_part + covariance_part).mean())
    close(layer.regression_loss(new, projected, include_covariance=False), mean_part.mean())


@pytest.mark.parametrize(("mean_bound", "covariance_bound"), BOUNDS)
def test_entropy_bound_agrees(recording: dict[str, Tensor], mean_bound: float, covariance_bound: float) -> None:
    prefix = f"epsm{mean_bound}_epsc{covariance_bound}_"
    new = Gaussian(recording["mean_new"], recording["L_new"])
    old = Gaussian(recording["mean_old"], recording["L_old"])
    bound = float(recording[prefix + "beta"])
    widened = KlProjection(mean_bound, covariance_bound).project(new, old, entropy_bound=bound).gaussian
    close(widened.factor, recording[prefix + "L_entropy"])
