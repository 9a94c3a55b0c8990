"""The grid of a sweep: which runs there are, how they are called, what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from top_erl.errors import UserError
from top_erl.sweep.cell import cell_config
from top_erl.sweep.definition import Sweep, read_sweep, sweep_from_dict, write_sweep
from top_erl.sweep.named import METHODS, NAMED, named_sweep
from top_erl.sweep.source import read_definition, seeds_from_text

ARM = "top_erl/ViaPointReacher-v0"


def test_the_grid_is_the_product_with_seeds_outermost() -> None:
    sweep = Sweep(
        "s",
        (ARM, "metaworld/reach-v3"),
        {"top_erl": {"learn.batch-size": "8"}, "tce": {}},
        seeds=(3, 4),
        options={"total-env-steps": "1000"},
    )
    names = [cell.name for cell in sweep.cells()]
    assert names == [
        f"{method}-{task}-seed{seed}"
        for seed in (3, 4)
        for task in ("ViaPointReacher-v0", "reach-v3")
        for method in ("top_erl", "tce")
    ]
    assert sweep.cells()[0].options == {"total-env-steps": "1000", "learn.batch-size": "8"}
    assert sweep.cells()[1].options == {"total-env-steps": "1000"}


def test_lists_of_options_and_named_variants_become_labels() -> None:
    one = Sweep("s", (ARM,), seeds=(0,), grid={"learn.target": ("v", "q")})
    assert [(cell.variant, cell.name) for cell in one.cells()] == [
        ("v", "top_erl-ViaPointReacher-v0-v-seed0"),
        ("q", "top_erl-ViaPointReacher-v0-q-seed0"),
    ]
    two = Sweep("s", (ARM,), seeds=(0,), grid={"learn.target": ("v", "q"), "learn.batch-size": ("8",)})
    assert [cell.variant for cell in two.cells()] == ["target=v,batch-size=8", "target=q,batch-size=8"]
    named = Sweep(
        "s", (ARM,), seeds=(0,), grid={"learn.target": ("q",)}, variants={"50%": {"segments.fraction": "0.5"}}
    )
    (cell,) = named.cells()
    assert (cell.variant, cell.name) == ("50%,q", "top_erl-ViaPointReacher-v0-50pct_q-seed0".replace("_q", ",q"))
    assert cell.options == {"segments.fraction": "0.5", "learn.target": "q"}


def test_tasks_that_differ_in_their_namespace_only_get_whole_names() -> None:
    sweep = Sweep("s", ("a:Task", "b/a:Task"), seeds=(0,))
    assert len({cell.name for cell in sweep.cells()}) == 2


def test_the_papers_experiments() -> None:
    runs = {name: len(sweep.cells()) for name, sweep in NAMED.items()}
    assert runs == {
        "metaworld50": 8 * 50 * 8,
        "hopper-jump": 8 * 8,
        "box-dense": 8 * 8,
        "box-sparse": 8 * 8,
        "ablation-targets": 4 * 2 * 8,
        "ablation-components": 6 * 2 * 8,
        "ablation-segments": 6 * 8,
    }
    assert set(METHODS) == set(NAMED["metaworld50"].methods)
    with pytest.raises(UserError, match="did you mean 'box-dense'"):
        named_sweep("box-dens")


@pytest.mark.parametrize("name", [name for name in NAMED if name.startswith("ablation-")])
def test_ablations_are_of_the_published_method(name: str) -> None:
    """At laptop scale too, where Box Pushing's preset is another; and no two variants are the same."""
    cells = [cell for cell in NAMED[name].cells() if cell.seed == 0 and cell.task.startswith("top_erl/BoxPushingDense")]
    algorithms = [cell_config(cell).to_dict()["algorithm"] for cell in cells]
    assert len({json.dumps(algorithm, sort_keys=True) for algorithm in algorithms}) == len(cells) == len(algorithms)
    for algorithm in algorithms:
        assert algorithm["plan"]["every"] == 0
        assert algorithm["learn"]["hindsight"] == 0.0
        assert algorithm["segments"]["kind"] != "rests"


def test_a_file_round_trip(tmp_path: Path) -> None:
    for sweep in NAMED.values():
        write_sweep(tmp_path, sweep)
        assert read_sweep(tmp_path) == sweep


def test_files_of_the_user(tmp_path: Path) -> None:
    yaml = tmp_path / "my sweep.yaml"
    yaml.write_text(
        "tasks: metaworld/button-*\nseeds: 2\nmethods: {top_erl: {policy.hidden: [64, 64], critic.layer_norm: false}}\n"
        "grid: {learn.discount: [0.99, 1]}\n"
    )
    sweep = read_definition(yaml)
    assert sweep.name == "my_sweep"
    assert len(sweep.tasks) == 4
    assert sweep.seeds == (0, 1)
    assert sweep.methods == {"top_erl": {"policy.hidden": "64 64", "critic.layer-norm": "false"}}
    assert sweep.grid == {"learn.discount": ("0.99", "1")}
    python = tmp_path / "more.py"
    python.write_text("SWEEP = {'tasks': [f'metaworld/{name}-v3' for name in ('reach', 'push')], 'seeds': [5]}\n")
    assert read_definition(python).tasks == ("metaworld/reach-v3", "metaworld/push-v3")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tasks: [a]\ntask: b", "Unknown entry in .* 'task'; did you mean 'tasks'"),
        ("tasks: []", "has no tasks"),
        ("tasks: [a, a]\nseeds: [1, 1]", "names some of its seeds twice"),
        ("tasks: [a]\nseeds: two", "seeds of .* should be a whole number, not 'two'"),
        ("tasks: [a]\nseeds: -1", "has no seeds"),
        ("tasks: [a]\nseeds: [-1]", "must not be negative"),
        ("tasks: [a]\noptions: 3", "should be mappings, not 3"),
        ("tasks: metaworld/nothing-*", "No task matches 'metaworld/nothing-\\*'"),
        ("tasks: [a]\nscale: big", "Unknown scale 'big'"),
        ("- a", "should hold a mapping"),
        ("tasks: [a", "is not valid YAML"),
        ("tasks: [a]\noptions: {seed: 3}", "seed is no option of the sweep's runs: use the sweep's seeds"),
        ("tasks: [a]\ngrid: {learn.target: []}", "in the grid of the sweep sweep has no values"),
        ("tasks: [a]\nname: ../x", "A sweep's name is a word"),
    ],
)
def test_mistakes_in_a_file_are_sentences(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "sweep.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=message):
        read_definition(path)


def test_mistakes_in_a_python_file_are_sentences(tmp_path: Path) -> None:
    path = tmp_path / "s.py"
    path.write_text("1 / 0")
    with pytest.raises(UserError, match=r"s\.py raised ZeroDivisionError"):
        read_definition(path)
    path.write_text("x = 1")
    with pytest.raises(UserError, match="should define SWEEP"):
        read_definition(path)
    with pytest.raises(UserError, match="There is no file"):
        read_definition(tmp_path / "none.yaml")


def test_labels_that_would_share_a_folder_are_refused() -> None:
    sweep = sweep_from_dict({"name": "s", "tasks": [ARM], "variants": {"a b": {}, "a/b": {}}}, "here")
    with pytest.raises(UserError, match="would share a folder"):
        sweep.cells()


@pytest.mark.parametrize(("text", "seeds"), [("3", (0, 1, 2)), ("2,5", (2, 5)), ("2-4,9", (2, 3, 4, 9)), ("7,", (7,))])
def test_seeds_as_they_are_typed(text: str, seeds: tuple[int, ...]) -> None:
    assert seeds_from_text(text) == seeds


def test_wrong_seeds() -> None:
    with pytest.raises(UserError, match="--seeds is a number of seeds"):
        seeds_from_text("a")
