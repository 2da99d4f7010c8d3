"""What a person has typed, until the hub has it: sent in order, again after a lost connection, and never twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from farsteer.core.errors import FarsteerError, RateLimited, Unavailable
from farsteer.core.ids import new_id
from farsteer.core.queue import Delivery

if TYPE_CHECKING:
    from farsteer.client import AsyncClient

_RETRY_SECONDS = 1.0


@dataclass(slots=True, eq=False)
class Outgoing:
    text: str
    delivery: Delivery = Delivery.QUEUE
    local_id: str = field(default_factory=new_id)
    """The hub takes a message with the same id once, however often it is sent."""


class Outbox:
    """Sends messages to a session, one after the other.

    Args:
        client: The client to send by.
        session_id: The session.
        on_change: Called when `waiting` changes.
        on_refused: Called with a message that the hub refuses, and why.
    """

    def __init__(
        self,
        client: AsyncClient,
        session_id: str,
        on_change: Callable[[], None],
        on_refused: Callable[[Outgoing, FarsteerError], None],
    ) -> None:
        self.waiting: list[Outgoing] = []
        """What the hub does not have yet."""
        self._client = client
        self._session_id = session_id
        self._on_change = on_change
        self._on_refused = on_refused
        self._added = asyncio.Event()

    def put(self, text: str, delivery: Delivery = Delivery.QUEUE) -> None:
        self.waiting.append(Outgoing(text, delivery))
        self._added.set()

    def remove(self, message: Outgoing) -> None:
        """Do not send a message. If an attempt to send it was not answered, the hub may have it nevertheless."""
        if message in self.waiting:
            self.waiting.remove(message)
            self._on_change()

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            self._added.clear()
            while self.waiting:
                await self._send(self.waiting[0])
                self._on_change()
            await self._added.wait()

    async def _send(self, message: Outgoing) -> None:
        try:
            await self._client.send(
                self._session_id, message.text, local_id=message.local_id, delivery=message.delivery
            )
        except (Unavailable, RateLimited):
            self._on_change()
            await asyncio.sleep(_RETRY_SECONDS)
            return
        except FarsteerError as error:
            self._on_refused(message, error)
        if message in self.waiting:
            self.waiting.remove(message)
