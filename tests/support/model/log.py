"""The requests to the model, in memory for tests and as JSON lines in a file."""

from __future__ import annotations

import json
import threading
import time
from asyncio import timeout, wrap_future
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.model.conversation import Conversation
from tests.support.model.http import Request


@dataclass
class Seen:
    """A request and its outcome."""

    number: int
    request: Request
    at: float = field(default_factory=time.time)
    conversation: Conversation | None = None
    """None: a request for something else than an answer."""
    outcome: str | None = None
    """`answered`, `side`, `error N`, `dropped`, `cut`, `gone` (the client left), `other`, `mistake`; None: not yet."""

    @property
    def script(self) -> str:
        return self.conversation.script if self.conversation else ""

    @property
    def body(self) -> Any:
        return json.loads(self.request.body)

    def line(self) -> str:
        record: dict[str, Any] = {
            "number": self.number,
            "at": round(self.at, 3),
            "seconds": round(time.time() - self.at, 3),
            "method": self.request.method,
            "path": self.request.path,
            "outcome": self.outcome,
        }
        if self.conversation is not None:
            record |= {
                "wire": self.conversation.wire,
                "model": self.conversation.model,
                "effort": self.conversation.effort,
                "tools": len(self.conversation.tools),
                "messages": len(self.conversation.messages),
                "results": len(self.conversation.results),
                "script": self.script[:200],
            }
        return json.dumps(record)


Condition = Callable[[Seen], bool]


class Log:
    """Written by the server's thread, read by the test's thread."""

    def __init__(self, path: Path | None = None, dump: Path | None = None) -> None:
        self._path = path
        self._dump = dump
        self._lock = threading.Lock()
        self._seen: list[Seen] = []
        self._waiting: list[tuple[Condition, Future[Seen]]] = []
        self.mistakes: list[str] = []
        """Broken scripts and defects of the server: a test with any of them proves nothing."""

    @property
    def seen(self) -> list[Seen]:
        with self._lock:
            return list(self._seen)

    @property
    def turns(self) -> list[Seen]:
        """Requests that ran a script, without side requests."""
        return [seen for seen in self.seen if seen.conversation is not None and not seen.conversation.is_side]

    async def wait(self, condition: Condition, seconds: float = 20.0) -> Seen:
        """Return the first request, past or future, for which the condition holds."""
        found: Future[Seen] = Future()
        with self._lock:
            matching = next(filter(condition, self._seen), None)
            if matching is not None:
                return matching
            self._waiting.append((condition, found))
        async with timeout(seconds):
            return await wrap_future(found)

    def begin(self, request: Request) -> Seen:
        with self._lock:
            seen = Seen(len(self._seen) + 1, request)
            self._seen.append(seen)
        if self._dump is not None:
            head = [
                f"{request.method} {request.path}?{request.query}",
                *map(": ".join, request.headers.items()),
            ]
            path = self._dump / f"{seen.number:04}.http"
            path.write_bytes("\n".join([*head, "", ""]).encode() + request.body)
        return seen

    def understood(self, seen: Seen, conversation: Conversation) -> None:
        seen.conversation = conversation
        self._changed(seen)

    def finish(self, seen: Seen, outcome: str) -> None:
        seen.outcome = outcome
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(seen.line() + "\n")
        self._changed(seen)

    def _changed(self, seen: Seen) -> None:
        with self._lock:
            met = [waiting for waiting in self._waiting if waiting[0](seen)]
            self._waiting = [waiting for waiting in self._waiting if waiting not in met]
        for _, found in met:
            if not found.done():
                found.set_result(seen)
