"""Runs read back: their numbers, what is left out and why, and what must not be pooled."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.report.folders import FINGERPRINT, write_run
from top_erl.errors import UserError
from top_erl.experiment.metrics_file import read_metrics
from top_erl.report.records import Collection, collect, refuse_mixed
from top_erl.sweep.definition import Sweep, write_sweep

ROOT = Path(__file__).parents[2]


def reasons(collection: Collection) -> dict[str, str]:
    return {each.folder.name: each.reason for each in collection.excluded}


# ---------------------------------------------------------------------- one run


def test_numbers_of_a_run(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", [0.0, 0.8, 0.6], seed=3, fresh=[1.0, 0.0])
    collection = collect([folder])
    (run,) = collection.runs
    assert (run.folder, run.label, run.task, run.seed, run.variant) == (folder, "top_erl", "a/b", 3, "")
    assert (run.env_steps, run.minutes, run.last(), run.last("evaluation_return")) == (3000, 1.5, 0.6, None)
    assert run.fresh == {"success": [1.0, 0.0]}
    assert run.first(0.8) == {
        **{"iteration": 2.0, "episodes": 20.0, "env_steps": 2000.0},
        **{"wall_time": 60.0, "evaluation_success": 0.8},
    }
    assert run.first(0.9) is None
    for axis, along in {"env_steps": [1000, 2000, 3000], "episodes": [10, 20, 30], "minutes": [0.5, 1, 1.5]}.items():
        x, y = run.curve("evaluation_success", axis)  # type: ignore[arg-type]
        assert (x.tolist(), y.tolist()) == (along, [0.0, 0.8, 0.6])
    assert run.curve("critic_loss")[0].size == run.curve("no_such_column")[0].size == 0
    assert (collection.excluded, collection.notes, collection.sweep) == ([], [], None)


def test_real_runs_are_read_as_they_were_written() -> None:
    claims = ROOT / "results/claims/comparison"
    runs = collect([claims]).runs
    assert len(runs) == len(list(claims.glob("*/*/metrics.csv"))) > 10
    for run in runs[:3]:
        rows = [{name: x for name, x in row.items() if x == x} for row in read_metrics(run.folder / "metrics.csv")]
        assert run.rows == rows
        assert run.finished


@pytest.mark.parametrize(
    ("status", "total", "finished"),
    [
        (None, 2000, True),
        (None, 2001, False),
        ("finished", 9000, True),
        ("running", 2000, False),
        ("damaged", 2000, True),
    ],
)
def test_finished_runs(tmp_path: Path, status: str | None, total: int, finished: bool) -> None:
    folder = write_run(tmp_path / "a", [0.1, 0.2], config={"total_env_steps": total}, status=status)
    if status == "damaged":
        (folder / "status.json").write_text("{")
    collection = collect([tmp_path])
    assert collection.runs[0].finished is finished
    said = ["1 of 1 runs are not finished and are shown as far as they are: a (2,000 steps)."]
    assert collection.notes == ([] if finished else said)


@pytest.mark.parametrize(
    ("scores", "finished"),
    [([0.2, 0.9, 1.0], True), ([0.9, 0.9, 0.2], False), ([0.9, 0.2, 0.9], False), ([1.0], False)],
)
def test_a_run_that_was_to_end_when_it_has_learned(tmp_path: Path, scores: list[float], finished: bool) -> None:
    config = {"total_env_steps": 9000, "evaluation": {"stop_at_success": 0.9}}
    write_run(tmp_path / "a", scores, config=config)
    collection = collect([tmp_path])
    assert collection.runs[0].finished is collection.runs[0].ended_by_success is finished
    assert ("1 of 1 runs ended when they had learned" in " ".join(collection.notes)) is finished


def test_a_torn_last_line_is_not_read(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", [0.5, 0.7])
    with (folder / "metrics.csv").open("ab") as file:
        file.write(b"3,30,30\xff")
    (run,) = collect([folder]).runs
    assert run.curve("evaluation_success")[1].tolist() == [0.5, 0.7]


def test_many_runs_are_read_quickly(tmp_path: Path) -> None:
    """Processor time, since other work may share the machine: 200 runs of 1000 rows in a few seconds."""
    values = np.random.default_rng(0).random(1000).tolist()
    for seed in range(10):
        folder = write_run(tmp_path / str(seed), values, seed=seed)
        header, *lines = (folder / "metrics.csv").read_text().splitlines()
        more = "," + ",".join(repr(value) for value in values[:15])
        names = "".join(f",critic_{i}" for i in range(15))
        (folder / "metrics.csv").write_text("\n".join([header + names, *(line + more for line in lines)]) + "\n")
    began = time.process_time()
    assert len(collect([tmp_path]).runs) == 10
    assert time.process_time() - began < 0.6


# ---------------------------------------------------------------------- damage


def _write(name: str, data: bytes) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_bytes(data) and None


def _remove(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def _folder_instead(name: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / name).unlink()
        (folder / name).mkdir()

    return change


def _line(number: int, text: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        lines = (folder / "metrics.csv").read_text().splitlines()
        lines[number - 1] = text
        (folder / "metrics.csv").write_text("\n".join(lines) + "\n")

    return change


HEADER = "iteration,episodes,env_steps,wall_time,evaluation_success,critic_loss"
DAMAGE: dict[str, tuple[Callable[[Path], None], str]] = {
    "no config": (_remove("config.yaml"), "it has no config.yaml"),
    "config not YAML": (_write("config.yaml", b"a: [1"), "config.yaml is not valid YAML"),
    "config without task": (_write("config.yaml", b"method: ppo\nseed: 1\n"), "does not say which method and task"),
    "config a list": (_write("config.yaml", b"- 1\n"), "config.yaml does not say which method and task the run is of"),
    "config empty": (_write("config.yaml", b""), "config.yaml does not say which method and task the run is of"),
    "config without seed": (_write("config.yaml", b"method: a\ntask: b\nseed: x\n"), "does not say the run's seed"),
    "odd steps": (_write("config.yaml", b"method: a\ntask: b\nseed: 1\ntotal_env_steps: [1]\n"), "is not a number"),
    "config runs code": (_write("config.yaml", b"!!python/object/apply:os.getcwd []"), "is not valid YAML"),
    "config not text": (_write("config.yaml", b"\xff\xfe\x00"), "config.yaml is damaged (it is not UTF-8 text)"),
    "a folder for a file": (_folder_instead("config.yaml"), "it cannot be read (Is a directory)"),
    "no fingerprint": (_remove("fingerprint.json"), "it has no fingerprint.json"),
    "half a fingerprint": (_write("fingerprint.json", b'{"seed": 1,'), "fingerprint.json is damaged"),
    "fingerprint a list": (_write("fingerprint.json", b"[]"), "fingerprint.json is damaged (it is not a mapping)"),
    "deep fingerprint": (_write("fingerprint.json", b"[" * 100_000), "fingerprint.json is damaged"),
    "odd evaluation": (_write("evaluation.json", b'{"success": [1, "x"]}'), "evaluation.json is damaged"),
    "too much success": (_write("evaluation.json", b'{"success": [0.5, 2]}'), "evaluation.json is damaged (success"),
    "odd settings": (_write("config.yaml", b"{method: a, task: b, seed: 0, algorithm: 3}"), "config.yaml: algorithm"),
    "endless evaluation": (_write("evaluation.json", b'{"success": [1e999]}'), "evaluation.json is damaged"),
    "no metrics": (_remove("metrics.csv"), "it has no metrics.csv"),
    "empty metrics": (_write("metrics.csv", b""), "it has no numbers yet (metrics.csv has no rows)"),
    "header only": (_write("metrics.csv", HEADER.encode() + b"\n"), "it has no numbers yet"),
    "half a header": (_write("metrics.csv", b"iteration,epis"), "it has no numbers yet"),
    "foreign header": (_write("metrics.csv", b"x,y\n1,2\n"), "metrics.csv is damaged in line 1"),
    "double column": (_line(1, HEADER.replace("critic_loss", "env_steps")), "metrics.csv is damaged in line 1"),
    "metrics not text": (_write("metrics.csv", b"\xff\xfe\n1,2\n"), "metrics.csv is damaged (it is not UTF-8 text)"),
    "zeros": (_line(3, "\0" * 20), "metrics.csv is damaged in line 3"),
    "a short line": (_line(3, "2,20,2000"), "metrics.csv is damaged in line 3"),
    "words": (_line(3, "2,20,2000,60,high,"), "metrics.csv is damaged in line 3"),
    "no steps": (_line(3, "2,20,,60,0.5,"), "metrics.csv is damaged in line 3 (env_steps is nan)"),
    "steps back": (_line(4, "3,30,1500,90,0.5,"), "metrics.csv is damaged in line 4 (env_steps is 1500)"),
    "endless steps": (_line(4, "3,30,1e999,90,0.5,"), "metrics.csv is damaged in line 4 (env_steps is inf)"),
    "impossible": (_line(3, "2,20,2000,60,57,"), "(evaluation_success is 57, not between 0 and 1)"),
    "no evaluation column": (_line(1, HEADER.replace("evaluation_", "")), "metrics.csv has no column of an evaluation"),
    "no evaluation": (_write("metrics.csv", f"{HEADER}\n1,10,1000,30,,0.1\n".encode()), "it has no evaluation yet"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_run_is_named_and_left_out(tmp_path: Path, kind: str) -> None:
    write_run(tmp_path / "sound", [0.1, 0.2, 0.3])
    broken = write_run(tmp_path / "broken", [0.1, 0.2, 0.3], seed=1)
    damage, reason = DAMAGE[kind]
    damage(broken)
    collection = collect([tmp_path])
    assert [run.folder.name for run in collection.runs] == ["sound"]
    (said,) = collection.excluded
    assert said.folder == broken
    assert reason in said.reason


# ---------------------------------------------------------------------- looking for runs


def test_foreign_folders_links_and_hidden_ones(tmp_path: Path) -> None:
    write_run(tmp_path / "group/deeper/a", [0.1])
    write_run(tmp_path / ".hidden/b", [0.1], seed=1)
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures/cat.png").write_bytes(b"")
    (tmp_path / "readme.txt").write_text("config.yaml")
    (tmp_path / "group/back").symlink_to(tmp_path)
    (tmp_path / "itself").symlink_to(tmp_path / "itself")
    (tmp_path / "again").symlink_to(tmp_path / "group/deeper/a")
    collection = collect([tmp_path, tmp_path / "group"])
    assert len(collection.runs) == 1
    assert reasons(collection) == {"pictures": "it is not a run folder and holds none"}


def test_folders_without_any_run(tmp_path: Path) -> None:
    (tmp_path / "a/b/c").mkdir(parents=True)
    collection = collect([tmp_path])
    assert collection.runs == []
    assert reasons(collection) == {tmp_path.name: "it is not a run folder and holds none"}
    with pytest.raises(UserError, match="There is no folder"):
        collect([tmp_path / "nowhere"])


def test_the_same_seed_twice_is_no_second_replicate(tmp_path: Path) -> None:
    write_run(tmp_path / "copy", [0.1, 0.2])
    write_run(tmp_path / "longer", [0.1, 0.2, 0.3])
    write_run(tmp_path / "other", [0.1, 0.2, 0.3], seed=1)
    collection = collect([tmp_path])
    assert [run.folder.name for run in collection.runs] == ["longer", "other"]
    same = "it is the same method, setting, task and seed as"
    assert reasons(collection) == {"copy": f"{same} {tmp_path / 'longer'}"}


def test_unequal_lengths_and_missing_seeds_are_said(tmp_path: Path) -> None:
    for seed in (0, 1):
        write_run(tmp_path / f"a{seed}", [0.1] * (seed + 1), seed=seed)
    write_run(tmp_path / "c0", [0.1], task="c/d")
    write_run(tmp_path / "p0", [0.1], method="ppo")
    assert collect([tmp_path]).notes == [
        "Runs of unequal length are pooled, each with its own last evaluation: top_erl on a/b (1,000, 2,000 steps).",
        "There are no runs of top_erl on c/d with seed 1.",
        "There are no runs of ppo on a/b with seed 1, c/d.",
    ]


def test_settings_that_differ_get_names(tmp_path: Path) -> None:
    def config(target: str, batch: int, seed: int) -> dict[str, Any]:
        algorithm = {"learn": {"target": target, "batch_size": batch}}
        return {"algorithm": algorithm, "log": {"wandb": f"run{seed}"}, "hardware": {"threads": seed + 1}}

    for seed in (0, 1):
        for target in ("v", "q"):
            write_run(tmp_path / f"a{target}{seed}", [0.1], seed=seed, config=config(target, 8, seed))
        write_run(tmp_path / f"c{seed}", [0.1], task="c/d", seed=seed, config=config("v", 16, seed))  # its preset
        write_run(tmp_path / f"p{seed}", [0.1], method="ppo", seed=seed, config=config("v", 16, seed))
    collection = collect([tmp_path])
    labels = {run.folder.name: run.label for run in collection.runs}
    assert {name: label for name, label in labels.items() if name.endswith("0")} == {
        **{"av0": "top_erl · target=v", "aq0": "top_erl · target=q", "c0": "top_erl · target=v", "p0": "ppo"}
    }
    assert (
        "Runs of top_erl have different settings and are kept apart; they differ in learn.target." in collection.notes
    )


# ---------------------------------------------------------------------- sweeps


def test_another_scale_is_another_variant_even_on_another_task(tmp_path: Path) -> None:
    """Other settings that differ between tasks only are their presets."""
    write_run(tmp_path / "a", [0.5], task="t/one", config={"scale": "laptop", "algorithm": {"rate": 1}})
    write_run(tmp_path / "b", [0.5], task="t/two", config={"scale": "laptop", "algorithm": {"rate": 2}})
    assert {run.label for run in collect([tmp_path]).runs} == {"top_erl"}
    write_run(tmp_path / "c", [0.5], task="t/three", config={"scale": "paper", "algorithm": {"rate": 3}})
    found = collect([tmp_path])
    assert {run.task: run.variant for run in found.runs} == {
        **{"t/one": "scale=laptop", "t/two": "scale=laptop", "t/three": "scale=paper"}
    }
    assert "they differ in scale." in found.notes[0]


@pytest.fixture
def sweep_folder(tmp_path: Path) -> Path:
    """Two targets on two tasks with two seeds: one run failed, one has not begun, one is of something else."""
    sweep = Sweep("mine", ("a/b", "c/d"), seeds=(0, 1), grid={"learn.target": ("v", "q")})
    write_sweep(tmp_path, sweep)
    for cell in sweep.cells():
        write_run(tmp_path / cell.name, [0.5], task=cell.task, seed=cell.seed)
    for name in ("logs", "failed", "report"):
        (tmp_path / name).mkdir()
    (tmp_path / "failed/top_erl-b-q-seed1.json").write_text(json.dumps({"sentence": "It diverged."}))
    (tmp_path / "top_erl-d-q-seed0/metrics.csv").unlink()
    for file in (gone := tmp_path / "top_erl-d-q-seed1").iterdir():
        file.unlink()
    gone.rmdir()
    config = tmp_path / "top_erl-d-v-seed1/config.yaml"
    config.write_text(config.read_text().replace("seed: 1", "seed: 7"))
    return tmp_path


def test_a_sweep(sweep_folder: Path) -> None:
    collection = collect([sweep_folder])
    assert collection.sweep is not None
    assert collection.sweep.name == "mine"
    assert {(run.label, run.task, run.seed) for run in collection.runs} == {
        *(("top_erl · v", "a/b", 0), ("top_erl · v", "a/b", 1), ("top_erl · q", "a/b", 0), ("top_erl · v", "c/d", 0)),
    }
    assert reasons(collection) == {
        "top_erl-b-q-seed1": "it failed: It diverged.",
        "top_erl-d-q-seed0": "it has no metrics.csv",
        "top_erl-d-v-seed1": "its config.yaml is of top_erl on c/d with seed 7, not of this cell",
        "report": "it is not a run of this sweep",
    }
    assert collection.notes == [
        "1 runs of the sweep have not begun: top_erl · q on c/d (1).",
        "There are no runs of top_erl · v on c/d with seed 1.",
        "There are no runs of top_erl · q on a/b with seed 1, c/d.",
    ]


@pytest.mark.parametrize("text", ["{", "[]", '{"said": 1}'])
def test_a_failure_whose_sentence_is_damaged(sweep_folder: Path, text: str) -> None:
    (sweep_folder / "failed/top_erl-b-q-seed1.json").write_text(text)
    said = reasons(collect([sweep_folder]))["top_erl-b-q-seed1"]
    assert said == "it failed: what it said cannot be read from failed/top_erl-b-q-seed1.json"


def test_a_damaged_sweep_is_a_folder_of_runs(sweep_folder: Path) -> None:
    (sweep_folder / "sweep.yaml").write_text("tasks: [")
    collection = collect([sweep_folder])
    assert collection.sweep is None
    assert len(collection.runs) == 4
    assert "its sweep.yaml cannot be used: " in reasons(collection)[sweep_folder.name]


# ---------------------------------------------------------------------- what must not be pooled


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"success_rule": "near the goal"}, "success rule of a/b is 'at the goal' in {a}, but 'near the goal' in {b}"),
        ({"task_version": "2"}, "version of a/b is '1' in {a}, but '2' in {b}"),
        ({"horizon": 500}, "horizon of a/b is '100' in {a}, but '500' in {b}"),
        ({"horizon": None}, "horizon of a/b is '100' in {a}, but 'not recorded' in {b}"),
        (
            {"packages": {**FINGERPRINT["packages"], "torch": "2.0"}},
            "version of torch is '2.13.0' in {a}, but '2.0' in",
        ),
        ({"packages": {}}, "version of top-erl is '0.1.0' in {a}, but 'not recorded' in {b}"),
        ({"packages": None}, "version of top-erl is '0.1.0' in {a}, but 'not recorded' in {b}"),
    ],
)
def test_what_is_never_mixed(tmp_path: Path, change: dict[str, Any], what: str) -> None:
    a = write_run(tmp_path / "a", [0.1])
    b = write_run(tmp_path / "b", [0.1], method="ppo", fingerprint=change)
    with pytest.raises(UserError) as caught:
        refuse_mixed(collect([tmp_path]).runs)
    assert str(caught.value).startswith(f"These runs are not comparable: the {what.format(a=a, b=b)}")


def test_packages_of_step_based_methods(tmp_path: Path) -> None:
    for method, version in {"sac": "2.7", "ppo": "2.6"}.items():
        packages = {**FINGERPRINT["packages"], "stable-baselines3": version}
        write_run(tmp_path / method, [0.1], method=method, fingerprint={"packages": packages})
    with pytest.raises(UserError, match="version of stable-baselines3"):
        refuse_mixed(collect([tmp_path]).runs)


def test_what_may_be_mixed(tmp_path: Path) -> None:
    """Another rule for another task; what does not decide numbers; Meta-World where it is not used."""
    write_run(tmp_path / "a", [0.1])
    packages = {**FINGERPRINT["packages"], "safetensors": "1.0", "metaworld": "3.1.1"}
    write_run(tmp_path / "b", [0.1], seed=1, fingerprint={"packages": packages, "python": "3.10"})
    write_run(tmp_path / "c", [0.1], task="c/d", fingerprint={"success_rule": "upright", "horizon": 250})
    write_run(tmp_path / "m", [0.1], task="metaworld/reach-v3", fingerprint={"packages": packages})
    for method in ("sac", "pink"):
        both = {**packages, "stable-baselines3": "2.7", **({"pink-noise-rl": "2.0"} if method == "pink" else {})}
        write_run(tmp_path / method, [0.1], method=method, fingerprint={"packages": both})
    write_run(tmp_path / "t_sac", [0.1], method="t_sac", fingerprint={"packages": packages})  # without the extra
    refuse_mixed(collect([tmp_path]).runs)
    write_run(tmp_path / "n", [0.1], task="metaworld/push-v3", fingerprint={"packages": {**packages, "metaworld": "3"}})
    with pytest.raises(UserError, match=r"version of metaworld is '3.1.1' in .*m, but '3' in .*n"):
        refuse_mixed(collect([tmp_path]).runs)
