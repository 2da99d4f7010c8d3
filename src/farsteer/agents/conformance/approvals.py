"""Contracts of approvals: only a person turns an ask into a yes."""

from __future__ import annotations

import pytest

from farsteer.agents.base import ApprovalAsked
from farsteer.agents.conformance.contract import Conformance, contract, given
from farsteer.agents.conformance.stage import Scene, Stage
from farsteer.core.approvals import Approval, ApprovalKind, Outcome
from farsteer.core.errors import Conflict
from farsteer.core.events import TurnEndReason
from farsteer.core.modes import PermissionMode


class ApprovalContracts(Conformance):
    @contract
    async def test_what_is_approved_is_done(self, stage: Stage) -> None:
        scene, turn_id, approval = await _asked_for_tool(stage)
        assert approval.kind is ApprovalKind.PERMISSION
        assert not _there(stage, stage.script.tool_file), "nothing happens before the answer"
        await scene.answer(approval, Outcome.APPROVED)
        assert (await scene.end(turn_id)).reason is TurnEndReason.END_TURN
        assert _there(stage, stage.script.tool_file)

    @contract
    async def test_what_is_denied_is_not_done(self, stage: Stage) -> None:
        scene, turn_id, approval = await _asked_for_tool(stage)
        await scene.answer(approval, Outcome.DENIED)
        await scene.end(turn_id)
        assert not _there(stage, stage.script.tool_file)

    @contract
    async def test_what_nobody_answers_in_time_is_not_done(self, stage: Stage) -> None:
        scene, turn_id, approval = await _asked_for_tool(stage)
        await scene.answer(approval, Outcome.TIMED_OUT)
        await scene.end(turn_id)
        assert not _there(stage, stage.script.tool_file)

    @contract
    async def test_an_abort_denies_and_ends_the_turn(self, stage: Stage) -> None:
        scene, turn_id, approval = await _asked_for_tool(stage)
        await scene.answer(approval, Outcome.ABORT)
        await scene.launch.interrupt()
        await scene.end(turn_id)
        assert not _there(stage, stage.script.tool_file)

    @contract
    async def test_an_interrupt_is_not_a_yes(self, stage: Stage) -> None:
        scene, turn_id, approval = await _asked_for_tool(stage)
        await scene.launch.interrupt()
        assert (await scene.end(turn_id)).reason is TurnEndReason.CANCELLED
        assert not _there(stage, stage.script.tool_file)
        with pytest.raises(Conflict):
            await scene.answer(approval, Outcome.APPROVED)
        await scene.turn(stage.script.answer)
        assert not _there(stage, stage.script.tool_file)

    @contract
    async def test_the_end_of_the_process_is_not_a_yes(self, stage: Stage) -> None:
        scene, _, _ = await _asked_for_tool(stage)
        await scene.launch.stop()
        assert not _there(stage, stage.script.tool_file)

    @contract
    async def test_an_approval_is_answered_once(self, stage: Stage) -> None:
        scene, turn_id, approval = await _asked_for_tool(stage)
        await scene.answer(approval, Outcome.DENIED)
        with pytest.raises(Conflict):
            await scene.answer(approval, Outcome.APPROVED)
        await scene.end(turn_id)
        assert not _there(stage, stage.script.tool_file)

    @contract
    async def test_two_approvals_at_once_are_answered_one_by_one(self, stage: Stage) -> None:
        scene = await stage.launch()
        turn_id = await scene.begin(given(stage.script.two_tools))
        first, second = await scene.asked(2)
        await scene.answer(second, Outcome.APPROVED)
        await scene.answer(first, Outcome.DENIED)
        await scene.end(turn_id)
        there = [_there(stage, name) for name in stage.script.two_files]
        assert sorted(there) == [False, True], "one was approved, the other was not"

    @contract
    async def test_yolo_asks_nobody(self, stage: Stage) -> None:
        scene = await stage.launch(stage.plan(mode=PermissionMode.YOLO))
        await scene.turn(given(stage.script.tool))
        assert scene.of(ApprovalAsked) == []
        assert _there(stage, stage.script.tool_file)

    @contract
    async def test_read_only_changes_nothing(self, stage: Stage) -> None:
        scene = await stage.launch(stage.plan(mode=PermissionMode.READ_ONLY))
        turn_id = await scene.begin(given(stage.script.tool))
        await scene.until(lambda: bool(scene.of(ApprovalAsked)) or scene.has_ended(turn_id))
        for asked in scene.of(ApprovalAsked):
            await scene.answer(asked.approval, Outcome.DENIED)
        await scene.end(turn_id)
        assert not _there(stage, stage.script.tool_file)

    @contract
    async def test_a_question_is_asked_and_its_answer_heard(self, stage: Stage) -> None:
        scene = await stage.launch()
        turn_id = await scene.begin(given(stage.script.question))
        (approval,) = await scene.asked()
        assert approval.kind is ApprovalKind.QUESTION
        answers = {
            question.id: [question.choices[0] if question.choices else "something"]
            for question in approval.questions
        }
        assert answers, "a question has a text to answer"
        await scene.answer(approval, Outcome.APPROVED, answers)
        assert (await scene.end(turn_id)).reason is TurnEndReason.END_TURN

    @contract
    async def test_a_plan_is_approved(self, stage: Stage) -> None:
        await _plan(stage, Outcome.APPROVED)

    @contract
    async def test_a_plan_is_refused(self, stage: Stage) -> None:
        await _plan(stage, Outcome.DENIED)


async def _asked_for_tool(stage: Stage) -> tuple[Scene, str, Approval]:
    scene = await stage.launch()
    turn_id = await scene.begin(given(stage.script.tool))
    (approval,) = await scene.asked()
    return scene, turn_id, approval


async def _plan(stage: Stage, outcome: Outcome) -> None:
    scene = await stage.launch(stage.plan(mode=PermissionMode.PLAN))
    turn_id = await scene.begin(given(stage.script.plan))
    (approval,) = await scene.asked()
    assert approval.kind is ApprovalKind.PLAN
    assert approval.plan, "one must be able to read what is to be approved"
    await scene.answer(approval, outcome)
    await scene.end(turn_id)


def _there(stage: Stage, name: str) -> bool:
    return (stage.directory / name).exists()
