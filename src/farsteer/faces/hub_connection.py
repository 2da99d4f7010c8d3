"""A hub client that is opened in the background, opened again after a failure, and replaced after a logout."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from farsteer.core.errors import FarsteerError, Internal

if TYPE_CHECKING:
    from farsteer.client.hub_client import HubClient

_logger = logging.getLogger(__name__)

OpenHub = Callable[[], "AbstractAsyncContextManager[HubClient]"]
"""Opens a hub client for as long as the context manager is entered."""


class HubConnection:
    """Opens and closes the hub in one background task, whichever task asks for the client."""

    def __init__(self, open_hub: OpenHub) -> None:
        self._open_hub = open_hub
        self._client: asyncio.Future[HubClient] | None = None
        self._task: asyncio.Task[None] | None = None
        self._release = asyncio.Event()
        """Set to close the current client."""
        self._closed = False

    def connect(self) -> None:
        """Start to open the hub, without waiting for it. Does nothing if that has been started or after `close`."""
        if self._task is None and not self._closed:
            self._start()

    async def client(self) -> HubClient:
        """Return the open client. Opens the hub if there is none or if the last attempt failed.

        Raises:
            FarsteerError: the hub could not be opened.
        """
        if self._task is None or self._client is None or _failed(self._client):
            return await asyncio.shield(self._start())
        return await asyncio.shield(self._client)

    async def wait_until_opened(self) -> bool:
        """Wait for the hub if it is being opened, whether or not that succeeds. Returns whether it was."""
        if self._client is None or self._client.done():
            return False
        await asyncio.wait([self._client])
        return True

    @property
    def current(self) -> HubClient:
        """The open client. Only for code that runs after `client` has returned."""
        assert self._client is not None
        return self._client.result()

    async def disconnect(self) -> None:
        """Close the current client. The next call of `client` opens a new one."""
        if self._task is None or self._closed:
            return
        task, self._task = self._task, None
        self._release.set()
        self._release = asyncio.Event()
        await task

    async def close(self) -> None:
        self._closed = True
        self._release.set()
        if self._task is not None:
            await self._task

    def _start(self) -> asyncio.Future[HubClient]:
        self._client = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._hold_open(self._client, self._release))
        return self._client

    async def _hold_open(self, opened: asyncio.Future[HubClient], release: asyncio.Event) -> None:
        try:
            async with self._open_hub() as client:
                opened.set_result(client)
                await release.wait()
        except Exception as error:
            if opened.done():
                _logger.exception("closing the hub failed")
                return
            if not isinstance(error, FarsteerError):
                _logger.exception("opening the hub failed")
                error = Internal(f"no hub: {type(error).__name__}")
            opened.set_exception(error)
            opened.exception()  # marks it as retrieved: there may be nobody waiting for the client


def _failed(opened: asyncio.Future[HubClient]) -> bool:
    return opened.done() and opened.exception() is not None
