"""Who hears nothing on a link for too long takes it for dead."""

from __future__ import annotations

import asyncio
from typing import Any, Generic, NoReturn, TypeVar

from farsteer.link.transport import LinkClosed, Transport

In = TypeVar("In")


class Ear(Generic[In]):
    """One end's hearing. `watch` runs beside it: one timer for the whole life of a link, none for each message."""

    def __init__(self, transport: Transport[Any, In], patience: float) -> None:
        self._transport = transport
        self._patience = patience
        self._loop = asyncio.get_running_loop()
        self._since: float | None = None
        """Since when we have been waiting; while we are busy with what we heard, silence is ours."""

    async def receive(self) -> In:
        """The next message. Raises LinkClosed."""
        self._since = self._loop.time()
        try:
            return await self._transport.receive()
        finally:
            self._since = None

    async def watch(self) -> NoReturn:
        """Raises LinkClosed once `receive` has waited for too long."""
        while True:
            since = self._loop.time() if self._since is None else self._since
            left = since + self._patience - self._loop.time()
            if left <= 0:
                raise self._silent()
            await asyncio.sleep(left)

    async def first(self) -> In:
        """The message a link begins with, when nobody watches yet. Raises LinkClosed."""
        try:
            async with asyncio.timeout(self._patience):
                return await self._transport.receive()
        except TimeoutError:
            raise self._silent() from None

    def _silent(self) -> LinkClosed:
        return LinkClosed(f"silent for {self._patience:g} s")
