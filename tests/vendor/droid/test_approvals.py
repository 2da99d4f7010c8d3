"""Approvals of the real Droid."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from farsteer.agents.base import ApprovalAsked, Registered
from farsteer.agents.conformance.harness import Harness, RecordedLaunch
from farsteer.core.approvals import Answer, ApprovalKind, Outcome, check_answer
from farsteer.core.events import AgentMessage, ModeUpdate, Notice, TurnEndReason
from farsteer.core.mcp import McpServer
from farsteer.core.modes import PermissionMode, ToolKind
from tests.vendor.droid.conftest import call_droid, model_history, only_new
from tests.vendor.pins import DROID, Pin

pytestmark = [pytest.mark.vendor, pytest.mark.timeout(180)]

ECHO_SERVER = str(Path(__file__).with_name("echo_server.py"))


def modes(agent: RecordedLaunch) -> list[PermissionMode]:
    """Return the permission modes that Droid changed to by itself."""
    return [
        event.permission_mode for event in agent.events_of(ModeUpdate) if event.permission_mode is not None
    ]


async def test_an_allowed_tool_runs_and_the_turn_goes_on(harness: Harness) -> None:
    agent = await harness.launch()
    turn_id = await agent.send("[[bash:echo hi > made.txt]][[say:made it]]")
    (approval,) = await agent.wait_for_approvals()
    assert (approval.kind, approval.tool_kind) == (ApprovalKind.PERMISSION, ToolKind.EXECUTE)
    assert approval.arguments is not None
    assert approval.arguments["command"] == "echo hi > made.txt"
    assert not (harness.directory / "made.txt").exists()
    await agent.answer(approval, Outcome.APPROVED)
    assert (await agent.wait_for_end(turn_id)).reason is TurnEndReason.END_TURN
    assert (harness.directory / "made.txt").read_text() == "hi\n"
    assert agent.events_of(AgentMessage)[-1].text == "made it"


async def test_a_denied_tool_does_not_run_and_the_next_turn_works(harness: Harness) -> None:
    agent = await harness.launch()
    turn_id = await agent.send("[[bash:touch made.txt]][[say:never said]]")
    (approval,) = await agent.wait_for_approvals()
    await agent.answer(approval, Outcome.DENIED)
    await agent.wait_for_end(turn_id)
    assert not (harness.directory / "made.txt").exists()
    await agent.run_turn("still there?")
    assert [event.text for event in agent.events_of(AgentMessage)] == ["echo: still there?"]


async def test_a_file_is_created_as_it_was_proposed(harness: Harness) -> None:
    agent = await harness.launch()
    path = harness.directory / "new.txt"
    turn_id = await agent.send(f"[[write:{path}:some content]]")
    (approval,) = await agent.wait_for_approvals()
    assert approval.tool_kind is ToolKind.EDIT
    assert "some content" in str(approval.arguments)
    await agent.answer(approval, Outcome.APPROVED)
    await agent.wait_for_end(turn_id)
    assert path.read_text().strip() == "some content"


async def test_always_raises_the_autonomy_of_the_whole_session(harness: Harness) -> None:
    agent = await harness.launch()
    turn_id = await agent.send("[[bash:touch one.txt]]")
    (approval,) = await agent.wait_for_approvals()
    await agent.answer(approval, Outcome.APPROVED_FOR_SESSION)
    await agent.wait_for_end(turn_id)
    assert modes(agent) == [PermissionMode.SAFE_YOLO]
    await agent.run_turn("[[bash:touch two.txt]]")
    assert len(agent.outputs_of(ApprovalAsked)) == 1
    assert (harness.directory / "two.txt").exists()


async def test_a_question_is_answered_by_choice_and_by_free_text(harness: Harness) -> None:
    agent = await harness.launch()
    for number, chosen in enumerate(["Blue", "rather green"], 1):
        turn_id = await agent.send("[[ask:Which color?:Red|Blue]]")
        approval = (await agent.wait_for_approvals(number))[-1]
        assert approval.kind is ApprovalKind.QUESTION
        (question,) = approval.questions
        assert (question.text, question.choices) == ("Which color?", ("Red", "Blue"))
        await agent.answer(approval, Outcome.APPROVED, {question.id: [chosen]})
        assert (await agent.wait_for_end(turn_id)).reason is TurnEndReason.END_TURN
        # The model repeats the answer.
        assert chosen in agent.events_of(AgentMessage)[-1].text


async def test_a_declined_question_has_no_answer(harness: Harness, droid: Pin) -> None:
    agent = await harness.launch()
    turn_id = await agent.send("[[ask:Which color?:Red|Blue]]")
    (approval,) = await agent.wait_for_approvals()
    await agent.answer(approval, Outcome.DENIED)
    await agent.wait_for_end(turn_id)
    # The new version ends the turn; the old one passes the denial to the model, which repeats it.
    said = [event.text for event in agent.events_of(AgentMessage)]
    assert said == [] if droid == DROID else said[0].startswith("done: Error")


async def test_an_approved_plan_is_carried_out_in_the_same_turn(harness: Harness) -> None:
    agent = await harness.launch(harness.plan(mode=PermissionMode.PLAN))
    turn_id = await agent.send("[[plan:# Build it\n- one file]][[bash:touch built.txt]][[say:built]]")
    (plan,) = await agent.wait_for_approvals()
    assert plan.kind is ApprovalKind.PLAN
    assert plan.plan == "# Build it\n- one file"
    await agent.answer(plan, Outcome.APPROVED)
    _, permission = await agent.wait_for_approvals(2)
    assert permission.kind is ApprovalKind.PERMISSION
    await agent.answer(permission, Outcome.APPROVED)
    assert (await agent.wait_for_end(turn_id)).reason is TurnEndReason.END_TURN
    assert (harness.directory / "built.txt").exists()
    assert modes(agent) == [PermissionMode.DEFAULT]


async def test_a_refused_plan_is_iterated_on(harness: Harness) -> None:
    agent = await harness.launch(harness.plan(mode=PermissionMode.PLAN))
    for number, text in enumerate(["# First", "# Better"], 1):
        turn_id = await agent.send(f"[[plan:{text}]][[bash:touch built.txt]]")
        plan = (await agent.wait_for_approvals(number))[-1]
        assert plan.plan == text
        await agent.answer(plan, Outcome.DENIED)
        await agent.wait_for_end(turn_id)
    assert modes(agent) == []
    assert not (harness.directory / "built.txt").exists()


async def test_an_interrupt_withdraws_the_approval(harness: Harness) -> None:
    agent = await harness.launch()
    turn_id = await agent.send("[[bash:touch made.txt]]")
    await agent.wait_for_approvals()
    await agent.launch.interrupt()
    assert (await agent.wait_for_end(turn_id)).reason is TurnEndReason.CANCELLED
    await agent.run_turn("go on")
    assert not (harness.directory / "made.txt").exists()


@only_new
async def test_a_plan_can_be_carried_out_in_a_new_session(harness: Harness) -> None:
    agent = await harness.launch(harness.plan(mode=PermissionMode.PLAN))
    before = agent.launch.native_id
    turn_id = await agent.send("[[plan:# The plan to build]]")
    (plan,) = await agent.wait_for_approvals()
    answer = Answer(outcome=Outcome.APPROVED, option_id="proceed_new_session")
    await agent.launch.answer(plan, check_answer(plan, answer))
    assert (await agent.wait_for_end(turn_id)).reason is TurnEndReason.END_TURN
    assert agent.launch.native_id != before
    assert [one.native_id for one in agent.outputs_of(Registered)][-1] == agent.launch.native_id
    assert "The plan to build" in (await model_history(agent))[0][1]
    again = await harness.relaunch(agent)
    assert "The plan to build" in (await model_history(again))[0][1]


async def test_an_mcp_tool_is_approved_and_used(harness: Harness) -> None:
    agent = await harness.launch()
    server = {"name": "echo", "type": "stdio", "command": sys.executable, "args": [ECHO_SERVER]}
    await call_droid(agent, "add_mcp_server", server)
    await agent.wait_until(
        lambda: any(
            "echo connected" in one.text for one in agent.events_of(Notice) if one.code == "mcp_status"
        )
    )
    await check_mcp_tool(agent)


@only_new
async def test_an_mcp_server_of_the_plan_is_connected(harness: Harness) -> None:
    server = McpServer(name="echo", command=sys.executable, args=(ECHO_SERVER,))
    await check_mcp_tool(await harness.launch(msgspec.structs.replace(harness.plan(), mcp_servers=(server,))))


async def check_mcp_tool(agent: RecordedLaunch) -> None:
    turn_id = await agent.send('[[tool:echo___shout:{"text":"hooray"}]]')
    (approval,) = await agent.wait_for_approvals()
    await agent.answer(approval, Outcome.APPROVED)
    await agent.wait_for_end(turn_id)
    assert "HOORAY" in agent.text()
