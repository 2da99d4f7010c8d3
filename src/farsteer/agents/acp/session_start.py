"""Opens the session of a launch: a new one, or a resumed, loaded or forked one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from farsteer import __version__
from farsteer.agents.acp import protocol
from farsteer.agents.acp.protocol import AgentCapabilities, Initialized, OpenedSession
from farsteer.agents.acp.translator import Translator
from farsteer.agents.base import LaunchPlan
from farsteer.agents.catalog.definition import AgentDefinition, Trap
from farsteer.agents.rpc import Failure, RpcClient
from farsteer.core.errors import AgentError, BadRequest, ErrorCode, FarsteerError, NotCapable
from farsteer.core.launch import LaunchMode
from farsteer.core.mcp import McpServer, McpTransport
from farsteer.core.text import clean_line
from farsteer.jsonrpc.errors import AUTH_REQUIRED, INVALID_PARAMS, METHOD_NOT_FOUND, RESOURCE_NOT_FOUND
from farsteer.jsonrpc.messages import as_object

_CLIENT_INFO = {"name": "farsteer", "title": "Farsteer", "version": __version__}
_OPENING = frozenset({"session/load", "session/resume", "session/fork", "session/delete"})
_MISSING = (
    "not found", "no previous session", "does not exist", "unknown session", "no such session", "no conversation",
    "no session", "invalid session identifier", "opencode service failure",
)  # fmt: skip
"""How agents say that they have no such session, besides with the protocol's own code."""
_TEXT_CHARS = 500
_MAX_PAGES = 1000


class SessionStarter:
    """Makes an agent ready for a session. `serves_files` is False if the agent runs as another user than we do."""

    def __init__(
        self, rpc: RpcClient, definition: AgentDefinition, timeout: float, *, serves_files: bool = True,
    ) -> None:  # fmt: skip
        self.agent = Initialized()
        self._rpc = rpc
        self._definition = definition
        self._timeout = timeout
        self._serves_files = serves_files

    async def initialize(self) -> AgentCapabilities:
        """Agree on a version of the protocol. Raises FarsteerError."""
        reads = self._definition.client_files and self._serves_files
        params: dict[str, Any] = {
            "protocolVersion": protocol.VERSION,
            "clientInfo": _CLIENT_INFO,
            "clientCapabilities": {
                "fs": {"readTextFile": reads, "writeTextFile": reads},
                "terminal": self._definition.client_terminals,
                "elicitation": {"form": {}, "url": {}},
            },
        }
        self.agent = await self._rpc.ask("initialize", params, self._timeout, Initialized)
        if self.agent.protocol_version != protocol.VERSION:
            raise AgentError(
                f"{self._definition.title} speaks version {self.agent.protocol_version} of the protocol, not"
                f" {protocol.VERSION}",
                code=ErrorCode.AGENT_PROTOCOL,
            )
        return self.agent.agent_capabilities

    async def open(
        self, plan: LaunchPlan, translator: Translator, wait_quiet: Callable[[], Awaitable[None]]
    ) -> tuple[str, OpenedSession]:
        """Open the session that the plan asks for, and return its id. Raises FarsteerError.

        Args:
            wait_quiet: Returns when the agent has been quiet for a while.
        """
        params = self._params(plan)
        native_id = plan.decision.native_id
        if plan.fork_of is not None:
            return await self._fork(plan, plan.fork_of, params)
        if plan.decision.start is LaunchMode.RESUME and native_id is not None:
            if plan.cut_at is not None:
                raise NotCapable(f"{self._definition.title} cannot rewind a conversation")
            opened = await self._resume(native_id, params)
            if opened is None:
                translator.is_replaying = True
                opened = await self._load_known(native_id, params)
                if Trap.REPLAY_AFTER_LOAD in self._definition.traps:
                    await wait_quiet()
                translator.is_replaying = False
            return native_id, opened
        opened = await self.call("session/new", params)
        if not opened.session_id:
            raise AgentError(
                f"{self._definition.title} did not name the session", code=ErrorCode.AGENT_PROTOCOL
            )
        return opened.session_id, opened

    async def _resume(self, session_id: str, params: dict[str, Any]) -> OpenedSession | None:
        """Resume a session without a replay. Returns None if the agent can only load it."""
        can = self.agent.agent_capabilities
        if not can.has("resume"):
            if not can.load_session:
                raise NotCapable(f"this version of {self._definition.title} cannot resume a conversation")
            return None
        try:
            return await self.call("session/resume", {"sessionId": session_id, **params})
        except NotCapable:
            # Announced, but not there: qwen 0.15.
            if not can.load_session:
                raise
            return None

    async def _load_known(self, session_id: str, params: dict[str, Any]) -> OpenedSession:
        """Load a session. Raises AgentError `conversation_missing` also if the agent says it in no known words."""
        try:
            return await self.load(session_id, params)
        except AgentError as error:
            can_tell = error.code is ErrorCode.AGENT_FAILED and self.agent.agent_capabilities.has("list")
            if can_tell and not await self._is_listed(session_id):
                raise AgentError(error.message, code=ErrorCode.CONVERSATION_MISSING) from None
            raise

    async def _is_listed(self, session_id: str) -> bool:
        params: dict[str, Any] = {}
        for _ in range(_MAX_PAGES):
            page = await self._rpc.ask("session/list", params, self._timeout, protocol.ListedSessions)
            if any(one.session_id == session_id for one in page.sessions):
                return True
            if page.next_cursor is None or not page.sessions:
                return False
            params = {"cursor": page.next_cursor}
        return True

    async def load(self, session_id: str, params: dict[str, Any]) -> OpenedSession:
        """Load a session, whose conversation the agent repeats."""
        return await self.call("session/load", {"sessionId": session_id, **params})

    async def _fork(self, plan: LaunchPlan, source: str, params: dict[str, Any]) -> tuple[str, OpenedSession]:
        if not self.agent.agent_capabilities.has("fork"):
            raise NotCapable(f"this version of {self._definition.title} cannot fork a conversation")
        if plan.cut_at is not None:
            raise NotCapable(f"{self._definition.title} forks whole conversations only")
        opened = await self.call("session/fork", {"sessionId": source, **params})
        if not opened.session_id or opened.session_id == source:
            raise AgentError(f"{self._definition.title} did not name the fork", code=ErrorCode.AGENT_PROTOCOL)
        return opened.session_id, opened

    async def call(self, method: str, params: dict[str, Any]) -> OpenedSession:
        """Open a session, and authenticate first if the agent asks for that and needs no person for it."""
        try:
            return await self._ask(method, params)
        except FarsteerError as error:
            if error.details.get("rpc_code") != AUTH_REQUIRED:
                raise
            chosen = self._definition.auth_method
            if chosen is None or chosen not in {one.id for one in self.agent.auth_methods}:
                raise self._not_logged_in(error) from None
        try:
            await self._rpc.call("authenticate", {"methodId": chosen}, self._timeout)
            return await self._ask(method, params)
        except FarsteerError as error:
            raise self._not_logged_in(error) from None

    async def _ask(self, method: str, params: dict[str, Any]) -> OpenedSession:
        result = await self._rpc.call(method, params, self._timeout)
        if bytes(result) == b"null":
            return OpenedSession()  # Some agents answer `session/load` with nothing.
        return protocol.decode_result(result, OpenedSession, self._definition.title, method)

    def _not_logged_in(self, error: FarsteerError) -> AgentError:
        ways = ", ".join(clean_line(method.name or method.id) for method in self.agent.auth_methods)
        hint = self._definition.login or (f"it offers: {ways}" if ways else "see its documentation")
        return AgentError(
            f"{self._definition.title} is not logged in: {hint} ({error.message})",
            code=ErrorCode.AGENT_START_FAILED,
        )

    def _params(self, plan: LaunchPlan) -> dict[str, Any]:
        can = self.agent.agent_capabilities
        params: dict[str, Any] = {
            "cwd": plan.directory,
            "mcpServers": [self._mcp_server(server) for server in plan.mcp_servers],
        }
        if self._definition.session_meta:
            params["_meta"] = self._definition.session_meta
        if plan.additional_directories:
            if not can.has("additionalDirectories"):
                raise NotCapable(
                    f"this version of {self._definition.title} works in one directory only",
                    field="additionalDirectories",
                )
            params["additionalDirectories"] = [*plan.additional_directories]
        return params

    def _mcp_server(self, server: McpServer) -> dict[str, Any]:
        if server.type is McpTransport.STDIO:
            return {
                "name": server.name, "command": server.command, "args": [*server.args], "env": _pairs(server.env),
            }  # fmt: skip
        can = self.agent.agent_capabilities.mcp_capabilities
        if not (can.http if server.type is McpTransport.HTTP else can.sse):
            raise NotCapable(
                f"{self._definition.title} cannot use the MCP server {server.name}: it has no transport"
                f" {server.type.value}",
                field="mcpServers",
            )
        return {
            "type": server.type.value,
            "name": server.name,
            "url": server.url,
            "headers": _pairs(server.headers),
        }


def _pairs(values: dict[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in values.items()]


def failure_text(failure: Failure) -> str:
    """Return the message of an error, with what its data adds."""
    data = as_object(failure.data) or {}
    told = (data.get(name) for name in ("message", "details", "error"))
    parts = [failure.message, *(one for one in told if isinstance(one, str))]
    if isinstance(failure.data, str):
        parts.append(failure.data)
    return (
        clean_line(": ".join(dict.fromkeys(part for part in parts if part)), _TEXT_CHARS) or "no reason given"
    )


def error_of(title: str) -> Callable[[str, Failure], FarsteerError]:
    """Return the translation of the errors of an agent."""

    def to_error(method: str, failure: Failure) -> FarsteerError:
        text, code = failure_text(failure), failure.code
        if code == METHOD_NOT_FOUND:
            return NotCapable(f"this version of {title} has no {method}", rpc_code=code)
        is_missing = code == RESOURCE_NOT_FOUND or any(words in text.lower() for words in _MISSING)
        if method in _OPENING and is_missing:
            return AgentError(f"{title}: {text}", code=ErrorCode.CONVERSATION_MISSING, rpc_code=code)
        if code == INVALID_PARAMS:
            return BadRequest(f"{title} refuses {method}: {text}", rpc_code=code)
        return AgentError(f"{title}: {text} ({method})", code=ErrorCode.AGENT_FAILED, rpc_code=code)

    return to_error
