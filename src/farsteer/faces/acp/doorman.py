"""Greets at once, with little of us loaded, and calls the one who does the rest: an editor waits for the greeting."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from farsteer.faces.acp.greeting import Client, Options, greeting
from farsteer.faces.hub_connection import HubConnection
from farsteer.jsonrpc.errors import INVALID_PARAMS, RpcError
from farsteer.jsonrpc.messages import as_object
from farsteer.jsonrpc.peer import Peer, Transport

if TYPE_CHECKING:
    from farsteer.faces.acp.agent import AcpAgent

_AFTER_ANSWER = 0.005


class Doorman:
    """A `Handler`, with the peer it speaks through."""

    def __init__(self, lines: Transport, options: Options, house: HubConnection) -> None:
        self.peer = Peer(lines, self)
        self._options = options
        self._house = house
        self._client = Client()
        self._agent: AcpAgent | None = None

    async def handle_request(self, method: str, params: Any) -> Any:
        given = {} if params is None else as_object(params)
        if given is None:
            raise RpcError(INVALID_PARAMS, f"{method} takes an object")
        if method == "initialize":
            return self._greet(given)
        return await self._called().request(method, given)

    async def handle_notification(self, method: str, params: Any) -> None:
        if self._agent is not None:
            await self._agent.notification(method, as_object(params) or {})

    async def leave(self) -> None:
        """The client is gone; what runs goes on."""
        if self._agent is not None:
            await self._agent.leave()

    def _greet(self, params: dict[str, Any]) -> dict[str, Any]:
        self._client = Client.of(params)
        if self._agent is not None:
            self._agent.client = self._client
        # After the answer, for it takes longer than an editor should wait.
        asyncio.get_running_loop().call_later(_AFTER_ANSWER, self._prepare)
        return greeting(self._client, local=self._options.forget is not None)

    def _prepare(self) -> None:
        if not self.peer.closed:
            self._house.connect()
            self._called()

    def _called(self) -> AcpAgent:
        if self._agent is None:
            from farsteer.faces.acp.agent import AcpAgent

            self._agent = AcpAgent(self._options, self._house, self.peer, self._client)
        return self._agent
