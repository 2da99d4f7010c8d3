"""The real Gemini CLI: turns, permissions, failures, and behind `farsteer up`."""

from __future__ import annotations

import pytest

from tests.vendor.catalog.approvals import Approvals
from tests.vendor.catalog.failures import Failures
from tests.vendor.catalog.service import Service
from tests.vendor.catalog.turns import Turns

pytestmark = [pytest.mark.vendor, pytest.mark.timeout(240)]


class TestTurns(Turns):
    pass


class TestApprovals(Approvals):
    pass


class TestFailures(Failures):
    pass


class TestService(Service):
    pass
