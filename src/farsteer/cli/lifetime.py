"""How long-running commands begin and end: a fast loop, signals, and bounded goodbyes."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Any

from farsteer.cli.main import DONE, FAILED

_log = logging.getLogger(__name__)

STOP_SECONDS = 20.0


def run_fast(work: Coroutine[Any, Any, int]) -> int:
    """Run it on uvloop, where there is one."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


async def end(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class Lifetime:
    """From its making SIGTERM and SIGINT ask for the end instead of ending the process."""

    def __init__(self) -> None:
        self._asked = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, self._asked.set)

    async def last(self, opened: AsyncExitStack, *lives: asyncio.Task[Any]) -> int:
        """Wait until the end is asked for, or one of `lives` fails; close what is `opened`; the exit code."""
        # What is there now stays to the end: the collector need not look through all of it again and again.
        gc.freeze()
        asked = asyncio.create_task(self._asked.wait())
        try:
            done, _ = await asyncio.wait({asked, *lives}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await end(asked)
        failed = done - {asked}
        for task in failed:
            _log.critical("a part ended by itself", exc_info=task.exception())
        _log.info("stopping")
        overdue = asyncio.get_running_loop().call_later(STOP_SECONDS, _leave)
        await opened.aclose()
        overdue.cancel()
        return FAILED if failed else DONE


def _leave() -> None:
    """What is stored survives the end of a process at any moment, so the end need not wait for ever."""
    _log.critical("it did not stop within %.0f s and leaves now", STOP_SECONDS)
    logging.shutdown()
    os._exit(FAILED)
