"""The column of aider in docs/agents.md."""

from __future__ import annotations

import pytest

from farsteer.agents.conformance.harness import Harness
from tests.support.agents_table import FEATURES, MODES, check_column, feature_cells
from tests.support.permission_modes import Scripts, observe_permission_modes
from tests.vendor.aider.conftest import edit, shell

pytestmark = [pytest.mark.vendor, pytest.mark.timeout(240)]

SCRIPTS = Scripts(read="/add {path}", edit=edit("{path}", "", "{word}"), command=shell("touch {name}"))
"""aider has no tool that reads: a file is added to the chat."""


async def test_the_features_are_those_of_the_page(harness: Harness) -> None:
    check_column(FEATURES, "aider", feature_cells((await harness.adapter.detect()).capabilities))


async def test_the_permission_modes_do_what_the_page_says(harness: Harness) -> None:
    check_column(MODES, "aider", await observe_permission_modes(harness, SCRIPTS))
