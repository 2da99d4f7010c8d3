"""`farsteer run` with a real agent in a pty, beside `farsteer up`."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from tests.support.eventually import eventually
from tests.support.pty_screen import PtyProgram
from tests.support.stack import OWNER, Account
from tests.vendor.up import WAIT, Up

_REQUEST_SECONDS = 0.05


def run(up: Up, *arguments: str, **given: str) -> PtyProgram:
    """Return `farsteer run` in the desk of `up`, with options of its own and arguments of the agent."""
    options = [part for name, value in given.items() for part in (f"--{name}", value)]
    argv = [sys.executable, "-m", "farsteer", "run", *options, up.agent, *arguments]
    return PtyProgram(argv, cwd=up.desk, environment={**os.environ, "CLI_API_TOKEN": OWNER})


async def _eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait for a condition that takes requests to the hub, which shares the cores with the agent."""

    async def look() -> bool:
        reached = await condition()
        if not reached:
            await asyncio.sleep(_REQUEST_SECONDS)
        return reached

    await eventually(look, WAIT)


async def open_session(account: Account) -> str:
    """Wait until the one session is open in a terminal, and return its id."""
    found: list[str] = []

    async def look() -> bool:
        sessions = (await account.get_json("/api/sessions"))["sessions"]
        found[:] = [one["id"] for one in sessions]
        return len(found) == 1 and (await account.session(found[0]))["inTerminal"]

    await _eventually(look)
    return found[0]


async def contents(account: Account, session: str, kind: str | None = None) -> list[dict[str, Any]]:
    """Return the events of a session's log, or those of one kind."""
    log = await account.messages(session, limit=200)
    return [one["content"] for one in log if kind in (None, one["content"]["kind"])]


async def log_until(
    account: Account, session: str, reached: Callable[[list[dict[str, Any]]], bool]
) -> list[dict[str, Any]]:
    """Wait until `reached` holds for the events of a session's log, and return them."""
    found: list[dict[str, Any]] = []

    async def look() -> bool:
        found[:] = await contents(account, session)
        return reached(found)

    await _eventually(look)
    return found


def of(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event for event in events if event["kind"] == kind]


async def turn_ends(account: Account, session: str, *reasons: str) -> list[dict[str, Any]]:
    """Wait until the turns of a session have ended like this, and return the events of its log."""

    def ended(events: list[dict[str, Any]]) -> bool:
        return tuple(event["reason"] for event in of(events, "turn_end")) == reasons

    return await log_until(account, session, ended)


async def said(account: Account, session: str) -> list[str]:
    """Return what persons have said, as the log has it."""
    return [event["text"] for event in await contents(account, session, "user_message")]
