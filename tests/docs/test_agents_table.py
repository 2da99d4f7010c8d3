"""docs/agents.md: the demo agent's columns, and how the page is checked and written."""

from __future__ import annotations

from pathlib import Path

import pytest

from farsteer.agents.conformance.harness import Harness, Prompts
from farsteer.agents.demo.adapter import DemoAdapter
from tests.support.agents_table import FEATURES, MODES, UPDATE_VARIABLE, check_column, feature_cells
from tests.support.permission_modes import Scripts, observe_permission_modes


async def test_the_features_of_the_demo_agent() -> None:
    check_column(FEATURES, "demo", feature_cells((await DemoAdapter().detect()).capabilities))


@pytest.mark.slow
async def test_the_permission_modes_of_the_demo_agent(tmp_path: Path) -> None:
    harness = Harness(DemoAdapter(), Prompts(answer="", long=""), tmp_path, 20.0)
    scripts = Scripts(read="read {path}", edit="write {path} {word}", command="run touch {name}")
    check_column(MODES, "demo", await observe_permission_modes(harness, scripts))
    await harness.close()


class TestPage:
    TEXT = "# Agents\n\n## Features\n\nWords.\n\n| feature | one |\n|---|---|\n| `a` | yes |\n| `b` | no |\n\nMore.\n"

    @pytest.fixture
    def page(self, tmp_path: Path) -> Path:
        page = tmp_path / "agents.md"
        page.write_text(self.TEXT)
        return page

    def test_what_was_observed_is_compared(self, page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv(UPDATE_VARIABLE, raising=False)
        check_column(FEATURES, "one", {"`a`": "yes", "`b`": "no"}, page)
        with pytest.raises(AssertionError, match="one differs"):
            check_column(FEATURES, "one", {"`a`": "yes", "`b`": "yes"}, page)
        with pytest.raises(AssertionError, match="one differs"):
            check_column(FEATURES, "one", {"`a`": "yes"}, page)
        with pytest.raises(AssertionError, match="no column two"):
            check_column(FEATURES, "two", {"`a`": "yes", "`b`": "no"}, page)
        assert page.read_text() == self.TEXT

    def test_a_column_and_rows_are_added(self, page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(UPDATE_VARIABLE, "1")
        check_column(FEATURES, "one", {"`a`": "no", "`b`": "no", "`c`": "yes"}, page)
        check_column(FEATURES, "two", {"`a`": "yes", "`b`": "yes", "`c`": "no"}, page)
        table = "| feature | one | two |\n|---|---|---|\n| `a` | no | yes |\n| `b` | no | yes |\n| `c` | yes | no |\n"
        assert page.read_text() == f"# Agents\n\n## Features\n\nWords.\n\n{table}\nMore.\n"
