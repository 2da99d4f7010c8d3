"""The real Kimi Code: turns, permissions, failures, and behind `farsteer up`."""

from __future__ import annotations

import pytest

from farsteer.agents.conformance.harness import Harness
from farsteer.core.approvals import Outcome
from farsteer.core.events import ToolCall
from farsteer.core.modes import PermissionMode, ToolKind
from tests.vendor.catalog.approvals import Approvals
from tests.vendor.catalog.failures import Failures
from tests.vendor.catalog.profile import Profile
from tests.vendor.catalog.service import Service
from tests.vendor.catalog.turns import Turns

pytestmark = [pytest.mark.vendor, pytest.mark.timeout(240)]


class TestTurns(Turns):
    async def test_an_edit_names_its_file(self, harness: Harness, cli: Profile) -> None:
        """Its requests do not name the file, so that each edit is asked for, also where edits are accepted."""
        agent = await harness.launch(harness.plan(mode=PermissionMode.ACCEPT_EDITS))
        path = harness.directory / "poem.txt"
        turn_id = await agent.send(f"[[write:{path}:is a tulip]][[say:well]]")
        (approval,) = await agent.wait_for_approvals()
        assert not path.exists()
        await agent.answer(approval, Outcome.APPROVED)
        await agent.wait_for_end(turn_id)
        assert path.read_text().strip() == "is a tulip"
        assert agent.events_of(ToolCall)[-1].tool_kind is ToolKind.EDIT


class TestApprovals(Approvals):
    pass


class TestFailures(Failures):
    pass


class TestService(Service):
    pass
