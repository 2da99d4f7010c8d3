"""The column of Gemini CLI in docs/agents.md."""

from __future__ import annotations

import pytest

from farsteer.agents.conformance.harness import Harness
from tests.support.agents_table import FEATURES, MODES, check_column, feature_cells
from tests.support.permission_modes import observe_permission_modes
from tests.vendor.catalog.profile import Profile

pytestmark = [pytest.mark.vendor, pytest.mark.timeout(240)]


async def test_the_features_are_those_of_the_page(harness: Harness, cli: Profile) -> None:
    check_column(FEATURES, cli.name, feature_cells((await harness.adapter.detect()).capabilities))


async def test_the_permission_modes_do_what_the_page_says(harness: Harness, cli: Profile) -> None:
    check_column(MODES, cli.name, await observe_permission_modes(harness, cli.scripts))
