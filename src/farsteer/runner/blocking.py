"""Blocking work in threads of its own, with a time limit.

A file system may not answer, and a thread that waits for one cannot be ended. Such threads take a bounded number of
places that nothing else needs, and do not keep the process from ending.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from farsteer.core.errors import TimedOut

T = TypeVar("T")


class BlockingWork:
    """Runs functions in threads, at most `places` at a time. One that does not return keeps its place."""

    def __init__(self, places: int = 4, seconds: float = 15.0) -> None:
        self._free = asyncio.Semaphore(places)
        self._seconds = seconds

    async def run(self, work: Callable[[], T]) -> T:
        """Return or raise what `work` does. Raises TimedOut if it takes too long; it goes on then."""
        try:
            async with asyncio.timeout(self._seconds):
                await self._free.acquire()
                return await self._start(work)
        except TimeoutError:
            raise TimedOut(f"the files of the machine did not answer within {self._seconds:g} s") from None

    def _start(self, work: Callable[[], T]) -> asyncio.Future[T]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def finish(result: T | None, error: BaseException | None) -> None:
            self._free.release()
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)  # pyright: ignore[reportArgumentType]

        def call() -> None:
            result, failure = None, None
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001
                failure = error
            with suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(finish, result, failure)

        threading.Thread(target=call, name="files", daemon=True).start()
        return future
