"""A hub and a runner inside this process: what `farsteer exec` uses when no hub runs."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from farsteer.cli.local import running
from farsteer.core.errors import Conflict
from farsteer.core.ids import DEFAULT_NAMESPACE
from farsteer.faces.in_process_client import InProcessClient
from farsteer.hub import Caller, Hub
from farsteer.hub.auth.caller import ALL_SCOPES

OWNER = Caller(
    namespace=DEFAULT_NAMESPACE,
    token_id="owner",  # noqa: S106
    scopes=ALL_SCOPES,
    expires_at=2**53,
    owner=True,
    label="farsteer exec",
)
"""Whoever may run commands on this home."""


@asynccontextmanager
async def embedded(home: Path) -> AsyncGenerator[InProcessClient]:
    """Hub and runner on `home` for as long as the block runs."""
    try:
        hub = await Hub.open(home)
    except Conflict as error:
        raise Conflict(
            f"{error.message}; start `farsteer up` once, then any number of `farsteer exec` can run beside each other,"
            " or join a running hub with --hub URL, or give this one a home of its own with --home DIR",
            **error.details,
        ) from error
    try:
        async with running(hub, home):
            yield InProcessClient(hub, OWNER)
    finally:
        await hub.close()
