"""A child process: in its own group, with its own stdio, always reaped."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from bench import measure

GRACE = 10.0
ORPHAN_GRACE = 1.0
"""Seconds for child processes of a server to notice that it is gone."""


class ChildFailed(Exception):
    """A child process ended or did not answer."""


class Child:
    """A server that prints a line starting with `announces` when it is ready."""

    def __init__(
        self, argv: Sequence[str], environment: Mapping[str, str], directory: Path, announces: str
    ) -> None:
        self.started = time.perf_counter()
        self._process = subprocess.Popen(
            argv,
            env=dict(environment),
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._argv = argv
        self._tail: deque[str] = deque(maxlen=40)
        self._changed = threading.Condition()
        self._ended = False
        self._announces = announces
        self._ready: tuple[float, str] | None = None
        self._drain = threading.Thread(target=self._read)
        self._drain.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def ready(self, seconds: float = 30.0) -> tuple[float, str]:
        """Return the seconds from the start to the ready line, and the line."""
        with self._changed:
            self._changed.wait_for(lambda: self._ready is not None or self._ended, seconds)
            if self._ready is None:
                raise ChildFailed(f"{self._argv[0]} never said {self._announces!r}:\n{self.tail()}")
            return self._ready

    def tail(self) -> str:
        return "\n".join(self._tail)

    def stop(self) -> None:
        """End the process group and every process that the server left in other groups."""
        try:
            family = [psutil.Process(pid) for pid in measure.descendants(self.pid)]
        except psutil.NoSuchProcess:
            family = []
        _signal(self.pid, signal.SIGTERM)
        try:
            self._process.wait(GRACE)
        except subprocess.TimeoutExpired:
            _signal(self.pid, signal.SIGKILL)
            self._process.wait()
        for process in psutil.wait_procs(family, timeout=ORPHAN_GRACE)[1]:
            process.kill()
        self._drain.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for raw in lines:
                now = time.perf_counter()
                line = raw.decode(errors="replace").rstrip()
                with self._changed:
                    self._tail.append(line)
                    if self._ready is None and self._announces in line:
                        self._ready = (now - self.started, line)
                        self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()


def _signal(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return
