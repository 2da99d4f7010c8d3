"""`farsteer watch`: prints what happens at a hub, one line for each event."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from farsteer.cli import context
from farsteer.cli.exit_codes import SUCCESS
from farsteer.cli.terminal.log_view import entry_lines
from farsteer.cli.terminal.text import one_line
from farsteer.core.events import KINDS, Entry, kind_of
from farsteer.core.live_events import (
    EVENT_TYPES,
    SENT,
    MachineUpdatedEvent,
    OnlineUsersChangedEvent,
    SessionAddedEvent,
)
from farsteer.core.text import clean_line, escape_json
from farsteer.core.wire import to_builtins

if TYPE_CHECKING:
    from farsteer.client import AsyncClient
    from farsteer.client.live_events import LiveEvent

DESCRIPTION = """\
Print what happens from now on in all sessions and on all machines of the hub, one
line each: the time, the session or machine, the type, a summary. --type takes a
type of event or a kind of log entry. Parts of messages that are still being
written (message-delta) are left out unless they are asked for. Ctrl-C ends it.
"""

EXAMPLES = """\
  farsteer watch
  farsteer watch --session 3f2a --machine build-1
  farsteer watch --type approval_requested --type turn_end
  farsteer watch --json | jq -c 'select(.type=="session-updated")'
"""

_DELTA = "message-delta"
_ENTRY = "message-received"
_WIDTH = 160
_LEFT_OUT = ("partial", "kind", "seq", "updatedAt")
"""Fields of what changed that say nothing to a person."""


def watch_command(argv: Sequence[str]) -> int:
    parser = context.command_parser("watch", DESCRIPTION, EXAMPLES)
    context.add_hub_option(parser)
    parser.add_argument("--session", metavar="ID", help="only this session: its id or the first characters")
    parser.add_argument("--machine", metavar="M", help="only this machine and its sessions: id, name or host")
    parser.add_argument(
        "--type",
        action="append",
        choices=[*sorted(SENT), *sorted(KINDS)],
        metavar="T",
        help="only these; may be repeated. Events: "
        f"{', '.join(sorted(SENT))}. Entries of logs: {', '.join(sorted(KINDS))}",
    )
    parser.add_argument("--json", action="store_true", help="print each event as one line of JSON")
    return context.run(_watch(parser.parse_args(argv)))


async def _watch(arguments: argparse.Namespace) -> int:
    from farsteer.client.machines import choose_machine

    async with context.hub_client(arguments) as client:
        session = arguments.session and (await context.find_session(client, arguments.session)).id
        machine = arguments.machine and choose_machine(await client.machines(), arguments.machine).id
        watch = _Watch(client, machine, arguments.type)
        async with client.events(session, types=watch.event_types) as events:
            await watch.learn_sessions()
            print(f"watching {client.url}; Ctrl-C ends", file=sys.stderr, flush=True)
            async for event in events:
                if await watch.wants(event):
                    print(
                        escape_json(event.body.decode()) if arguments.json else watch.line(event), flush=True
                    )
    return SUCCESS


class _Watch:
    """Chooses the events that a person wants to see, and describes them."""

    def __init__(self, client: AsyncClient, machine: str | None, types: list[str] | None) -> None:
        self._client = client
        self._machine = machine
        self._kinds = None if types is None else KINDS & {*types}
        self._chosen = None if types is None else EVENT_TYPES & {*types}
        self._machine_of: dict[str, str] = {}
        self._titles: dict[str, dict[str, str]] = {}

    @property
    def event_types(self) -> list[str]:
        """The types to subscribe to."""
        if self._chosen is None:
            return sorted(EVENT_TYPES - {_DELTA})
        wanted = {*self._chosen, *([_ENTRY] if self._kinds else [])}
        # Tells the machine of a new session.
        return sorted(wanted | {"session-added"} if self._machine else wanted)

    async def learn_sessions(self) -> None:
        """Read which sessions are on which machine, if that matters."""
        if self._machine is not None:
            async for session in self._client.sessions():
                self._machine_of[session.id] = session.machine_id

    async def wants(self, event: LiveEvent) -> bool:
        if isinstance(event.content, SessionAddedEvent):
            self._machine_of[event.content.session_id] = event.content.data.machine_id
        if self._machine is not None:
            place = event.machine_id or self._machine_of.get(event.session_id or "")
            if place != self._machine:
                return False
        if event.type == "session-removed" and event.session_id:
            self._machine_of.pop(event.session_id, None)
            self._titles.pop(event.session_id, None)
        if self._chosen is None or event.type in self._chosen or event.type not in EVENT_TYPES:
            return True
        return bool(self._kinds and event.entry is not None and kind_of(event.entry.content) in self._kinds)

    def line(self, event: LiveEvent) -> str:
        """Return one line of text for an event."""
        place = (event.session_id or event.machine_id or "-")[:8]
        kind, summary = event.type, ""
        if event.entry is not None:
            kind, summary = (
                kind_of(event.entry.content),
                self._entry_summary(event.session_id or "", event.entry),
            )
        elif event.delta is not None:
            summary = event.delta.text
        else:
            summary = _summary(event)
        at = time.strftime("%H:%M:%S", time.localtime(event.entry.created_at / 1000 if event.entry else None))
        return f"{at}  {place:<8}  {kind:<20}  {one_line(summary, _WIDTH)}".rstrip()

    def _entry_summary(self, session_id: str, entry: Entry) -> str:
        lines = [line.text for line in entry_lines(entry, self._titles.setdefault(session_id, {}))]
        return " ".join(lines) or _fields(to_builtins(entry.content))


def _summary(event: LiveEvent) -> str:
    match event.content:
        case SessionAddedEvent(data=session):
            return " ".join((session.agent, session.directory, session.title or ""))
        case MachineUpdatedEvent(data=machine):
            return f"{machine.name or machine.host}: {'connected' if machine.active else 'not connected'}"
        case OnlineUsersChangedEvent(users=users):
            return ", ".join(user.email for user in users)
        case _ if event.type == "gap":
            return "events were missed; `farsteer sessions` shows how things are"
        case _:
            return _fields(event.raw.get("data") or event.raw.get("typing"))


def _fields(data: object) -> str:
    """Return what changed, as `name=value`; of a value with parts, only its name."""
    if not isinstance(data, dict):
        return "" if data is None else clean_line(str(data))
    fields = cast("dict[str, object]", data)
    return " ".join(
        name if isinstance(value, dict | list) else f"{name}={value}"
        for name, value in fields.items()
        if value is not None and name not in _LEFT_OUT
    )
