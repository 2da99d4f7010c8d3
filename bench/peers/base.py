"""The interface of a measured server."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from bench import measure, wire
from bench.child import Child
from bench.reader import Step


class Unavailable(Exception):
    """This peer cannot run here. The message says why."""


class Session(ABC):
    """A session of a peer that emits messages to subscribers."""

    port: int
    steps: list[Step]
    """How a subscriber joins."""

    @abstractmethod
    def emit(self, messages: int, rate: float | None = None) -> None:
        """Emit `messages` messages of `wire.text`, at once or `rate` per second."""

    def close(self) -> None:
        return None


class Peer(ABC):
    """A server in a temporary home, on a free port of loopback."""

    name: ClassVar[str]
    announces: ClassVar[str]
    stores: ClassVar[bool] = True

    def __init__(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="farsteer-bench-"))
        self.port = free_port()
        self._child: Child | None = None

    @abstractmethod
    def command(self) -> list[str]: ...

    def environment(self) -> dict[str, str]:
        return clean_environment(self.home)

    @property
    @abstractmethod
    def version(self) -> str: ...

    @abstractmethod
    def session(self) -> Session: ...

    def start(self) -> float:
        """Start the server and return the seconds until its ready line."""
        self._child = Child(self.command(), self.environment(), self.home, self.announces)
        return self._child.ready()[0]

    def servers(self) -> list[int]:
        """The processes that count as the server."""
        assert self._child is not None
        return [self._child.pid]

    def agents(self) -> list[int]:
        """The agent processes, if the server runs them."""
        assert self._child is not None
        return measure.descendants(self._child.pid)

    def stop(self) -> None:
        if self._child is not None:
            self._child.stop()
            self._child = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.stop()
        finally:
            shutil.rmtree(self.home, ignore_errors=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((wire.HOST, 0))
        return probe.getsockname()[1]


def clean_environment(home: Path) -> dict[str, str]:
    """Return an environment without the caller's settings, in which servers reach loopback only."""
    nowhere = f"http://{wire.HOST}:9"
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "HTTP_PROXY": nowhere,
        "HTTPS_PROXY": nowhere,
        "NO_PROXY": f"{wire.HOST},localhost",
    }
