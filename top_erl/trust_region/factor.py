"""Covariance factors: making one from a matrix, and refusing one that is broken.

A factor that holds NaN, or a covariance that is not positive definite, means the run has already gone wrong.
On a CPU the functions here say which matrix it was and stop; none repairs anything. On other devices, where looking
would mean waiting, a broken factor becomes NaN, which the learner finds when it looks at the losses.

Axes: `P` dimension of the Gaussian; `...` batch.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from top_erl.errors import RunStopped


class FactorizationError(RunStopped):
    """A covariance without a usable factor; the message names the matrix and its batch row."""


def factorize(matrix: Tensor, name: str) -> Tensor:
    """Cholesky factor of a covariance.

    Args:
        matrix: Symmetric positive definite matrices [..., P, P].
        name: What the matrix is, for the error: `"the covariance of the new policy"`.

    Returns:
        Lower-triangular factors with positive diagonal [..., P, P].

    Raises:
        FactorizationError: If a matrix contains NaN or infinity, or is not positive definite.
    """
    factor: Tensor
    factor, info = torch.linalg.cholesky_ex(matrix)  # [..., P, P], [...]
    # Depending on the backend NaN may pass with info = 0, hence the look at the diagonal (it sees every NaN).
    good = (info == 0) & factor.diagonal(dim1=-2, dim2=-1).isfinite().all(-1)  # [...]
    if _must_not_wait(factor):
        return torch.where(good[..., None, None], factor, float("nan"))
    if bool(good.all()):
        return factor
    row, where = _first_failure(good, name)
    bad = matrix.detach().reshape(-1, *matrix.shape[-2:])[row]  # [P, P]
    if not bool(bad.isfinite().all()):
        raise FactorizationError(f"{where} cannot be factorised: it contains NaN or infinity.")
    smallest = float(torch.linalg.eigvalsh(bad.double())[0])
    raise FactorizationError(
        f"{where} cannot be factorised: its smallest eigenvalue is {smallest:.3g}, it must be positive."
    )


def factorize_active(active: Tensor, matrix: Tensor, otherwise: Tensor, name: str) -> Tensor:
    """Cholesky factors of the matrices that an active bound has changed.

    Args:
        active: Which rows have changed [...].
        matrix: Projected covariances [..., P, P]; read in active rows only.
        otherwise: Factors to return as they are in the other rows [..., P, P].
        name: What the matrix is, for the error.

    Returns:
        Lower-triangular factors [..., P, P].
    """
    mask = active[..., None, None]
    identity = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    return torch.where(mask, factorize(torch.where(mask, matrix, identity), name), otherwise)


def check_factor(factor: Tensor, diagonal: bool, name: str) -> None:
    """Refuse a factor that does not describe a covariance.

    Args:
        factor: Lower-triangular factors [..., P, P], or standard deviations [..., P] if `diagonal`.
        diagonal: Whether the factor holds standard deviations.
        name: What the covariance is, for the error.

    Raises:
        FactorizationError: If an entry is NaN or infinite, or a diagonal entry is not positive.
    """
    if _must_not_wait(factor):
        return
    factor = factor.detach()
    scale = factor if diagonal else factor.diagonal(dim1=-2, dim2=-1)  # [..., P]
    if _surely_finite(factor) and bool(scale.amin() > 0):
        return
    finite = factor.isfinite().all(-1)
    if not diagonal:
        finite = finite.all(-1)  # [...]
    good = finite & (scale > 0).all(-1)  # [...]
    if bool(good.all()):
        return
    row, where = _first_failure(good, name)
    if not bool(finite.reshape(-1)[row]):
        raise FactorizationError(f"{where} cannot be factorised: its factor contains NaN or infinity.")
    smallest = float(scale.reshape(-1, scale.shape[-1])[row].min())
    raise FactorizationError(
        f"{where} cannot be factorised: its factor has the diagonal entry {smallest:.3g}, not a positive one."
    )


def check_mean(mean: Tensor, name: str) -> None:
    """Refuse a mean [..., P] with NaN or infinity.

    Raises:
        RunStopped: If an entry is not finite.
    """
    if _must_not_wait(mean) or _surely_finite(mean.detach()):
        return
    good = mean.detach().isfinite().all(-1)  # [...]
    if not bool(good.all()):
        raise RunStopped(f"{_first_failure(good, name)[1]} contains NaN or infinity.")


def _must_not_wait(data: Tensor) -> bool:
    """Whether looking at the numbers would stall a device; a failure then shows as NaN in the step's loss."""
    return data.device.type != "cpu"


def _surely_finite(data: Tensor) -> bool:
    """Whether all numbers are finite, by one sum: it is not if one of them is not."""
    return math.isfinite(float(data.sum()))


def _first_failure(good: Tensor, name: str) -> tuple[int, str]:
    """Flat index of the first bad row, and the name with that row (no row for a single matrix)."""
    row = int((~good).reshape(-1).nonzero()[0])
    return row, name if good.dim() == 0 else f"{name} (batch row {row})"
