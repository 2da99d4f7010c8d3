"""The hub behind the face: opened beside the reading of the first line, and again when that failed and is asked for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from farsteer.core.errors import FarsteerError, Internal

if TYPE_CHECKING:
    from farsteer.client.hub_client import HubClient

_log = logging.getLogger(__name__)

Open = Callable[[], "AbstractAsyncContextManager[HubClient]"]


class HubConnection:
    def __init__(self, hub: Open, *, later: bool = False) -> None:
        """`later`: opened when it is first asked for, or told to begin."""
        self._open = hub
        self._over = asyncio.Event()
        self._left = asyncio.Event()
        """Set to leave the hub that is open now."""
        self._living: asyncio.Task[None] | None = None
        self._opened: asyncio.Future[HubClient] = asyncio.get_running_loop().create_future()
        if not later:
            self.begin()

    def begin_once(self) -> None:
        if self._living is None and not self._over.is_set():
            self.begin()

    def begin(self) -> None:
        self._opened = asyncio.get_running_loop().create_future()
        self._living = asyncio.create_task(self._live(self._opened, self._left))

    async def opened(self) -> HubClient:
        """The hub. Raises FarsteerError if there is none to be had now."""
        if self._living is None or (self._opened.done() and self._opened.exception() is not None):
            self.begin()
        return await asyncio.shield(self._opened)

    @property
    def hub(self) -> HubClient:
        """The hub, for those who are in a session of it."""
        return self._opened.result()

    async def reopen(self) -> None:
        """Leave this hub; whoever asks next finds the one that is to be had then."""
        if self._living is None or self._over.is_set():
            return
        left, self._living = self._living, None
        self._left.set()
        self._left = asyncio.Event()
        await left

    async def close(self) -> None:
        self._over.set()
        self._left.set()
        if self._living is not None:
            await self._living

    async def _live(self, opened: asyncio.Future[HubClient], left: asyncio.Event) -> None:
        """In one task from begin to end."""
        try:
            async with self._open() as client:
                opened.set_result(client)
                await left.wait()
        except Exception as error:  # noqa: BLE001
            if opened.done():
                _log.exception("the hub did not end well")
                return
            if not isinstance(error, FarsteerError):
                _log.exception("the hub did not start")
                error = Internal(f"no hub: {type(error).__name__}")
            opened.set_exception(error)
            opened.exception()  # whoever needs the hub hears it; nobody may
