"""Options as text, as a sweep's file or command line has them."""

from __future__ import annotations

import pytest

from top_erl.algorithms.top_erl import TopErlRun
from top_erl.config.options import with_options
from top_erl.errors import UserError
from top_erl.sweep.definition import Cell
from top_erl.sweep.named import NAMED


def test_options_reach_their_places() -> None:
    config = with_options(
        TopErlRun(),
        {
            "learn.target": "q",
            "policy.hidden": "32 16",
            "critic.layer-norm": "false",
            "threads": "2",
            "total_env_steps": "1000",
            "learn.critic-rate": "1e-4",
            "primitive.num-basis": "3",
        },
    )
    algorithm = config.algorithm
    assert (algorithm.learn.target, algorithm.policy.hidden, algorithm.critic.layer_norm) == ("q", (32, 16), False)
    assert (config.hardware.threads, config.total_env_steps, algorithm.learn.critic_rate) == (2, 1000, 1e-4)
    assert config.primitive.num_basis == 3


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("learn.targt", "q", "Unknown option '--learn.targt'; did you mean '--learn.target'"),
        ("learn.batch-size", "many", "--learn.batch-size should be int, not 'many'"),
        ("learn.batch-size", "0", "learn.batch_size must be at least 1"),
        ("critic.layer-norm", "perhaps", "--critic.layer-norm should be bool, not 'perhaps'"),
        ("segments.kind", "odd", "Unknown value of --segments.kind 'odd'"),
        ("learn.target", "nothing", "Unknown learn.target 'nothing'"),
    ],
)
def test_mistakes_are_sentences(option: str, value: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        with_options(TopErlRun(), {option: value})


@pytest.mark.parametrize("name", ["ablation-targets", "ablation-components", "ablation-segments"])
def test_every_ablation_of_the_paper_changes_the_configuration(name: str) -> None:
    def algorithm(cell: Cell) -> object:
        return with_options(TopErlRun(), cell.options).algorithm

    first = [cell for cell in NAMED[name].cells() if cell.seed == 0 and cell.task == NAMED[name].tasks[0]]
    assert len({repr(algorithm(cell)) for cell in first}) == len(first)
