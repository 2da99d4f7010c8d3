"""Controls the reading process."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bench.child import ChildFailed
from bench.reader import Job, Tally

ROOT = Path(__file__).parents[1]


class Subscribers:
    def __init__(self, process: subprocess.Popen[bytes], seconds: float) -> None:
        self._process = process
        self._seconds = seconds

    def tally(self) -> Tally:
        """Wait until all messages have arrived or the deadline has passed, and return the counts."""
        try:
            output, _ = self._process.communicate(timeout=self._seconds + 30.0)
        except subprocess.TimeoutExpired as error:
            raise ChildFailed("the subscribers did not come back") from error
        return msgspec.json.decode(output, type=Tally)


@contextlib.contextmanager
def joined(job: Job) -> Iterator[Subscribers]:
    """Connect all subscribers of the job."""
    with subprocess.Popen(
        [sys.executable, "-m", "bench.reader"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
        start_new_session=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(msgspec.json.encode(job) + b"\n")
            if process.stdout.readline() != b"ready\n":
                raise ChildFailed("the subscribers could not join")
            yield Subscribers(process, job.seconds)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
