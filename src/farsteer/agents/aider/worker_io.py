"""The worker's standard input and output, and its interrupts. The standard library only: see `worker`."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

_PRESS_SECONDS = 1.0
"""After this time an interrupt that had no effect is repeated."""


class Interrupts:
    """SIGINT raises KeyboardInterrupt during a turn, but never in the middle of a line or of a record."""

    def __init__(self) -> None:
        self.requested = False
        self._held = 1
        self._pending = False
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._over.set()
        signal.signal(signal.SIGINT, self._handle)

    def _handle(self, number: int, frame: object) -> None:
        self.requested = True
        if self._held:
            self._pending = True
        else:
            raise KeyboardInterrupt

    @contextmanager
    def held(self) -> Generator[None, None, None]:
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
            if self._pending and not self._held:
                self._pending = False
                raise KeyboardInterrupt

    def begin(self) -> None:
        with self._lock:
            self._over = threading.Event()
            self.requested = self._pending = False

    @contextmanager
    def allowed(self) -> Generator[None, None, None]:
        """Let interrupts through. They are held again at the end."""
        try:
            self._held = 0
            if self._pending:
                self._pending = False
                raise KeyboardInterrupt
            yield
        finally:
            self._held = 1

    def end(self) -> None:
        self._held = 1
        with self._lock:
            self._over.set()

    def press(self) -> None:
        """Interrupt the turn, again and again: a library may swallow one. Called by another thread."""
        threading.Thread(target=self._press, args=(self._over,), daemon=True).start()

    def _press(self, over: threading.Event) -> None:
        main = threading.main_thread().ident
        assert main is not None
        while True:
            with self._lock:
                if over.is_set():
                    return
                signal.pthread_kill(main, signal.SIGINT)
            over.wait(_PRESS_SECONDS)


class Wire:
    """The lines from and to Farsteer, on descriptors of their own: what aider prints is apart."""

    def __init__(self, interrupts: Interrupts) -> None:
        self.lines = os.fdopen(os.dup(0), "rb")
        self._output = os.dup(1)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(2, 1)
        sys.stdin, sys.stdout = open(os.devnull), open(os.devnull, "w")  # noqa: SIM115
        self._interrupts = interrupts
        self._lock = threading.Lock()

    def send(self, type_: str, /, **fields: Any) -> None:
        known = {name: value for name, value in fields.items() if value is not None}
        self.write(json.dumps({"type": type_, **known}).encode() + b"\n")

    def write(self, data: bytes) -> None:
        if threading.current_thread() is not threading.main_thread():
            self._write(data)
            return
        with self._interrupts.held():
            self._write(data)

    def _write(self, data: bytes) -> None:
        with self._lock:
            while data:
                data = data[os.write(self._output, data) :]
