"""Large messages on a link: they travel in parts, and what arrived of one is kept for the next link.

The sender announces a transfer with the SHA-256 of its payload, the receiver accepts it from an offset, and the parts
follow each other. The payload of a message is the same over every link, so its digest says which transfer goes on.
A receiver allocates what it has received, not what was announced.
"""

from __future__ import annotations

import asyncio
import struct
from collections import OrderedDict, deque
from collections.abc import Iterator
from enum import IntEnum
from hashlib import sha256
from typing import Any

from msgspec import Struct

from farsteer.link.messages import MAX_FRAME
from farsteer.link.transport import LinkClosed

_MAX_ACTIVE_BYTES = MAX_FRAME + 32 * 1024 * 1024
"""The announced sizes of the transfers that a receiver accepts at a time. Others wait."""
_MAX_ANNOUNCED = 256
MAX_SENT_TRANSFERS = 64
"""How many transfers a sender has at a time."""
_KEPT_SECONDS = 900.0
_MAX_KEPT = 64


class FrameKind(IntEnum):
    """The first byte of a frame that is not JSON."""

    MARK = 1
    """Send this back."""
    MARK_READ = 2
    ANNOUNCE = 3
    ACCEPT = 4
    REFUSE = 5
    """The message is larger than the receiver accepts."""
    PART = 6
    CANCEL = 7
    """The sender does not go on with a transfer."""


_NUMBER = struct.Struct(">BI")
_NUMBER_AND_VALUE = struct.Struct(">BIQ")
_ANNOUNCEMENT = struct.Struct(">BIQQ32s")


class Announcement(Struct, frozen=True):
    number: int
    """Names the transfer in the frames of this link."""
    size: int
    digest: bytes
    call_id: int = 0
    """The `id` of a Call or Reply, which differs over each link and is 0 in the payload."""


def pack_number(kind: FrameKind, number: int) -> bytes:
    return _NUMBER.pack(kind, number)


def pack_value(kind: FrameKind, number: int, value: int) -> bytes:
    return _NUMBER_AND_VALUE.pack(kind, number, value)


def pack_announcement(one: Announcement) -> bytes:
    return _ANNOUNCEMENT.pack(FrameKind.ANNOUNCE, one.number, one.size, one.call_id, one.digest)


def pack_part(number: int, data: memoryview) -> bytes:
    return b"".join((_NUMBER.pack(FrameKind.PART, number), data))


def unpack_number(frame: bytes) -> int:
    return _unpack(_NUMBER, frame)[1]


def unpack_value(frame: bytes) -> tuple[int, int]:
    _, number, value = _unpack(_NUMBER_AND_VALUE, frame)
    return number, value


def unpack_announcement(frame: bytes) -> Announcement:
    _, number, size, call_id, digest = _unpack(_ANNOUNCEMENT, frame)
    return Announcement(number, size, digest, call_id)


def unpack_part(frame: bytes) -> tuple[int, memoryview]:
    return unpack_number(frame[: _NUMBER.size]), memoryview(frame)[_NUMBER.size :]


def _unpack(form: struct.Struct, frame: bytes) -> tuple[Any, ...]:
    if len(frame) != form.size:
        raise LinkClosed("received an invalid link frame")
    return form.unpack(frame)


class Payload:
    """What has arrived of a transfer."""

    def __init__(self) -> None:
        self.data = bytearray()
        self._hash = sha256()

    def add(self, part: memoryview) -> None:
        self.data += part
        self._hash.update(part)

    def has_digest(self, digest: bytes) -> bool:
        return self._hash.digest() == digest


class _Kept(Struct, frozen=True):
    payload: Payload
    expires_at: float


class UnfinishedTransfers:
    """What arrived of transfers whose link broke, by its sender. Bounded in bytes, in number and in time."""

    def __init__(self, max_bytes: int = 256 * 1024 * 1024, max_bytes_of_sender: int = MAX_FRAME) -> None:
        self._max_bytes = max_bytes
        self._max_bytes_of_sender = max_bytes_of_sender
        self._kept: OrderedDict[tuple[str, bytes], _Kept] = OrderedDict()

    def keep(self, sender: str, digest: bytes, payload: Payload) -> None:
        """Keep what arrived of a transfer. The oldest ones are dropped if there are too many."""
        loop = asyncio.get_running_loop()
        other = self._kept.pop((sender, digest), None)
        if other is not None and len(other.payload.data) > len(payload.data):
            payload = other.payload
        self._kept[sender, digest] = _Kept(payload, loop.time() + _KEPT_SECONDS)
        loop.call_later(_KEPT_SECONDS, self._drop_expired)
        own = [key for key in self._kept if key[0] == sender]
        while own and (len(own) > _MAX_KEPT or self._size(own) > self._max_bytes_of_sender):
            del self._kept[own.pop(0)]
        while self._kept and self._size(self._kept) > self._max_bytes:
            self._kept.popitem(last=False)

    def take(self, sender: str, digest: bytes) -> Payload:
        """Return what was kept of a transfer, which may be nothing."""
        kept = self._kept.pop((sender, digest), None)
        return Payload() if kept is None else kept.payload

    def _size(self, keys: OrderedDict[tuple[str, bytes], _Kept] | list[tuple[str, bytes]]) -> int:
        return sum(len(self._kept[key].payload.data) for key in keys)

    def _drop_expired(self) -> None:
        now = asyncio.get_running_loop().time()
        while self._kept and next(iter(self._kept.values())).expires_at <= now:
            self._kept.popitem(last=False)


class _Incoming(Struct):
    announcement: Announcement
    payload: Payload
    received_at: float


class IncomingTransfers:
    """The transfers that arrive over one link."""

    def __init__(self, unfinished: UnfinishedTransfers, sender: str, max_size: int = MAX_FRAME) -> None:
        self._unfinished = unfinished
        self._sender = sender
        self.max_size = max_size
        self._waiting: deque[Announcement] = deque()
        self._active: dict[int, _Incoming] = {}

    def announce(self, one: Announcement) -> Iterator[bytes]:
        """Yield the frames to answer with. Raises LinkClosed if the sender announces too many."""
        if one.size > self.max_size:
            yield pack_value(FrameKind.REFUSE, one.number, self.max_size)
            return
        if len(self._waiting) + len(self._active) >= _MAX_ANNOUNCED or one.number in self._active:
            raise LinkClosed("too many messages were announced")
        self._waiting.append(one)
        yield from self.accept()

    def accept(self) -> Iterator[bytes]:
        """Yield the frames that let transfers begin for which there is room."""
        size = sum(one.announcement.size for one in self._active.values())
        while self._waiting and (not self._active or size + self._waiting[0].size <= _MAX_ACTIVE_BYTES):
            one = self._waiting.popleft()
            payload = self._unfinished.take(self._sender, one.digest)
            if len(payload.data) >= one.size:
                payload = Payload()
            self._active[one.number] = _Incoming(one, payload, asyncio.get_running_loop().time())
            size += one.size
            yield pack_value(FrameKind.ACCEPT, one.number, len(payload.data))

    def add(self, number: int, part: memoryview) -> tuple[Announcement, bytes] | None:
        """Add a part. Returns the payload if it is complete. Raises LinkClosed for one that was not announced so."""
        incoming = self._active.get(number)
        if incoming is None:
            raise LinkClosed("received a part of a message that was not accepted")
        one, payload = incoming.announcement, incoming.payload
        if not part or len(payload.data) + len(part) > one.size:
            raise LinkClosed("received a message of another size than announced")
        incoming.received_at = asyncio.get_running_loop().time()
        payload.add(part)
        if len(payload.data) < one.size:
            return None
        del self._active[number]
        if not payload.has_digest(one.digest):
            raise LinkClosed("received a message with another digest than announced")
        return one, bytes(payload.data)

    def cancel(self, number: int) -> None:
        """The sender does not go on. It may do so over this link or the next one."""
        self._waiting = deque(one for one in self._waiting if one.number != number)
        incoming = self._active.pop(number, None)
        if incoming is not None:
            self._keep(incoming)

    def is_arriving(self, call_id: int | None, since: float) -> bool:
        """Return whether bytes of the Reply to a call, or of any message, have arrived since then."""
        return any(
            one.received_at >= since and call_id in (None, one.announcement.call_id)
            for one in self._active.values()
        )

    def close(self) -> None:
        """The link has ended: keep what has arrived. Idempotent."""
        for incoming in self._active.values():
            self._keep(incoming)
        self._active.clear()
        self._waiting.clear()

    def _keep(self, incoming: _Incoming) -> None:
        if incoming.payload.data:
            self._unfinished.keep(self._sender, incoming.announcement.digest, incoming.payload)
