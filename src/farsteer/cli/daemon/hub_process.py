"""Runs a hub, with or without a runner, until it is stopped."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from farsteer.agents.process.file_limit import raise_file_limit
from farsteer.cli.daemon.in_process import connected_runner
from farsteer.cli.daemon.process import StopSignal, cancel_tasks, run_with_uvloop
from farsteer.cli.protection import forget_token
from farsteer.client.config import HubFile, hub_file, running_hub, token_file
from farsteer.core.errors import Conflict
from farsteer.core.wire import encode
from farsteer.faces.app import ServerConfig, serve
from farsteer.hub import Hub
from farsteer.storage.home import write_secret

_LOOPBACK_OF_ANY = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104


def run_hub(home: Path, config: ServerConfig, *, with_runner: bool) -> int:
    """Serve the hub on `home` until SIGINT or SIGTERM, and return the exit code.

    Raises:
        Conflict: Another process already runs a hub on `home`.
        Unavailable: The address is in use.
    """
    raise_file_limit()
    return run_with_uvloop(_run(home, config, with_runner=with_runner))


async def _run(home: Path, config: ServerConfig, *, with_runner: bool) -> int:
    stop_signal = StopSignal()
    tasks: list[asyncio.Task[None]] = []
    async with AsyncExitStack() as resources:
        hub = await _open_hub(home)
        has_token_variable = forget_token()
        resources.push_async_callback(hub.close)
        url = local_url(await resources.enter_async_context(serve(hub, config)))
        tasks.append(asyncio.create_task(_raise_failure(hub)))
        resources.push_async_callback(cancel_tasks, *tasks)
        if with_runner:
            tasks.append(await resources.enter_async_context(connected_runner(hub, home, terminals=True)))
        resources.enter_context(_announce(home, url))
        where = "$CLI_API_TOKEN" if has_token_variable else str(token_file(home))
        subject = "Farsteer is ready at" if with_runner else "The hub is ready at"
        print(f"{subject} {url}, its access token is in {where}", flush=True)
        return await stop_signal.wait_and_close(resources, *tasks)


async def _raise_failure(hub: Hub) -> None:
    raise await hub.failure()


async def _open_hub(home: Path) -> Hub:
    try:
        return await Hub.open(home)
    except Conflict as error:
        running = running_hub(home)
        address = f" and answers at {running.url}" if running else ""
        raise Conflict(f"{error.message}{address}; stop it first, or choose another --home") from error


def local_url(url: str) -> str:
    """Return a URL for clients on this machine, also if the server listens on all addresses."""
    parts = urlsplit(url)
    host = _LOOPBACK_OF_ANY.get(parts.hostname or "")
    return url if host is None else f"{parts.scheme}://{host}:{parts.port}"


@contextmanager
def _announce(home: Path, url: str) -> Generator[None]:
    """Write `hub.json`, by which other commands find the hub, and remove it afterwards.

    The caller holds the lock of the home directory, so that no other hub writes the file.
    """
    path = hub_file(home)
    write_secret(path, encode(HubFile(url=url, pid=os.getpid())))
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
