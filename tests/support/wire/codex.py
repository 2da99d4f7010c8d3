"""Scenarios of Codex."""

from __future__ import annotations

import json
from typing import Any

from farsteer.agents import process_launch
from farsteer.agents.base import DeltaEmitted
from farsteer.agents.codex import store
from farsteer.agents.codex.adapter import CodexAdapter
from farsteer.core.approvals import Outcome
from farsteer.core.events import AgentMessage, ToolCall
from farsteer.core.modes import PermissionMode, ReasoningEffort
from tests.support.wire.agent import WireAgent
from tests.support.wire.recording import Json
from tests.support.wire.shared import SHARED
from tests.support.wire.stage import ECHO_SERVER, Stage

OTHER_MODEL = "gpt-6-sol"
_ANY_TIME = frozenset(
    {
        "account/rateLimits/updated", "account/updated", "app/list/updated", "mcpServer/startupStatus/updated",
        "remoteControl/status/changed", "skills/changed", "thread/status/changed", "thread/settings/updated",
        "thread/goal/cleared", "turn/diff/updated", "thread/tokenUsage/updated", "serverRequest/resolved", "warning",
        "configWarning", "item/commandExecution/outputDelta", "project/changed", "thread/environment/connected",
    }
)  # fmt: skip
"""Notifications whose place among the others is not the same each time."""

_ABOUT_MACHINE = frozenset(
    {
        "account/rateLimits/updated", "configWarning", "remoteControl/status/changed",
        "thread/environment/connected", "thread/readState/changed",
    }
)  # fmt: skip
"""Not recorded: they say which programs the machine has, or nothing."""


def _describe(message: Any) -> str | None:
    if not isinstance(message, dict) or "method" not in message:
        # Answers may come before or after notifications.
        return None
    method, params = str(message["method"]), message.get("params") or {}
    if method in _ANY_TIME or method == "model/list":
        return None
    item, turn = params.get("item") or {}, params.get("turn") or {}
    parts = (method, item.get("type"), item.get("status"), turn.get("status"))
    return " ".join(str(part) for part in parts if part)


def _shorten(entry: Json) -> Json | None:
    if isinstance(entry.get("out"), dict) and entry["out"].get("method") in _ABOUT_MACHINE:
        return None
    result = (entry.get("out") or {}).get("result") if isinstance(entry.get("out"), dict) else None
    if not isinstance(result, dict):
        return entry
    if "userAgent" in result:
        return {"out": {**entry["out"], "result": {"userAgent": "codex"}}}
    if result.get("data") and "supportedReasoningEfforts" in result["data"][0]:
        models = [{"id": one["id"], "hidden": one["hidden"]} for one in result["data"][:3]]
        return {"out": {**entry["out"], "result": {"data": models}}}
    return entry


CODEX = WireAgent(
    name="codex", adapter=CodexAdapter, modules=(process_launch, store), describe=_describe, shorten=_shorten,
    dropped=frozenset(
        {"processId", "gitInfo", "cliVersion", "instructionSources", "emittedAtMs", "startedAtMs", "completedAtMs"}
    ),
)  # fmt: skip
scenario = CODEX.scenario
for shared in SHARED:
    scenario(shared)


@scenario
async def command_allowed(stage: Stage) -> None:
    agent = await stage.launch()
    await stage.decide(
        agent, "[[escalate:echo made > made.txt && cat made.txt]][[say:made it]]", Outcome.APPROVED
    )


@scenario
async def command_denied(stage: Stage) -> None:
    agent = await stage.launch()
    await stage.decide(agent, "[[escalate:touch made.txt]][[say:well then]]", Outcome.DENIED)


@scenario
async def command_allowed_for_session(stage: Stage) -> None:
    agent = await stage.launch()
    script = "[[escalate:touch made.txt]][[say:made it]]"
    await stage.decide(agent, script, Outcome.APPROVED_FOR_SESSION, "acceptWithExecpolicyAmendment")
    await agent.run_turn(script)


@scenario
async def command_denied_and_stopped(stage: Stage) -> None:
    agent = await stage.launch()
    await stage.decide(agent, "[[escalate:touch made.txt]][[say:never said]]", Outcome.ABORT)


@scenario
async def edit_allowed(stage: Stage) -> None:
    stage.write_file("poem.txt", "one\ntwo\nthree\n")
    agent = await stage.launch()
    await stage.decide(agent, _patch("@@\n one\n-two\n+zwei\n three"), Outcome.APPROVED)


@scenario
async def edit_denied(stage: Stage) -> None:
    stage.write_file("poem.txt", "one\ntwo\nthree\n")
    agent = await stage.launch()
    await stage.decide(agent, _patch("@@\n one\n-two\n+zwei\n three"), Outcome.DENIED)


@scenario
async def edit_allowed_for_session(stage: Stage) -> None:
    stage.write_file("poem.txt", "one\ntwo\nthree\n")
    agent = await stage.launch()
    await stage.decide(agent, _patch("@@\n one\n-two\n+zwei\n three"), Outcome.APPROVED_FOR_SESSION)
    await agent.run_turn(_patch("@@\n one\n-zwei\n+deux\n three"))


@scenario
async def edit_denied_and_stopped(stage: Stage) -> None:
    stage.write_file("poem.txt", "one\ntwo\nthree\n")
    agent = await stage.launch()
    await stage.decide(agent, _patch("@@\n one\n-two\n+zwei\n three"), Outcome.ABORT)


def _patch(hunk: str) -> str:
    patch = f"*** Begin Patch\n*** Update File: poem.txt\n{hunk}\n*** End Patch"
    return f"[[tool:apply_patch:{json.dumps({'input': patch})}]][[say:that is it]]"


@scenario
async def question(stage: Stage) -> None:
    options = [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}]
    asked = {"id": "q", "header": "Color", "question": "Which color?", "options": options}
    script = f"[[tool:request_user_input:{json.dumps({'questions': [asked]})}]][[say:a fine color]]"
    agent = await stage.launch_in(PermissionMode.PLAN)
    await stage.decide(agent, script, Outcome.APPROVED, answers={"q": ["Blue"]})
    await stage.decide(agent, script, Outcome.DENIED)


@scenario
async def plan(stage: Stage) -> None:
    agent = await stage.launch_in(PermissionMode.PLAN)
    await agent.run_turn("[[say:I propose:\n<proposed_plan>\n# The plan\n\n- a step\n</proposed_plan>\n]]")
    await agent.launch.set_permission_mode(PermissionMode.DEFAULT)
    await agent.run_turn("[[say:I begin]]")


@scenario
async def plan_updates(stage: Stage) -> None:
    stage.configure(".codex/config.toml", "[tools.update_plan]\nenabled = true\n")
    agent = await stage.launch()
    steps = [{"step": "first", "status": "completed"}, {"step": "second", "status": "in_progress"}]
    await agent.run_turn(
        f"[[tool:update_plan:{json.dumps({'explanation': 'why', 'plan': steps})}]][[say:noted]]"
    )


@scenario
async def interrupt_while_asked(stage: Stage) -> None:
    agent = await stage.launch()
    await agent.send("[[escalate:touch made.txt]]")
    await agent.wait_for_approvals()
    await stage.interrupt(agent)


@scenario
async def retry(stage: Stage) -> None:
    await (await stage.launch()).run_turn("[[say:half ]][[drop:1]][[say:and whole]]")


@scenario
async def steer(stage: Stage) -> None:
    agent = await stage.launch()
    await agent.send("[[say:first]][[meet:steer:2]]")
    await agent.wait_until(lambda: bool(agent.outputs_of(DeltaEmitted)))
    await stage.steer(agent, "[[say:second]]")
    stage.meet("steer")
    await agent.wait_for_end(agent.turn_ids[-1])


@scenario
async def settings(stage: Stage) -> None:
    agent = await stage.launch()
    await agent.run_turn("[[say:as configured]]")
    await agent.launch.set_model(OTHER_MODEL)
    await agent.launch.set_effort(ReasoningEffort.XHIGH)
    await agent.run_turn("[[say:with another model]]")
    for mode in (PermissionMode.SAFE_YOLO, PermissionMode.PLAN, PermissionMode.YOLO):
        await agent.launch.set_permission_mode(mode)
        await agent.run_turn(f"[[say:in {mode.value}]]")


@scenario
async def rewind(stage: Stage) -> None:
    agent = await stage.launch()
    await agent.run_turn("remember apricot")
    await agent.run_turn("remember walnut")
    anchor = agent.events_of(AgentMessage)[0].anchor
    rewound = await stage.harness.relaunch(agent, cut_at=anchor)
    await rewound.run_turn("[[history]]")


@scenario
async def mcp_call(stage: Stage) -> None:
    agent = await stage.launch(mcp_servers=(ECHO_SERVER,))
    script = '[[tool:mcp__echo/shout:{"text":"quietly"}]][[say:it was loud]]'
    await stage.decide(agent, script, Outcome.APPROVED)
    await stage.decide(agent, script, Outcome.DENIED)


@scenario
async def mcp_call_in_yolo_mode(stage: Stage) -> None:
    agent = await stage.launch_in(PermissionMode.YOLO, mcp_servers=(ECHO_SERVER,))
    await agent.run_turn('[[tool:mcp__echo/shout:{"text":"quietly"}]][[say:it was loud]]')


@scenario
async def web_search(stage: Stage) -> None:
    agent = await stage.launch()
    await agent.run_turn("[[search:platypus habitat]][[say:in rivers]]")


@scenario
async def permissions_requested(stage: Stage) -> None:
    stage.configure(".codex/config.toml", "[features]\nrequest_permissions_tool = true\n")
    agent = await stage.launch()
    wanted = {"reason": "to fetch", "permissions": {"network": {"enabled": True}}}
    script = f"[[tool:request_permissions:{json.dumps(wanted)}]][[say:well]]"
    await stage.decide(agent, script, Outcome.APPROVED)
    await stage.decide(agent, script, Outcome.DENIED)
    await stage.decide(agent, script, Outcome.APPROVED_FOR_SESSION)


_TASK = "[[meet:sub:2]][[say:sub speaks]][[bash:echo sub works]][[say:sub is done]]"


@scenario
async def sub_agent(stage: Stage) -> None:
    agent = await stage.launch_in(PermissionMode.YOLO, model=OTHER_MODEL)
    spawn = {"message": _TASK, "task_name": "look", "fork_turns": "none"}
    await agent.send(
        f"[[tool:collaboration/spawn_agent:{json.dumps(spawn)}]]"
        "[[tool:collaboration/wait_agent:{}]][[say:main speaks]]"
    )
    await agent.wait_until(lambda: any(call.tool == "wait" for call in agent.events_of(ToolCall)))
    stage.meet("sub")
    await agent.wait_for_end(agent.turn_ids[-1])


@scenario
async def sub_agent_of_an_older_model(stage: Stage) -> None:
    agent = await stage.launch_in(PermissionMode.YOLO, model="other")
    spawn = json.dumps({"message": _TASK})
    await agent.send(f"[[tool:multi_agent_v1/spawn_agent:{spawn}]][[say:main ]][[meet:main:2]][[say:speaks]]")
    await agent.wait_until(lambda: any("main" in one.delta.text for one in agent.outputs_of(DeltaEmitted)))
    stage.meet("sub")
    await agent.wait_until(lambda: any("is done" in event.text for event in agent.events_of(AgentMessage)))
    stage.meet("main")
    await agent.wait_for_end(agent.turn_ids[-1])
