"""Shell commands a person typed, one at a time, in a process group that can be ended at any moment."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess

_CHUNK = 64 * 1024


class Shell:
    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    def run(self, command: str) -> Iterator[str]:
        """The output as it comes, until all who could write to it are gone."""
        process = self._start(command)
        if process is None:
            return
        assert process.stdout is not None
        with process.stdout as output:
            while chunk := os.read(output.fileno(), _CHUNK):
                yield chunk.decode(errors="replace")

    def result(self) -> int:
        """The exit code of the command whose output has ended."""
        process = self._process
        assert process is not None
        code = process.wait()
        with self._lock:
            self._process = None
        return code

    def kill(self, *, close: bool = False) -> None:
        """End the running command and everything it started; with `close`, let none begin any more."""
        with self._lock:
            self._closed = self._closed or close
            if self._process is not None and self._process.returncode is None:
                os.killpg(self._process.pid, signal.SIGKILL)

    def _start(self, command: str) -> subprocess.Popen[bytes] | None:
        import subprocess

        with self._lock:
            if self._closed:
                return None
            # A group of its own, so that an interrupt ends the command and not the agent; still the agent's session,
            # so that whoever ends the agent finds it.
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", command],
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                process_group=0,
                bufsize=0,
            )
            return self._process
