"""What all layers have in common: one interface, four kinds of covariance, losses, errors."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from top_erl.errors import UserError
from top_erl.trust_region import (
    BoundedProjection,
    FrobeniusProjection,
    Gaussian,
    KlProjection,
    NoProjection,
    Projection,
    W2Projection,
    kl_divergence,
)

from .problems import generator, mixed_pair, random_gaussian

BOUNDED: list[BoundedProjection] = [
    KlProjection(0.01, 0.005),
    W2Projection(0.01, 0.005),
    W2Projection(0.01, 0.005, scale_prec=True),
    FrobeniusProjection(0.01, 0.005),
    FrobeniusProjection(0.01, 0.005, scale_prec=True),
]
LAYERS = pytest.mark.parametrize("layer", BOUNDED, ids=str)
KINDS = pytest.mark.parametrize(("shared", "diagonal"), [(False, False), (True, False), (False, True), (True, True)])


@LAYERS
@KINDS
def test_both_parts_end_on_their_bounds(layer: BoundedProjection, shared: bool, diagonal: bool) -> None:
    new, old = mixed_pair(generator(0), 6, 4, shared, diagonal)
    result = layer.project(new, old)
    projected = result.gaussian
    assert projected.shared == shared
    assert projected.diagonal == diagonal
    assert projected.factor.shape == new.factor.shape
    assert result.mean_active.tolist() == [True, False] * 3
    assert result.covariance_active.tolist() == (True if shared else [True, False] * 3)
    mean_distance = layer.mean_distance(projected, old)[result.mean_active]
    torch.testing.assert_close(mean_distance, torch.full_like(mean_distance, 0.01), rtol=1e-9, atol=0)
    distance = layer.covariance_distance(projected, old)[result.covariance_active]
    torch.testing.assert_close(distance, torch.full_like(distance, 0.005), rtol=1e-9, atol=0)


@LAYERS
@KINDS
def test_gradient_through_the_whole_layer(layer: Projection, shared: bool, diagonal: bool) -> None:
    new, old = mixed_pair(generator(1), 4, 3, shared, diagonal)
    entropy_bound = float(layer.project(new, old).gaussian.entropy().mean()) + (0.1 if shared else 0.0)

    def whole(mean: Tensor, factor: Tensor) -> tuple[Tensor, Tensor]:
        lower = factor if diagonal else factor.tril()
        out = layer.project(Gaussian(mean, lower, diagonal), old, entropy_bound).gaussian
        return out.mean, out.factor

    assert gradcheck(whole, (new.mean.requires_grad_(), new.factor.requires_grad_()))


@LAYERS
@pytest.mark.parametrize("diagonal", [False, True])
def test_shared_equals_one_copy_per_state(layer: Projection, diagonal: bool) -> None:
    new, old = mixed_pair(generator(2), 5, 3, True, diagonal)
    new.factor.requires_grad_()
    copies = Gaussian(new.mean, new.factor.expand(5, *new.factor.shape), diagonal)
    old_copies = Gaussian(old.mean, old.factor.expand(5, *old.factor.shape), diagonal)
    once, each = layer.project(new, old).gaussian, layer.project(copies, old_copies).gaussian
    torch.testing.assert_close(once.factor.expand_as(each.factor), each.factor)
    torch.testing.assert_close(once.mean, each.mean)
    mixed = layer.project(new, old_copies).gaussian  # a shared covariance against one per state
    torch.testing.assert_close(mixed.factor, each.factor)
    weight = torch.arange(5.0).double().reshape(-1, *[1] * new.factor.dim())
    (one,) = torch.autograd.grad((once.factor * weight).sum(), new.factor)
    (two,) = torch.autograd.grad((each.factor * weight).sum(), new.factor)
    torch.testing.assert_close(one, two)
    torch.testing.assert_close(layer.regression_loss(new, once), layer.regression_loss(copies, each))


@LAYERS
@KINDS
def test_regression_loss(layer: Projection, shared: bool, diagonal: bool) -> None:
    new, old = mixed_pair(generator(3), 6, 3, shared, diagonal)
    projected = layer.project(new, old).gaussian
    mean_only = layer.regression_loss(new, projected, include_covariance=False)
    both = layer.regression_loss(new, projected)
    assert mean_only.shape == both.shape == ()
    assert 0 < float(mean_only) < float(both)
    assert float(layer.regression_loss(new, new)) == pytest.approx(0.0, abs=1e-20)
    # It pulls on the new Gaussian only.
    constant = Gaussian(projected.mean.requires_grad_(), projected.factor.requires_grad_(), diagonal)
    layer.regression_loss(
        Gaussian(new.mean.requires_grad_(), new.factor.requires_grad_(), diagonal), constant
    ).backward()
    assert constant.mean.grad is None
    assert constant.factor.grad is None
    assert new.mean.grad is not None
    assert new.factor.grad is not None
    assert new.factor.grad.isfinite().all()


def test_regression_losses_by_hand() -> None:
    # P = 1, new N(3, 2²), projected N(1, 1).
    new = Gaussian(torch.tensor([[3.0]]).double(), torch.tensor([[2.0]]).double())
    projected = Gaussian(torch.tensor([[1.0]]).double(), torch.tensor([[1.0]]).double())
    # KL(new ‖ projected) = 1/2 · 2² + 1/2 (4 - 1 - log 4)
    expected = float(kl_divergence(new, projected))
    assert float(KlProjection(1, 1).regression_loss(new, projected)) == pytest.approx(expected)
    # W2: 2² + (2 - 1)², no 1/2
    assert float(W2Projection(1, 1).regression_loss(new, projected)) == pytest.approx(5.0)
    # Frobenius: 2² + |L_new - L*|² = 4 + 1; the covariances themselves would differ by (4 - 1)² = 9
    assert float(FrobeniusProjection(1, 1).regression_loss(new, projected)) == pytest.approx(5.0)


def test_entropy_bound_has_the_last_word() -> None:
    new, old = mixed_pair(generator(4), 6, 4, False, False)
    layer = KlProjection(0.01, 0.005)
    free = layer.project(new, old).gaussian
    bound = float(free.entropy().max()) + 1.0
    widened = layer.project(new, old, bound).gaussian
    torch.testing.assert_close(widened.entropy(), torch.full((6,), bound, dtype=torch.float64))
    assert torch.equal(widened.mean, free.mean)
    assert (layer.covariance_distance(widened, old) > 0.005).all()


@LAYERS
@KINDS
def test_float32_in_and_out(layer: BoundedProjection, shared: bool, diagonal: bool) -> None:
    new, old = mixed_pair(generator(5), 6, 8, shared, diagonal)
    exact = layer.project(new, old).gaussian
    new32, old32 = new.to(torch.float32), old.to(torch.float32)
    single = layer.project(new32, old32).gaussian
    assert single.mean.dtype == single.factor.dtype == torch.float32
    torch.testing.assert_close(single.mean.double(), exact.mean, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(single.factor.double(), exact.factor, rtol=1e-5, atol=1e-6)
    loss = layer.regression_loss(new32, single)
    assert float(loss) == pytest.approx(float(layer.regression_loss(new, exact)), rel=1e-4)


@KINDS
def test_no_projection_is_the_identity(shared: bool, diagonal: bool) -> None:
    new, old = mixed_pair(generator(6), 6, 3, shared, diagonal)
    result = NoProjection().project(new, old)
    assert torch.equal(result.gaussian.mean, new.mean)
    assert torch.equal(result.gaussian.factor, new.factor)
    assert not result.mean_active.any()
    assert result.mean_active.shape == (6,)
    assert result.covariance_active.shape == (() if shared else (6,))
    assert float(NoProjection().regression_loss(new, old)) == 0.0


def test_infinite_bounds_change_nothing() -> None:
    new, old = mixed_pair(generator(7), 6, 3, False, False)
    for kind in (KlProjection, W2Projection, FrobeniusProjection):
        result = kind(float("inf"), float("inf")).project(new, old)
        assert torch.equal(result.gaussian.factor, new.factor)
        assert torch.equal(result.gaussian.mean, new.mean)


@pytest.mark.parametrize("kind", [KlProjection, W2Projection, FrobeniusProjection])
@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan")])
def test_bounds_must_be_positive(kind: type[BoundedProjection], bad: float) -> None:
    with pytest.raises(UserError, match=rf"{kind.__name__}: mean_bound must be positive, got {bad}"):
        kind(bad, 0.1)
    with pytest.raises(UserError, match="covariance_bound must be positive"):
        kind(0.1, bad)


def test_diagonal_and_full_do_not_mix() -> None:
    gen = generator(8)
    full, diagonal = random_gaussian(gen, 2, 3, True, False), random_gaussian(gen, 2, 3, True, True)
    with pytest.raises(UserError, match="both be diagonal or both"):
        KlProjection(0.1, 0.1).project(full, diagonal)
