"""Random Gaussians and independent formulas for the tests of the trust region."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import MultivariateNormal, kl_divergence

from top_erl.trust_region import Gaussian


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def random_tensor(gen: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=gen, dtype=torch.float64)


def random_factor(gen: torch.Generator, *shape: int) -> Tensor:
    """Well-conditioned lower-triangular factors; the last number of `shape` is the dimension."""
    dim = shape[-1]
    below = 0.3 * random_tensor(gen, *shape, dim).tril(-1) / dim**0.5
    return below + torch.diag_embed(0.6 + torch.rand(*shape, generator=gen, dtype=torch.float64))


def random_gaussian(gen: torch.Generator, batch: int, dim: int, shared: bool, diagonal: bool) -> Gaussian:
    factor = random_factor(gen, dim) if shared else random_factor(gen, batch, dim)
    if diagonal:
        factor = factor.diagonal(dim1=-2, dim2=-1).contiguous()
    return Gaussian(random_tensor(gen, batch, dim), factor, diagonal)


def mixed_pair(gen: torch.Generator, batch: int, dim: int, shared: bool, diagonal: bool) -> tuple[Gaussian, Gaussian]:
    """New and old Gaussians; every second state is almost unchanged, so that its bounds are not active."""
    old = random_gaussian(gen, batch, dim, shared, diagonal)
    far = random_gaussian(gen, batch, dim, shared, diagonal)
    step = torch.where(torch.arange(batch) % 2 == 0, 0.9, 1e-3).double()  # [B]
    mean = old.mean + step[:, None] * (far.mean - old.mean)
    factor_step = torch.tensor(0.9).double() if shared else step.reshape(-1, *[1] * (old.factor.dim() - 1))
    return Gaussian(mean, old.factor + factor_step * (2 * far.factor - old.factor), diagonal), old


def factor_from_eigenvalues(gen: torch.Generator, old: Tensor, eigenvalues: Tensor) -> Tensor:
    """Factor of a covariance with the given eigenvalues [P] relative to the old one, in a random basis."""
    dim = old.shape[-1]
    basis = torch.linalg.qr(random_tensor(gen, dim, dim)).Q
    # Σ = M Mᵀ with M = L_old U diag(sqrt λ); the QR decomposition of Mᵀ gives its factor without squaring.
    upper = torch.linalg.qr((old @ basis * eigenvalues.sqrt()).mT).R
    return (upper * upper.diagonal().sign()[:, None]).mT.contiguous()


def reference_kl(a: Tensor, b: Tensor) -> Tensor:
    """Covariance part of the KL divergence of factors [..., P, P], by torch.distributions."""
    zero = a.new_zeros(a.shape[:-1])
    return kl_divergence(MultivariateNormal(zero, scale_tril=a), MultivariateNormal(zero, scale_tril=b))


def relative_error(a: Tensor, b: Tensor) -> float:
    """Largest difference in units of the largest entry of `b`."""
    return float((a - b).abs().max() / b.abs().max())
