"""What the real aider asks before it edits and runs commands, and that a denial is one."""

from __future__ import annotations

from pathlib import Path

import pytest

from farsteer.agents.base import ApprovalAsked, DeltaEmitted
from farsteer.agents.conformance.harness import Harness, RecordedLaunch
from farsteer.core.approvals import Outcome
from farsteer.core.events import Notice, ToolCallUpdate, ToolStatus
from farsteer.core.modes import PermissionMode, ToolKind
from tests.vendor.aider.conftest import answer_turn, edit, model_history, shell

pytestmark = [pytest.mark.vendor, pytest.mark.timeout(180)]


async def test_a_command_is_asked_for_and_run_and_the_model_sees_its_output(harness: Harness) -> None:
    agent = await harness.launch()
    await answer_turn(agent, shell("echo $((40 + 2)) | tee made.txt"), Outcome.DENIED)
    assert not (harness.directory / "made.txt").exists()
    await answer_turn(agent, shell("echo $((40 + 2)) | tee made.txt"), Outcome.APPROVED)
    assert (harness.directory / "made.txt").read_text() == "42\n"
    first, second = agent.outputs_of(ApprovalAsked)
    assert (second.approval.tool_kind, second.approval.title) == (
        ToolKind.EXECUTE, "echo $((40 + 2)) | tee made.txt",
    )  # fmt: skip
    updates = {one.tool_call_id: one for one in agent.events_of(ToolCallUpdate)}
    assert updates[first.approval.tool_call_id or ""].status is ToolStatus.FAILED
    assert updates[second.approval.tool_call_id or ""].status is ToolStatus.COMPLETED
    assert "42" in agent.text()
    assert any("Output from echo" in text for _, text in await model_history(agent))


async def test_a_command_that_fails_is_shown_as_failed(harness: Harness) -> None:
    agent = await harness.launch(harness.plan(mode=PermissionMode.YOLO))
    await agent.run_turn(shell("echo oh no; exit 3"))
    (update,) = agent.events_of(ToolCallUpdate)
    assert update.status is ToolStatus.FAILED
    assert "oh no" in agent.text()


async def test_an_edit_of_a_file_in_the_chat_is_asked_for_too(harness: Harness) -> None:
    path = harness.directory / "greeting.txt"
    path.write_text("hello\n")
    agent = await harness.launch()
    await agent.run_turn("/add greeting.txt")
    await answer_turn(agent, edit("greeting.txt", "hello\n", "good bye"), Outcome.DENIED)
    assert path.read_text() == "hello\n"
    (asked,) = agent.outputs_of(ApprovalAsked)
    assert asked.approval.tool_kind is ToolKind.EDIT
    assert asked.approval.arguments == {"path": str(path), "oldText": "hello\n", "newText": "good bye\n"}
    await answer_turn(agent, edit("greeting.txt", "hello\n", "good bye"), Outcome.APPROVED)
    assert path.read_text() == "good bye\n"


async def test_a_file_that_add_would_create_is_asked_for(harness: Harness) -> None:
    agent = await harness.launch()
    await answer_turn(agent, "/add missing.txt", Outcome.DENIED)
    assert agent.outputs_of(ApprovalAsked)[0].approval.tool_kind is ToolKind.EDIT
    assert not (harness.directory / "missing.txt").exists()


async def test_an_edit_outside_of_the_directory_is_asked_for_where_edits_are_not(
    harness: Harness, tmp_path: Path
) -> None:
    agent = await harness.launch(harness.plan(mode=PermissionMode.ACCEPT_EDITS))
    await answer_turn(agent, edit("../outside.txt", "", "hello"), Outcome.DENIED)
    assert not (tmp_path / "outside.txt").exists()
    (harness.directory / "link").symlink_to(tmp_path)
    await answer_turn(agent, edit("link/outside.txt", "", "hello"), Outcome.DENIED)
    assert not (tmp_path / "outside.txt").exists()
    (harness.directory / ".git").mkdir()
    await answer_turn(agent, edit(".git/hooks/pre-commit", "", "hello"), Outcome.DENIED)
    assert [*(harness.directory / ".git").rglob("*")] == []


@pytest.mark.parametrize("mode", [PermissionMode.PLAN, PermissionMode.READ_ONLY])
async def test_a_mode_that_reads_only_changes_nothing(harness: Harness, mode: PermissionMode) -> None:
    agent = await harness.launch()
    await agent.launch.set_permission_mode(mode)
    for script in (edit("made.txt", "", "hello"), shell("touch made.txt")):
        await agent.run_turn(script)
    assert agent.outputs_of(ApprovalAsked) == []
    assert not (harness.directory / "made.txt").exists()


async def test_a_mode_that_becomes_read_only_in_a_turn_denies_what_comes(harness: Harness) -> None:
    agent = await harness.launch(harness.plan(mode=PermissionMode.YOLO))
    turn_id = await agent.send_and_wait("[[say:wait ]][[sleep:1]]" + edit("made.txt", "", "hello"))
    await agent.launch.set_permission_mode(PermissionMode.READ_ONLY)
    await agent.wait_for_end(turn_id)
    assert not (harness.directory / "made.txt").exists()
    assert "read_only" in [one.code for one in agent.events_of(Notice)]


async def test_a_command_is_killed_with_the_turn(harness: Harness) -> None:
    agent = await harness.launch(harness.plan(mode=PermissionMode.YOLO))
    turn_id = await agent.send(shell("echo begun; sleep 300; touch made.txt"))
    await _wait_for_text(agent, "begun")
    await agent.launch.interrupt()
    ended = await agent.wait_for_end(turn_id)
    assert ended.reason == "cancelled"
    assert [process.name() for process in harness.leftover_processes()] == ["aider"]


async def _wait_for_text(agent: RecordedLaunch, word: str) -> None:
    def seen() -> bool:
        return any(word in out.delta.text for out in agent.outputs_of(DeltaEmitted))

    await agent.wait_until(seen)
