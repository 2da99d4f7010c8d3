"""Runs a runner that is connected to a hub until it is stopped."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

from farsteer.agents.process.file_limit import raise_file_limit
from farsteer.cli.daemon.process import StopSignal, cancel_tasks, run_with_uvloop
from farsteer.client.settings import find_flag
from farsteer.link.websocket import connect
from farsteer.runner.link_client import LinkTransport
from farsteer.runner.machine import renew_identity
from farsteer.runner.runner import Runner


def run_runner(home: Path, url: str, token: str, *, new_identity: bool = False) -> int:
    """Run the runner of `home` until SIGINT or SIGTERM, and return the exit code.

    Raises:
        Conflict: Another process already runs a runner on `home`.
    """
    if new_identity:
        id = renew_identity(home)
        print(f"This machine has a new identity: {id}", flush=True)
    raise_file_limit()
    return run_with_uvloop(_run(home, url, token))


async def _run(home: Path, url: str, token: str) -> int:
    allow_insecure = find_flag("allow_insecure")

    async def connect_to_hub() -> LinkTransport:
        return await connect(url, token, allow_insecure=allow_insecure)

    stop_signal = StopSignal()
    async with AsyncExitStack() as resources:
        runner = await Runner.open(home)
        link = asyncio.create_task(runner.run(connect_to_hub))
        ready = asyncio.create_task(_print_when_connected(runner, url))
        resources.push_async_callback(cancel_tasks, link, ready)
        # Before the link is cancelled, because the hub is told that the runner ends.
        resources.push_async_callback(runner.close)
        await runner.accept_terminals()
        return await stop_signal.wait_and_close(resources, link)


async def _print_when_connected(runner: Runner, url: str) -> None:
    await runner.connected.wait()
    print(f"This machine is connected to {url}", flush=True)
