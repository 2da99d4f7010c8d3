"""The scripted model as a server on loopback."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.model.http import Reader, serve
from tests.support.model.log import Log
from tests.support.model.model import Model

HOST = "127.0.0.1"
_STARTS_WITHIN = 10.0


async def run(model: Model, port: int, ready: Callable[[int], None], stop: asyncio.Event) -> None:
    """Serve until `stop` is set, then close every connection."""
    loop = asyncio.get_running_loop()
    connections: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert isinstance(reader, Reader)
        task = loop.create_task(serve(reader, writer, model.handle))
        connections.add(task)
        task.add_done_callback(connections.discard)

    server = await loop.create_server(lambda: asyncio.StreamReaderProtocol(Reader(), connected), HOST, port)
    try:
        ready(server.sockets[0].getsockname()[1])
        await stop.wait()
    finally:
        server.close()
        for task in [*connections]:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)


class ScriptedModel:
    """Runs the server in a thread, so that it answers while the test's event loop is busy."""

    def __init__(self, log: Path | None = None, dump: Path | None = None, delay: float = 0.0) -> None:
        self.log = Log(log, dump)
        self._model = Model(self.log, delay)
        self._port = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="scripted model", daemon=True)

    @property
    def port(self) -> int:
        return self._port

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._port}"

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._ready.wait(_STARTS_WITHIN):
            raise TimeoutError("the scripted model did not start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._loop is not None
        assert self._stop is not None
        with suppress(RuntimeError):  # the loop has ended by itself
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(_STARTS_WITHIN)

    def meet(self, name: str) -> None:
        """Count as one of the N arrivals that [[meet:NAME:N]] waits for."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._model.meet, name)

    def check(self) -> None:
        """Raise AssertionError if a script was wrong."""
        assert not self.log.mistakes, "\n".join(self.log.mistakes)

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()

        def ready(port: int) -> None:
            self._port = port
            self._ready.set()

        await run(self._model, 0, ready, self._stop)
