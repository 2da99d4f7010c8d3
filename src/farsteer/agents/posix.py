"""What running agents needs of POSIX, in one place, so that another system can get its own module beside it.

An agent leads its own session, and all that it starts inherits the mark in its environment. Children open groups of
their own (shells with job control do) or sessions of their own (Droid's tools do), but the mark stays with them, so the
mark is what we sweep by when the leader is gone. Who lost it, to a cleared environment or to a process title written
over it, is still found while it is in the leader's session.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from farsteer.agents.environment import LAUNCH

if TYPE_CHECKING:
    import psutil

SIGTERM = signal.SIGTERM
SIGKILL = signal.SIGKILL
PIPE_SIZE = 256 * 1024
_CHUNK = 32 * 1024
_MARK = f"{LAUNCH}=".encode()
_LOOKS = 8
"""How often a sweep looks again for what was started meanwhile; what outruns this many starts processes forever."""
_EXEC_SECONDS = 0.001
_KERNEL_THREAD = 0x00200000


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


def sweep(belongs: Callable[[str], bool], leader: int | None = None) -> list[psutil.Process]:
    """SIGKILL whoever carries a mark that `belongs`, and whoever is in the session of `leader`, if one is given.

    The leader itself is the caller's; it must not be reaped yet. Neither we nor those who started us are ever swept.
    Returns who was: each is dead or about to be.
    """
    swept: set[psutil.Process] = set()
    for _ in range(_LOOKS):
        condemned, in_exec = _look(belongs, leader)
        news = condemned - swept
        if not news and not in_exec:
            break
        for process in news:
            _kill(process)
        swept |= news
        if not news:
            time.sleep(_EXEC_SECONDS)
    return list(swept)


def _kill(process: psutil.Process) -> None:
    """A number that was reused since we looked is spared: psutil compares when its process was started."""
    import psutil

    with suppress(psutil.Error):
        process.kill()


def await_end(processes: Sequence[psutil.Process], seconds: float) -> list[int]:
    """Wait until they are gone; the numbers of those that are not by then."""
    import psutil

    _, living = psutil.wait_procs(processes, timeout=seconds)
    return [process.pid for process in living]


def _look(belongs: Callable[[str], bool], leader: int | None) -> tuple[set[psutil.Process], bool]:
    """Who is to be swept, and whether there is somebody of whom that cannot be said yet."""
    own = os.getpid()
    condemned: set[psutil.Process] = set()
    in_exec = False
    for pid in _pids():
        judged = False if pid in (own, leader) else _belongs(pid, belongs, leader)
        in_exec = in_exec or judged is None
        if not judged:
            continue
        import psutil

        with suppress(psutil.Error):
            process = psutil.Process(pid)
            # Asked again, now that we hold on to this very process and not to its number.
            if _belongs(pid, belongs, leader) and process not in psutil.Process().parents():
                condemned.add(process)
    return condemned, in_exec


def _belongs(pid: int, belongs: Callable[[str], bool], leader: int | None) -> bool | None:
    """None: it is in the middle of exec, where for a moment a process has no environment that could be read."""
    if leader is not None:
        with suppress(ProcessLookupError, PermissionError):
            if os.getsid(pid) == leader:
                return True
    if sys.platform != "linux":
        mark = mark_of(pid)
    else:
        environment = _environment(pid)
        if not environment and _in_exec(pid):
            return None
        # Whoever is out of exec by now has its environment.
        mark = _mark_in(environment or _environment(pid))
    return mark is not None and belongs(mark)


def _pids() -> list[int]:
    if sys.platform == "linux":
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    import psutil

    return psutil.pids()


def mark_of(pid: int) -> str | None:
    """The mark that this process was started with; None if it has none, is dead, or is not ours to look at."""
    if sys.platform == "linux":
        # A tenth of what psutil takes for it, and this is asked of every process of the machine.
        return _mark_in(_environment(pid))
    import psutil

    try:
        return psutil.Process(pid).environ().get(LAUNCH)
    except (psutil.Error, OSError):
        return None


def _mark_in(environment: bytes) -> str | None:
    if _MARK not in environment:
        return None
    marks = (entry for entry in environment.split(b"\0") if entry.startswith(_MARK))
    return next((entry[len(_MARK) :].decode(errors="replace") for entry in marks), None)


def _in_exec(pid: int) -> bool:
    """It has no arguments either, and is no thread of the kernel and no zombie, which never have any."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            if file.read(1):
                return False
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return False
    return fields[0] not in (b"Z", b"X") and not int(fields[6]) & _KERNEL_THREAD


def _environment(pid: int) -> bytes:
    try:
        file = os.open(f"/proc/{pid}/environ", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    environment = b""
    try:
        while len(chunk := os.read(file, _CHUNK)) == _CHUNK:
            environment += chunk
    except OSError:
        return b""
    finally:
        os.close(file)
    return environment + chunk


def reap(process: subprocess.Popen[bytes]) -> int:
    """The exit code of a process that is dead or about to be."""
    try:
        return process.wait(1)
    except subprocess.TimeoutExpired:
        return -SIGKILL


def describe_exit(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
