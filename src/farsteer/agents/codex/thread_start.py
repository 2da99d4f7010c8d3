"""Opens the thread of a launch: a new one, or a resumed, forked or reverted one."""

from __future__ import annotations

import os
from typing import Any

from farsteer.agents.base import LaunchPlan
from farsteer.agents.codex.protocol import Thread, Turn
from farsteer.agents.codex.settings import SettingsTracker, ThreadSettings
from farsteer.agents.rpc import Failure, RpcClient
from farsteer.core.errors import AgentError, BadRequest, Conflict, ErrorCode, FarsteerError, NotCapable
from farsteer.core.launch import LaunchMode
from farsteer.core.mcp import McpServer, McpTransport
from farsteer.core.wire import WireStruct

_PAGE = 100
_MISSING = ("no rollout found", "thread not found", "thread not loaded")
"""How Codex says that it has no such thread."""


class OpenedThread(ThreadSettings):
    thread: Thread = Thread(id="")


class _Turns(WireStruct):
    data: list[Turn]
    next_cursor: str | None = None


class ThreadStarter:
    def __init__(self, rpc: RpcClient, settings: SettingsTracker, plan: LaunchPlan) -> None:
        self._rpc = rpc
        self._settings = settings
        self._plan = plan

    async def start(self) -> OpenedThread:
        """Open the thread that the plan asks for. Raises FarsteerError."""
        plan, params = self._plan, self._params()
        if plan.fork_of is not None:
            opened = await self._fork(plan.fork_of, params)
        elif plan.decision.start is LaunchMode.RESUME and plan.decision.native_id is not None:
            opened = await self._resume(plan.decision.native_id, params)
        else:
            opened = await self._call("thread/start", params, OpenedThread)
        if not opened.thread.id:
            raise AgentError("Codex did not name the thread", code=ErrorCode.AGENT_PROTOCOL)
        self._settings.handle_opened(opened)
        return opened

    def _params(self) -> dict[str, Any]:
        plan = self._plan
        params: dict[str, Any] = {"cwd": plan.directory, **self._settings.thread_params()}
        config: dict[str, Any] = {}
        if plan.mcp_servers:
            config["mcp_servers"] = {server.name: _mcp_server(server) for server in plan.mcp_servers}
        if plan.additional_directories:
            roots = [os.path.realpath(directory) for directory in plan.additional_directories]
            config["sandbox_workspace_write.writable_roots"] = roots
        if config:
            params["config"] = config
        return params

    async def _resume(self, thread_id: str, params: dict[str, Any]) -> OpenedThread:
        params = {"threadId": thread_id, "excludeTurns": True, **params}
        opened = await self._call("thread/resume", params, OpenedThread)
        if self._plan.cut_at is not None:
            after = await self._turn_after(thread_id, self._plan.cut_at)
            if after is not None:
                await self._rpc.call(
                    "thread/revert",
                    {"threadId": thread_id, "beforeTurnId": after},
                    self._plan.startup_timeout,
                )
        return opened

    async def _fork(self, thread_id: str, params: dict[str, Any]) -> OpenedThread:
        params = {"threadId": thread_id, "excludeTurns": True, **params}
        if self._plan.cut_at is not None:
            params["lastTurnId"] = self._plan.cut_at
        return await self._call("thread/fork", params, OpenedThread)

    async def _turn_after(self, thread_id: str, turn_id: str) -> str | None:
        """Return the turn that follows `turn_id`, None if it is the last. Raises AgentError `anchor_unknown`."""
        later: str | None = None
        cursor: str | None = None
        while True:
            params: dict[str, Any] = {
                "threadId": thread_id, "limit": _PAGE, "sortDirection": "desc", "itemsView": "notLoaded",
            }  # fmt: skip
            page = await self._call(
                "thread/turns/list", {**params, "cursor": cursor} if cursor else params, _Turns
            )
            for turn in page.data:
                if turn.id == turn_id:
                    return later
                later = turn.id
            cursor = page.next_cursor
            if cursor is None or not page.data:
                raise AgentError(f"Codex has no turn {turn_id}", code=ErrorCode.ANCHOR_UNKNOWN)

    async def _call(self, method: str, params: dict[str, Any], kind: type[Any]) -> Any:
        return await self._rpc.ask(method, params, self._plan.startup_timeout, kind)


def _mcp_server(server: McpServer) -> dict[str, Any]:
    if server.type is McpTransport.STDIO:
        return {"command": server.command, "args": [*server.args], "env": server.env}
    if server.type is McpTransport.SSE:
        raise NotCapable(
            f"Codex cannot use the MCP server {server.name}: it has no transport sse", field="mcpServers"
        )
    return {"url": server.url, "http_headers": server.headers}


def to_error(method: str, failure: Failure) -> FarsteerError:
    """Return our error for Codex's. It has one code for everything, so that its words decide."""
    text = failure.message or "no reason given"
    if any(words in text for words in _MISSING):
        return AgentError(f"Codex: {text}", code=ErrorCode.CONVERSATION_MISSING, rpc_code=failure.code)
    if "turn not found" in text:
        return AgentError(f"Codex: {text}", code=ErrorCode.ANCHOR_UNKNOWN, rpc_code=failure.code)
    if "forked history" in text:
        return Conflict(f"Codex: {text}", rpc_code=failure.code)
    if "unknown variant" in text:
        return NotCapable(f"this version of Codex has no {method}", rpc_code=failure.code)
    if failure.code in (-32600, -32602):
        return BadRequest(f"Codex refuses {method}: {text}", rpc_code=failure.code)
    return AgentError(f"Codex: {text} ({method})", code=ErrorCode.AGENT_FAILED, rpc_code=failure.code)
