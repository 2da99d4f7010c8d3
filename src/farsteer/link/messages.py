"""What hub and runner say to each other. In one process the same objects are passed; between two, JSON frames.

Runner → hub: Hello once, then Events, Deltas, Reply, Ping.    Hub → runner: Welcome once, then Ack, Call, Pong.

The runner numbers and encodes each event once; `EncodedEntry.body` is the encoded `Entry`. The hub sends `Ack` after
the commit, so an acknowledged entry survives a crash of either end. A `Call` may be repeated after a reconnect:
commands are idempotent by the ids they carry.
"""

from __future__ import annotations

from typing import Any, dataclass_transform

import msgspec

from farsteer.core.capabilities import MachineInfo
from farsteer.core.commands import Command
from farsteer.core.errors import ErrorRecord
from farsteer.core.events import Delta
from farsteer.core.session import SessionState

PROTOCOL = 1
PING_SECONDS = 5.0
IDLE_TIMEOUT_SECONDS = 15.0
"""A link that says nothing for this long is dead."""
MAX_FRAME = 64 * 1024 * 1024


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class LinkMessage(msgspec.Struct, frozen=True, tag_field="t", omit_defaults=True):
    pass


class Hello(LinkMessage, tag="hello"):
    machine: MachineInfo
    sessions: dict[str, int]
    """Sessions this runner keeps, with the last sequence number it gave."""
    protocol: int = PROTOCOL


class EncodedEntry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One event on the wire: its number, its kind, and the encoded entry."""

    seq: int
    kind: str
    body: msgspec.Raw


class Events(LinkMessage, tag="events"):
    session: str
    items: list[EncodedEntry]
    state: SessionState | None = None
    """The state after the last item, when it changed."""


class Deltas(LinkMessage, tag="deltas"):
    session: str
    deltas: list[Delta]


class LogLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step of a long command, as `logs` of POST /api/sessions shows it."""

    timestamp: int
    step: str
    message: str
    status: str = "ok"
    code: str | None = None


class Reply(LinkMessage, tag="reply"):
    """The answer to a `Call`: an error, or success; creation fills `logs` and `state` either way it can."""

    id: int
    error: ErrorRecord | None = None
    logs: list[LogLine] = []
    state: SessionState | None = None
    seq: int = 0
    """The last event the command caused. The hub passes the answer on when it has stored that one."""
    result: Any = None
    """What the command was asked for, as plain JSON values."""


class Ping(LinkMessage, tag="ping"):
    pass


class Welcome(LinkMessage, tag="welcome"):
    acked: dict[str, int]
    """What the hub holds of each session the runner named."""
    unknown: list[str] = []
    """Sessions that were deleted meanwhile: end and forget them."""
    strangers: list[str] = []
    """Sessions the hub has never heard of: keep them, and keep them to yourself."""


class Ack(LinkMessage, tag="ack"):
    session: str
    seq: int


class Call(LinkMessage, tag="call"):
    id: int
    session: str
    command: Command


class Pong(LinkMessage, tag="pong"):
    pass


class Refused(LinkMessage, tag="refused"):
    """The hub will not talk to this runner; trying again without a change is useless."""

    reason: str


ToHub = Hello | Events | Deltas | Reply | Ping
ToRunner = Welcome | Ack | Call | Pong | Refused
