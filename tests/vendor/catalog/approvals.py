"""Permissions: what is asked, what each answer does to the disk, what read-only modes refuse."""

from __future__ import annotations

import pytest

from farsteer.agents.base import ApprovalAsked
from farsteer.agents.conformance.harness import Harness, RecordedLaunch
from farsteer.core.approvals import Answer, Approval, ApprovalKind, OptionKind, Outcome, check_answer
from farsteer.core.events import AgentMessage, ToolCall, ToolCallUpdate, ToolStatus, TurnEndReason
from farsteer.core.modes import PermissionMode, ToolKind
from tests.support.model import ScriptedModel
from tests.vendor.catalog.profile import Profile

COMMAND = "[[bash:sh -c 'touch made.txt']][[say:well]]"


async def asked(agent: RecordedLaunch, script: str) -> tuple[str, Approval]:
    """Send a message and return its turn and the approval that it leads to."""
    before = len(agent.outputs_of(ApprovalAsked))
    turn_id = await agent.send(script)
    return turn_id, (await agent.wait_for_approvals(before + 1))[before]


async def choose(agent: RecordedLaunch, approval: Approval, outcome: Outcome, kind: OptionKind) -> None:
    option = next(one for one in approval.options if one.kind is kind)
    answer = Answer(outcome=outcome, option_id=option.id)
    await agent.launch.answer(approval, check_answer(approval, answer))


class Approvals:
    async def test_a_permission_shows_the_command_and_an_allowed_one_runs(self, harness: Harness) -> None:
        agent = await harness.launch()
        turn_id, approval = await asked(agent, COMMAND)
        assert (approval.kind, approval.tool_kind) == (ApprovalKind.PERMISSION, ToolKind.EXECUTE)
        assert "touch made.txt" in f"{approval.title} {approval.arguments}"
        assert {option.kind.allows for option in approval.options} == {True, False}
        assert approval.tool_call_id == agent.events_of(ToolCall)[-1].tool_call_id
        assert not (harness.directory / "made.txt").exists()
        await agent.answer(approval, Outcome.APPROVED)
        assert (await agent.wait_for_end(turn_id)).reason is TurnEndReason.END_TURN
        assert (harness.directory / "made.txt").exists()
        assert agent.events_of(ToolCallUpdate)[-1].status is ToolStatus.COMPLETED
        assert agent.events_of(AgentMessage)[-1].text == "well"

    async def test_a_denied_command_does_not_run(self, harness: Harness, cli: Profile) -> None:
        agent = await harness.launch()
        turn_id, approval = await asked(agent, COMMAND)
        await agent.answer(approval, Outcome.DENIED)
        ended = await agent.wait_for_end(turn_id)
        assert ended.error is None
        assert bool(agent.events_of(AgentMessage)) == cli.denied_turn_goes_on
        assert agent.events_of(ToolCallUpdate)[-1].status is ToolStatus.FAILED
        assert (await agent.run_turn("[[new]][[say:next]]")).reason is TurnEndReason.END_TURN
        assert agent.events_of(AgentMessage)[-1].text == "next"
        assert [*harness.directory.iterdir()] == []

    async def test_deny_and_stop_ends_the_turn(self, harness: Harness, model: ScriptedModel) -> None:
        agent = await harness.launch()
        turn_id, approval = await asked(agent, COMMAND)
        await agent.answer(approval, Outcome.ABORT)
        # As the runner does.
        await agent.launch.interrupt()
        ended = await agent.wait_for_end(turn_id)
        assert (ended.reason, ended.error) == (TurnEndReason.CANCELLED, None)
        assert agent.events_of(AgentMessage) == []
        assert (await agent.run_turn("[[new]][[say:next]]")).reason is TurnEndReason.END_TURN
        assert [*harness.directory.iterdir()] == []

    async def test_an_edit_is_asked_for_and_done_if_it_is_allowed(self, harness: Harness) -> None:
        agent = await harness.launch()
        path = harness.directory / "made.txt"
        turn_id, approval = await asked(agent, f"[[write:{path}:hello]]")
        assert approval.tool_kind is ToolKind.EDIT
        assert str(path) in f"{approval.title} {approval.arguments} {agent.events_of(ToolCall)[-1].locations}"
        assert not path.exists()
        await agent.answer(approval, Outcome.APPROVED)
        await agent.wait_for_end(turn_id)
        assert path.read_text().strip() == "hello"
        turn_id, approval = await asked(agent, f"[[new]][[write:{harness.directory}/other.txt:hello]]")
        await agent.answer(approval, Outcome.DENIED)
        await agent.wait_for_end(turn_id)
        assert [*harness.directory.iterdir()] == [path]

    async def test_what_is_allowed_for_good_is_not_asked_for_again(
        self, harness: Harness, cli: Profile
    ) -> None:
        agent = await harness.launch()
        turn_id, approval = await asked(agent, cli.lasting_grant)
        await choose(agent, approval, Outcome.APPROVED_FOR_SESSION, OptionKind.ALLOW_ALWAYS)
        await agent.wait_for_end(turn_id)
        (harness.directory / "one").unlink()
        await agent.run_turn(f"[[new]]{cli.lasting_grant}")
        assert len(agent.outputs_of(ApprovalAsked)) == 1
        assert (harness.directory / "one").exists()

    @pytest.mark.parametrize("mode", [PermissionMode.PLAN, PermissionMode.READ_ONLY])
    async def test_nothing_is_changed_in_a_mode_that_only_reads(
        self, harness: Harness, cli: Profile, mode: PermissionMode
    ) -> None:
        (harness.directory / "there.txt").write_text("the content")
        agent = await harness.launch(harness.plan(mode=mode))
        await agent.run_turn(f"[[read:{harness.directory}/there.txt]]")
        assert "the content" in agent.text()
        for script in (
            cli.scripts.edit.format(path=harness.directory / "made.txt", word="hello"),
            cli.scripts.command.format(name="made.txt"),
            cli.quick_command.format(name="made.txt"),
        ):
            ended = await agent.run_turn(f"[[new]]{script}[[say:well]]")
            assert ended.error is None
        assert agent.outputs_of(ApprovalAsked) == []
        assert [path.name for path in harness.directory.iterdir()] == ["there.txt"]

    async def test_an_edit_outside_of_the_session_is_never_done_unasked(
        self, harness: Harness, cli: Profile
    ) -> None:
        outside = harness.directory.parent / "outside"
        outside.mkdir()
        for mode in (PermissionMode.ACCEPT_EDITS, PermissionMode.SAFE_YOLO):
            agent = await harness.launch(harness.plan(mode=mode))
            turn_id = await agent.send(f"[[write:{outside}/one.txt:1]]")
            await agent.wait_until(
                lambda agent=agent, turn_id=turn_id: (
                    agent.has_ended(turn_id) or bool(agent.outputs_of(ApprovalAsked))
                )
            )
            assert bool(agent.outputs_of(ApprovalAsked)) == cli.asks_outside
            for one in agent.outputs_of(ApprovalAsked):
                await agent.answer(one.approval, Outcome.DENIED)
            await agent.wait_for_end(turn_id)
            assert [*outside.iterdir()] == []

    async def test_modes_that_follow_each_other_at_once_end_with_the_last(
        self, harness: Harness, cli: Profile
    ) -> None:
        agent = await harness.launch()
        for mode in (PermissionMode.YOLO, PermissionMode.DEFAULT, PermissionMode.PLAN) * 3:
            await agent.launch.set_permission_mode(mode)
        await agent.launch.set_permission_mode(PermissionMode.ACCEPT_EDITS)
        await agent.launch.set_permission_mode(PermissionMode.READ_ONLY)
        await agent.run_turn(cli.scripts.edit.format(path=harness.directory / "made.txt", word="hello"))
        await agent.run_turn(f"[[new]]{cli.scripts.command.format(name='made.txt')}")
        assert agent.outputs_of(ApprovalAsked) == []
        assert [*harness.directory.iterdir()] == []
