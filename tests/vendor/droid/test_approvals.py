"""What the real Droid asks a person, and what it does with the answer."""

from __future__ import annotations

import pytest

from farsteer.agents.base import ApprovalAsked
from farsteer.agents.conformance.stage import Scene, Stage
from farsteer.core.approvals import ApprovalKind, Outcome
from farsteer.core.events import AgentMessage, ModeUpdate, TurnEndReason
from farsteer.core.modes import PermissionMode, ToolKind
from tests.vendor.pins import DROID, Pin

pytestmark = [pytest.mark.vendor, pytest.mark.timeout(180)]


def modes(scene: Scene) -> list[PermissionMode]:
    """The permission modes that Droid went into by itself."""
    return [event.permission_mode for event in scene.events(ModeUpdate) if event.permission_mode is not None]


async def test_an_allowed_tool_runs_and_the_turn_goes_on(stage: Stage) -> None:
    scene = await stage.launch()
    turn_id = await scene.begin("[[bash:echo hi > made.txt]][[say:made it]]")
    (approval,) = await scene.asked()
    assert (approval.kind, approval.tool_kind) == (ApprovalKind.PERMISSION, ToolKind.EXECUTE)
    assert approval.arguments is not None
    assert approval.arguments["command"] == "echo hi > made.txt"
    assert not (stage.directory / "made.txt").exists()
    await scene.answer(approval, Outcome.APPROVED)
    assert (await scene.end(turn_id)).reason is TurnEndReason.END_TURN
    assert (stage.directory / "made.txt").read_text() == "hi\n"
    assert scene.events(AgentMessage)[-1].text == "made it"


async def test_a_denied_tool_does_not_run_and_the_next_turn_works(stage: Stage) -> None:
    scene = await stage.launch()
    turn_id = await scene.begin("[[bash:touch made.txt]][[say:never said]]")
    (approval,) = await scene.asked()
    await scene.answer(approval, Outcome.DENIED)
    await scene.end(turn_id)
    assert not (stage.directory / "made.txt").exists()
    await scene.turn("still there?")
    assert [event.text for event in scene.events(AgentMessage)] == ["echo: still there?"]


async def test_a_file_is_created_as_it_was_shown(stage: Stage) -> None:
    scene = await stage.launch()
    path = stage.directory / "new.txt"
    turn_id = await scene.begin(f"[[write:{path}:some content]]")
    (approval,) = await scene.asked()
    assert approval.tool_kind is ToolKind.EDIT
    assert "some content" in str(approval.arguments)
    await scene.answer(approval, Outcome.APPROVED)
    await scene.end(turn_id)
    assert path.read_text().strip() == "some content"


async def test_always_raises_the_whole_sessions_autonomy_and_says_so(stage: Stage) -> None:
    scene = await stage.launch()
    turn_id = await scene.begin("[[bash:touch one.txt]]")
    (approval,) = await scene.asked()
    await scene.answer(approval, Outcome.APPROVED_FOR_SESSION)
    await scene.end(turn_id)
    assert modes(scene) == [PermissionMode.SAFE_YOLO]
    await scene.turn("[[bash:touch two.txt]]")
    assert len(scene.of(ApprovalAsked)) == 1
    assert (stage.directory / "two.txt").exists()


async def test_a_question_is_answered_by_choice_and_by_free_text(stage: Stage) -> None:
    scene = await stage.launch()
    for number, chosen in enumerate(["Blue", "rather green"], 1):
        turn_id = await scene.begin("[[ask:Which color?:Red|Blue]]")
        approval = (await scene.asked(number))[-1]
        assert approval.kind is ApprovalKind.QUESTION
        (question,) = approval.questions
        assert (question.text, question.choices) == ("Which color?", ("Red", "Blue"))
        await scene.answer(approval, Outcome.APPROVED, {question.id: [chosen]})
        assert (await scene.end(turn_id)).reason is TurnEndReason.END_TURN
        # The model says what it was told.
        assert chosen in scene.events(AgentMessage)[-1].text


async def test_a_question_that_is_declined_has_no_answer(stage: Stage, droid: Pin) -> None:
    scene = await stage.launch()
    turn_id = await scene.begin("[[ask:Which color?:Red|Blue]]")
    (approval,) = await scene.asked()
    await scene.answer(approval, Outcome.DENIED)
    await scene.end(turn_id)
    # The new version ends the turn; the old one tells the model, which says what it was told.
    said = [event.text for event in scene.events(AgentMessage)]
    assert said == [] if droid == DROID else said[0].startswith("done: Error")


async def test_an_approved_plan_is_carried_out_in_the_same_turn(stage: Stage) -> None:
    scene = await stage.launch(stage.plan(mode=PermissionMode.PLAN))
    turn_id = await scene.begin("[[plan:# Build it\n- one file]][[bash:touch built.txt]][[say:built]]")
    (plan,) = await scene.asked()
    assert plan.kind is ApprovalKind.PLAN
    assert plan.plan == "# Build it\n- one file"
    await scene.answer(plan, Outcome.APPROVED)
    _, permission = await scene.asked(2)
    assert permission.kind is ApprovalKind.PERMISSION
    await scene.answer(permission, Outcome.APPROVED)
    assert (await scene.end(turn_id)).reason is TurnEndReason.END_TURN
    assert (stage.directory / "built.txt").exists()
    assert modes(scene) == [PermissionMode.DEFAULT]


async def test_a_refused_plan_is_iterated_on(stage: Stage) -> None:
    scene = await stage.launch(stage.plan(mode=PermissionMode.PLAN))
    for number, text in enumerate(["# First", "# Better"], 1):
        turn_id = await scene.begin(f"[[plan:{text}]][[bash:touch built.txt]]")
        plan = (await scene.asked(number))[-1]
        assert plan.plan == text
        await scene.answer(plan, Outcome.DENIED)
        await scene.end(turn_id)
    assert modes(scene) == []
    assert not (stage.directory / "built.txt").exists()


async def test_an_interrupt_takes_the_question_back(stage: Stage) -> None:
    scene = await stage.launch()
    turn_id = await scene.begin("[[bash:touch made.txt]]")
    await scene.asked()
    await scene.launch.interrupt()
    assert (await scene.end(turn_id)).reason is TurnEndReason.CANCELLED
    await scene.turn("go on")
    assert not (stage.directory / "made.txt").exists()
