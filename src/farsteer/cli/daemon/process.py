"""How long-running commands run: event loop, log, signals, and a shutdown that takes a bounded time."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Any

from farsteer.cli.exit_codes import FAILURE, SUCCESS
from farsteer.core.errors import FarsteerError
from farsteer.core.text import clean, clean_line

_logger = logging.getLogger(__name__)

SHUTDOWN_SECONDS = 20.0
_SWITCH_SECONDS = 0.001

_MAX_RECORD = 2000
_LIBRARIES = ("asyncio", "httpcore", "httpx", "uvicorn", "websockets", "engineio", "socketio")


class SafeFormatter(logging.Formatter):
    """Formats a record as one line, and a traceback as indented lines after it.

    A record may quote what a client, a runner or an agent sent. Here is the one place that all records pass, so no
    such text can forge a record or reach the terminal that shows the log with control characters.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        record.message = clean_line(record.message, _MAX_RECORD)
        return super().formatMessage(record)

    def format(self, record: logging.LogRecord) -> str:
        return clean(super().format(record)).replace("\n", "\n  ")


def log_to_stderr(name: str) -> None:
    """Write log records of this level and above to stderr, because stdout is for results.

    Libraries log warnings at most: what they log for debugging has headers with tokens.
    """
    level = logging.getLevelNamesMapping()[name.upper()]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(SafeFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s", "%H:%M:%S"))
    logging.basicConfig(level=level, handlers=[handler])
    for library in _LIBRARIES:
        logging.getLogger(library).setLevel(max(level, logging.WARNING))


def run_with_uvloop(work: Coroutine[Any, Any, int]) -> int:
    """Run a coroutine on uvloop if it is installed, otherwise on asyncio's own event loop."""
    # The thread that writes to the database gives up the interpreter with every statement. By default it would wait up
    # to 5 ms to get it back from a busy event loop.
    sys.setswitchinterval(_SWITCH_SECONDS)
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


async def cancel_tasks(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks and wait until they have ended, ignoring what they raise."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class StopSignal:
    """Catches SIGINT and SIGTERM from the moment it is created, so that they stop the process in an orderly way."""

    def __init__(self) -> None:
        self._received = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, self._received.set)

    async def wait_and_close(self, resources: AsyncExitStack, *tasks: asyncio.Task[Any]) -> int:
        """Wait for a signal or the end of one of `tasks`, then close `resources`.

        Ends the process if closing takes longer than `SHUTDOWN_SECONDS`.

        Returns:
            The exit code: a failure if a task ended, because they should run until they are stopped.
        """
        # Everything loaded so far lives as long as the process; the garbage collector need not scan it.
        gc.freeze()
        received = asyncio.create_task(self._received.wait())
        try:
            done, _ = await asyncio.wait({received, *tasks}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel_tasks(received)
        ended = done - {received}
        for task in ended:
            error = task.exception()
            if isinstance(error, FarsteerError):
                _logger.critical("%s", error.message)
            else:
                _logger.critical("background task exited unexpectedly: %s", task, exc_info=error)
        _logger.info("stopping")
        timeout = asyncio.get_running_loop().call_later(SHUTDOWN_SECONDS, _exit_now)
        await resources.aclose()
        timeout.cancel()
        return FAILURE if ended else SUCCESS


def _exit_now() -> None:
    """End the process without further cleanup. Stored data is safe: it survives a kill at any moment."""
    _logger.critical("shutdown took longer than %.0f s; exiting now", SHUTDOWN_SECONDS)
    logging.shutdown()
    os._exit(FAILURE)
