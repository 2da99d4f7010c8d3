"""What each permission mode allows, run on the real Codex: nobody answers yes to what it asks."""

from __future__ import annotations

from pathlib import Path

import pytest

from farsteer.agents.base import ApprovalAsked
from farsteer.agents.conformance.harness import Harness
from farsteer.core.approvals import Outcome
from farsteer.core.events import Notice
from farsteer.core.modes import PermissionMode as Mode

pytestmark = [pytest.mark.vendor, pytest.mark.timeout(120)]

ACTIONS = {
    "read": "[[bash:cat there.txt]]",
    "edit": "[[write:made.txt:hello]]",
    "command": "[[escalate:touch made.txt]]",
    "outside": "[[escalate:touch {outside}]]",
}
TABLE = {
    Mode.DEFAULT: {"read": "done", "edit": "asks", "command": "asks", "outside": "asks"},
    Mode.ACCEPT_EDITS: {"read": "done", "edit": "done", "command": "asks", "outside": "asks"},
    Mode.PLAN: {"read": "done", "edit": "denied", "command": "denied", "outside": "denied"},
    Mode.READ_ONLY: {"read": "done", "edit": "denied", "command": "denied", "outside": "denied"},
    Mode.SAFE_YOLO: {"read": "done", "edit": "done", "command": "done", "outside": "denied"},
    Mode.YOLO: {"read": "done", "edit": "done", "command": "done", "outside": "done"},
    Mode.BYPASS: {"read": "done", "edit": "done", "command": "done", "outside": "done"},
}
"""`denied`: not done, and nobody was asked."""


@pytest.mark.parametrize("mode", TABLE)
async def test_each_mode_allows_what_the_table_says(harness: Harness, mode: Mode, outside: Path) -> None:
    outside = outside / "outside.txt"
    made = harness.directory / "made.txt"
    (harness.directory / "there.txt").write_text("the content")
    agent = await harness.launch(harness.plan(mode=mode))
    seen: dict[str, str] = {}
    for action, prompt in ACTIONS.items():
        before = len(agent.outputs_of(ApprovalAsked))
        turn_id = await agent.send(prompt.format(outside=outside))
        await agent.wait_until(
            lambda turn_id=turn_id, before=before: (
                agent.has_ended(turn_id) or len(agent.outputs_of(ApprovalAsked)) > before
            )
        )
        asked = agent.outputs_of(ApprovalAsked)[before:]
        if asked:
            await agent.answer(asked[0].approval, Outcome.DENIED)
        await agent.wait_for_end(turn_id)
        effect = "the content" in agent.text() if action == "read" else made.exists() or outside.exists()
        seen[action] = "asks" if asked and not effect else "done" if effect and not asked else "denied"
        made.unlink(missing_ok=True)
        outside.unlink(missing_ok=True)
    assert seen == TABLE[mode]


async def test_a_denial_in_read_only_mode_is_told(harness: Harness) -> None:
    agent = await harness.launch(harness.plan(mode=Mode.READ_ONLY))
    await agent.run_turn("[[write:made.txt:hello]]")
    assert [event for event in agent.events_of(Notice) if event.code == "read_only"]


async def test_accepted_edits_stay_inside_of_the_directory(harness: Harness, outside: Path) -> None:
    agent = await harness.launch(harness.plan(mode=Mode.ACCEPT_EDITS))
    outside = outside / "outside.txt"
    turn_id = await agent.send(f"[[write:{outside}:hello]]")
    (approval,) = await agent.wait_for_approvals()
    await agent.answer(approval, Outcome.DENIED)
    await agent.wait_for_end(turn_id)
    assert not outside.exists()
