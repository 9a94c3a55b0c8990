"""Phases and basis functions, by hand."""

from __future__ import annotations

import math

import torch
from mp_pytorch.basis_gn import NormalizedRBFBasisGenerator
from mp_pytorch.phase_gn import ExpDecayPhaseGenerator, LinearPhaseGenerator

from top_erl.primitives.basis import NormalizedRbf
from top_erl.primitives.phase import ExponentialPhase, LinearPhase

TIMES = torch.tensor([-1.0, 0.0, 1.0, 2.0, 4.0], dtype=torch.float64)


def test_linear_phase() -> None:
    phase = LinearPhase(tau=2.0)
    assert phase(TIMES).tolist() == [0.0, 0.0, 0.5, 1.0, 1.0]
    assert phase.unbounded(TIMES).tolist() == [-0.5, 0.0, 0.5, 1.0, 2.0]


def test_exponential_phase() -> None:
    phase = ExponentialPhase(tau=2.0, alpha_phase=3.0)
    expected = [1.0, 1.0, math.exp(-1.5), math.exp(-3), math.exp(-6)]
    torch.testing.assert_close(phase(TIMES), torch.tensor(expected, dtype=torch.float64))
    assert float(phase.unbounded(TIMES)[0]) == math.exp(1.5)


def test_bandwidth_by_hand() -> None:
    """Three centres over one second of linear phase: gaps of 1/2, so h = 3 / (1/4) = 12."""
    rbf = NormalizedRbf(LinearPhase(1.0), 3, bandwidth_factor=3.0)
    assert rbf.centers.tolist() == [0.0, 0.5, 1.0]
    assert rbf.bandwidths.tolist() == [12.0, 12.0, 12.0]
    bells = [math.exp(-6 * (0.25 - c) ** 2) for c in (0.0, 0.5, 1.0)]
    expected = torch.tensor(bells, dtype=torch.float64) / sum(bells)
    torch.testing.assert_close(rbf(torch.tensor(0.25)), expected)


def test_single_function_is_not_normalised() -> None:
    rbf = NormalizedRbf(ExponentialPhase(2.0), 1, bandwidth_factor=3.0)
    assert float(rbf.centers) == math.exp(-1.5)
    assert float(rbf(torch.tensor([1.0]))) == 1.0
    assert float(rbf(torch.tensor([0.0]))) < 1.0


def test_no_division_by_zero_far_from_all_centers() -> None:
    rbf = NormalizedRbf(ExponentialPhase(1.0), 8, bandwidth_factor=1e6)
    values = rbf(torch.linspace(0, 5, 101))
    torch.testing.assert_close(values.sum(-1), torch.ones(101, dtype=torch.float64))


def test_agrees_with_mp_pytorch() -> None:
    times = torch.linspace(0, 3, 41, dtype=torch.float64)
    pairs = (
        (LinearPhase(1.5), LinearPhaseGenerator(tau=1.5, dtype=torch.float64)),
        (ExponentialPhase(1.5, 2.0), ExpDecayPhaseGenerator(tau=1.5, alpha_phase=2.0, dtype=torch.float64)),
    )
    for ours, theirs in pairs:
        for number, outside in ((1, 0), (2, 0), (3, 0), (7, 2)):
            library = NormalizedRBFBasisGenerator(
                theirs,
                num_basis=number,
                basis_bandwidth_factor=2,
                num_basis_outside=outside,
                dtype=torch.float64,
            )
            rbf = NormalizedRbf(ours, number, 2.0, outside)
            torch.testing.assert_close(rbf(times), library.basis(times), rtol=0, atol=1e-12)
