"""Scenarios of Claude Code."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from farsteer.agents import process_launch
from farsteer.agents.base import ApprovalAsked
from farsteer.agents.claude.adapter import ClaudeAdapter
from farsteer.agents.claude.protocol import ModelUsage
from farsteer.core.approvals import Outcome
from farsteer.core.events import AgentMessage, ToolCall
from farsteer.core.modes import PermissionMode, ReasoningEffort
from tests.support.wire.agent import WireAgent
from tests.support.wire.player import Player
from tests.support.wire.recording import Json
from tests.support.wire.shared import SHARED
from tests.support.wire.stage import ECHO_SERVER, Stage

_SHOWN = 3
"""How many entries of the long lists are kept: of commands, models, tools and the like."""
_ANY_TIME = frozenset({"keep_alive", "rate_limit_event", "system post_turn_summary", "system status"})
"""Messages whose place among the others is not the same each time."""


def _describe(message: Any) -> str | None:
    if not isinstance(message, dict):
        return "text"
    kind = str(message.get("type"))
    if kind in ("control_response", "control_cancel_request"):
        # Answers may come before or after other messages.
        return None
    request, event = message.get("request") or {}, message.get("event") or {}
    block = event.get("content_block") or event.get("delta") or {}
    parts = (
        kind, message.get("subtype"), request.get("subtype"), request.get("tool_name"), event.get("type"),
        block.get("type"),
    )  # fmt: skip
    described = " ".join(str(part) for part in parts if part)
    return None if described in _ANY_TIME else described


def _shorten(entry: Json) -> Json:
    message = entry.get("out")
    if not isinstance(message, dict):
        return entry
    if message.get("type") == "system" and message.get("subtype") == "init":
        return {"out": _with_short_lists(message)}
    answer = (message.get("response") or {}).get("response")
    if message.get("type") == "control_response" and isinstance(answer, dict) and "commands" in answer:
        known = {name: answer[name] for name in ("commands", "models") if name in answer}
        response = {**message["response"], "response": _with_short_lists(known)}
        return {"out": {**message, "response": response}}
    return entry


def _with_short_lists(message: Json) -> Json:
    return {
        name: value[:_SHOWN] if isinstance(value, list) else value
        for name, value in message.items()
        if name not in ("memory_paths", "plugins")
    }


def _stand_ins(player: Player) -> dict[str, Any]:
    def stored_usage(*_: Any) -> dict[str, ModelUsage]:
        """Claude Code goes on from the totals that it reported last."""
        results = [one for one in player.played if isinstance(one, dict) and one.get("type") == "result"]
        return msgspec.convert(results[-1]["modelUsage"], dict[str, ModelUsage]) if results else {}

    return {"farsteer.agents.claude.transcripts.stored_usage": stored_usage}


CLAUDE = WireAgent(
    name="claude", adapter=ClaudeAdapter, modules=(process_launch,), describe=_describe, shorten=_shorten,
    apart="control_request", dropped=frozenset({"messaging_socket_path", "claude_code_version", "run_id"}),
    stand_ins=_stand_ins,
)  # fmt: skip
scenario = CLAUDE.scenario
for shared in SHARED:
    scenario(shared)


@scenario
async def command_allowed(stage: Stage) -> None:
    agent = await stage.launch()
    await stage.decide(
        agent, "[[bash:echo made > made.txt && cat made.txt]][[say:made it]]", Outcome.APPROVED
    )


@scenario
async def command_denied(stage: Stage) -> None:
    agent = await stage.launch()
    script = "[[bash:touch made.txt]][[say:well then]]"
    await stage.decide(agent, script, Outcome.DENIED, message="not today")


@scenario
async def command_allowed_for_session(stage: Stage) -> None:
    agent = await stage.launch()
    script = "[[bash:touch made.txt]][[say:made it]]"
    await stage.decide(agent, script, Outcome.APPROVED_FOR_SESSION)
    await agent.run_turn(script)


@scenario
async def command_denied_and_stopped(stage: Stage) -> None:
    agent = await stage.launch()
    await stage.decide(agent, "[[bash:touch made.txt]][[say:never said]]", Outcome.ABORT)
    await agent.run_turn("[[say:again]]")


@scenario
async def command_fails(stage: Stage) -> None:
    agent = await stage.launch_in(PermissionMode.YOLO)
    await agent.run_turn("[[bash:echo wonderful; exit 3]][[say:as planned]]")


@scenario
async def two_commands_at_once(stage: Stage) -> None:
    agent = await stage.launch()
    turn_id = await agent.send("[[bash:touch a.txt]][[and]][[bash:touch b.txt]][[say:done]]")
    answered = 0
    while not agent.has_ended(turn_id):
        await agent.wait_until(
            lambda count=answered: agent.has_ended(turn_id) or len(agent.outputs_of(ApprovalAsked)) > count
        )
        for asked in agent.outputs_of(ApprovalAsked)[answered:]:
            await agent.answer(asked.approval, Outcome.DENIED if answered else Outcome.APPROVED)
            answered += 1


@scenario
async def edit(stage: Stage) -> None:
    stage.write_file("poem.txt", "a rose\nis a rose\n")
    agent = await stage.launch()
    change = {"file_path": "poem.txt", "old_string": "is a rose", "new_string": "is a tulip"}
    script = f"[[read:poem.txt]][[tool:Edit:{json.dumps(change)}]][[say:better]]"
    await stage.decide(agent, script, Outcome.APPROVED)


@scenario
async def question(stage: Stage) -> None:
    agent = await stage.launch()
    script = "[[ask:Which color?:Red|Blue]][[say:a fine color]]"
    await stage.decide(agent, script, Outcome.APPROVED, answers={"0": ["Blue"]})
    await stage.decide(agent, script, Outcome.DENIED)


@scenario
async def plan_approved(stage: Stage) -> None:
    agent = await stage.launch_in(PermissionMode.PLAN)
    await stage.decide(agent, "[[plan:# The plan]][[say:I begin]]", Outcome.APPROVED)


@scenario
async def plan_rejected(stage: Stage) -> None:
    agent = await stage.launch_in(PermissionMode.PLAN)
    await stage.decide(agent, "[[plan:# The plan]][[say:well then]]", Outcome.DENIED, message="simpler")


@scenario
async def todo_list(stage: Stage) -> None:
    agent = await stage.launch()
    todos = [
        {"content": "first", "status": "completed", "activeForm": "doing first"},
        {"content": "second", "status": "in_progress", "activeForm": "doing second"},
    ]
    await agent.run_turn(f"[[tool:TodoWrite:{json.dumps({'todos': todos})}]][[say:noted]]")


@scenario
async def interrupt_while_asked(stage: Stage) -> None:
    agent = await stage.launch()
    await agent.send("[[bash:touch made.txt]]")
    await agent.wait_for_approvals()
    await stage.interrupt(agent)


@scenario
async def retry(stage: Stage) -> None:
    await (await stage.launch()).run_turn("[[error:500:1]][[say:second attempt]]")


@scenario
async def sub_agent(stage: Stage) -> None:
    agent = await stage.launch_in(PermissionMode.YOLO)
    task = {
        "description": "look", "prompt": "[[say:sub speaks]][[bash:echo sub works]][[say:sub is done]]",
        "subagent_type": "general-purpose", "run_in_background": False,
    }  # fmt: skip
    await agent.run_turn(f"[[tool:Task:{json.dumps(task)}]][[say:main speaks]]")


@scenario
async def steer(stage: Stage) -> None:
    agent = await stage.launch_in(PermissionMode.YOLO)
    await agent.send("[[bash:sleep 1]][[say:done]]")
    await agent.wait_until(lambda: bool(agent.events_of(ToolCall)))
    await stage.steer(agent, "[[say:second]]")
    await agent.wait_for_end(agent.turn_ids[-1])


@scenario
async def settings(stage: Stage) -> None:
    agent = await stage.launch(model="sonnet", effort=ReasoningEffort.MEDIUM)
    await agent.run_turn("[[say:as configured]]")
    await agent.launch.set_model("opus")
    await agent.launch.set_effort(ReasoningEffort.HIGH)
    await agent.run_turn("[[say:with another model]]")
    for mode in (PermissionMode.ACCEPT_EDITS, PermissionMode.PLAN, PermissionMode.YOLO):
        await agent.launch.set_permission_mode(mode)
        await agent.run_turn(f"[[say:in {mode.value}]]")


@scenario
async def rewind_with_files(stage: Stage) -> None:
    agent = await stage.launch_in(PermissionMode.YOLO)
    await agent.run_turn("remember apricot")
    await agent.run_turn("[[write:made.txt:hello]][[say:walnut]]")
    anchor = agent.events_of(AgentMessage)[0].anchor
    await agent.launch.restore_files(agent.message_ids[1], anchor)
    rewound = await stage.harness.relaunch(agent, cut_at=anchor)
    await rewound.run_turn("[[history]]")


@scenario
async def mcp_call(stage: Stage) -> None:
    agent = await stage.launch(mcp_servers=(ECHO_SERVER,))
    script = '[[tool:mcp__echo__shout:{"text":"quietly"}]][[say:it was loud]]'
    await stage.decide(agent, script, Outcome.APPROVED)
    await stage.decide(agent, script, Outcome.DENIED)


@scenario
async def compaction(stage: Stage) -> None:
    agent = await stage.launch()
    await agent.run_turn("something to remember")
    await agent.run_turn("/compact")
