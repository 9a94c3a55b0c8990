"""T-SAC's update against loops, what it keeps of episodes, and a small task that it solves."""

from __future__ import annotations

import copy
import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.algorithms.sb3.step_tasks import HORIZON, PointTask, ShortTask
from tests.algorithms.t_sac import naive
from tests.rollout.failing_tasks import EXITS, MEASURE, NAN, PLAY, RAISES, FailingSteps
from top_erl.algorithms.setup import Setup
from top_erl.algorithms.stepwise.config import StepCollectConfig
from top_erl.algorithms.t_sac.config import TSacConfig, TSacLearnConfig, TSacReplayConfig
from top_erl.algorithms.t_sac.learner import TSacLearner
from top_erl.algorithms.t_sac.replay import Trajectories
from top_erl.algorithms.t_sac.targets import combined, n_step_targets
from top_erl.errors import UserError
from top_erl.models.step_critic import StepCriticConfig
from top_erl.models.step_policy import StepPolicyConfig
from top_erl.tasks import Task


def _config(*, bootstrap: bool = False, steps: int = 8 * HORIZON, **learn: Any) -> TSacConfig:
    values = {"batch_size": 6, "critic_starts": 3, "policy_starts": 2, "longest": 4, "critic_decay": 0.01, **learn}
    return TSacConfig(
        collect=StepCollectConfig(environments=4, steps=steps, observe_time=True, bootstrap=bootstrap),
        replay=TSacReplayConfig(capacity=20),
        policy=StepPolicyConfig((8,), (8,)),
        critic=StepCriticConfig(width=8, heads=2),
        learn=TSacLearnConfig(**values),
    )


def _learner(config: TSacConfig, task: Task | None = None) -> TSacLearner:
    task = task or PointTask()
    return TSacLearner(config, Setup(task, task.spec, 0, 10, torch.device("cpu")))


def _batch() -> Trajectories:
    """Five trajectories of up to eight steps: whole and cut off, ended and not."""
    torch.manual_seed(3)
    length = torch.tensor([8, 8, 5, 3, 1])
    return Trajectories(
        torch.randn(5, 9, 3, dtype=torch.float64),
        torch.rand(5, 8, 1, dtype=torch.float64) * 2 - 1,
        torch.randn(5, 8, dtype=torch.float64),
        length,
        torch.tensor([True, False, True, False, True]),
    )


def _double(learner: TSacLearner, monkeypatch: pytest.MonkeyPatch) -> TSacLearner:
    """The networks in double precision, and with larger weights, so that every part of a loss is felt."""
    for network in (learner.policy, learner.critics, learner.target_critics, learner.coefficient):
        network.double()
        for parameter in network.parameters():
            if parameter.dim() > 1:
                parameter.data.mul_(5.0)
    for parameter in learner.target_critics.parameters():
        parameter.data.add_(0.05 * torch.randn_like(parameter))
    noise = learner._noise
    monkeypatch.setattr(learner, "_noise", lambda *shape, generator: noise(*shape, generator=generator).double())
    return learner


def _close(ours: torch.nn.Module, theirs: torch.nn.Module) -> None:
    for (name, mine), other in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=1e-9, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("how", ["mean", "min", "random"])
def test_values_of_states_against_loops(how: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    learner, batch = _double(_learner(_config(combine=how)), monkeypatch), _batch()
    values = learner.state_values(batch, torch.Generator().manual_seed(7))
    generator = torch.Generator().manual_seed(7)
    noise = torch.randn(5, 9, 1, generator=generator).double()
    choice = torch.rand(5, 9, generator=generator) < 0.5
    expected = naive.following(learner, batch, noise, how, choice)
    torch.testing.assert_close(values, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-10)


@pytest.mark.parametrize(("rate", "bound"), [(0.005, 0.0), (1.0, 0.3)])
def test_critic_steps_against_loops(rate: float, bound: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three steps with PyTorch's own AdamW; the targets' values stay as they were made."""
    settings = {"critic_betas": (0.5, 0.95), "critic_rate": 0.01, "discount": 0.9}
    learner = _double(_learner(_config(target_rate=rate, max_gradient=bound, **settings)), monkeypatch)
    batch, generator = _batch(), torch.Generator().manual_seed(1)
    following = learner.state_values(batch, generator)
    critics, targets = copy.deepcopy(learner.critics), copy.deepcopy(learner.target_critics)
    optimizers = [naive.optimizer(critic, 0.01, 0.01, (0.5, 0.95)) for critic in critics]
    for start, length in ((2, 4), (6, 4), (0, 1)):
        stats = learner.critic_step(batch, following, torch.full((5,), start), length)
        losses = naive.critic_losses(critics, batch, following.tolist(), start, min(length, 8 - start), 0.9)
        for critic, loss, optimizer in zip(critics, losses, optimizers, strict=True):
            optimizer.zero_grad()
            loss.backward()
            norm = math.sqrt(sum(float(p.grad.square().sum()) for p in critic.parameters() if p.grad is not None))
            for parameter in critic.parameters():
                if bound and norm > bound and parameter.grad is not None:
                    parameter.grad.mul_(bound / (norm + 1e-6))  # as PyTorch has it
            optimizer.step()
        for slow, fast in zip(targets.parameters(), critics.parameters(), strict=True):
            slow.data = (1 - rate) * slow.data + rate * fast.data
        assert float(stats.loss) == pytest.approx(sum(loss.item() for loss in losses) / 2, abs=1e-10)
        _close(learner.critics, critics)
        _close(learner.target_critics, targets)


def test_policy_steps_against_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three steps; the coefficient is held for the first, and then follows the entropy."""
    config = _config(policy_rate=0.01, policy_decay=0.1, entropy_start=1, entropy_coefficient=0.2)
    learner, batch = _double(_learner(config), monkeypatch), _batch()
    other = copy.copy(learner)
    other.policy, raw = copy.deepcopy(learner.policy), math.log(math.expm1(0.2))
    optimizer = naive.optimizer(other.policy, 0.01, 0.1, (0.9, 0.999))
    parameter = torch.nn.Parameter(torch.tensor([raw], dtype=torch.float64))
    of_coefficient = torch.optim.AdamW([parameter], lr=0.01, weight_decay=0.0)
    before = [value.clone() for value in learner.critics.parameters()]
    for number, start in enumerate((0, 4, 7)):
        noise = torch.randn(5, 1, dtype=torch.float64)
        alpha = math.log1p(math.exp(parameter.item()))
        stats = learner.policy_step(batch, torch.full((5,), start), noise)
        optimizer.zero_grad()
        loss, density = naive.policy_loss(other, batch, start, noise, alpha)
        loss.backward()
        optimizer.step()
        assert float(stats.loss) == pytest.approx(loss.item(), abs=1e-7)  # α starts in single precision
        assert float(stats.entropy) == pytest.approx(-density, abs=1e-9)
        assert float(stats.entropy_coefficient) == pytest.approx(alpha, abs=1e-7)
        if number:
            of_coefficient.zero_grad()
            (torch.nn.functional.softplus(parameter) * (-density - -1.0)).backward()
            of_coefficient.step()
        for mine, theirs in zip(learner.policy.parameters(), other.policy.parameters(), strict=True):
            torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-6)
        assert learner.coefficient.raw.item() == pytest.approx(parameter.item(), abs=1e-6)
    assert parameter.item() != pytest.approx(raw, abs=0.01)
    assert all(torch.equal(old, new) for old, new in zip(before, learner.critics.parameters(), strict=True))


def test_the_policy_learns_from_trajectories_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each update draws twice, as the published code does."""
    learner = _learner(_config(calls=2))
    drawn: list[tuple[str, Trajectories]] = []
    for name in ("train_critics", "train_policy"):
        monkeypatch.setattr(learner, name, lambda batch, _, name=name: drawn.append((name, batch)) or [])
    learner.iterate(1)
    assert [name for name, _ in drawn] == ["train_critics", "train_policy"] * 2
    batches = [batch.state for _, batch in drawn]
    assert not any(torch.equal(one, other) for i, one in enumerate(batches) for other in batches[:i])


def test_a_target_by_hand() -> None:
    made = n_step_targets(torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[10.0, 20.0, 0.0]]), 0.5)
    assert made.tolist() == [[1 + 5.0, 1 + 1 + 5.0, 1 + 1 + 0.75 + 0.0]]


def test_each_state_gets_one_of_both_critics() -> None:
    values = torch.stack((torch.zeros(4000), torch.ones(4000)))
    drawn = combined(values, "random", torch.Generator().manual_seed(0))
    assert float(drawn.mean()) == pytest.approx(0.5, abs=0.05)


# ---------------------------------------------------------------------- what is played


@pytest.mark.parametrize("bootstrap", [False, True])
def test_trajectories_are_the_episodes(bootstrap: bool) -> None:
    learner = _learner(_config(bootstrap=bootstrap))
    stats = learner.iterate(1)
    kept = learner.replay.state_dict()
    assert (len(learner.replay), learner.episodes_collected, learner.env_steps) == (8, 8, 8 * HORIZON)
    assert kept["length"].tolist() == [HORIZON] * 8
    assert kept["ended"].tolist() == [not bootstrap] * 8
    np.testing.assert_allclose(kept["state"][:, :, 2], np.arange(HORIZON + 1) / HORIZON * np.ones((8, 1)), rtol=1e-6)
    moved = kept["state"][:, 1:, 0] - kept["state"][:, :-1, 0]
    torch.testing.assert_close(moved, 0.5 * 2.0 * kept["action"][..., 0])  # actions of the point are in [-2, 2]
    torch.testing.assert_close(kept["reward"], -(kept["state"][:, 1:, 0] - kept["state"][:, 1:, 1]).abs())
    np.testing.assert_allclose(sorted(kept["reward"].sum(1)), sorted(stats.exploration.returns), rtol=1e-5)


def test_episodes_that_end_early_or_are_cut_off() -> None:
    learner = _learner(_config(steps=4 * 11), ShortTask())
    learner.iterate(1)
    kept = learner.replay.state_dict()
    assert sorted(kept["length"].tolist()) == [1] * 4 + [5] * 8
    assert [bool(ended) for ended in kept["ended"]] == [int(length) == 5 for length in kept["length"]]
    assert learner.episodes_collected == 12


def test_episodes_that_fail_are_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    bad = [PLAY + EXITS, PLAY + NAN, MEASURE + RAISES, MEASURE + NAN]
    seeds = [1, bad[3], bad[0], 3, 4, bad[1], 5, bad[2], *range(10, 50)]
    where = "top_erl.algorithms.stepwise.environments.episode_seeds"
    monkeypatch.setattr(where, lambda seed, stream, first, count: [seeds[first]])
    learner = _learner(_config(), FailingSteps())
    failures = [learner.iterate(number).exploration.failures for number in (1, 2)]
    assert sum(failures) == len(bad)
    scores = learner.evaluate([1, 2, PLAY + RAISES, 3])
    assert (len(scores.returns), scores.failures) == (3, 1)
    learner.close()


def test_the_replay_is_a_ring() -> None:
    learner = _learner(_config())
    for number in (1, 2, 3):
        learner.iterate(number)
    state = learner.replay.state_dict()
    assert (len(state["length"]), int(state["total_added"])) == (20, 24)
    forged: dict[str, Tensor] = {
        "length": torch.full((20,), HORIZON + 1),
        "total_added": torch.tensor(3),
        "state": state["state"][..., :-1],
        "ended": state["ended"].float(),
    }
    for name, tensor in forged.items():
        with pytest.raises(UserError, match="does not fit this configuration"):
            learner.replay.load_state_dict({**state, name: tensor})
    learner.replay.load_state_dict(state)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"calls": 0}, "learn.calls, batch_size, critic_starts, policy_starts and longest must be at least 1"),
        ({"discount": 1.5}, "must lie in"),
        ({"critic_betas": (0.9,)}, "learn.critic_betas must be two numbers"),
        ({"entropy_coefficient": 0.0}, "must be positive, or 0 with --learn.entropy fixed"),
        ({"policy_start": -1}, "must not be negative"),
    ],
)
def test_what_cannot_be_is_told(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        _config(**changes)


def test_no_extra_is_needed() -> None:
    code = """
import sys
sys.modules.update(dict.fromkeys(("stable_baselines3", "pink", "matplotlib", "onnx"), None))
from top_erl import Agent
agent = Agent("top_erl/ViaPointReacher-v0", method="t_sac")
print(agent.predict(agent.training.task.begin([1]).observation, step=3).shape)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "(1, 5)\n"


# ---------------------------------------------------------------------- learning


def test_it_finds_the_point() -> None:
    """A point that is pushed towards a goal within 1: one step of at most 1 can be enough, and then it should stay."""
    config = _config(
        steps=4 * HORIZON,
        **{"batch_size": 32, "critic_starts": 8, "policy_starts": 4, "calls": 8, "longest": 4, "standardize": True},
        **{"critic_rate": 3e-3, "policy_rate": 1e-3, "discount": 0.9, "target_rate": 0.05},
        **{"policy_start": 3, "entropy_start": 0},
    )
    learner = _learner(config)
    before = float(learner.evaluate(range(20)).returns.mean())
    for number in range(1, 33):
        learner.iterate(number)
    after = float(learner.evaluate(range(20)).returns.mean())
    assert before < -3.0 < -2.5 < after  # over eight seeds of the updates: before -3.9, after at least -1.1


def test_starts_of_their_own_against_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loss of segments that start at different steps is that of each trajectory alone, weighed by its prefixes."""
    batch, starts, length = _batch(), torch.tensor([0, 6, 2, 7, 3]), 4
    learner = _double(_learner(_config(discount=0.9)), monkeypatch)
    following = learner.state_values(batch, torch.Generator().manual_seed(1))
    total, prefixes = 0.0, 0
    for row, start in enumerate(starts.tolist()):
        alone = type(batch)(**{name: values[row : row + 1] for name, values in batch.tensors().items()})
        count = max(0, min(length, 8 - start, int(batch.length[row]) - start))
        losses = (
            naive.critic_losses(learner.critics, alone, following[row : row + 1].tolist(), start, count, 0.9)
            if count
            else []
        )
        total, prefixes = total + count * sum(loss.item() for loss in losses) / 2, prefixes + count
    assert 5 <= prefixes < 5 * length  # some are cut by the end
    stats = learner.critic_step(batch, following, starts, length)
    assert float(stats.loss) == pytest.approx(total / prefixes, abs=1e-10)


def test_starts_lie_within_their_trajectories() -> None:
    learner, batch = _learner(_config(starts="own", critic_starts=8)), _batch()
    starts = torch.stack(learner._starts(batch, 8, torch.Generator().manual_seed(0)))  # [8, B]
    assert starts.shape == (8, 5)
    assert (starts < batch.length).all()
    assert all(len(set(row.tolist())) > 1 for row in starts)
    whole = int(batch.length.argmax())
    assert sorted(starts[:, whole].tolist()) == list(range(int(batch.length.max())))[: len(starts)]
    common = torch.stack(_learner(_config())._starts(batch, 8, torch.Generator().manual_seed(0)))
    assert all(len(set(row.tolist())) == 1 for row in common)
