"""Tasks by id and by import path."""

import sys
from pathlib import Path

import pytest

from top_erl.errors import UserError
from top_erl.tasks import catalogue, make_task, register_task, task_ids
from top_erl.tasks.via_point_reacher.task import ViaPointReacher

ID = "top_erl/ViaPointReacher-v0"
PATH = "top_erl.tasks.via_point_reacher.task:ViaPointReacher"


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what a test registers, and where it imports from, to itself."""
    monkeypatch.setattr(catalogue, "_TASKS", dict(catalogue._TASKS))
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.mark.parametrize("name", [ID, PATH])
def test_make_by_id_or_import_path(name: str) -> None:
    task = make_task(name)
    assert isinstance(task, ViaPointReacher)
    assert task.spec.id == ID


def test_each_task_is_new() -> None:
    assert make_task(ID) is not make_task(ID)


@pytest.mark.parametrize("factory", [ViaPointReacher, lambda: ViaPointReacher(), PATH])
def test_register_a_class_a_function_or_a_path(factory: object) -> None:
    register_task("lab/Mine-v0", factory)  # type: ignore[arg-type]
    assert isinstance(make_task("lab/Mine-v0"), ViaPointReacher)
    assert {"lab/Mine-v0", ID} <= set(task_ids())
    assert catalogue.registered("lab/Mine-v0") is factory


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(UserError, match=f"Unknown task 'top_erl/ViaPointRecher-v0'; did you mean '{ID}'"):
        make_task("top_erl/ViaPointRecher-v0")


@pytest.mark.parametrize("id", ["a:b", "", "  "])
def test_ids_that_cannot_be_found_again_are_refused(id: str) -> None:
    with pytest.raises(UserError, match="without a colon"):
        register_task(id, ViaPointReacher)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no_such_package.module:Task", "Cannot import the task .*No module named 'no_such_package'"),
        (":Task", "Cannot import the task ':Task' from module ''"),
        (".relative:Task", "Cannot import the task"),
        ("top_erl.tasks.catalogue:NoSuchTask", "has no class or function 'NoSuchTask'"),
        ("top_erl.tasks.catalogue:", "has no class or function ''"),
        ("top_erl.tasks.via_point_reacher.task:HORIZON", "has no class or function 'HORIZON'"),
        ("collections:OrderedDict", "is not a task, nor a function without arguments that makes one"),
        (
            "faults.broken_tasks:NoSpec",
            "cannot be made: it does not say control, make_env, metrics, position",
        ),
        ("faults.broken_tasks:CannotBeMade", "cannot be made: OSError: no licence for the simulator"),
        ("faults.broken_tasks:SpecIsText", "has no spec: give its class `spec = TaskSpec"),
    ],
)
def test_bad_import_paths_are_explained(path: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        make_task(path)
    assert "\n" not in str(error.value)


def test_modules_in_the_current_directory_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "from top_erl.tasks.via_point_reacher.task import ViaPointReacher\nclass Mine(ViaPointReacher): pass\n"
    (tmp_path / "task_of_my_own.py").write_text(code)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    monkeypatch.chdir(tmp_path)
    assert type(make_task("task_of_my_own:Mine")).__name__ == "Mine"
    assert sys.path[-1] == str(tmp_path)
