"""Configurations to plain data and back."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml

from top_erl.algorithms.registry import METHODS
from top_erl.config.serialize import from_dict, read_yaml, to_dict, write_yaml
from top_erl.errors import UserError
from top_erl.experiment.configs import config_from_dict, load_config
from top_erl.experiment.presets import preset
from top_erl.tasks import task_ids

ROOT = Path(__file__).parents[2] / "results"
RESULTS = sorted(ROOT.rglob("config.yaml"))
assert RESULTS


@pytest.mark.parametrize("scale", ["laptop", "paper"])
@pytest.mark.parametrize("task", task_ids())
@pytest.mark.parametrize("method", [method.name for method in METHODS])
def test_every_preset_round_trips(method: str, task: str, scale: str, tmp_path: Path) -> None:
    config = preset(method, task, scale, seed=5)
    write_yaml(tmp_path / "config.yaml", config.to_dict())
    assert load_config(tmp_path / "config.yaml") == config


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"sead": 1}, "Unknown configuration entry 'sead'; did you mean 'seed'?"),
        (
            {"algorithm": {"learn": {"critic_raet": 1}}},
            "Unknown configuration entry 'algorithm.learn.critic_raet'; did you mean 'algorithm.learn.critic_rate'?",
        ),
        ({"seed": "one"}, "seed should be int, not 'one'"),
        ({"seed": True}, "seed should be int, not True"),
        ({"seed": 1.5}, "seed should be int, not 1.5"),
        ({"log": {"tensorboard": 1}}, "log.tensorboard should be bool, not 1"),
        ({"log": {"wandb": "of"}}, "Unknown log.wandb 'of'; did you mean 'off'?"),
        ({"algorithm": 3}, "algorithm. should be a mapping, not 3"),
        ({"algorithm": {"policy": {"hidden": 128}}}, "algorithm.policy.hidden should be"),
        ({"algorithm": {"policy": {"hidden": [1, "x"]}}}, "algorithm.policy.hidden should be int, not 'x'"),
        ({"algorithm": {"learn": {"critic_rate": "1e-3x"}}}, "algorithm.learn.critic_rate should be float"),
        ([1], "top level should be a mapping, not [1]"),
        (None, "top level should be a mapping, not None"),
        ({5: 1}, "Unknown configuration entry '5'"),
    ],
)
def test_mistakes_are_named(data: Any, message: str) -> None:
    with pytest.raises(UserError) as caught:
        config_from_dict(data)
    assert message in str(caught.value)


def test_whole_numbers_are_floats_where_floats_are_wanted() -> None:
    config = config_from_dict({"algorithm": {"learn": {"discount": 1}}})
    assert isinstance(config.algorithm.learn.discount, float)


@dataclass(frozen=True)
class Kinds:
    """Kinds of fields a configuration may have."""

    maybe: int | None = None
    where: Path | str = "here"
    sizes: tuple[int, ...] = (1,)
    choice: Literal["a", "b"] = "a"


@pytest.mark.parametrize("kinds", [Kinds(), Kinds(maybe=3, sizes=(), choice="b"), Kinds(sizes=(4, 5))])
def test_optional_values_and_tuples(kinds: Kinds) -> None:
    hints = {"maybe": kinds.maybe, "sizes": list(kinds.sizes), "choice": kinds.choice}
    plain = to_dict(kinds)
    assert {name: plain[name] for name in hints} == hints
    assert from_dict(Kinds, {name: plain[name] for name in hints}) == kinds


def test_paths_become_text() -> None:
    assert to_dict(Kinds(where=Path("a/b")))["where"] == "a/b"


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="There is no file"):
        read_yaml(tmp_path / "nothing.yaml")
    for content in (b"a: [1", b"\xff\xfe\x00broken", b"a: b: c", b"\x00"):
        (tmp_path / "bad.yaml").write_bytes(content)
        with pytest.raises(UserError, match="is not valid YAML"):
            read_yaml(tmp_path / "bad.yaml")


def test_yaml_runs_no_code(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(f"!!python/object/apply:os.mkdir ['{tmp_path / 'made'}']")
    with pytest.raises(UserError, match="is not valid YAML"):
        read_yaml(tmp_path / "bad.yaml")
    assert not (tmp_path / "made").exists()


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "config.yaml"
    write_yaml(path, {"seed": 1})

    def full(descriptor: int, mode: str) -> object:
        os.close(descriptor)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("top_erl.config.files.os.fdopen", full)
    with pytest.raises(OSError, match="No space left"):
        write_yaml(path, {"seed": 2})
    assert yaml.safe_load(path.read_text()) == {"seed": 1}
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_configurations_of_kept_results_load(path: Path) -> None:
    """And say what was written; settings that are newer have their defaults."""
    assert _within(read_yaml(path), load_config(path).to_dict())


def _within(part: Any, whole: Any) -> bool:
    """Whether all entries of nested plain data are found in another."""
    if isinstance(part, dict):
        return all(key in whole and _within(value, whole[key]) for key, value in part.items())
    return bool(part == whole)
