"""Runs the commands that aider suggests, for the worker. The standard library only."""

from __future__ import annotations

import codecs
import os
import select
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress

_OUTPUT_CHARS = 100_000
"""How much of a command's output is shown and given to the model."""
_POLL_SECONDS = 0.2


class Shell:
    """Runs one command at a time, in a process group of its own."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, command: str, show: Callable[[str], None]) -> tuple[int, str]:
        """Run a command and return its exit code and its output, which is also shown as it comes.

        If it is interrupted, the command is killed.
        """
        process = self._process = subprocess.Popen(
            ["/bin/sh", "-c", command], cwd=self._directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        assert process.stdout is not None
        output, decoder = "", codecs.getincrementaldecoder("utf-8")("replace")
        try:
            while True:
                if not select.select([process.stdout], [], [], _POLL_SECONDS)[0]:
                    if process.poll() is not None:  # what it left in the background keeps the pipe open
                        break
                    continue
                data = os.read(process.stdout.fileno(), 65536)
                text = decoder.decode(data, final=not data)[: max(_OUTPUT_CHARS - len(output), 0)]
                output += text
                if text:
                    show(text)
                if not data:
                    break
            return process.wait(), output
        except BaseException:
            self.kill()
            process.wait()
            raise
        finally:
            process.stdout.close()
            self._process = None

    def kill(self) -> None:
        """Kill the running command, if any. May be called by another thread."""
        process = self._process
        if process is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
