"""The column of Codex in docs/agents.md."""

from __future__ import annotations

import pytest

from farsteer.agents.conformance.harness import Harness
from tests.support.agents_table import FEATURES, MODES, check_column, feature_cells
from tests.support.permission_modes import Scripts, observe_permission_modes

pytestmark = [pytest.mark.vendor, pytest.mark.timeout(240)]

SCRIPTS = Scripts(read="[[bash:cat {path}]]", command="[[escalate:touch {name}]]")
"""Codex reads files with commands, and its model asks for those that the sandbox does not allow."""


async def test_the_features_are_those_of_the_page(harness: Harness) -> None:
    check_column(FEATURES, "codex", feature_cells((await harness.adapter.detect()).capabilities))


async def test_the_permission_modes_do_what_the_page_says(harness: Harness) -> None:
    check_column(MODES, "codex", await observe_permission_modes(harness, SCRIPTS))
