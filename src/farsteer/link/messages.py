"""The messages between hub and runner.

A link begins with Hello (runner), Challenge (hub), Proof (runner) and Welcome (hub). Instead of any of its messages the
hub may send Refused. Then the runner sends Events, Deltas, Reply and Ping, the hub Ack, Call and Pong. A runner that
ends in order closes with Goodbye.

The two ends may be of different versions. Hello and Challenge settle the protocol; a message that is newer than the
protocol of a link is not sent over it. Unknown fields are ignored. A message of an unknown kind is answered with
Unsupported, a Call with an unknown command with a Reply that says so. Neither ends the link.

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
from farsteer.core.queue import ItemState
from farsteer.core.session import SessionSpec, SessionState
from farsteer.core.wire import WireStruct, encode

OLDEST_PROTOCOL = 2
"""The oldest protocol that this version speaks."""
PROTOCOL = 3
"""The newest. `Hello` offers both, and the hub chooses the newest that both ends speak (`Challenge.protocol`)."""
TRANSFER_PROTOCOL = 3
"""From this protocol on, large messages travel in parts."""
FOREIGN_PROTOCOL = 3
"""From this protocol on, runners describe and adopt sessions that the hub does not know."""
FILES_PROTOCOL = 3
"""From this protocol on, runners show files of sessions' directories (`core.file_commands`)."""
RECOVERY_PROTOCOL = 3
"""From this one on, hub and runner compare items and states in the handshake, and the runner knows `Settle`."""
WORKTREE_PROTOCOL = 3
"""From this one on, runners describe and change worktrees, and begin one with `SessionSpec.worktree_base`."""
HANDOFF_PROTOCOL = 3
"""From this one on, runners create sessions that another session was handed over to (`SessionSpec.handoff`)."""
PING_SECONDS = 5.0
IDLE_TIMEOUT_SECONDS = 15.0
"""A link over which no byte arrives for this long is closed."""
MAX_FRAME = 64 * 1024 * 1024
"""The largest message that a link carries."""


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
    """The oldest protocol that the runner speaks. Always sent; 1 stands for runners that left it out."""
    newest: int = 0
    """The newest protocol that the runner speaks. 0 for runners of protocol 2, which speak only that."""
    # The fields below belong to protocol 3.
    instance: str = ""
    """Random, for each run of a runner: two runners with one identity differ in it."""
    place: str = ""
    """Identifies the home directory on its disk. A copied home has another."""
    boot: str = ""
    """Identifies the running system. In the same place since the same boot, the lock of the home proves that an earlier
    runner is gone."""
    lease: int = 0
    """The generation of the last lease that this runner was given."""
    confirmed: dict[str, int] = {}
    """Of each session, the last entry that a hub has confirmed. A hub that has less was set back."""
    held: dict[str, list[str]] = {}
    """The items that wait or are in work, of each session that has any."""


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
    keeps_commands: bool = False
    """The state has no commands, because they are those of an earlier state on this link. Protocol 3."""


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
    problem: str = ""
    """What keeps the runner from working, in words for people; empty when nothing does. Older hubs ignore it."""
    models: dict[str, tuple[str, ...]] = {}
    """The models of agents whose list has changed since `Hello` or the last ping. Older hubs ignore it."""


class Goodbye(LinkMessage, tag="goodbye"):
    """The runner ends in order: the hub has everything of it, and another runner may have the lease. Protocol 3."""


class Unsupported(LinkMessage, tag="unsupported"):
    """Sent by either end: it does not know the kind of message that the other sent. Protocol 3."""

    kind: str


class UnknownMessage(LinkMessage, tag="unknown"):
    """What a frame of an unknown kind is decoded to. It is never sent."""

    kind: str


class UnknownCall(LinkMessage, tag="unknown_call"):
    """What a Call is decoded to whose command this version does not know or cannot read. It is never sent."""

    id: int
    reason: str


class Challenge(LinkMessage, tag="challenge"):
    """Asks the runner to prove that it has the key it named."""

    nonce: bytes
    protocol: int = 2
    """The protocol of this link. Hubs of protocol 2 leave it out."""


class KnownSession(WireStruct):
    """A session as the hub has it."""

    spec: SessionSpec
    state: SessionState


class Welcome(LinkMessage, tag="welcome"):
    acked: dict[str, int]
    """The last sequence number that the hub has of each session that the runner named or that is in `restored`."""
    deleted: list[str] = msgspec.field(default_factory=list[str], name="unknown")
    """Sessions that were deleted on the hub. The runner ends and deletes them."""
    foreign: list[str] = msgspec.field(default_factory=list[str], name="strangers")
    """Sessions that this hub has never had. The runner keeps them and sends nothing about them."""
    # The fields below belong to protocol 3.
    lease: int = 0
    """The generation of the lease that this link holds. It grows with every runner process of the machine."""
    items: dict[str, dict[str, ItemState]] = {}
    """Items on which hub and runner differ, by session: those the runner holds that have an outcome here, and those
    that the hub takes for queued or handed over and the runner did not name. Of sessions of which the runner may have
    lost something, also the accepted ones that an earlier link may have delivered."""
    restored: list[KnownSession] = []
    """Sessions of which the runner has nothing, or fewer entries than the hub's state: it goes on with that state,
    unless its own differs only in the number of entries."""
    more: bool = False
    """Another Welcome follows, with more of `restored`. There are no calls before the last one."""


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
    code: str = ""
    """`identity_in_use`: another runner with this identity holds the lease; this one starts nothing."""
    retry_after: float = 0.0
    """Seconds after which a new attempt may succeed by itself. 0 if somebody has to do something first."""


class IdentityClaimed(LinkMessage, tag="identity_claimed"):
    """Another runner with the identity of this machine was refused. Protocol 3."""

    host: str


ToHub = Hello | Proof | Events | Deltas | Reply | Ping | Goodbye | Unsupported | UnknownMessage
ToRunner = (
    Challenge | Welcome | Ack | Call | Pong | Refused | IdentityClaimed | Unsupported | UnknownMessage | UnknownCall
)  # fmt: skip
