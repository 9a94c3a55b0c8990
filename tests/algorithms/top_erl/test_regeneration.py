"""New actions for old segments: with the old parameters, the old actions come out again."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch

from tests.algorithms.top_erl.tiny import TinyTask, tiny_config, tiny_learner
from top_erl.algorithms.top_erl.regeneration import check_conditions
from top_erl.errors import UserError
from top_erl.primitives import PrimitiveConfig, make_primitive

KINDS: dict[str, dict[str, Any]] = {
    "prodmp": {"kind": "prodmp"},
    "prodmp relative": {"kind": "prodmp", "relative_goal": True},
    "dmp": {"kind": "dmp", "weights_scale": 20.0, "relative_goal": True},
    "promp": {"kind": "promp", "num_zero_start": 1},
    "bspline": {"kind": "bspline", "relative_goal": True},
}


@pytest.mark.parametrize("stride", [1, 3])
@pytest.mark.parametrize(
    ("name", "condition"),
    [("promp", "episode"), *product(("prodmp", "prodmp relative", "dmp", "bspline"), ("segment", "episode"))],
)
def test_the_same_parameters_give_the_same_actions(name: str, condition: str, stride: int) -> None:
    changes = {"collect": {"stride": stride}, "learn": {"critic_condition": "episode"}}
    learner = tiny_learner(tiny_config(**changes), task=TinyTask(horizon=12), **KINDS[name])
    learner.collector.start(learner.policy, 4)
    rollout, _ = learner.collector.finish_rollout()
    batch = learner.collector.stored(rollout)
    for seed in range(5):
        generator = torch.Generator().manual_seed(seed)
        segments = learner.segmentation.draw(batch.horizon, generator, padded=True)
        params = rollout.params.unsqueeze(1).expand(-1, len(segments.starts), -1)
        actions = learner.regenerate(batch, segments, params, condition)
        torch.testing.assert_close(actions, batch.action[:, segments.inside], rtol=0, atol=1e-4)


def test_what_cannot_be_restarted_is_refused() -> None:
    prodmp, promp = (make_primitive(PrimitiveConfig(kind=kind), 2, 0.1) for kind in ("prodmp", "promp"))
    check_conditions(prodmp, critic_condition="segment", policy_condition="segment")
    check_conditions(promp, critic_condition="episode", policy_condition="episode")
    with pytest.raises(UserError, match=r"promp cannot be restarted .*: use --learn.policy-condition episode, or"):
        check_conditions(promp, critic_condition="episode", policy_condition="segment")
