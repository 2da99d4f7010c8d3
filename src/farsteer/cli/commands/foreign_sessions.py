"""The actions of `farsteer sessions` on sessions that a machine has and the hub never had."""

from __future__ import annotations

import argparse
import sys
from shutil import get_terminal_size
from typing import TYPE_CHECKING

from farsteer.cli.terminal.text import ago, one_line, table
from farsteer.core.errors import BadRequest, FarsteerError, NotFound
from farsteer.core.text import clean_line, printable_json

if TYPE_CHECKING:
    from farsteer.client import AsyncClient
    from farsteer.core.foreign import ForeignSessionView

ACTIONS = ("foreign", "adopt", "end")


async def run_action(client: AsyncClient, arguments: argparse.Namespace) -> None:
    found = await _foreign_sessions(client)
    if arguments.action == "foreign":
        _print_list(found, as_json=arguments.json)
        return
    # All are found before the first is changed.
    for session in [_find(found, given) for given in arguments.ids]:
        if arguments.action == "adopt":
            adopted = await client.adopt_foreign_session(session.machine_id, session.id)
            print(f"{adopted.id} {adopted.status.value} {clean_line(adopted.title or '', 60)}".rstrip())
        else:
            confirm_delete(session.id, session.title, confirmed=arguments.yes)
            await client.end_foreign_session(session.machine_id, session.id)


async def print_hint(client: AsyncClient) -> None:
    """Say on stderr how many there are, if any."""
    count = sum(machine.foreign_sessions for machine in await client.machines())
    if count:
        print(
            f"{count} more are known only to their machines; `farsteer sessions foreign` lists them",
            file=sys.stderr,
        )


async def _foreign_sessions(client: AsyncClient) -> list[ForeignSessionView]:
    """Ask all machines that have some. One that cannot answer is named on stderr."""
    found: list[ForeignSessionView] = []
    for machine in await client.machines():
        if not machine.foreign_sessions:
            continue
        try:
            found += await client.foreign_sessions(machine.id)
        except FarsteerError as error:
            name = clean_line(machine.name or machine.host)
            print(
                f"{machine.foreign_sessions} on {name}: {clean_line(error.message, 200)}",
                file=sys.stderr,
            )
    return found


def _print_list(found: list[ForeignSessionView], *, as_json: bool) -> None:
    if as_json:
        for session in found:
            print(printable_json(session))
    elif found:
        header = ("ID", "STATE", "AGENT", "USED", "LOST", "DIRECTORY", "TITLE")
        print(table([header, *map(_row, found)], get_terminal_size().columns))
    else:
        print("no machine has a session that the hub does not know", file=sys.stderr)


def _row(session: ForeignSessionView) -> tuple[str, ...]:
    return (
        session.id[:8],
        session.status.value,
        session.agent,
        "" if session.updated_at is None else ago(session.updated_at),
        str(session.lost or ""),
        one_line(session.directory, 40),
        session.title or "",
    )


def _find(found: list[ForeignSessionView], given: str) -> ForeignSessionView:
    fitting = [session for session in found if session.id.startswith(given)]
    if not fitting:
        raise NotFound(f"no foreign session id starts with {given!r}: `farsteer sessions foreign` lists them")
    if len(fitting) > 1:
        raise BadRequest(f"{len(fitting)} foreign session ids start with {given!r}: give more of it")
    return fitting[0]


def confirm_delete(session_id: str, title: str | None, *, confirmed: bool) -> None:
    """Ask for confirmation on the terminal. Raises BadRequest if it is not given."""
    if confirmed:
        return
    if not sys.stdin.isatty():
        raise BadRequest("deleting a session cannot be undone: pass --yes to confirm")
    shown = one_line(title or "", 60)
    print(f"delete {session_id[:8]} {shown!r} and its history? [y/N] ", end="", flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise BadRequest("nothing was deleted")
