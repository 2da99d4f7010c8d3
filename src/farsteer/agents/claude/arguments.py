"""The command line and the environment of a launch."""

from __future__ import annotations

from typing import Any

from farsteer.agents.base import LaunchPlan
from farsteer.agents.claude.settings import native_mode
from farsteer.core.errors import BadRequest
from farsteer.core.ids import check_id
from farsteer.core.launch import LaunchMode
from farsteer.core.mcp import McpServer, McpTransport
from farsteer.core.wire import encode

_ALWAYS = (
    "-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose", "--include-partial-messages",
    "--replay-user-messages", "--forward-subagent-text", "--permission-prompt-tool", "stdio",
)  # fmt: skip
_ENVIRONMENT = {"CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING": "true"}
"""Claude Code keeps copies of the files that it edits, so that a rewind can restore them."""

HOOK_MARK = "farsteer:"
"""What our hook writes first, to tell it from the hooks of the owner."""
SESSION_START_HOOK: dict[str, Any] = {
    "hooks": [{"type": "command", "command": f"{{ printf {HOOK_MARK}; cat; }} >&2", "timeout": 10}]
}
"""Gives the payload of the hook back to us: Claude Code reports what a hook writes to stderr, and shows it to nobody.

What it writes to stdout would become part of the model's context.
"""
SOURCE_VARIABLE = "HAPI_SESSION_SOURCE"
"""For the hooks of the owner, which get the payload as Claude Code makes it."""


def arguments(plan: LaunchPlan) -> list[str]:
    """Return the arguments of a launch. Secrets of MCP servers are not among them; see `mcp_servers`."""
    argv = [
        *_ALWAYS,
        "--permission-mode",
        native_mode(plan.permission_mode),
        *_conversation(plan),
        *_choices(plan),
    ]
    if plan.source:
        # Added to the settings and hooks of the owner, which stay in force.
        argv += ["--settings", encode({"hooks": {"SessionStart": [SESSION_START_HOOK]}}).decode()]
    return argv


def _choices(plan: LaunchPlan) -> list[str]:
    argv: list[str] = []
    if plan.model is not None:
        argv += ["--model", _value(plan.model, "model")]
    if plan.effort is not None:
        argv += ["--effort", plan.effort.value]
    for directory in plan.additional_directories:
        argv += ["--add-dir", directory]
    if (agent := plan.options.get("claudeAgent")) is not None:
        argv += ["--agent", _value(agent, "claudeAgent")]
    return argv


def terminal_arguments(plan: LaunchPlan, settings: dict[str, Any]) -> list[str]:
    """Return the arguments of Claude Code's own interface. `settings` are added to those of the owner."""
    return [
        "--permission-mode", native_mode(plan.permission_mode), *_conversation(plan), *_choices(plan),
        "--settings", encode(settings).decode(),
    ]  # fmt: skip


def environment(plan: LaunchPlan) -> dict[str, str]:
    """Return the environment of a launch."""
    source = {SOURCE_VARIABLE: plan.source} if plan.source else {}
    return {**plan.environment, **source, **_ENVIRONMENT}


def mcp_servers(servers: tuple[McpServer, ...]) -> dict[str, dict[str, Any]]:
    """Return the servers as the request `mcp_set_servers` takes them."""
    return {server.name: _mcp_server(server) for server in servers}


def _mcp_server(server: McpServer) -> dict[str, Any]:
    if server.type is McpTransport.STDIO:
        return {"type": "stdio", "command": server.command, "args": [*server.args], "env": server.env}
    return {"type": server.type.value, "url": server.url, "headers": server.headers}


def _conversation(plan: LaunchPlan) -> list[str]:
    native_id = check_id(plan.decision.native_id or plan.session_id, "the id of a conversation")
    if plan.fork_of is not None:
        source = check_id(plan.fork_of, "the id of a conversation")
        argv = ["--resume", source, "--fork-session", "--session-id", native_id]
    elif plan.decision.start is LaunchMode.RESUME:
        argv = ["--resume", native_id]
    else:
        return ["--session-id", native_id]
    return [*argv, "--resume-session-at", plan.cut_at] if plan.cut_at is not None else argv


def _value(text: str, name: str) -> str:
    if text.startswith("-"):
        raise BadRequest(f"{name} must not begin with a dash", field=name)
    return text
