"""Answers one client, over pipes or a socket, from its first line to its last."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from farsteer.core.lines import Line
from farsteer.faces.acp.doorman import Doorman
from farsteer.faces.acp.greeting import Options
from farsteer.faces.hub_connection import HubConnection, OpenHub
from farsteer.jsonrpc.peer import Transport
from farsteer.jsonrpc.stdio import StdinReader, StdoutWriter

_FLUSH_SECONDS = 5.0


class Pipes:
    """Standard input and output as a peer's road."""

    def __init__(self, reader: StdinReader, writer: StdoutWriter) -> None:
        self._reader = reader
        self._writer = writer

    def batches(self) -> AsyncIterator[list[Line]]:
        return self._reader.batches()

    async def write(self, data: bytes) -> None:
        await self._writer.write(data)

    async def flush(self) -> None:
        await self._writer.flush(_FLUSH_SECONDS)


async def converse(lines: Transport, options: Options, hub: OpenHub) -> None:
    """Until the client has gone. What runs goes on, where there is a hub that outlives us."""
    house = HubConnection(hub)
    doorman = Doorman(lines, options, house)
    try:
        await doorman.peer.run()
    finally:
        await asyncio.shield(_part(doorman, house))


async def _part(doorman: Doorman, house: HubConnection) -> None:
    await doorman.leave()
    await house.close()
