"""Permissions, questions and plans of the real Claude Code, with every answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from farsteer.agents.base import ApprovalAsked
from farsteer.agents.conformance.harness import Harness, RecordedLaunch
from farsteer.core.approvals import Answer, Approval, ApprovalKind, Outcome, check_answer
from farsteer.core.events import AgentMessage, ModeUpdate, ToolCall, ToolCallUpdate, ToolStatus, TurnEndReason
from farsteer.core.modes import PermissionMode, ToolKind
from tests.support.model import ScriptedModel

pytestmark = [pytest.mark.vendor, pytest.mark.timeout(180)]


async def asked(agent: RecordedLaunch, script: str) -> tuple[str, Approval]:
    """Send a message and return its turn and the approval that it leads to."""
    before = len(agent.outputs_of(ApprovalAsked))
    turn_id = await agent.send(script)
    return turn_id, (await agent.wait_for_approvals(before + 1))[before]


async def reply(
    agent: RecordedLaunch,
    approval: Approval,
    outcome: Outcome,
    option: str | None = None,
    message: str | None = None,
) -> None:
    answer = Answer(outcome=outcome, option_id=option, message=message)
    await agent.launch.answer(approval, check_answer(approval, answer))


async def test_a_permission_shows_the_command_and_its_options(harness: Harness) -> None:
    agent = await harness.launch()
    turn_id, approval = await asked(agent, "[[bash:touch made.txt]]")
    assert (approval.kind, approval.title, approval.tool) == (
        ApprovalKind.PERMISSION,
        "touch made.txt",
        "Bash",
    )
    assert approval.tool_kind is ToolKind.EXECUTE
    assert approval.tool_call_id == agent.events_of(ToolCall)[-1].tool_call_id
    ids = [option.id for option in approval.options]
    assert (ids[0], ids[-1]) == ("allow", "deny")
    assert {"session", "always"} <= {*ids}
    await reply(agent, approval, Outcome.APPROVED)
    await agent.wait_for_end(turn_id)
    assert (harness.directory / "made.txt").exists()


async def test_the_reason_of_a_denial_reaches_the_model(harness: Harness, model: ScriptedModel) -> None:
    agent = await harness.launch()
    turn_id, approval = await asked(agent, "[[bash:touch made.txt]][[say:a pity]]")
    await reply(agent, approval, Outcome.DENIED, message="use the blue one")
    assert (await agent.wait_for_end(turn_id)).reason is TurnEndReason.END_TURN
    assert agent.events_of(ToolCallUpdate)[-1].status is ToolStatus.FAILED
    assert "use the blue one" in json.dumps(model.log.turns[-1].body)
    assert agent.events_of(AgentMessage)[-1].text == "a pity"
    assert [*harness.directory.iterdir()] == []


async def test_deny_and_stop_ends_the_turn(harness: Harness, model: ScriptedModel) -> None:
    agent = await harness.launch()
    turn_id, approval = await asked(agent, "[[bash:touch made.txt]][[say:never said]]")
    await reply(agent, approval, Outcome.ABORT)
    ended = await agent.wait_for_end(turn_id)
    assert (ended.reason, ended.error) == (TurnEndReason.CANCELLED, None)
    assert len(model.log.turns) == 1
    assert (await agent.run_turn("[[say:next]]")).reason is TurnEndReason.END_TURN
    assert [*harness.directory.iterdir()] == []


async def test_allow_in_this_session_is_not_asked_again_and_not_stored(harness: Harness) -> None:
    agent = await harness.launch()
    turn_id, approval = await asked(agent, "[[bash:sh -c 'touch one']]")
    await reply(agent, approval, Outcome.APPROVED, "session")
    await agent.wait_for_end(turn_id)
    await agent.run_turn("[[bash:sh -c 'touch one']]")
    assert len(agent.outputs_of(ApprovalAsked)) == 1
    assert not (harness.directory / ".claude").exists()
    other = await harness.launch()
    await asked(other, "[[bash:sh -c 'touch one']]")


async def test_allow_always_stores_a_rule_of_claude_code_and_is_not_asked_again(harness: Harness) -> None:
    agent = await harness.launch()
    turn_id, approval = await asked(agent, "[[bash:sh -c 'touch one']]")
    await reply(agent, approval, Outcome.APPROVED, "always")
    await agent.wait_for_end(turn_id)
    settings = json.loads((harness.directory / ".claude" / "settings.local.json").read_text())
    (rule,) = settings["permissions"]["allow"]
    assert rule.startswith("Bash(")
    other = await harness.launch()
    await other.run_turn("[[bash:sh -c 'touch one']]")
    assert other.outputs_of(ApprovalAsked) == []


async def test_accepting_edits_changes_the_mode(harness: Harness) -> None:
    agent = await harness.launch()
    turn_id, approval = await asked(agent, f"[[write:{harness.directory}/one.txt:1]]")
    await reply(agent, approval, Outcome.APPROVED, "acceptEdits")
    await agent.wait_for_end(turn_id)
    modes = [event.permission_mode for event in agent.events_of(ModeUpdate)]
    assert modes == [PermissionMode.ACCEPT_EDITS]
    await agent.run_turn(f"[[write:{harness.directory}/two.txt:2]]")
    assert len(agent.outputs_of(ApprovalAsked)) == 1
    assert (harness.directory / "two.txt").read_text() == "2"


async def test_an_edit_outside_of_the_session_is_asked_for_in_every_mode_but_yolo(
    harness: Harness, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    for mode in (PermissionMode.ACCEPT_EDITS, PermissionMode.SAFE_YOLO):
        agent = await harness.launch(harness.plan(mode=mode))
        turn_id, approval = await asked(agent, f"[[write:{outside}/one.txt:1]]")
        await reply(agent, approval, Outcome.DENIED)
        await agent.wait_for_end(turn_id)
        assert [*outside.iterdir()] == []
    agent = await harness.launch(harness.plan(mode=PermissionMode.YOLO))
    await agent.run_turn(f"[[write:{outside}/one.txt:1]]")
    assert (outside / "one.txt").exists()
    assert agent.outputs_of(ApprovalAsked) == []


async def test_accept_edits_takes_a_command_that_only_makes_a_file_for_an_edit(harness: Harness) -> None:
    agent = await harness.launch(harness.plan(mode=PermissionMode.ACCEPT_EDITS))
    await agent.run_turn("[[bash:touch made.txt]]")
    assert agent.outputs_of(ApprovalAsked) == []
    await asked(agent, "[[bash:sh -c 'touch asked.txt']]")
    assert {path.name for path in harness.directory.iterdir()} == {"made.txt"}


async def test_several_permissions_at_once_are_answered_in_any_order(harness: Harness) -> None:
    def sub_agent(name: str) -> str:
        given = {
            "description": name, "prompt": f"[[bash:touch {name}]]", "subagent_type": "general-purpose",
            "run_in_background": False,
        }  # fmt: skip
        return f"[[tool:Task:{json.dumps(given)}]]"

    agent = await harness.launch()
    names = ("one", "two", "three")
    turn_id = await agent.send("[[and]]".join(map(sub_agent, names)))
    approvals = {approval.title: approval for approval in await agent.wait_for_approvals(3)}
    await reply(agent, approvals["touch three"], Outcome.APPROVED)
    await reply(agent, approvals["touch one"], Outcome.DENIED)
    await reply(agent, approvals["touch two"], Outcome.APPROVED)
    assert (await agent.wait_for_end(turn_id)).reason is TurnEndReason.END_TURN
    assert {path.name for path in harness.directory.iterdir()} == {"two", "three"}
    outer = {call.tool_call_id for call in agent.events_of(ToolCall) if call.parent_tool_call_id is None}
    assert {call.parent_tool_call_id for call in agent.events_of(ToolCall)} - {None} == outer


async def test_the_answers_of_a_question_reach_the_model(harness: Harness, model: ScriptedModel) -> None:
    agent = await harness.launch()
    turn_id, approval = await asked(agent, "[[ask:Which color?:Red|Blue]][[say:fine]]")
    (question,) = approval.questions
    assert (question.text, question.choices) == ("Which color?", ("Red", "Blue"))
    await agent.answer(approval, Outcome.APPROVED, {question.id: ["a kind of Green"]})
    assert (await agent.wait_for_end(turn_id)).reason is TurnEndReason.END_TURN
    assert "a kind of Green" in json.dumps(model.log.turns[-1].body)


async def test_a_question_that_is_not_answered_is_told_so(harness: Harness, model: ScriptedModel) -> None:
    agent = await harness.launch()
    turn_id, approval = await asked(agent, "[[ask:Which color?:Red|Blue]][[say:fine]]")
    await reply(agent, approval, Outcome.DENIED, message="decide yourself")
    assert (await agent.wait_for_end(turn_id)).reason is TurnEndReason.END_TURN
    assert "decide yourself" in json.dumps(model.log.turns[-1].body)


@pytest.mark.parametrize(
    ("option", "mode", "edit_asks"),
    [("default", PermissionMode.DEFAULT, True), ("acceptEdits", PermissionMode.ACCEPT_EDITS, False)],
)
async def test_an_approved_plan_leads_to_the_chosen_mode(
    harness: Harness, option: str, mode: PermissionMode, *, edit_asks: bool
) -> None:
    agent = await harness.launch(harness.plan(mode=PermissionMode.PLAN))
    turn_id, approval = await asked(agent, "[[plan:# The plan]][[say:begin]]")
    assert (approval.kind, approval.plan) == (ApprovalKind.PLAN, "# The plan")
    await reply(agent, approval, Outcome.APPROVED, option)
    await agent.wait_for_end(turn_id)
    assert [event.permission_mode for event in agent.events_of(ModeUpdate)] == [mode]
    turn_id = await agent.send(f"[[write:{harness.directory}/made.txt:1]]")
    if edit_asks:
        await reply(agent, (await agent.wait_for_approvals(2))[1], Outcome.APPROVED)
    await agent.wait_for_end(turn_id)
    assert (harness.directory / "made.txt").exists()
    assert len(agent.outputs_of(ApprovalAsked)) == (2 if edit_asks else 1)


async def test_a_refused_plan_goes_on_planning_and_the_model_is_told_why(
    harness: Harness, model: ScriptedModel
) -> None:
    agent = await harness.launch(harness.plan(mode=PermissionMode.PLAN))
    turn_id, approval = await asked(agent, "[[plan:# The plan]][[bash:touch made.txt]][[say:still planning]]")
    await reply(agent, approval, Outcome.DENIED, "plan", message="make it shorter")
    assert (await agent.wait_for_end(turn_id)).reason is TurnEndReason.END_TURN
    assert "make it shorter" in json.dumps(model.log.turns[-1].body)
    assert agent.events_of(ModeUpdate) == []
    assert [*harness.directory.iterdir()] == []


async def test_a_plan_can_be_refused_and_the_turn_stopped(harness: Harness) -> None:
    agent = await harness.launch(harness.plan(mode=PermissionMode.PLAN))
    turn_id, approval = await asked(agent, "[[plan:# The plan]][[say:never said]]")
    await reply(agent, approval, Outcome.ABORT)
    assert (await agent.wait_for_end(turn_id)).reason is TurnEndReason.CANCELLED
    assert agent.events_of(ModeUpdate) == []


async def test_a_plan_mode_that_the_model_enters_is_reported_and_can_be_left(harness: Harness) -> None:
    agent = await harness.launch()
    await agent.run_turn("[[tool:EnterPlanMode:{}]][[bash:touch made.txt]][[say:planning]]")
    assert [event.permission_mode for event in agent.events_of(ModeUpdate)] == [PermissionMode.PLAN]
    assert [*harness.directory.iterdir()] == []
    await agent.launch.set_permission_mode(PermissionMode.YOLO)
    await agent.run_turn("[[bash:touch made.txt]]")
    assert (harness.directory / "made.txt").exists()
    assert len(agent.events_of(ModeUpdate)) == 1


async def test_modes_that_follow_each_other_at_once_end_with_the_last(harness: Harness) -> None:
    """Claude Code reports each after it has answered, when the next one is set already."""
    agent = await harness.launch()
    for mode in (PermissionMode.YOLO, PermissionMode.DEFAULT, PermissionMode.PLAN) * 3:
        await agent.launch.set_permission_mode(mode)
    await agent.launch.set_permission_mode(PermissionMode.ACCEPT_EDITS)
    await agent.launch.set_permission_mode(PermissionMode.READ_ONLY)
    await agent.run_turn(f"[[write:{harness.directory}/made.txt:1]][[bash:touch made.txt]]")
    assert agent.events_of(ModeUpdate) == []
    assert agent.outputs_of(ApprovalAsked) == []
    assert [*harness.directory.iterdir()] == []
