"""Options as text, as a sweep's file or command line has them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from top_erl.algorithms.top_erl import TopErlRun
from top_erl.config.options import with_options
from top_erl.errors import UserError
from top_erl.experiment.configs import config_from_dict
from top_erl.experiment.presets import preset
from top_erl.sweep.cell import cell_config
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


BOX = "top_erl/BoxPushingDense-v0"


@pytest.mark.parametrize("method", ["top_erl", "tce"])
def test_without_a_trust_region_there_is_no_entropy_bound_either(method: str) -> None:
    start = preset(method, BOX, "paper")

    def trust_region(**options: str) -> Any:
        config: Any = with_options(start, {f"trust-region.{name}": value for name, value in options.items()})
        return config.algorithm.trust_region

    assert trust_region().entropy == "linear"
    assert trust_region(projection="w2").entropy == "linear"
    assert trust_region(projection="none").entropy == "none"
    assert trust_region(projection="none", entropy="linear").entropy == "linear"  # asked for
    assert trust_region(entropy="linear", projection="none").entropy == "linear"


def test_a_configuration_from_before_keeps_its_entropy_bound() -> None:
    """Projection none and a bound in one file is what was run: neither reading it nor other options may change it."""
    data = preset("top_erl", BOX, "paper").to_dict()
    data["algorithm"]["trust_region"] |= {"projection": "none", "entropy": "linear"}
    config = config_from_dict(data)
    assert (
        with_options(config, {"learn.batch-size": "64"}).to_dict()["algorithm"]["trust_region"]["entropy"] == "linear"
    )


@pytest.mark.parametrize("scale", ["laptop", "paper"])
def test_components_of_the_ablation_are_what_they_say(scale: str) -> None:
    sweep = replace(NAMED["ablation-components"], scale=scale, seeds=(0,))
    configs: dict[tuple[str, str], Any] = {(cell.task, cell.variant): cell_config(cell) for cell in sweep.cells()}
    for task in sweep.tasks:
        free = configs[task, "no-trust-region"].algorithm.trust_region
        assert (free.projection, free.entropy) == ("none", "none")
        fixed = configs[task, "fixed-segments"].algorithm
        tokens = 100 // fixed.collect.stride
        (length,) = fixed.segments.build().lengths(tokens)
        assert tokens // length == 25
