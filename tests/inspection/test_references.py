"""Correlations and spread of references: against samples, against mp_pytorch, and by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from mp_pytorch.basis_gn import ProDMPBasisGenerator
from mp_pytorch.mp import ProDMP as LibraryProDmp
from mp_pytorch.phase_gn import ExpDecayPhaseGenerator

from tests.inspection.conftest import MakeAgent
from top_erl.agent import Agent
from top_erl.algorithms.episodic import EpisodicLearner
from top_erl.inspection import spread
from top_erl.inspection.correlation import correlation_map, correlations, shown_times
from top_erl.inspection.opening import control_times, episodic_learner, fresh_starts, reference_distribution
from top_erl.inspection.spread import Quantity, spread_of
from top_erl.tasks import EpisodeStarts


def _sampled(learner: EpisodicLearner, count: int) -> np.ndarray:
    """Positions of sampled references in the first fresh context, [count, T, D]: played ones, not a distribution's."""
    start = fresh_starts(learner, 1, 0)
    many = EpisodeStarts(
        *(value.repeat(count, axis=0) for value in (start.observation, start.position, start.velocity))
    )
    noise = torch.randn(count, learner.primitive.num_params, generator=torch.Generator().manual_seed(1))
    return learner.collector.plan(learner.policy, many, noise)[0].position.numpy()


@pytest.mark.parametrize("method", ["top_erl", "bbrl_std"])
def test_correlations_are_those_of_samples(method: str, make_agent: MakeAgent) -> None:
    agent = make_agent(method)
    found = correlation_map(agent)
    positions = _sampled(episodic_learner(agent), 20_000)  # 50 times, none left out
    sampled = np.corrcoef(positions.transpose(2, 1, 0).reshape(250, -1))  # rows: all times of a DoF, then the next
    assert found.correlation.shape == (250, 250)
    assert np.abs(found.correlation - sampled).max() < 0.04  # about five standard errors
    between = np.abs(found.correlation[:50, 50:]).max()
    assert between > 0.2 if method == "top_erl" else between == 0.0  # a diagonal covariance ties no DoF to another


def test_correlations_are_those_of_mp_pytorch(make_agent: MakeAgent) -> None:
    agent = make_agent()
    learner = episodic_learner(agent)
    config, spec, start = learner.primitive.config, learner.collector.spec, fresh_starts(learner, 1, 0)
    phase = ExpDecayPhaseGenerator(tau=config.tau, alpha_phase=config.alpha_phase, dtype=torch.float64)
    basis = ProDMPBasisGenerator(
        phase,
        num_basis=config.num_basis,
        basis_bandwidth_factor=config.bandwidth_factor,
        num_basis_outside=config.num_basis_outside,
        dt=spec.dt,
        alpha=config.alpha,
        pre_compute_length_factor=config.table_length_factor,
        dtype=torch.float64,
    )
    library = LibraryProDmp(
        basis,
        num_dof=spec.num_dof,
        weights_scale=config.weights_scale,
        goal_scale=config.goal_scale,
        auto_scale_basis=config.auto_scale_basis,
        relative_goal=config.relative_goal,
        dtype=torch.float64,
    )
    gaussian = learner.collector.plan(learner.policy, start)[2]
    position, velocity = torch.from_numpy(start.position), torch.from_numpy(start.velocity)
    library.update_inputs(
        times=shown_times(learner).unsqueeze(0),
        params=gaussian.mean.double(),
        params_L=gaussian.factor.double().unsqueeze(0),
        init_time=torch.zeros(1, dtype=torch.float64),
        init_pos=position,
        init_vel=velocity,
    )
    covariance = library.get_traj_pos_cov(reg=0.0)[0].numpy()
    std = np.sqrt(covariance.diagonal())
    assert np.abs(correlation_map(agent).correlation - covariance / np.outer(std, std)).max() < 1e-6


def test_what_is_certain_has_no_correlation() -> None:
    covariance = torch.tensor([[4.0, 2.0, 0.0], [2.0, 9.0, 0.0], [0.0, 0.0, 0.0]], dtype=torch.float64)
    found = correlations(covariance).numpy()
    np.testing.assert_allclose(found[:2, :2], [[1.0, 1 / 3], [1 / 3, 1.0]], rtol=1e-15)
    assert np.isnan(found[2]).all()
    assert np.isnan(found[:, 2]).all()


def test_a_long_episode_is_thinned_out(make_agent: MakeAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = episodic_learner(make_agent())
    monkeypatch.setattr("top_erl.inspection.correlation._MOST_STEPS", 20)  # of 50
    np.testing.assert_allclose(shown_times(learner).numpy(), 0.02 + 0.06 * np.arange(17))


@pytest.mark.parametrize("quantity", ["position", "velocity"])
def test_the_band_is_that_of_samples(
    quantity: Quantity, make_agent: MakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spread, "_SAMPLES", 4000)
    found = spread_of(make_agent(), seed=3, contexts=2, quantity=quantity)
    assert found.samples.shape == (2, 4000, 51, 5)
    assert not found.std[:, 0].any()  # the start is certain
    error = (found.samples.mean(axis=1) - found.mean)[:, 1:] / found.std[:, 1:]
    assert np.abs(error).max() < 0.08  # standard error: 0.016
    assert np.abs(found.samples.std(axis=1)[:, 1:] / found.std[:, 1:] - 1.0).max() < 0.06  # 0.011


def test_the_band_is_that_of_the_primitives_distribution(make_agent: MakeAgent) -> None:
    agent: Agent = make_agent("tce")
    learner, found = episodic_learner(agent), spread_of(agent, seed=3)
    starts = fresh_starts(learner, 3, 3)
    distribution = reference_distribution(learner, starts, control_times(learner))
    np.testing.assert_allclose(found.std, distribution.position_std.expand(3, -1, -1).numpy(), rtol=1e-12)
    reference = agent.predict(starts.observation, starts.position, starts.velocity)
    np.testing.assert_allclose(found.mean[:, 1:], reference.position, rtol=0, atol=1e-12)  # type: ignore[union-attr]
