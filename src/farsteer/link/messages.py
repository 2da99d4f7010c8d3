"""The messages between hub and runner.

A link begins with Hello (runner), Challenge (hub), Proof (runner) and Welcome (hub). Instead of any of its messages the
hub may send Refused. Then the runner sends Events, Deltas, Reply and Ping, the hub Ack, Call and Pong.

The runner numbers and encodes each event once; `EncodedEntry.body` is the encoded `Entry`. The hub sends `Ack` after
the commit, so an acknowledged entry survives a crash of either end. A `Call` may be repeated after a reconnect:
commands are idempotent by the ids they carry. Inside one process the objects themselves are passed; between two
processes they travel as JSON frames.
"""

from __future__ import annotations

from typing import Any, dataclass_transform

import msgspec

from farsteer.core.capabilities import MachineInfo
from farsteer.core.commands import Command
from farsteer.core.errors import ErrorRecord
from farsteer.core.events import Delta, Entry, kind_of
from farsteer.core.session import SessionState
from farsteer.core.wire import encode

PROTOCOL = 2
PING_SECONDS = 5.0
IDLE_TIMEOUT_SECONDS = 15.0
"""A link that receives nothing for this long is closed."""
MAX_FRAME = 64 * 1024 * 1024


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class LinkMessage(msgspec.Struct, frozen=True, tag_field="t", omit_defaults=True):
    """Base of all link messages."""


class Hello(LinkMessage, tag="hello"):
    machine: MachineInfo
    sessions: dict[str, int]
    """The sessions of this runner, with the last sequence number of each."""
    key: bytes = b""
    """The public key of the machine (Ed25519)."""
    protocol: int = 1
    """Always sent. The default is for runners of protocol 1, which left it out and have no key."""


class Proof(LinkMessage, tag="proof"):
    """The answer to `Challenge`."""

    signature: bytes
    """Made by `link.identity.MachineKey.sign`."""


class EncodedEntry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An entry of a session's log in encoded form, with its sequence number and kind."""

    seq: int
    kind: str
    body: msgspec.Raw


def encode_entry(entry: Entry) -> EncodedEntry:
    return EncodedEntry(entry.seq, kind_of(entry.content), msgspec.Raw(encode(entry)))


class Events(LinkMessage, tag="events"):
    session: str
    entries: list[EncodedEntry] = msgspec.field(name="items")
    state: SessionState | None = None
    """The session's state after the last entry, if it changed."""


class Deltas(LinkMessage, tag="deltas"):
    session: str
    deltas: list[Delta]


class LogLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step of a session's creation, as returned in `logs` of POST /api/sessions."""

    timestamp: int
    step: str
    message: str
    status: str = "ok"
    code: str | None = None


class Reply(LinkMessage, tag="reply"):
    """The answer to a `Call`. `error` is None if it succeeded. `logs` and `state` are set by `Create`."""

    id: int
    error: ErrorRecord | None = None
    logs: list[LogLine] = []
    state: SessionState | None = None
    seq: int = 0
    """The last event that the command caused. The hub stores this event before it passes the answer on."""
    result: Any = None
    """The result of the command as JSON values."""


class Ping(LinkMessage, tag="ping"):
    pass


class Challenge(LinkMessage, tag="challenge"):
    """Asks the runner to prove that it has the key it named."""

    nonce: bytes


class Welcome(LinkMessage, tag="welcome"):
    acked: dict[str, int]
    """The last sequence number that the hub has of each session that the runner named."""
    deleted: list[str] = msgspec.field(default_factory=list[str], name="unknown")
    """Sessions that were deleted on the hub. The runner ends and deletes them."""
    foreign: list[str] = msgspec.field(default_factory=list[str], name="strangers")
    """Sessions that this hub has never had. The runner keeps them and sends nothing about them."""


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
    """The hub refuses this runner. Connecting again will fail until the reason is fixed."""

    reason: str


ToHub = Hello | Proof | Events | Deltas | Reply | Ping
ToRunner = Challenge | Welcome | Ack | Call | Pong | Refused
