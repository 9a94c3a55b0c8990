"""Trust-region projections: the nearest Gaussian within a distance of an old one, as a differentiable layer.

A policy update may propose any Gaussian; the projection moves it, per state, back into a region around the
Gaussian of the anchor policy. Mean and covariance have a bound each and are projected independently. Bounds
are totals over all dimensions, never divided by them. What the layer takes away is lost to the gradient too,
so the network needs a second pull towards its own projection: `regression_loss`.

Axes: `B` states, `P` dimension of the Gaussian.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from top_erl.errors import UserError
from top_erl.trust_region import frobenius, kl, w2
from top_erl.trust_region.entropy import apply_entropy_bound
from top_erl.trust_region.factor import check_factor, check_mean
from top_erl.trust_region.gaussian import Gaussian, kl_covariance_part, kl_mean_part
from top_erl.trust_region.mean import project_mean


@dataclass(frozen=True)
class Projected:
    """The outcome of a projection.

    Attributes:
        gaussian: Projected Gaussians, differentiable in the new ones; the covariance is shared if it was.
        mean_active: Whether the bound changed the mean [B].
        covariance_active: Whether the bound changed the covariance [B], or [] if it is shared.
    """

    gaussian: Gaussian
    mean_active: Tensor
    covariance_active: Tensor


class Projection(ABC):
    """A trust region around Gaussians."""

    def project(self, new: Gaussian, old: Gaussian, entropy_bound: float | None = None) -> Projected:
        """Move new Gaussians into the trust region around old ones, then widen them to the entropy bound.

        Args:
            new: What the policy proposes. Gradients flow back to its mean and factor.
            old: Centre of the trust region, a constant.
            entropy_bound: Smallest allowed entropy of the result, a total; None for no bound.

        Returns:
            The projection, computed in float64 and returned in the type of `new`.

        Raises:
            FactorizationError: If a covariance is not finite or not positive definite.
            UserError: If one covariance is diagonal and the other is not.
        """
        if new.diagonal != old.diagonal:
            raise UserError("The new and the old Gaussian must both be diagonal or both have full covariances.")
        for gaussian, owner in ((new, "new"), (old, "old")):
            check_mean(gaussian.mean, f"the mean of the {owner} policy")
            check_factor(gaussian.factor, gaussian.diagonal, f"the covariance of the {owner} policy")
        inside, mean_active, covariance_active = self._project(new.to(torch.float64), old.detach().to(torch.float64))
        result = apply_entropy_bound(inside, entropy_bound).to(new.mean.dtype)
        return Projected(result, mean_active, covariance_active)

    @abstractmethod
    def _project(self, new: Gaussian, old: Gaussian) -> tuple[Gaussian, Tensor, Tensor]:
        """Trust-region step in float64: the Gaussian, whether mean [B] and covariance [B] (or []) moved."""

    @abstractmethod
    def regression_loss(self, new: Gaussian, projected: Gaussian, include_covariance: bool = True) -> Tensor:
        """How far the policy is from its own projection, averaged over the states.

        Args:
            new: What the policy proposes.
            projected: Its projection, taken as a constant.
            include_covariance: Whether the covariances count too. Without them only the mean is pulled.

        Returns:
            A scalar loss [].
        """


@dataclass(frozen=True)
class NoProjection(Projection):
    """No trust region: the Gaussian stays as it is (an entropy bound still applies), the loss is zero."""

    def _project(self, new: Gaussian, old: Gaussian) -> tuple[Gaussian, Tensor, Tensor]:
        never = torch.zeros((), dtype=torch.bool, device=new.mean.device)
        return new, never.expand(new.mean.shape[:-1]), never.expand(new.scale().shape[:-1])

    def regression_loss(self, new: Gaussian, projected: Gaussian, include_covariance: bool = True) -> Tensor:
        """See `Projection.regression_loss`."""
        return new.mean.new_zeros(())


@dataclass(frozen=True)
class BoundedProjection(Projection):
    """A trust region with one bound for the mean and one for the covariance.

    Attributes:
        mean_bound: Largest allowed `mean_distance` to the old Gaussian, ε_μ > 0; infinity for no bound.
        covariance_bound: The same for `covariance_distance`, ε_Σ > 0.
    """

    mean_bound: float
    covariance_bound: float

    def __post_init__(self) -> None:
        for name, bound in (("mean_bound", self.mean_bound), ("covariance_bound", self.covariance_bound)):
            if not bound > 0:
                raise UserError(f"{type(self).__name__}: {name} must be positive, got {bound}.")

    @abstractmethod
    def mean_distance(self, a: Gaussian, b: Gaussian) -> Tensor:
        """Distance of the means [B] that `mean_bound` limits, seen from `b`."""

    @abstractmethod
    def covariance_distance(self, a: Gaussian, b: Gaussian) -> Tensor:
        """Distance of the covariances, [B] or [], that `covariance_bound` limits, seen from `b`."""

    @abstractmethod
    def _project_factor(self, new: Gaussian, old: Gaussian) -> tuple[Tensor, Tensor]:
        """Projected factor in the form of `new.factor`, and whether the bound was active."""

    def _project(self, new: Gaussian, old: Gaussian) -> tuple[Gaussian, Tensor, Tensor]:
        mean, mean_active = project_mean(new.mean, old.mean, self.mean_distance(new, old), self.mean_bound)
        factor, covariance_active = self._project_factor(new, old)
        return Gaussian(mean, factor, new.diagonal), mean_active, covariance_active

    def regression_loss(self, new: Gaussian, projected: Gaussian, include_covariance: bool = True) -> Tensor:
        """See `Projection.regression_loss`; the distances of this trust region, from new to projected."""
        projected = projected.detach()
        loss = self.mean_distance(new, projected).mean()
        if include_covariance:
            loss = loss + self._covariance_loss(new, projected).mean()
        return loss

    def _covariance_loss(self, new: Gaussian, projected: Gaussian) -> Tensor:
        """Covariance part of the regression loss, [B] or []."""
        return self.covariance_distance(new, projected)


@dataclass(frozen=True)
class KlProjection(BoundedProjection):
    """Trust region in the two parts of KL(projected ‖ old), both with their factor 1/2."""

    def mean_distance(self, a: Gaussian, b: Gaussian) -> Tensor:
        """1/2 (μ_a - μ_b)ᵀ Σ_b⁻¹ (μ_a - μ_b), [B]."""
        return kl_mean_part(a, b)

    def covariance_distance(self, a: Gaussian, b: Gaussian) -> Tensor:
        """1/2 [tr(Σ_b⁻¹ Σ_a) - P + log|Σ_b| - log|Σ_a|], [B] or []."""
        return kl_covariance_part(a, b)

    def _project_factor(self, new: Gaussian, old: Gaussian) -> tuple[Tensor, Tensor]:
        project = kl.project_std if new.diagonal else kl.project_factor
        factor, _, active = project(new.factor, old.factor, self.covariance_bound)
        return factor, active


@dataclass(frozen=True)
class _SquaredDistanceProjection(BoundedProjection):
    """A trust region in squared distances (without 1/2).

    Attributes:
        scale_prec: Measure in units of the old standard deviations (Mahalanobis) instead of absolute ones.
    """

    scale_prec: bool = False

    def mean_distance(self, a: Gaussian, b: Gaussian) -> Tensor:
        """|μ_a - μ_b|², or (μ_a - μ_b)ᵀ Σ_b⁻¹ (μ_a - μ_b) if `scale_prec`; [B]."""
        difference = a.mean - b.mean
        return (b.whiten(difference) if self.scale_prec else difference).square().sum(-1)


@dataclass(frozen=True)
class W2Projection(_SquaredDistanceProjection):
    """Trust region in the Wasserstein-2 distance, as if the two covariances commuted.

    The regression loss is the same distance between new and projected; `scale_prec` then scales by the
    projected one.
    """

    def covariance_distance(self, a: Gaussian, b: Gaussian) -> Tensor:
        """tr(Σ_a + Σ_b - 2 S_a S_b) with symmetric roots S, scaled by S_b⁻¹ if `scale_prec`; [B] or []."""
        if a.diagonal and b.diagonal:
            return w2.std_distance(a.factor, b.factor, self.scale_prec)
        return w2.factor_distance(a.matrix_factor(), b.matrix_factor(), self.scale_prec)

    def _project_factor(self, new: Gaussian, old: Gaussian) -> tuple[Tensor, Tensor]:
        project = w2.project_std if new.diagonal else w2.project_factor
        return project(new.factor, old.factor, self.covariance_bound, self.scale_prec)


@dataclass(frozen=True)
class FrobeniusProjection(_SquaredDistanceProjection):
    """Trust region in the Frobenius norm of the covariance; `scale_prec` concerns only the means.

    The regression loss compares the factors, `|L_new - L*|²`, instead of the covariances: a term of fourth
    order in the standard deviations explodes as a loss when the policy is far outside.
    """

    def covariance_distance(self, a: Gaussian, b: Gaussian) -> Tensor:
        """`|Σ_a - Σ_b|²` in the Frobenius norm, [B] or []."""
        if a.diagonal and b.diagonal:
            return frobenius.std_distance(a.factor, b.factor)
        return frobenius.factor_distance(a.matrix_factor(), b.matrix_factor())

    def _project_factor(self, new: Gaussian, old: Gaussian) -> tuple[Tensor, Tensor]:
        project = frobenius.project_std if new.diagonal else frobenius.project_factor
        return project(new.factor, old.factor, self.covariance_bound)

    def _covariance_loss(self, new: Gaussian, projected: Gaussian) -> Tensor:
        axes = (-1,) if new.diagonal else (-2, -1)
        return (new.factor - projected.factor).square().sum(axes)
