"""A runner in a process of its own, connected to a hub until it is told to stop."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack
from pathlib import Path

from farsteer.cli.lifetime import Lifetime, end, run_fast
from farsteer.cli.logs import log_to_stderr
from farsteer.link.websocket import connect
from farsteer.runner.link_client import LinkTransport
from farsteer.runner.runner import Runner


def run_until_stopped(home: Path, url: str, token: str) -> int:
    log_to_stderr()
    return run_fast(_run(home, url, token))


async def _run(home: Path, url: str, token: str) -> int:
    insecure = os.environ.get("FARSTEER_ALLOW_INSECURE") == "1"

    async def reach() -> LinkTransport:
        return await connect(url, token, allow_insecure=insecure)

    lifetime = Lifetime()
    async with AsyncExitStack() as opened:
        runner = await Runner.open(home)
        opened.push_async_callback(runner.close)
        link = asyncio.create_task(runner.run(reach))
        greeting = asyncio.create_task(_greet(runner, url))
        opened.push_async_callback(end, link, greeting)
        return await lifetime.last(opened, link)


async def _greet(runner: Runner, url: str) -> None:
    await runner.connected.wait()
    print(f"This machine is connected to {url}", flush=True)
