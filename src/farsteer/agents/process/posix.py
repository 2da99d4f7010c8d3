"""Everything POSIX-specific about running agents, so that another platform can get its own module.

An agent is the leader of its own session, and every process it starts inherits the launch mark in its environment.
Descendants may create their own process groups (shells with job control do) or sessions (Droid's tools do), but they
keep the mark, so the mark is used to find and kill them when the agent has exited. A descendant without the mark
(its environment was cleared, or overwritten by a process title) is still found while it is in the agent's session.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from typing import TYPE_CHECKING

from farsteer.agents.process.environment import LAUNCH_VARIABLE
from farsteer.agents.process.file_limit import restore_file_limit

if TYPE_CHECKING:
    import psutil

SIGTERM = signal.SIGTERM
SIGKILL = signal.SIGKILL
PIPE_SIZE = 256 * 1024
_CHUNK = 32 * 1024
_MARK = f"{LAUNCH_VARIABLE}=".encode()
_MAX_SCANS = 8
"""How often `kill_marked` scans for processes that were started during the previous scan."""
_EXEC_SECONDS = 0.001
_GONE_POLL_SECONDS = 0.002
_KERNEL_THREAD_FLAG = 0x00200000
"""PF_KTHREAD in the flags of /proc/<pid>/stat."""


def spawn(argv: Sequence[str], *, cwd: str, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start `argv` as the leader of a new session, with three pipes. Raises OSError."""
    process = subprocess.Popen(
        argv, cwd=cwd, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        bufsize=0, close_fds=True, start_new_session=True,
    )  # fmt: skip
    restore_file_limit(process.pid)
    assert process.stdout is not None
    if sys.platform == "linux":
        # A larger pipe needs fewer reads when an agent floods. The kernel refuses it to a user with many pipes.
        with suppress(OSError):
            fcntl.fcntl(process.stdout.fileno(), fcntl.F_SETPIPE_SZ, PIPE_SIZE)
    return process


def count_unread(writer: int) -> int:
    """Return how many bytes of a pipe were never read, if nobody can read them any more, else 0.

    `writer` is the writing end. On Linux it reports an error when the last reader has closed its end, and tells what
    the pipe holds. Other systems do not tell it at this end.
    """
    if sys.platform != "linux":
        return 0
    poll = select.poll()
    poll.register(writer, 0)
    if not any(event & select.POLLERR for _, event in poll.poll(0)):
        return 0
    (count,) = struct.unpack("i", fcntl.ioctl(writer, termios.FIONREAD, b"\0" * 4))
    return count


def open_exit_descriptor(pid: int) -> int:
    """Return a descriptor that becomes readable when the child `pid` has exited and is not yet reaped.

    The pid is not reused before the child is reaped, so its process group can be signalled without a race.
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
    """Wait on macOS before Python 3.13, where `os.waitid` does not exist."""
    assert sys.platform == "darwin"
    exit_event = select.kevent(
        pid, select.KQ_FILTER_PROC, select.KQ_EV_ADD | select.KQ_EV_ONESHOT, select.KQ_NOTE_EXIT
    )
    queue = select.kqueue()
    try:
        with suppress(ProcessLookupError):  # it has exited already
            queue.control([exit_event], 1)
    finally:
        queue.close()


def signal_group(leader: int, number: signal.Signals) -> None:
    """Send a signal to a process group. Does nothing if it is gone."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def kill_marked(
    matches: Callable[[str], bool], leaders: Set[int] = frozenset(), skip: Set[int] = frozenset()
) -> list[psutil.Process]:
    """Send SIGKILL to every process whose launch mark `matches`, and to every process in the session of a leader.

    This process and its parents are never killed.

    Args:
        matches: Decides about a launch mark.
        leaders: Processes that are not reaped yet. They are not killed themselves.
        skip: Further processes that are not looked at. It may change meanwhile.

    Returns:
        The processes that were killed. They may take a moment to exit.
    """
    killed: set[psutil.Process] = set()
    for _ in range(_MAX_SCANS):
        found, exec_running = _find_marked(matches, leaders, skip)
        new = found - killed
        if not new and not exec_running:
            break
        for process in new:
            _kill(process)
        killed |= new
        if not new:
            time.sleep(_EXEC_SECONDS)
    return list(killed)


def _kill(process: psutil.Process) -> None:
    """Kill a process. psutil compares its start time first, so a reused pid is not killed."""
    import psutil

    with suppress(psutil.Error):
        process.kill()


def wait_gone(processes: Sequence[psutil.Process], seconds: float) -> list[int]:
    """Wait until the processes have ended, reaped or not. Returns the pids of those that have not after `seconds`."""
    deadline = time.monotonic() + seconds
    running = [process for process in processes if is_running(process)]
    while running and time.monotonic() < deadline:
        time.sleep(_GONE_POLL_SECONDS)
        running = [process for process in running if is_running(process)]
    return [process.pid for process in running]


def is_running(process: psutil.Process) -> bool:
    """Return False for a zombie too."""
    import psutil

    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _find_marked(
    matches: Callable[[str], bool], leaders: Set[int], skip: Set[int]
) -> tuple[set[psutil.Process], bool]:
    """Return the processes to kill, and whether a process was inside exec and must be checked again."""
    own = os.getpid()
    found: set[psutil.Process] = set()
    exec_running = False
    for pid in _pids():
        skipped = pid == own or pid in leaders or pid in skip
        marked = False if skipped else _is_marked(pid, matches, leaders)
        exec_running = exec_running or marked is None
        if not marked:
            continue
        import psutil

        with suppress(psutil.Error):
            process = psutil.Process(pid)
            # Checked again now that `process` refers to this process and not only to its pid.
            if _is_marked(pid, matches, leaders) and process not in psutil.Process().parents():
                found.add(process)
    return found, exec_running


def _is_marked(pid: int, matches: Callable[[str], bool], leaders: Set[int]) -> bool | None:
    """Return None for a process inside exec, which has no readable environment for a moment."""
    if leaders:
        with suppress(ProcessLookupError, PermissionError):
            if os.getsid(pid) in leaders:
                return True
    if sys.platform != "linux":
        mark = read_mark(pid)
    else:
        environment = _environment(pid)
        if not environment and _in_exec(pid):
            return None
        # Read again: exec may have ended between the two checks.
        mark = _find_mark(environment or _environment(pid))
    return mark is not None and matches(mark)


def _pids() -> list[int]:
    if sys.platform == "linux":
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    import psutil

    return psutil.pids()


def read_mark(pid: int) -> str | None:
    """Return the launch mark of a process, or None if it has none, is gone or belongs to another user."""
    if sys.platform == "linux":
        # Ten times faster than psutil. This runs for every process of the machine.
        return _find_mark(_environment(pid))
    import psutil

    try:
        return psutil.Process(pid).environ().get(LAUNCH_VARIABLE)
    except (psutil.Error, OSError):
        return None


def _find_mark(environment: bytes) -> str | None:
    if _MARK not in environment:
        return None
    marks = (entry for entry in environment.split(b"\0") if entry.startswith(_MARK))
    return next((entry[len(_MARK) :].decode(errors="replace") for entry in marks), None)


def _in_exec(pid: int) -> bool:
    """Whether a process without arguments is inside exec. Kernel threads and zombies never have arguments."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            if file.read(1):
                return False
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return False
    return fields[0] not in (b"Z", b"X") and not int(fields[6]) & _KERNEL_THREAD_FLAG


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
    """Return the exit code of a process that has exited or was killed."""
    try:
        return process.wait(1)
    except subprocess.TimeoutExpired:
        return -SIGKILL


def describe_exit(code: int) -> str:
    """Return "exit code 3" or "killed by SIGKILL"."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
