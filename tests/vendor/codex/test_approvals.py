"""What the real Codex asks a person, and what each answer does."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from farsteer.agents.base import ApprovalAsked
from farsteer.agents.conformance.harness import Harness, RecordedLaunch
from farsteer.core.approvals import Answer, Outcome, check_answer
from farsteer.core.events import AgentMessage, Notice, ToolCallUpdate, ToolStatus, TurnEndReason
from farsteer.core.modes import PermissionMode
from tests.support.model import ScriptedModel
from tests.support.wire.stage import ECHO_SERVER
from tests.vendor.codex.conftest import CODE_MODE_MODEL, QUESTION, answer_turn

pytestmark = [pytest.mark.vendor, pytest.mark.timeout(120)]

SHOUT = '[[tool:mcp__echo/shout:{"text":"quietly"}]]'


def count(agent: RecordedLaunch) -> int:
    return len(agent.outputs_of(ApprovalAsked))


async def test_each_decision_of_a_command_has_its_effect(harness: Harness) -> None:
    agent = await harness.launch()
    made = harness.directory / "a.txt"
    turn_id = await agent.send("[[escalate:touch a.txt]][[say:on]]")
    (first,) = await agent.wait_for_approvals(1)
    options = [option.id for option in first.options]
    assert options == ["accept", "acceptWithExecpolicyAmendment", "decline", "cancel"]
    assert first.arguments is not None
    assert first.arguments["command"] == "touch a.txt"
    await agent.answer(first, Outcome.DENIED)
    assert (await agent.wait_for_end(turn_id)).reason is TurnEndReason.END_TURN
    assert not made.exists()
    assert (
        await answer_turn(agent, "[[escalate:touch a.txt]]", Outcome.ABORT)
    ).reason is TurnEndReason.CANCELLED
    assert not made.exists()
    await answer_turn(agent, "[[escalate:touch a.txt]]", Outcome.APPROVED)
    assert made.exists()
    made.unlink()
    await answer_turn(agent, "[[escalate:touch a.txt]]", Outcome.APPROVED_FOR_SESSION)
    assert made.exists()
    made.unlink()
    await agent.run_turn("[[escalate:touch a.txt]]")
    assert made.exists(), "the amended policy allows it"
    assert count(agent) == 4


async def test_each_decision_of_an_edit_has_its_effect(harness: Harness) -> None:
    agent = await harness.launch()
    made = harness.directory / "made.txt"
    write = "[[write:made.txt:hello]][[say:on]]"
    assert (await answer_turn(agent, write, Outcome.DENIED)).reason is TurnEndReason.END_TURN
    assert agent.events_of(ToolCallUpdate)[-1].status is ToolStatus.FAILED
    assert agent.events_of(ToolCallUpdate)[-1].meta == {"status": "declined"}
    assert (await answer_turn(agent, write, Outcome.ABORT)).reason is TurnEndReason.CANCELLED
    assert not made.exists()
    await answer_turn(agent, write, Outcome.APPROVED)
    assert made.exists()
    made.unlink()
    await answer_turn(agent, write, Outcome.APPROVED_FOR_SESSION)
    made.unlink()
    await agent.run_turn(write)
    assert made.exists(), "the same file may be changed in this conversation"
    assert count(agent) == 4


async def test_a_command_that_fails_in_the_sandbox_later_is_never_done_unasked(harness: Harness) -> None:
    agent = await harness.launch()
    ended = await agent.run_turn("[[bash:sleep 0.5; touch made.txt]][[say:on]]")
    assert ended.reason is TurnEndReason.END_TURN
    assert agent.events_of(ToolCallUpdate)[-1].status is ToolStatus.FAILED
    assert not (harness.directory / "made.txt").exists()


@pytest.mark.parametrize("outcome", [Outcome.APPROVED, Outcome.APPROVED_FOR_SESSION, Outcome.DENIED])
async def test_a_request_for_permissions_is_granted_or_not(
    harness: Harness, codex: Path, model: ScriptedModel, outcome: Outcome
) -> None:
    with (codex / "config.toml").open("a") as config:
        config.write("[features]\nrequest_permissions_tool = true\n")
    agent = await harness.launch()
    wanted = {"reason": "to fetch", "permissions": {"network": {"enabled": True}}}
    await answer_turn(agent, f"[[tool:request_permissions:{json.dumps(wanted)}]][[say:on]]", outcome)
    assert model.log.turns[-1].conversation is not None
    granted = json.loads(model.log.turns[-1].conversation.results[-1])
    assert granted["permissions"]["network"] == ({"enabled": True} if outcome.allows else None)
    if outcome.allows:
        assert granted["scope"] == ("session" if outcome is Outcome.APPROVED_FOR_SESSION else "turn")


async def test_an_mcp_tool_is_allowed_once_or_in_the_conversation(harness: Harness) -> None:
    agent = await harness.launch(msgspec.structs.replace(harness.plan(), mcp_servers=(ECHO_SERVER,)))
    await answer_turn(agent, SHOUT, Outcome.DENIED)
    assert "QUIETLY" not in agent.text()
    await answer_turn(agent, SHOUT, Outcome.APPROVED)
    assert "QUIETLY" in agent.text()
    turn_id = await agent.send(SHOUT)
    asked = (await agent.wait_for_approvals(3))[-1]
    answer = Answer(outcome=Outcome.APPROVED_FOR_SESSION, option_id="accept:session")
    await agent.launch.answer(asked, check_answer(asked, answer))
    await agent.wait_for_end(turn_id)
    await agent.run_turn(SHOUT)
    assert count(agent) == 3


async def test_an_mcp_tool_is_denied_in_read_only_mode(harness: Harness) -> None:
    plan = harness.plan(mode=PermissionMode.READ_ONLY)
    agent = await harness.launch(msgspec.structs.replace(plan, mcp_servers=(ECHO_SERVER,)))
    await agent.run_turn(SHOUT)
    assert "QUIETLY" not in agent.text()
    assert agent.events_of(Notice)[-1].code == "read_only"


async def test_a_question_that_nobody_answers_does_not_stop_the_turn(harness: Harness) -> None:
    agent = await harness.launch(harness.plan(mode=PermissionMode.PLAN))
    ended = await answer_turn(
        agent, f"[[tool:request_user_input:{json.dumps(QUESTION)}]][[say:on]]", Outcome.DENIED
    )
    assert ended.reason is TurnEndReason.END_TURN
    assert agent.events_of(AgentMessage)[-1].text == "on"


async def test_a_sub_agent_asks_and_its_failure_does_not_end_the_turn(harness: Harness) -> None:
    agent = await harness.launch(msgspec.structs.replace(harness.plan(), model=CODE_MODE_MODEL))
    spawn = {
        "message": "[[escalate:touch sub.txt]][[error:400]]",
        "task_name": "look",
        "fork_turns": "none",
    }
    script = (
        f"[[tool:collaboration/spawn_agent:{json.dumps(spawn)}]][[tool:collaboration/wait_agent:{{}}]]"
        "[[say:main speaks]]"
    )
    ended = await answer_turn(agent, script, Outcome.APPROVED)
    assert ended.reason is TurnEndReason.END_TURN
    assert (harness.directory / "sub.txt").exists()
    assert agent.events_of(AgentMessage)[-1].text == "main speaks"
    assert "agent_error" in [event.code for event in agent.events_of(Notice)]
