"""A configuration with some settings changed."""

from __future__ import annotations

from typing import Any

import pytest

from top_erl.algorithms.top_erl.config import CollectConfig, TopErlConfig
from top_erl.algorithms.top_erl.method import TopErlRun
from top_erl.config.changes import changed
from top_erl.errors import UserError


def test_settings_are_changed_at_any_depth_and_nothing_else() -> None:
    before = TopErlRun()
    after = changed(before, {"seed": 4, "algorithm.collect.episodes": 3, "algorithm.policy.hidden": (7, 8)})
    plain = before.to_dict()
    plain["seed"], plain["algorithm"]["collect"]["episodes"], plain["algorithm"]["policy"]["hidden"] = 4, 3, [7, 8]
    assert after.to_dict() == plain
    assert isinstance(after, TopErlRun)
    assert before == TopErlRun()
    assert changed(before, {}) == before


def test_changes_are_checked_together() -> None:
    """Each alone would exceed the capacity; a whole group is changed before its own settings."""
    config = changed(TopErlConfig(), {"collect.prefill": 5000, "collect.capacity": 6000, "collect.episodes": 5500})
    assert config.collect.episodes == 5500
    both = changed(TopErlConfig(), {"collect.stride": 3, "collect": CollectConfig(episodes=2)})
    assert both.collect == CollectConfig(episodes=2, stride=3)
    with pytest.raises(UserError, match=r"collect\.capacity must hold"):
        changed(TopErlConfig(), {"collect.prefill": 5000})


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"collect.episods": 3}, "Unknown setting 'collect.episods'; did you mean 'collect.episodes'?"),
        ({"colect.episodes": 3}, "Unknown setting 'colect.episodes'; did you mean 'collect.episodes'?"),
        ({"collect.episodes.more": 3}, "Unknown setting 'collect.episodes.more'"),
        ({"prefill_episodes": 3}, "Unknown setting 'prefill_episodes'"),
        ({"transformer_critic": False}, "Unknown setting 'transformer_critic'"),
        ({"collect.episodes": "three"}, "collect.episodes should be int, not 'three'"),
        ({"learn.target": "w"}, "Unknown learn.target 'w'"),
    ],
)
def test_mistakes_are_named(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError) as caught:
        changed(TopErlConfig(), changes)
    assert sentence in str(caught.value)
