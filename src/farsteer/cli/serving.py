"""A hub that serves until it is told to stop, with or without a runner beside it."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Generator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from farsteer.cli import context
from farsteer.cli.lifetime import Lifetime, run_fast
from farsteer.cli.local import running
from farsteer.cli.logs import log_to_stderr
from farsteer.client.access import HubFile, hub_file, running_hub, token_file
from farsteer.core.errors import Conflict
from farsteer.core.wire import encode
from farsteer.faces.app import ServerConfig, serve
from farsteer.hub import Hub
from farsteer.storage.home import write_secret

_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104


def serve_until_stopped(arguments: argparse.Namespace, *, with_runner: bool) -> int:
    log_to_stderr()
    home = context.home(arguments)
    config = ServerConfig(
        host=arguments.host,
        port=arguments.port,
        allowed_hosts=tuple(arguments.allowed_host),
        allowed_origins=tuple(arguments.allowed_origin),
    )
    return run_fast(_serve(home, config, with_runner=with_runner))


async def _serve(home: Path, config: ServerConfig, *, with_runner: bool) -> int:
    lifetime = Lifetime()
    lives: list[asyncio.Task[None]] = []
    async with AsyncExitStack() as opened:
        hub = await _opened(home)
        opened.push_async_callback(hub.close)
        url = local_url(await opened.enter_async_context(serve(hub, config)))
        if with_runner:
            lives.append(await opened.enter_async_context(running(hub, home)))
        opened.enter_context(_announced(home, url))
        print(_ready(home, url, with_runner=with_runner), flush=True)
        return await lifetime.last(opened, *lives)


async def _opened(home: Path) -> Hub:
    try:
        return await Hub.open(home)
    except Conflict as error:
        running = running_hub(home)
        where = f" and answers at {running.url}" if running else ""
        raise Conflict(f"{error.message}{where}; stop it first, or choose another --home") from error


def _ready(home: Path, url: str, *, with_runner: bool) -> str:
    what = "Farsteer is ready at" if with_runner else "The hub is ready at"
    token = "in $CLI_API_TOKEN" if os.environ.get("CLI_API_TOKEN") else f"in {token_file(home)}"
    return f"{what} {url}, its access token is {token}"


def local_url(url: str) -> str:
    """How this machine reaches a server that listens on every address."""
    parts = urlsplit(url)
    host = _EVERYWHERE.get(parts.hostname or "")
    return url if host is None else f"{parts.scheme}://{host}:{parts.port}"


@contextmanager
def _announced(home: Path, url: str) -> Generator[None]:
    """Other commands on this home find the hub while it runs. Ours alone: we hold the home's lock."""
    path = hub_file(home)
    write_secret(path, encode(HubFile(url=url, pid=os.getpid())))
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
