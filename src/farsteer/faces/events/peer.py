"""One Engine.IO connection, whichever transport it is on now.

A client gets its packets in order over three roads: polled, through Engine.IO's queue and websocket writer, or
written by us straight to its websocket. The last is allowed only while the queue is empty and the writer waits on it.
The writer waits again only after everything it took was written, and it exists only after the client has finished its
upgrade, which it does after its last poll was answered. So nothing written directly can overtake a packet, and
everything queued later goes out later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from engineio.async_socket import AsyncSocket
from engineio.packet import Packet

from farsteer.faces.events.batch import Batch
from farsteer.faces.events.frames import engine_packets, websocket_frames
from farsteer.faces.events.limits import Limits
from farsteer.faces.events.queue import PacketQueue
from farsteer.faces.events.subscriber import Write
from farsteer.server.websocket_protocol import WebSocketConnection

Spawn = Callable[[Coroutine[Any, Any, Any]], asyncio.Task[Any]]


class Peer:
    def __init__(self, socket: AsyncSocket, limits: Limits, spawn: Spawn) -> None:
        self.socket = socket
        self._queue: PacketQueue = socket.queue
        self._queue.on_idle = self._look
        self._queue.on_writable = self._writable
        self._limits = limits
        self._spawn = spawn
        self._websocket: WebSocketConnection | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self.on_writable: Callable[[], None] | None = None
        """Called when the client is no longer behind."""
        self._on_direct: Callable[[Write | None], None] | None = None
        self.ping: asyncio.Task[Any] | None = None
        """Engine.IO's own, until the next ping is due."""

    @property
    def behind(self) -> bool:
        websocket = self._websocket
        return (websocket is not None and websocket.behind) or self._queue.behind

    @property
    def buffered(self) -> int:
        return self._queue.size + (0 if self._websocket is None else self._websocket.buffered)

    def on_direct(self, tell: Callable[[Write | None], None]) -> None:
        """Tell how to write straight to the websocket, and from now on whenever that changes; None: only by `send`."""
        self._on_direct = tell
        self._look()

    def send(self, batch: Batch) -> None:
        websocket = self._free
        if websocket is not None:
            websocket.write(batch.encoded(websocket_frames))
        else:
            self.put(*batch.encoded(engine_packets))

    def put(self, *packets: Packet | None) -> None:
        for packet in packets:
            self._queue.put_nowait(packet)

    def attach(self, websocket: WebSocketConnection) -> bool:
        """False if it has one already: a second one would read the same queue."""
        if self._websocket is not None:
            return False
        websocket.message_limit(self._limits.message)
        websocket.soft_limit(self._limits.soft)
        websocket.on_flow = self._flow
        self._websocket = websocket
        self._look()
        return True

    def detach(self) -> None:
        self._websocket = None
        self._look()

    def stay(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def leave_within(self, seconds: float) -> None:
        self.stay()
        self._deadline = asyncio.get_running_loop().call_later(seconds, self.cut)

    def hang_up(self) -> None:
        """After all that is queued: a websocket's writer ends there, a polling client has a grace to come for it."""
        self.leave_within(self._limits.grace)
        if self.socket.upgraded:
            self._queue.put_nowait(None)

    def cut(self) -> None:
        """Now, whatever is queued."""
        if self._websocket is not None:
            self._websocket.abort()
        if not self.socket.upgraded:
            self._spawn(self.socket.close(wait=False, abort=True))

    def gone(self) -> None:
        """The Engine.IO session has ended; a websocket that is still open gets a grace to close."""
        if self.ping is not None and self.ping is not asyncio.current_task():
            self.ping.cancel()
        if not self.socket.upgraded:
            # A poll that waits is answered.
            self._queue.put_nowait(None)
        if self._websocket is None:
            self.stay()
        else:
            self.leave_within(self._limits.grace)

    @property
    def _free(self) -> WebSocketConnection | None:
        """The websocket, while nothing in the queue comes before what is written to it."""
        return self._websocket if self._queue.idle and self.socket.upgraded else None

    def _flow(self) -> None:
        self._look()
        if not self.behind:
            self._writable()

    def _look(self) -> None:
        if self._on_direct is not None:
            websocket = self._free
            self._on_direct(websocket.transport.write if websocket is not None and websocket.open else None)

    def _writable(self) -> None:
        if self.on_writable is not None:
            self.on_writable()
