"""A link over a websocket, the same at both ends: messages share it fairly, whatever their size and its speed.

A short message is sent at once. Others wait for their turn and for the `Window`; those that are longer than a chunk
travel as transfers (`link/transfers.py`), a part at each turn. Short messages that are sent in the same iteration of
the event loop share a frame, because a frame costs more than most messages. Peers of protocol 2 get each message whole.
So do the messages of the handshake, because nothing else is sent meanwhile.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from hashlib import sha256
from typing import Generic, TypeVar

from msgspec.structs import replace

from farsteer.core.errors import TooLarge
from farsteer.core.wire import encode
from farsteer.link import transfers
from farsteer.link.frames import encode_frame
from farsteer.link.messages import (
    MAX_FRAME,
    Call,
    Challenge,
    Deltas,
    Events,
    Hello,
    Proof,
    Refused,
    Reply,
    ToHub,
    ToRunner,
    UnknownCall,
    Welcome,
)
from farsteer.link.transfers import Announcement, FrameKind, IncomingTransfers, UnfinishedTransfers
from farsteer.link.transport import LARGEST_BATCH, LinkClosed
from farsteer.link.window import Window

Out = TypeVar("Out", bound=ToHub | ToRunner)
In = TypeVar("In", bound=ToHub | ToRunner)

_logger = logging.getLogger(__name__)

_SHORT_BYTES = 4 * 1024
_WHOLE_BYTES = 16 * 1024
"""A shorter message is sent in one frame even if that is more than a chunk: a transfer costs a round trip."""
_JOINED_BYTES = 64 * 1024
"""How much may wait to be sent in one frame."""
_SEPARATOR = b"\x1e"
"""Between the messages of a frame. JSON does not contain it."""
_MAX_JOINED = 10_000
_LAST_KIND = max(FrameKind)
_HASHED_AT_ONCE = 1024 * 1024
"""The digest of a longer payload is calculated in a thread."""
_WHOLE = Hello | Challenge | Proof | Welcome | Refused
_BULK = Events | Deltas
"""These wait for their turn even if they are short: there may be any number of them."""


class Channel(ABC, Generic[Out, In]):
    """Implements `Transport` over a connection that carries frames."""

    def __init__(self, token_digest: bytes) -> None:
        self._token_digest = token_digest
        self._window: Window | None = None
        self._incoming: IncomingTransfers | None = None
        self._turn = asyncio.Lock()
        self._window_moved = asyncio.Event()
        self._transfer_slots = asyncio.Semaphore(transfers.MAX_SENT_TRANSFERS)
        self._transfer_numbers = itertools.count(1)
        self._offsets: dict[int, asyncio.Future[int]] = {}
        """Where the receiver wants each announced transfer to begin."""
        self._cancelling: set[asyncio.Task[None]] = set()
        self._pending: deque[bytes] = deque()
        """What is written from the next iteration of the event loop on, in this order."""
        self._pending_bytes = 0
        self._writing: asyncio.Task[None] | None = None
        self._arrived: deque[bytes] = deque()
        """The other messages of a frame."""
        self._written = 0
        self._accepted = 0
        self._closed: LinkClosed | None = None

    # What a kind of connection implements.

    @abstractmethod
    async def _write(self, frame: bytes) -> None:
        """Send a frame. Waits while the connection is full. Raises LinkClosed."""

    @abstractmethod
    async def _read(self) -> bytes:
        """Return the next frame. Raises LinkClosed."""

    @abstractmethod
    async def _decode(self, frame: bytes) -> In: ...

    @abstractmethod
    async def _close(self) -> None: ...

    @abstractmethod
    def _unsent_bytes(self) -> int:
        """Return the number of bytes that the kernel has not taken yet."""

    @property
    @abstractmethod
    def received_bytes(self) -> int: ...

    # `Transport`.

    @property
    def token_digest(self) -> bytes:
        return self._token_digest

    @property
    def batch_bytes(self) -> int:
        return LARGEST_BATCH if self._window is None else self._window.chunk

    @property
    def unread(self) -> object | None:
        if self._window is not None and self._window.unread is not None:
            return "mark", self._window.unread
        unsent = self._unsent_bytes()
        # Not less than before: a frame has more bytes than were counted.
        self._accepted = max(self._accepted, self._written - unsent)
        return ("bytes", self._accepted) if unsent else None

    async def start_transfers(self, unfinished: UnfinishedTransfers, sender: str) -> None:
        self._window = Window()
        self._incoming = IncomingTransfers(unfinished, sender)
        await self._send_mark(self._window)  # measures the link while it is empty

    def is_arriving(self, call_id: int | None, since: float) -> bool:
        return self._incoming is not None and self._incoming.is_arriving(call_id, since)

    def send_soon(self, message: Out) -> bool:
        if self._window is None or self._closed is not None or self._pending_bytes > _JOINED_BYTES:
            return False
        frame = encode(message)
        if len(frame) > _SHORT_BYTES:
            return False
        self._add_pending(frame)
        return True

    async def send(self, message: Out) -> None:
        window = self._window
        if window is None or isinstance(message, _WHOLE):
            await self._write_now(encode_frame(message))
            return
        frame = encode(message)
        if len(frame) <= _SHORT_BYTES and not isinstance(message, _BULK):
            await self._send_frame(frame)
        elif len(frame) <= max(2 * window.chunk, _WHOLE_BYTES):
            async with self._turn:
                await self._send_in_window(window, frame)
        else:
            await self._transfer(window, message, frame)

    async def receive(self) -> In:
        while True:
            try:
                if self._arrived:
                    return await self._decode(self._arrived.popleft())
                frame = await self._read()
                if self._window is None or not frame:
                    return await self._decode(frame)
                if frame[0] > _LAST_KIND:
                    return await self._decode(self._divide(frame))
                message = await self._handle(frame)
            except LinkClosed as closed:
                self._fail(closed)
                raise
            if message is not None:
                return message

    async def close(self) -> None:
        self._fail(LinkClosed("the link is closed"))
        await self._close()

    # Sending.

    async def _write_now(self, frame: bytes) -> None:
        if self._closed is not None:
            raise LinkClosed(str(self._closed))
        self._written += len(frame)
        await self._write(frame)

    async def _send_frame(self, frame: bytes) -> None:
        """Send a frame after all earlier ones. Waits only while there are many."""
        if self._closed is not None:
            raise LinkClosed(str(self._closed))
        writing = self._add_pending(frame)
        if self._pending_bytes > _JOINED_BYTES:
            await asyncio.wait([writing])
            if self._closed is not None:
                raise LinkClosed(str(self._closed))

    def _add_pending(self, frame: bytes) -> asyncio.Task[None]:
        """Have a frame written after all earlier ones. Returns the task that does it."""
        self._pending.append(frame)
        self._pending_bytes += len(frame)
        if self._writing is None:
            # A task of its own: no sender that is cancelled may take what others have sent with it.
            self._writing = asyncio.create_task(self._write_pending())
        return self._writing

    async def _write_pending(self) -> None:
        try:
            while self._pending:
                await self._write_now(self._next_frame())
        except LinkClosed as closed:
            self._fail(closed)
        except Exception as error:
            # A lack of memory, for example. Whoever sends next ends the link.
            _logger.exception("a frame of the link could not be written")
            self._fail(LinkClosed(f"a frame could not be written: {type(error).__name__}"))
        finally:
            self._writing = None

    def _next_frame(self) -> bytes:
        """Take the next frame to be written. Short messages that follow each other share one."""
        frame = self._pending.popleft()
        joined = [frame]
        size = len(frame)
        while self._pending and size <= _JOINED_BYTES and _is_short(frame) and _is_short(self._pending[0]):
            frame = self._pending.popleft()
            joined.append(frame)
            size += len(frame)
        self._pending_bytes -= size
        return frame if len(joined) == 1 else _SEPARATOR.join(joined)

    async def _send_in_window(self, window: Window, frame: bytes) -> None:
        """Send a frame once there is room for it. The caller has the turn."""
        while window.is_full and self._closed is None:
            self._window_moved.clear()
            await self._window_moved.wait()
        window.add(len(frame))
        await self._send_frame(frame)
        if window.is_mark_due:
            await self._send_mark(window)

    async def _send_mark(self, window: Window) -> None:
        number = window.mark(asyncio.get_running_loop().time())
        await self._send_frame(transfers.pack_number(FrameKind.MARK, number))

    async def _transfer(self, window: Window, message: Out, frame: bytes) -> None:
        call_id = 0
        if isinstance(message, Call | Reply):
            call_id, frame = message.id, encode(replace(message, id=0))
        if len(frame) > MAX_FRAME:
            raise _too_large(len(frame), MAX_FRAME)
        if len(frame) > _HASHED_AT_ONCE:
            digest = await asyncio.to_thread(_digest, frame)
        else:
            digest = _digest(frame)
        async with self._transfer_slots:
            one = Announcement(next(self._transfer_numbers), len(frame), digest, call_id)
            try:
                await self._send_parts(window, one, memoryview(frame))
            except asyncio.CancelledError:
                self._cancel(one.number)
                raise

    async def _send_parts(self, window: Window, one: Announcement, payload: memoryview) -> None:
        accepted = self._offsets[one.number] = asyncio.get_running_loop().create_future()
        try:
            await self._send_frame(transfers.pack_announcement(one))
            offset = await accepted
        finally:
            del self._offsets[one.number]
        while offset < one.size:
            # Others get their turn between two parts.
            async with self._turn:
                part = payload[offset : offset + window.chunk]
                await self._send_in_window(window, transfers.pack_part(one.number, part))
            offset += len(part)

    def _cancel(self, number: int) -> None:
        """Tell the receiver that a transfer does not go on."""

        async def send() -> None:
            with suppress(LinkClosed):
                await self._send_frame(transfers.pack_number(FrameKind.CANCEL, number))

        if self._closed is None:
            task = asyncio.create_task(send())
            self._cancelling.add(task)
            task.add_done_callback(self._cancelling.discard)

    # Receiving.

    def _divide(self, frame: bytes) -> bytes:
        """Return the first message of a frame and keep the others. Raises LinkClosed if there are too many."""
        if _SEPARATOR not in frame:
            return frame
        if frame.count(_SEPARATOR) >= _MAX_JOINED:
            raise LinkClosed("received a link frame of too many messages")
        first, *others = frame.split(_SEPARATOR)
        self._arrived.extend(others)
        return first

    async def _handle(self, frame: bytes) -> In | None:
        """Handle a frame that is not JSON. Returns the message that it completes."""
        assert self._window is not None
        assert self._incoming is not None
        match frame[0]:
            case FrameKind.MARK:
                number = transfers.unpack_number(frame)
                await self._send_frame(transfers.pack_number(FrameKind.MARK_READ, number))
            case FrameKind.MARK_READ:
                number = transfers.unpack_number(frame)
                self._window.confirm(number, asyncio.get_running_loop().time())
                self._window_moved.set()
            case FrameKind.ANNOUNCE:
                await self._answer(self._incoming.announce(transfers.unpack_announcement(frame)))
            case FrameKind.ACCEPT | FrameKind.REFUSE:
                self._set_offset(frame)
            case FrameKind.PART:
                complete = self._incoming.add(*transfers.unpack_part(frame))
                if complete is not None:
                    await self._answer(self._incoming.accept())
                    return await self._assemble(*complete)
            case FrameKind.CANCEL:
                self._incoming.cancel(transfers.unpack_number(frame))
                await self._answer(self._incoming.accept())
            case _:
                raise LinkClosed("received an invalid link frame")
        return None

    def _set_offset(self, frame: bytes) -> None:
        number, value = transfers.unpack_value(frame)
        accepted = self._offsets.get(number)
        if accepted is None or accepted.done():
            return  # it was cancelled
        if frame[0] == FrameKind.REFUSE:
            accepted.set_exception(_too_large(None, value))
        else:
            accepted.set_result(value)

    async def _answer(self, frames: Iterable[bytes]) -> None:
        for frame in frames:
            await self._send_frame(frame)

    async def _assemble(self, one: Announcement, payload: bytes) -> In:
        message = await self._decode(payload)
        has_id = isinstance(message, Call | Reply | UnknownCall)
        return replace(message, id=one.call_id) if has_id else message

    def _fail(self, closed: LinkClosed) -> None:
        """Wake whoever waits to send, and keep what has arrived. Idempotent."""
        if self._closed is None:
            self._closed = closed
        if self._incoming is not None:
            self._incoming.close()
        self._window_moved.set()
        for accepted in self._offsets.values():
            if not accepted.done():
                accepted.set_exception(LinkClosed(str(closed)))


def _is_short(frame: bytes) -> bool:
    """Whether this is a message that may share a frame."""
    return len(frame) <= _SHORT_BYTES and frame[0] > _LAST_KIND


def _digest(payload: bytes) -> bytes:
    return sha256(payload).digest()


def _too_large(size: int | None, limit: int) -> TooLarge:
    message = f"a link carries messages of at most {limit} bytes"
    return TooLarge(message, limit=limit) if size is None else TooLarge(message, limit=limit, size=size)
