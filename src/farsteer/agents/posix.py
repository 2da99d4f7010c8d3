"""What running agents needs of POSIX, in one place, so that another system can get its own module beside it.

An agent leads its own session. Its children may open process groups of their own (shells with job control do), but
they stay in the session unless they leave it on purpose, so the session is what we sweep when the leader is gone.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress

SIGTERM = signal.SIGTERM
SIGKILL = signal.SIGKILL
PIPE_SIZE = 256 * 1024


def spawn(argv: Sequence[str], *, cwd: str, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start `argv` as the leader of a new session, with three pipes. Raises OSError."""
    process = subprocess.Popen(
        argv, cwd=cwd, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        bufsize=0, close_fds=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    if sys.platform == "linux":
        # A flooding agent is read in fewer, larger pieces. A user who has many pipes keeps the usual size.
        with suppress(OSError):
            fcntl.fcntl(process.stdout.fileno(), fcntl.F_SETPIPE_SZ, PIPE_SIZE)
    return process


def exit_descriptor(pid: int) -> int:
    """A descriptor that becomes readable when our child `pid` exits and is not yet reaped.

    Until it is reaped its number belongs to nobody else, so its group can be signalled without a race.
    """
    if hasattr(os, "pidfd_open"):
        with suppress(OSError):
            return os.pidfd_open(pid)
    reader, writer = os.pipe()
    threading.Thread(target=_close_at_exit, args=(pid, writer), name=f"exit of {pid}", daemon=True).start()
    return reader


def _close_at_exit(pid: int, writer: int) -> None:
    try:
        if hasattr(os, "waitid"):
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        else:
            _wait_with_kqueue(pid)
    finally:
        os.close(writer)


def _wait_with_kqueue(pid: int) -> None:
    """For macOS before Python 3.13, which has no waitid."""
    assert sys.platform == "darwin"
    ends = select.kevent(
        pid, select.KQ_FILTER_PROC, select.KQ_EV_ADD | select.KQ_EV_ONESHOT, select.KQ_NOTE_EXIT
    )
    queue = select.kqueue()
    try:
        with suppress(ProcessLookupError):  # it has exited already
            queue.control([ends], 1)
    finally:
        queue.close()


def signal_group(leader: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def kill_session(leader: int) -> None:
    """SIGKILL the leader's group, then every other process of its session. The leader must not be reaped yet."""
    import psutil

    signal_group(leader, SIGKILL)
    for pid in psutil.pids():
        with suppress(ProcessLookupError, PermissionError):
            if pid != leader and os.getsid(pid) == leader:
                os.kill(pid, SIGKILL)


def reap(process: subprocess.Popen[bytes]) -> int:
    """The exit code of a process that is dead or about to be."""
    try:
        return process.wait(1)
    except subprocess.TimeoutExpired:
        return -SIGKILL


class Descendants:
    """The living descendants of a process as they are now: also those that have left its session."""

    def __init__(self, pid: int) -> None:
        import psutil

        try:
            self._processes = psutil.Process(pid).children(recursive=True)
        except psutil.Error:
            self._processes = []

    def kill(self) -> None:
        """SIGKILL those that still live; psutil sees to it that a reused number is spared."""
        import psutil

        for process in self._processes:
            with suppress(psutil.Error):
                process.kill()


def describe_exit(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
