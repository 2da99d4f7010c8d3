"""Serves one ACP client over any transport.

Editors wait for the response to `initialize`, so this module imports little and answers it alone. Right after that
response the hub is opened and the rest of the face is imported.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from farsteer import __version__
from farsteer.faces.hub_connection import HubConnection, OpenHub
from farsteer.jsonrpc.errors import INVALID_PARAMS, RpcError
from farsteer.jsonrpc.messages import as_object
from farsteer.jsonrpc.peer import Peer, Transport

if TYPE_CHECKING:
    from farsteer.faces.acp.agent import AcpAgent

PROTOCOL_VERSION = 1
LOGIN_METHOD = "farsteer-login"
_LOGIN_ARGS = ["login"]
_TERMINAL_AUTH = "terminal-auth"
"""The `_meta` key for a login command that clients used before the protocol had terminal login."""
_PREPARE_DELAY = 0.005
"""Seconds after which the response to `initialize` has been written."""


class AcpOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of `farsteer acp`."""

    agent: str | None = None
    machine: str | None = None
    session_id: str | None = None
    """The first `session/new` returns this session instead of a new one."""
    lenient: bool = False
    """Create sessions without the MCP servers and directories that their agent does not support."""
    forget_login: Callable[[], object] | None = None
    """Logs out. None for clients that connect to a hub's websocket: they have no login to forget."""


class ClientCapabilities(msgspec.Struct, frozen=True):
    forms: bool = False
    """The client can show forms (`elicitation/create`)."""
    terminal_login: bool = False
    """The client can run a login command in a terminal."""
    legacy_terminal_login: bool = False

    @classmethod
    def parse(cls, params: dict[str, Any]) -> ClientCapabilities:
        capabilities = as_object(params.get("clientCapabilities")) or {}
        elicitation = as_object(capabilities.get("elicitation")) or {}
        return cls(
            forms=as_object(elicitation.get("form")) is not None,
            terminal_login=(as_object(capabilities.get("auth")) or {}).get("terminal") is True,
            legacy_terminal_login=(as_object(capabilities.get("_meta")) or {}).get(_TERMINAL_AUTH) is True,
        )


async def serve(transport: Transport, options: AcpOptions, open_hub: OpenHub) -> None:
    """Serve one client until it disconnects. Running turns go on if the hub outlives this process."""
    hub_connection = HubConnection(open_hub)
    handler = InitializeHandler(transport, options, hub_connection)
    try:
        await handler.peer.run(hub_connection.wait_until_opened)
    finally:
        await asyncio.shield(_close(handler, hub_connection))


async def _close(handler: InitializeHandler, hub_connection: HubConnection) -> None:
    await handler.close()
    await hub_connection.close()


class InitializeHandler:
    """Answers `initialize` and passes everything else to an `AcpAgent`, which is imported when it is needed."""

    def __init__(self, transport: Transport, options: AcpOptions, hub_connection: HubConnection) -> None:
        self.peer = Peer(transport, self)
        self._options = options
        self._hub_connection = hub_connection
        self._client = ClientCapabilities()
        self._agent: AcpAgent | None = None

    async def handle_request(self, method: str, params: Any) -> Any:
        parsed = {} if params is None else as_object(params)
        if parsed is None:
            raise RpcError(INVALID_PARAMS, f"the parameters of {method} must be an object")
        if method == "initialize":
            return self._initialize(parsed)
        return await self._load_agent().handle_request(method, parsed)

    async def handle_notification(self, method: str, params: Any) -> None:
        if self._agent is not None:
            await self._agent.handle_notification(method, as_object(params) or {})

    async def close(self) -> None:
        if self._agent is not None:
            await self._agent.detach_all()

    def _initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        self._client = ClientCapabilities.parse(params)
        if self._agent is not None:
            self._agent.client = self._client
        asyncio.get_running_loop().call_later(_PREPARE_DELAY, self._prepare)
        return initialize_result(self._client, can_log_in=self._options.forget_login is not None)

    def _prepare(self) -> None:
        if not self.peer.closed:
            self._hub_connection.connect()
            self._load_agent()

    def _load_agent(self) -> AcpAgent:
        if self._agent is None:
            from farsteer.faces.acp.agent import AcpAgent

            self._agent = AcpAgent(self._options, self._hub_connection, self.peer, self._client)
        return self._agent


def initialize_result(client: ClientCapabilities, *, can_log_in: bool) -> dict[str, Any]:
    """Return the response to `initialize`.

    Args:
        can_log_in: whether this process keeps a login. A client of a hub's websocket has presented its token already.
    """
    return {
        "protocolVersion": PROTOCOL_VERSION,
        "agentCapabilities": {
            "loadSession": True,
            "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
            "mcpCapabilities": {"http": True, "sse": True},
            "sessionCapabilities": {
                "list": {}, "resume": {}, "close": {}, "delete": {}, "fork": {}, "additionalDirectories": {},
            },
            "auth": {"logout": {}} if can_log_in else {},
        },
        "agentInfo": {"name": "farsteer", "title": "Farsteer", "version": __version__},
        "authMethods": [_login_method(client)] if can_log_in else [],
    }  # fmt: skip


def _login_method(client: ClientCapabilities) -> dict[str, Any]:
    """Offer a login in a terminal to clients that have one, and tell the others what to type."""
    method: dict[str, Any] = {
        "id": LOGIN_METHOD,
        "name": "Log in to a hub",
        "description": "Asks for the hub's address and its access token",
    }
    if client.terminal_login:
        return {**method, "type": "terminal", "args": _LOGIN_ARGS}
    method["description"] = "Type `farsteer login` in a terminal, then come back"
    if client.legacy_terminal_login:
        arguments = ["-m", "farsteer", *_LOGIN_ARGS]
        command = {"command": sys.executable, "args": arguments, "label": "farsteer login"}
        method["_meta"] = {_TERMINAL_AUTH: command}
    return method
