"""Contracts of approvals: nothing but an explicit approval allows an action."""

from __future__ import annotations

import pytest

from farsteer.agents.base import ApprovalAsked
from farsteer.agents.conformance.harness import Harness, RecordedLaunch
from farsteer.agents.conformance.suite import ConformanceSuite, contract, require_prompt
from farsteer.core.approvals import Approval, ApprovalKind, Outcome
from farsteer.core.errors import Conflict
from farsteer.core.events import ModeUpdate, TurnEndReason
from farsteer.core.modes import PermissionMode, loosens


class ApprovalContracts(ConformanceSuite):
    @contract
    async def test_an_approved_action_is_done(self, harness: Harness) -> None:
        agent, turn_id, approval = await _ask_for_tool(harness)
        assert approval.kind is ApprovalKind.PERMISSION
        assert not _exists(harness, harness.prompts.tool_file), "nothing may happen before the answer"
        await agent.answer(approval, Outcome.APPROVED)
        assert (await agent.wait_for_end(turn_id)).reason is TurnEndReason.END_TURN
        assert _exists(harness, harness.prompts.tool_file)

    @contract
    async def test_a_denied_action_is_not_done(self, harness: Harness) -> None:
        agent, turn_id, approval = await _ask_for_tool(harness)
        await agent.answer(approval, Outcome.DENIED)
        await agent.wait_for_end(turn_id)
        assert not _exists(harness, harness.prompts.tool_file)

    @contract
    async def test_an_action_whose_approval_timed_out_is_not_done(self, harness: Harness) -> None:
        agent, turn_id, approval = await _ask_for_tool(harness)
        await agent.answer(approval, Outcome.TIMED_OUT)
        await agent.wait_for_end(turn_id)
        assert not _exists(harness, harness.prompts.tool_file)

    @contract
    async def test_an_abort_denies_and_ends_the_turn(self, harness: Harness) -> None:
        agent, turn_id, approval = await _ask_for_tool(harness)
        await agent.answer(approval, Outcome.ABORT)
        await agent.launch.interrupt()
        await agent.wait_for_end(turn_id)
        assert not _exists(harness, harness.prompts.tool_file)

    @contract
    async def test_an_interrupt_does_not_approve(self, harness: Harness) -> None:
        agent, turn_id, approval = await _ask_for_tool(harness)
        await agent.launch.interrupt()
        assert (await agent.wait_for_end(turn_id)).reason is TurnEndReason.CANCELLED
        assert not _exists(harness, harness.prompts.tool_file)
        with pytest.raises(Conflict):
            await agent.answer(approval, Outcome.APPROVED)
        await agent.run_turn(harness.prompts.answer)
        assert not _exists(harness, harness.prompts.tool_file)

    @contract
    async def test_the_end_of_the_process_does_not_approve(self, harness: Harness) -> None:
        agent, _, _ = await _ask_for_tool(harness)
        await agent.launch.stop()
        assert not _exists(harness, harness.prompts.tool_file)

    @contract
    async def test_an_approval_is_answered_once(self, harness: Harness) -> None:
        agent, turn_id, approval = await _ask_for_tool(harness)
        await agent.answer(approval, Outcome.DENIED)
        with pytest.raises(Conflict):
            await agent.answer(approval, Outcome.APPROVED)
        await agent.wait_for_end(turn_id)
        assert not _exists(harness, harness.prompts.tool_file)

    @contract
    async def test_two_approvals_at_once_are_answered_one_by_one(self, harness: Harness) -> None:
        agent = await harness.launch()
        turn_id = await agent.send(require_prompt(harness.prompts.two_tools))
        first, second = await agent.wait_for_approvals(2)
        await agent.answer(second, Outcome.APPROVED)
        await agent.answer(first, Outcome.DENIED)
        await agent.wait_for_end(turn_id)
        created = [_exists(harness, name) for name in harness.prompts.two_files]
        assert sorted(created) == [False, True], "exactly the approved action must be done"

    @contract
    async def test_yolo_asks_nobody(self, harness: Harness) -> None:
        agent = await harness.launch(harness.plan(mode=PermissionMode.YOLO))
        await agent.run_turn(require_prompt(harness.prompts.tool))
        assert agent.outputs_of(ApprovalAsked) == []
        assert _exists(harness, harness.prompts.tool_file)

    @contract
    async def test_read_only_changes_nothing(self, harness: Harness) -> None:
        agent = await harness.launch(harness.plan(mode=PermissionMode.READ_ONLY))
        turn_id = await agent.send(require_prompt(harness.prompts.tool))
        await agent.wait_until(lambda: bool(agent.outputs_of(ApprovalAsked)) or agent.has_ended(turn_id))
        for asked in agent.outputs_of(ApprovalAsked):
            await agent.answer(asked.approval, Outcome.DENIED)
        await agent.wait_for_end(turn_id)
        assert not _exists(harness, harness.prompts.tool_file)

    @contract
    async def test_a_mode_that_the_agent_loosened_by_itself_is_reported_and_can_be_put_back(
        self, harness: Harness
    ) -> None:
        agent = await harness.launch()
        await agent.run_turn(require_prompt(harness.prompts.loosen))
        reported = [
            event.permission_mode
            for event in agent.events_of(ModeUpdate)
            if event.permission_mode is not None
        ]
        assert any(loosens(PermissionMode.DEFAULT, mode) for mode in reported), "the runner must learn of it"
        await agent.launch.set_permission_mode(PermissionMode.DEFAULT)
        await agent.send(require_prompt(harness.prompts.tool))
        await agent.wait_for_approvals()
        assert not _exists(harness, harness.prompts.tool_file)

    @contract
    async def test_a_question_is_asked_and_answered(self, harness: Harness) -> None:
        agent = await harness.launch()
        turn_id = await agent.send(require_prompt(harness.prompts.question))
        (approval,) = await agent.wait_for_approvals()
        assert approval.kind is ApprovalKind.QUESTION
        answers = {
            question.id: [question.choices[0] if question.choices else "something"]
            for question in approval.questions
        }
        assert answers, "a question approval must contain questions"
        await agent.answer(approval, Outcome.APPROVED, answers)
        assert (await agent.wait_for_end(turn_id)).reason is TurnEndReason.END_TURN

    @contract
    async def test_a_plan_is_approved(self, harness: Harness) -> None:
        await _check_plan(harness, Outcome.APPROVED)

    @contract
    async def test_a_plan_is_refused(self, harness: Harness) -> None:
        await _check_plan(harness, Outcome.DENIED)


async def _ask_for_tool(harness: Harness) -> tuple[RecordedLaunch, str, Approval]:
    agent = await harness.launch()
    turn_id = await agent.send(require_prompt(harness.prompts.tool))
    (approval,) = await agent.wait_for_approvals()
    return agent, turn_id, approval


async def _check_plan(harness: Harness, outcome: Outcome) -> None:
    agent = await harness.launch(harness.plan(mode=PermissionMode.PLAN))
    turn_id = await agent.send(require_prompt(harness.prompts.plan))
    (approval,) = await agent.wait_for_approvals()
    assert approval.kind is ApprovalKind.PLAN
    assert approval.plan, "a plan approval must contain the plan"
    await agent.answer(approval, outcome)
    await agent.wait_for_end(turn_id)


def _exists(harness: Harness, name: str) -> bool:
    return (harness.directory / name).exists()
