"""A runner, or a hub and a runner, in this process, linked through memory instead of a socket."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from farsteer.cli.daemon.process import cancel_tasks
from farsteer.cli.protection import forget_token
from farsteer.core.errors import Conflict, Unavailable
from farsteer.core.ids import DEFAULT_NAMESPACE
from farsteer.faces.in_process_client import InProcessClient
from farsteer.hub import Caller, Hub
from farsteer.hub.auth.caller import ALL_SCOPES
from farsteer.link.messages import ToHub, ToRunner
from farsteer.link.transport import MemoryTransport, memory_pair
from farsteer.runner.runner import Runner

_logger = logging.getLogger(__name__)

CONNECT_SECONDS = 10.0

OWNER = Caller(
    namespace=DEFAULT_NAMESPACE,
    token_id="owner",  # noqa: S106
    scopes=ALL_SCOPES,
    expires_at=2**53,
    owner=True,
    label="farsteer exec",
)
"""Whoever may run commands on the home directory may do everything on its hub."""


@asynccontextmanager
async def in_process_hub(home: Path) -> AsyncGenerator[InProcessClient]:
    """Run a hub and a runner on `home` for the duration of the block.

    Raises:
        Conflict: Another process already runs a hub on `home`.
    """
    try:
        hub = await Hub.open(home)
    except Conflict as error:
        raise Conflict(
            f"{error.message}; run `farsteer up` once to let several commands share this home directory,"
            " use another hub with --hub URL, or another home directory with --home DIR",
            **error.details,
        ) from error
    forget_token()
    try:
        async with connected_runner(hub, home):
            yield InProcessClient(hub, OWNER)
    finally:
        await hub.close()


@asynccontextmanager
async def connected_runner(
    hub: Hub, home: Path, *, terminals: bool = False
) -> AsyncGenerator[asyncio.Task[None]]:
    """Run a runner on `home` that is connected to `hub`, for the duration of the block.

    Args:
        terminals: Let `farsteer run` attach terminals to its sessions.

    Yields:
        The task of the runner, which ends only if the runner fails.
    """
    runner = await Runner.open(home)
    link = MemoryLink(hub)
    task = asyncio.create_task(runner.run(link.connect))
    try:
        await _wait_until_connected(runner, task)
        if terminals:
            await runner.accept_terminals()
        yield task
    finally:
        # Before the link is closed, because the hub is told that the runner ends.
        await runner.close()
        await cancel_tasks(task)
        await link.close()


async def _wait_until_connected(runner: Runner, task: asyncio.Task[None]) -> None:
    connected = asyncio.create_task(runner.connected.wait())
    try:
        await asyncio.wait({connected, task}, timeout=CONNECT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        if not connected.done():
            reason = runner.lease.refusal or "see the log"
            raise Unavailable(f"the runner could not connect to the hub in its own process: {reason}")
    finally:
        await cancel_tasks(connected)


class MemoryLink:
    """Connects a runner to a hub of the same process."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._tasks: set[asyncio.Task[None]] = set()

    async def connect(self) -> MemoryTransport[ToHub, ToRunner]:
        """Return the runner's end of a new connection; the hub serves the other end."""
        ends: tuple[MemoryTransport[ToHub, ToRunner], MemoryTransport[ToRunner, ToHub]] = memory_pair()
        runner_end, hub_end = ends
        task = asyncio.create_task(self._serve(hub_end))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return runner_end

    async def close(self) -> None:
        await cancel_tasks(*self._tasks)

    async def _serve(self, transport: MemoryTransport[ToRunner, ToHub]) -> None:
        try:
            await self._hub.link.serve(transport, DEFAULT_NAMESPACE, in_process=True)
        except Exception:
            # The runner sees a closed link and reconnects, as it does over a network.
            _logger.exception("the in-process link failed")
        finally:
            await transport.close()
