"""Scenarios of the agents that the adapter of the Agent Client Protocol drives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from farsteer.agents import process_launch
from farsteer.agents.acp import stored_sessions
from farsteer.agents.acp.adapter import AcpAdapter
from farsteer.agents.base import Adapter
from farsteer.agents.catalog.definition import load_agent
from farsteer.core.approvals import Outcome
from tests.support.wire.agent import WireAgent
from tests.support.wire.recording import Json
from tests.support.wire.shared import (
    denied_in_read_only_mode,
    error_400,
    interrupt_in_stream,
    plain_turn,
    resume,
)
from tests.support.wire.stage import Scenario, Stage

NAMES = ("gemini", "opencode", "grok")
_SHOWN = 2
"""How many entries of the long lists are kept: of commands, models, modes and the like."""
_LONG = frozenset({"availableCommands", "availableModels", "reasoningEfforts"})
_ANY_TIME = frozenset(
    {"available_commands_update", "usage_update", "session_info_update", "config_option_update"}
)
"""Updates whose place among the others is not the same each time."""
_CONTEXT = "<session_context>"
_NOWHERE = Path("/nonexistent")


async def command_allowed(stage: Stage) -> None:
    agent = await stage.launch()
    await stage.decide(agent, "[[bash:sh -c 'echo made > made.txt']][[say:made it]]", Outcome.APPROVED)


async def command_denied(stage: Stage) -> None:
    agent = await stage.launch()
    await stage.decide(agent, "[[bash:sh -c 'touch made.txt']][[say:well then]]", Outcome.DENIED)


async def edit_allowed(stage: Stage) -> None:
    agent = await stage.launch()
    script = f"[[write:{stage.harness.directory}/made.txt:hello]][[say:made it]]"
    await stage.decide(agent, script, Outcome.APPROVED)


async def interrupt_while_asked(stage: Stage) -> None:
    agent = await stage.launch()
    await agent.send("[[bash:sh -c 'touch made.txt']]")
    await agent.wait_for_approvals()
    await stage.interrupt(agent)


SCENARIOS: tuple[Scenario, ...] = (
    plain_turn,
    command_allowed,
    command_denied,
    edit_allowed,
    denied_in_read_only_mode,
    interrupt_in_stream,
    interrupt_while_asked,
    error_400,
    resume,
)


def _describe(message: Any) -> str | None:
    if not isinstance(message, dict):
        return "text"
    known = cast("Json", message)
    method = str(known.get("method", ""))
    if not method or method.startswith("_"):
        # Answers and notices of the agent's own may come before or after other messages.
        return None
    update = (known.get("params") or {}).get("update") or {}
    kind = update.get("sessionUpdate")
    if kind in _ANY_TIME:
        return None
    return " ".join(str(part) for part in (method, kind, update.get("status")) if part)


def _shorten(entry: Json) -> Json | None:
    message = entry.get("out")
    if not isinstance(message, dict):
        return entry
    known = cast("Json", message)
    if "id" not in known and str(known.get("method", "")).startswith("_"):
        return None
    return {"out": _short(known)}


def _short(message: Json) -> Json:
    """Return a message with short lists, and without what an agent says of the machine when it opens a session."""
    result = message.get("result")
    opens = isinstance(result, dict) and "stopReason" not in result
    return cast("Json", _cut(message, hidden=frozenset({"_meta"}) if opens else frozenset()))


def _cut(value: Any, name: str = "", *, hidden: frozenset[str]) -> Any:
    if isinstance(value, list):
        listed = cast("list[Any]", value)
        return [_cut(one, hidden=hidden) for one in (listed[:_SHOWN] if name in _LONG else listed)]
    if isinstance(value, dict):
        fields = cast("Json", value)
        return {key: _cut(one, key, hidden=hidden) for key, one in fields.items() if key not in hidden}
    # What Gemini tells the model of the machine comes back in a replay.
    return _CONTEXT if isinstance(value, str) and value.startswith(_CONTEXT) else value


def _adapter(name: str) -> Callable[[str], Adapter]:
    return lambda executable: AcpAdapter(name, load_agent(_NOWHERE, name), executable)


def _agent(name: str) -> WireAgent:
    agent = WireAgent(
        name=name, adapter=_adapter(name), modules=(process_launch, stored_sessions), describe=_describe,
        shorten=_shorten,
    )  # fmt: skip
    for scenario in SCENARIOS:
        agent.scenario(scenario)
    return agent


ACP_AGENTS = {name: _agent(name) for name in NAMES}
