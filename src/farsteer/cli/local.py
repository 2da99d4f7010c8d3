"""Hub and runner in one process: the same messages as between two, passed through memory."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from farsteer.cli.lifetime import end
from farsteer.core.errors import Unavailable
from farsteer.core.ids import DEFAULT_NAMESPACE
from farsteer.hub import Hub
from farsteer.link.messages import ToHub, ToRunner
from farsteer.link.transport import MemoryTransport, memory_pair
from farsteer.runner.runner import Runner

_log = logging.getLogger(__name__)

CONNECT_SECONDS = 10.0


class LocalLink:
    """The road between a hub and a runner of the same process."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._serving: set[asyncio.Task[None]] = set()

    async def connect(self) -> MemoryTransport[ToHub, ToRunner]:
        ends: tuple[MemoryTransport[ToHub, ToRunner], MemoryTransport[ToRunner, ToHub]] = memory_pair()
        runner_end, hub_end = ends
        task = asyncio.create_task(self._serve(hub_end))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        return runner_end

    async def close(self) -> None:
        await end(*self._serving)

    async def _serve(self, transport: MemoryTransport[ToRunner, ToHub]) -> None:
        try:
            await self._hub.link.serve(transport, DEFAULT_NAMESPACE)
        except Exception:  # noqa: BLE001
            # The runner sees a closed link and comes back, as it would over a network.
            _log.exception("the link inside this process failed")
        finally:
            await transport.close()


@asynccontextmanager
async def running(hub: Hub, home: Path) -> AsyncGenerator[asyncio.Task[None]]:
    """A runner on `home`, connected to `hub` inside the block; gives the task that keeps it so."""
    runner = await Runner.open(home)
    link = LocalLink(hub)
    task = asyncio.create_task(runner.run(link.connect))
    try:
        await _connected(runner, task)
        yield task
    finally:
        await end(task)
        await link.close()
        await runner.close()


async def _connected(runner: Runner, task: asyncio.Task[None]) -> None:
    waiting = asyncio.create_task(runner.connected.wait())
    try:
        await asyncio.wait({waiting, task}, timeout=CONNECT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        if not waiting.done():
            raise Unavailable("the runner did not connect to the hub of its own process; its log says why")
    finally:
        await end(waiting)
