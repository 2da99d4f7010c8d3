"""The CLI is driven directly with flags that Farsteer uses too."""

from itertools import pairwise
from pathlib import Path

from bench.agents.direct import claude_flags, launch_plan
from farsteer.agents.claude.arguments import arguments


def test_the_flags_of_every_driver_are_among_ours(tmp_path: Path) -> None:
    ours = arguments(launch_plan(tmp_path))
    assert set(claude_flags()) <= set(ours)
    valued = {(name, value) for name, value in pairwise(claude_flags()) if not value.startswith("-")}
    assert valued <= set(pairwise(ours))


def test_a_session_without_settings_has_the_hook_for_its_source(tmp_path: Path) -> None:
    assert "--settings" in arguments(launch_plan(tmp_path))
