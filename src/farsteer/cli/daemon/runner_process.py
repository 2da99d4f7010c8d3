"""Runs a runner that is connected to a hub until it is stopped."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack
from pathlib import Path

from farsteer.cli.daemon.process import StopSignal, cancel_tasks, log_to_stderr, run_with_uvloop
from farsteer.link.websocket import connect
from farsteer.runner.link_client import LinkTransport
from farsteer.runner.runner import Runner


def run_runner(home: Path, url: str, token: str) -> int:
    """Run the runner of `home` until SIGINT or SIGTERM, and return the exit code."""
    log_to_stderr()
    return run_with_uvloop(_run(home, url, token))


async def _run(home: Path, url: str, token: str) -> int:
    allow_insecure = os.environ.get("FARSTEER_ALLOW_INSECURE") == "1"

    async def connect_to_hub() -> LinkTransport:
        return await connect(url, token, allow_insecure=allow_insecure)

    stop_signal = StopSignal()
    async with AsyncExitStack() as resources:
        runner = await Runner.open(home)
        resources.push_async_callback(runner.close)
        link = asyncio.create_task(runner.run(connect_to_hub))
        ready = asyncio.create_task(_print_when_connected(runner, url))
        resources.push_async_callback(cancel_tasks, link, ready)
        return await stop_signal.wait_and_close(resources, link)


async def _print_when_connected(runner: Runner, url: str) -> None:
    await runner.connected.wait()
    print(f"This machine is connected to {url}", flush=True)
