"""`top-erl check` finds planted faults, each with a sentence that names it, and nothing in what is fine."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.check.point import PointGoals, PointMassTask
from top_erl.check import Report, check_task, rewards
from top_erl.cli import main
from top_erl.errors import UserError
from top_erl.tasks import Task, catalogue, register_task

NAME = "tests/PointMass"


@pytest.fixture
def check() -> Any:
    """Checks a point mass with faults; its name is forgotten afterwards."""

    def checked(episodes: int = 6, picture: Path | None = None, **faults: Any) -> Report:
        factory: Callable[[], Task] = lambda: PointMassTask(**faults)  # noqa: E731
        register_task(NAME, factory)
        return check_task(NAME, episodes, picture)

    yield checked
    catalogue._TASKS.pop(NAME, None)


FAULTS: dict[str, tuple[dict[str, Any], str, str]] = {
    "wrong shape": ({"facts": {"observation_dim": 5}}, "error", r"observation with shape \(6,\).*spec says \(5,\)"),
    "metric missing": (
        {"metrics": {"success": 0.0}},
        "error",
        r"measured \['success'\].*names \['distance', 'success'\]",
    ),
    "exception": ({"explode": True}, "error", r"raised AssertionError in point\.py, line \d+: the mass fell off"),
    "NaN": ({"bad_reward": 8}, "error", r"NaN in its reward at step 7"),
    "degrees": ({"unit": math.degrees(1)}, "error", r"5\d\S* times .*in degrees, `position` in radians"),
    "per step": ({"unit": 0.05}, "error", r"per step, not per second"),
    "other order": ({"swapped": True}, "error", r"Entry 0 of the velocity is the derivative of entry 1"),
    "wrong sign": ({"unit": -1.0}, "error", r"Entry 0 of the velocity has the wrong sign"),
    "measured_state": ({"first": 4}, "error", r"measured_state reads the position .*`position` measures \[0\. 0\.\]"),
    "own dice": ({"own_dice": True}, "error", r"first observation .* differs .*self\.np_random"),
    "memory": ({"memory": True}, "error", r"reward at step 0 .* differs .*survives `env.reset"),
    "time limit": ({"end": 15}, "error", r"Every episode ends after 15 steps, spec\.horizon says 20"),
    "dt": ({"own_dt": 0.1}, "error", r"spec\.dt is 0\.05 s, the environment's own step is 0\.1 s.*Set dt=0\.1"),
    "return size": ({"pay": 1000.0}, "warning", r"spec\.return_size is 10, .*Set return_size=\d0000"),
    "weak gains": ({"gain": 0.004}, "warning", r"does not follow.* gains of `control` multiplied by 8 .*raise them"),
    "scales too small": ({"scale": 0.005}, "warning", r"hardly move the robot.*weights_scale="),
    "scales too large": ({"wall": 0.2, "scale": 6.0}, "warning", r"more than the robot can do|does not follow"),
    "nothing paid": ({"pay": 0.0}, "warning", r"Rewards differ .* in 0 of 6 random episodes"),
    "dying pays": ({"edge": 0.1}, "warning", r"Ending early pays: .*Set reward_after_end = -"),
    "always success": ({"success": 1.0}, "warning", r"Standing still counts as success in all 6 episodes"),
    "half a success": ({"success": 0.5}, "error", r"metric success is 0\.5 for seed 0; it must be 0 or 1"),
    "success_any": (
        {"facts": {"metrics": ("success", "success_any", "distance")}, "success": 1.0},
        "error",
        r"With seed 0 success is 1 and success_any 0",
    ),
    "hidden goal": ({"hidden": True}, "error", r"begin with the same observation.*is hidden"),
    "same context": ({"same": True}, "hint", r"first observation is the same for all 6 seeds"),
    "stride": ({"facts": {"stride": 3}}, "error", r"spec\.stride \(3\) must divide spec\.horizon \(20 steps\)"),
    "mask": ({"facts": {"context_mask": (4, 9)}}, "error", r"context_mask names entries \[9\]"),
    "mask of nothing": ({"facts": {"context_mask": (0, 1)}}, "warning", r"None of the entries .*; \[4, 5\] do"),
    "unclipped": ({"unclipped": True, "scale": 6.0}, "warning", r"beyond the bounds of the action space"),
    "goal that moves": (
        {"facts": {"goal_rule": PointGoals("moves")}},
        "error",
        r"Entries \[0\] of the observation, .*change during an episode",
    ),
    "goal's reward": (
        {"facts": {"goal_rule": PointGoals("one an episode")}},
        "error",
        r"goal_rule\.reward answers with shape \(6,\), not \(6, 20\)",
    ),
    "what is reached": ({"facts": {"goal_rule": PointGoals("one number")}}, "error", r"reached answers with shape"),
    "goal's NaN": ({"facts": {"goal_rule": PointGoals("not finite")}}, "error", r"reward answers with NaN"),
    "other goal": ({"facts": {"goal_rule": PointGoals("other side")}}, "warning", r"as_goal must answer the goal"),
    "goal not kept": (
        {"facts": {"goal_rule": PointGoals("forgets")}},
        "error",
        r"with_goal .*changes entries \[0, 1, 2, 3, 4, 5\]",
    ),
    "goal not shown": ({"facts": {"goal_rule": PointGoals("ignores")}}, "error", r"does not show another goal"),
    "goal in other units": ({"facts": {"goal_rule": PointGoals("a third")}}, "warning", r"follows .*correlation 1\.00"),
    "goal and early end": ({"facts": {"goal_rule": PointGoals()}, "edge": 0.1}, "error", r"no last observation"),
    "not moving": ({"wall": 0.0}, "error", r"measured position never changes"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_named(fault: str, check: Any) -> None:
    faults, level, sentence = FAULTS[fault]
    report = check(**faults)
    found = [f"{finding.level} {finding.sentence}" for finding in report.findings]
    assert any(re.search(f"^{level} .*{sentence}", line) for line in found), found


def test_nothing_is_found_where_nothing_is_wrong(check: Any) -> None:
    report = check(episodes=8)
    assert [finding for finding in report.findings if finding.about != "success"] == []
    assert all(finding.level == "hint" for finding in report.findings)
    assert check(episodes=8, facts={"goal_rule": PointGoals()}).findings == report.findings
    assert set(report.numbers) >= {"random movements", "tracking error", "speed"}


@pytest.mark.parametrize(
    "task",
    [
        "examples.own_environment:ReacherTask",
        "examples.pusher:PusherTask",
        "examples.fetch_push:FetchPushTask",
        "top_erl/ViaPointReacher-v0",
        "top_erl/BoxPushingDense-v1",
    ],
)
def test_examples_and_our_own_task_are_fine(task: str) -> None:
    report = check_task(task, episodes=3)
    assert [finding for finding in report.findings if finding.level != "hint"] == []


def test_touching_that_harms_is_named() -> None:
    """Four of sixteen random episodes touch something: a warning if hardly any is better for it."""
    still = np.full(16, -9.0)
    for gains, found in (([-1.0, -2.0, -1.5, -3.0], 1), ([-1.0, 2.0, -1.5, -3.0], 0)):
        random = still + np.array([*gains, *np.zeros(12)])
        findings = list(rewards._harmful(still, random, rewards._changed(still, random)))
        assert len(findings) == found
        assert all("Of the 4 random episodes (of 16)" in finding.sentence for finding in findings)
    paid_for_moving = still - 1.0  # a price of movement is no harm to anything
    assert not list(rewards._harmful(still, paid_for_moving, rewards._changed(still, paid_for_moving)))


def test_a_velocity_that_is_somewhat_off_may_be_the_robots_own(check: Any) -> None:
    """A robot that is dragged moves unevenly within a control step: a hint, not an error."""
    (finding,) = [finding for finding in check(unit=0.72).findings if finding.about == "units"]
    assert finding.level == "hint"
    assert "moves unevenly within a control step" in finding.sentence


def test_a_value_for_the_rest_ends_the_complaint(check: Any) -> None:
    report = check(edge=0.1, after=-3.0)
    assert "early end" not in {finding.about for finding in report.findings}


def test_the_command_says_it_in_lines_and_in_a_file(
    check: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    check(episodes=2, own_dt=0.1)
    file, picture = tmp_path / "check.json", tmp_path / "tracking.png"
    assert main(["check", NAME, "--episodes", "2", "--json", str(file), "--picture", str(picture)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("error dt: spec.dt is 0.05 s")
    assert json.loads(file.read_text())["findings"][0]["about"] == "dt"
    assert picture.stat().st_size > 10_000
    check(episodes=2)
    assert main(["check", NAME, "--episodes", "2"]) == 0
    assert "tests/PointMass: nothing is wrong that a check can see." in capsys.readouterr().out


def test_bad_input_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check"]) == 2
    assert main(["check", "top_erl/ViaPointReacher-v0", "--episodes", "1"]) == 2
    assert main(["check", "no_such_module:Task"]) == 2
    assert capsys.readouterr().err.count("\n") == 3
    with pytest.raises(UserError, match="at least 2"):
        check_task("top_erl/ViaPointReacher-v0", episodes=0)
