from __future__ import annotations

import math

import pytest
import torch
from torch.autograd import gradcheck

from top_erl.errors import UserError
from top_erl.trust_region import (
    ExponentialEntropyBound,
    Gaussian,
    LinearEntropyBound,
    NoEntropyBound,
    apply_entropy_bound,
    entropy_schedule,
)

from .problems import generator, random_factor, random_gaussian

KINDS = pytest.mark.parametrize(("shared", "diagonal"), [(False, False), (True, False), (False, True), (True, True)])


@KINDS
def test_entropy_is_raised_to_the_bound_and_never_lowered(shared: bool, diagonal: bool) -> None:
    gaussian = random_gaussian(generator(0), 6, 3, shared, diagonal)
    bound = float(gaussian.entropy().median())
    widened = apply_entropy_bound(gaussian, bound)
    torch.testing.assert_close(widened.entropy(), gaussian.entropy().clamp_min(bound))
    assert torch.equal(widened.mean, gaussian.mean)
    high = gaussian.entropy() >= bound
    assert torch.equal(widened.factor[high], gaussian.factor[high])


@KINDS
def test_equality_reaches_the_bound_from_both_sides(shared: bool, diagonal: bool) -> None:
    gaussian = random_gaussian(generator(1), 6, 3, shared, diagonal)
    bound = float(gaussian.entropy().mean()) + 0.01
    entropy = apply_entropy_bound(gaussian, bound, equality=True).entropy()
    torch.testing.assert_close(entropy, torch.full_like(entropy, bound))


def test_scaling_by_hand() -> None:
    # P = 2, Σ = I: H = log(2πe) = 2.837877. A bound larger by 2 log 3 asks for L = 3 I.
    gaussian = Gaussian(torch.zeros(1, 2).double(), torch.eye(2).double())
    widened = apply_entropy_bound(gaussian, math.log(2 * math.pi * math.e) + 2 * math.log(3))
    torch.testing.assert_close(widened.factor, 3 * torch.eye(2).double())
    assert apply_entropy_bound(gaussian, None) is gaussian


@pytest.mark.parametrize("equality", [False, True])
def test_gradient(equality: bool) -> None:
    factor = random_factor(generator(2), 4, 3).requires_grad_()
    mean = torch.zeros(4, 3, dtype=torch.float64)
    bound = float(Gaussian(mean, factor.detach()).entropy().mean())  # two states below, two above

    def widened(x: torch.Tensor) -> torch.Tensor:
        return apply_entropy_bound(Gaussian(mean, x), bound, equality).factor

    assert gradcheck(widened, (factor,))


def test_linear_schedule_of_box_pushing() -> None:
    # P = 63, deviation 0.99001: H₀ = 63 (1/2 log(2πe) + log 0.99001) = 63 (1.418939 - 0.010040) = 88.76
    start = Gaussian(torch.zeros(1, 63).double(), torch.full((63,), 0.99001).double(), diagonal=True)
    initial = float(start.entropy())
    assert initial == pytest.approx(88.76, abs=5e-3)
    schedule = LinearEntropyBound(target=0.0)
    assert schedule.bound(1, 35_000, initial, 63) == pytest.approx(initial * (1 - 1 / 35_000))
    assert schedule.bound(17_500, 35_000, initial, 63) == pytest.approx(44.38, abs=5e-3)
    assert schedule.bound(35_000, 35_000, initial, 63) == 0.0
    assert schedule.bound(40_000, 35_000, initial, 63) == 0.0  # a longer run keeps the last bound


def test_targets_are_per_dimension() -> None:
    # From H₀ = 10 to 4 · 0.5 = 2; a quarter of the way is 8.
    assert LinearEntropyBound(target=0.5).bound(25, 100, 10.0, 4) == 8.0


def test_exponential_schedule() -> None:
    # Target 4 · 0.5 = 2, distance 8. After a tenth of the run a factor 1/2 is left, after three tenths 1/8.
    schedule = ExponentialEntropyBound(target=0.5, temperature=0.5)
    assert schedule.bound(0, 100, 10.0, 4) == 10.0
    assert schedule.bound(10, 100, 10.0, 4) == pytest.approx(6.0)
    assert schedule.bound(30, 100, 10.0, 4) == pytest.approx(3.0)


def test_schedules_by_name() -> None:
    assert entropy_schedule("none") == NoEntropyBound()
    assert entropy_schedule("none").bound(1, 10, 5.0, 3) is None
    assert entropy_schedule("linear", 0.3) == LinearEntropyBound(0.3)
    assert entropy_schedule("exponential", 0.3, 0.7) == ExponentialEntropyBound(0.3, 0.7)
    with pytest.raises(UserError, match="did you mean 'linear'"):
        entropy_schedule("liner")


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(UserError, match="temperature"):
        ExponentialEntropyBound(temperature=1.5)
    with pytest.raises(UserError, match="at least one planned iteration"):
        LinearEntropyBound().bound(1, 0, 1.0, 1)
