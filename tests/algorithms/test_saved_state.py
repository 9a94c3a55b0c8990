"""Saved tensors are checked before any is taken over: those of a forged checkpoint would reach past their memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from tests.experiment.variations import with_trust_region
from top_erl.algorithms.registry import METHODS
from top_erl.config.run import HardwareConfig, RunConfig
from top_erl.errors import UserError
from top_erl.experiment.checkpoint import Checkpoint
from top_erl.experiment.presets import preset
from top_erl.experiment.training import Training

REACHER = "top_erl/ViaPointReacher-v0"
State = dict[str, Tensor]


@pytest.fixture(scope="module", params=[method.name for method in METHODS])
def training(request: pytest.FixtureRequest) -> Iterator[Training]:
    """An untrained run of every method; what is refused does not change it."""
    config = preset(request.param, REACHER, "laptop")
    made = Training(replace(config, hardware=HardwareConfig(threads=1, workers=0)))
    yield made
    made.close()


def _optimizers(training: Training) -> dict[str, torch.optim.Optimizer]:
    learner = training.learner
    return learner.optimizers() if hasattr(learner, "optimizers") else learner._optimizers()  # type: ignore[attr-defined,no-any-return]


def _moved(training: Training) -> Checkpoint:
    """A checkpoint with moments of all parameters, as after a first step."""
    checkpoint = training.checkpoint()
    for name, optimizer in _optimizers(training).items():
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        for index, parameter in enumerate(parameters):
            for moment in ("exp_avg", "exp_avg_sq"):
                checkpoint.state[f"{name}.{index}.{moment}"] = torch.zeros_like(parameter)
            checkpoint.state[f"{name}.{index}.step"] = torch.tensor(1.0)
    return checkpoint


def _refused(training: Training, checkpoint: Checkpoint, message: str, **changes: Tensor | None) -> None:
    """Restoring is refused with a sentence when tensors are replaced, or removed."""
    before = {name: tensor.clone() for name, tensor in training.learner.state_dict().items()}
    state = {name: tensor for name, tensor in {**checkpoint.state, **changes}.items() if tensor is not None}
    with pytest.raises(UserError) as caught:
        training.restore(replace(checkpoint, state=state))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    after = training.learner.state_dict()
    assert after.keys() == before.keys()
    assert all(torch.equal(after[name], before[name]) for name in before)


def test_networks_of_another_size_or_type(training: Training) -> None:
    checkpoint = _moved(training)
    name = next(name for name, tensor in checkpoint.state.items() if name.startswith("policy.") and tensor.dim() == 2)
    tensor = checkpoint.state[name]
    _refused(training, checkpoint, f"({name} is float32 of shape [1, 2], not", **{name: torch.zeros(1, 2)})
    _refused(training, checkpoint, f"({name} is float16 of shape", **{name: tensor.half()})
    _refused(training, checkpoint, f"({name} is missing)", **{name: None})
    _refused(training, checkpoint, "(policy.more is not known here)", **{"policy.more": torch.zeros(1)})


def test_moments_of_another_size(training: Training) -> None:
    """The fused kernel would have read and written beyond them."""
    checkpoint = _moved(training)
    for name, optimizer in _optimizers(training).items():
        first = optimizer.param_groups[0]["params"][0]
        for moment in ("exp_avg", "exp_avg_sq"):
            key = f"{name}.0.{moment}"
            _refused(training, checkpoint, f"({key} is float32 of shape [0], not", **{key: torch.zeros(0)})
            _refused(training, checkpoint, f"({key} is int8 of", **{key: torch.zeros(first.shape, dtype=torch.int8)})
            _refused(training, checkpoint, f"has not the moments of Adam: {moment})", **{key: None})
        for value in (-1.0, float("nan"), float("inf"), 0.5):
            _refused(training, checkpoint, f"{name}.0.step is", **{f"{name}.0.step": torch.tensor(value)})
        for key in (f"{name}.9999.step", f"{name}.-1.step", f"{name}.00.step", f"{name}.x.step", f"{name}.step"):
            _refused(training, checkpoint, f"({key} is not known here", **{key: torch.tensor(1.0)})


def test_what_was_saved_fits(training: Training) -> None:
    training.learner.check_state(_moved(training).state, training.learner.replay_state())


# ---------------------------------------------------------------------- the replays


@pytest.fixture(params=["anchor", "behaviour"])
def tiny_training(
    request: pytest.FixtureRequest, tiny: RunConfig, trainings: Callable[[RunConfig], Training]
) -> Training:
    made = trainings(with_trust_region(tiny, anchor="behaviour") if request.param == "behaviour" else tiny)
    made.advance()
    return made


def _forged(name: str, replay: State) -> State:
    """A replay in which one thing is wrong."""
    steps, gaussians = replay["steps"], replay["gaussians"]
    changes: dict[str, dict[str, Tensor]] = {
        "negative": {"total_added": torch.tensor(-3)},
        "huge": {"total_added": torch.tensor(2**62)},
        "fraction": {"total_added": torch.tensor(7.0)},
        "several": {"total_added": torch.tensor([7, 7])},
        "shorter": {"steps": steps[:-1]},
        "narrow": {"steps": steps[..., :-1]},
        "flat": {"steps": steps.flatten(1)},
        "doubles": {"steps": steps.double()},
        "scalar": {"steps": torch.tensor(1.0)},
        "widths": {"widths": torch.tensor([1, 1, 1, -3])},
        "fewer widths": {"widths": torch.tensor([steps.shape[-1]])},
        "factor": {"factor_shape": torch.tensor([-1, 5])},
        "gaussians": {"gaussians": torch.zeros(len(steps), 1) if gaussians.numel() == 0 else gaussians[:, :-1]},
        "fewer gaussians": {"gaussians": torch.zeros(1, 3) if gaussians.numel() == 0 else gaussians[:-1]},
        "another": {"another": torch.zeros(1)},
    }
    return {**replay, **changes[name]}


FORGERIES = ("negative", "huge", "fraction", "several", "shorter", "narrow", "flat", "doubles", "scalar")
MORE_FORGERIES = ("widths", "fewer widths", "factor", "gaussians", "fewer gaussians", "another")


def test_forged_episodes(tiny_training: Training) -> None:
    whole = tiny_training.checkpoint()
    for name in (*FORGERIES, *MORE_FORGERIES):
        with pytest.raises(UserError, match=r"^The checkpoint does not fit this configuration \(.*\): use the config"):
            tiny_training.restore(replace(whole, replay=_forged(name, whole.replay)))
    for part in whole.replay:
        with pytest.raises(UserError, match=f"{part} is missing|does not fit"):
            tiny_training.restore(replace(whole, replay={k: v for k, v in whole.replay.items() if k != part}))
    assert len(tiny_training.learner.replay) == 7  # type: ignore[attr-defined]  # none was taken over
    tiny_training.restore(whole)


def test_counters_that_do_not_agree(tiny_training: Training) -> None:
    whole = tiny_training.checkpoint()
    with pytest.raises(UserError, match="41 steps are not 7 whole episodes"):
        tiny_training.restore(replace(whole, progress=replace(whole.progress, env_steps=41)))


def test_forged_steps() -> None:
    pytest.importorskip("stable_baselines3")
    config = preset("sac", REACHER, "laptop")
    training = Training(replace(config, hardware=HardwareConfig(threads=1, workers=0)))
    buffer, whole = training.learner.model.replay_buffer, training.checkpoint()  # type: ignore[attr-defined]
    buffer.pos = 5
    rows = training.checkpoint().replay
    forgeries = {
        "next_row": torch.tensor(-1),
        "rewards": rows["rewards"][:-1],
        "actions": rows["actions"][..., :-1],
        "dones": rows["dones"].double(),
        "timeouts": torch.tensor(1.0),
    }
    for name, forged in forgeries.items():
        with pytest.raises(UserError, match=r"does not fit"):
            training.restore(replace(whole, replay={**rows, name: forged}))
    buffer.full = True  # all rows are held: one before the first would be the last
    rows = training.checkpoint().replay
    with pytest.raises(UserError, match="does not fit a capacity of"):
        training.restore(replace(whole, replay={**rows, "next_row": torch.tensor(-1)}))
    training.restore(replace(whole, replay=rows))
    training.close()
