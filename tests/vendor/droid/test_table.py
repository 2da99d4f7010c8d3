"""The column of Droid in docs/agents.md."""

from __future__ import annotations

import pytest

from farsteer.agents.conformance.harness import Harness
from tests.support.agents_table import FEATURES, MODES, check_column, feature_cells
from tests.support.permission_modes import observe_permission_modes
from tests.vendor.droid.conftest import only_new

pytestmark = [pytest.mark.vendor, pytest.mark.timeout(240), only_new]


async def test_the_features_are_those_of_the_page(harness: Harness) -> None:
    check_column(FEATURES, "droid", feature_cells((await harness.adapter.detect()).capabilities))


async def test_the_permission_modes_do_what_the_page_says(harness: Harness) -> None:
    check_column(MODES, "droid", await observe_permission_modes(harness))
