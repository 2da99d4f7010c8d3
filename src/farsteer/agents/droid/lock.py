"""A lock on a conversation, because Droid lets several processes write to the same one.

The lock belongs to our process, so it is released when a runner dies. The Droid that the runner leaves behind may work
on for half a minute; the lock file therefore names its process, and the next owner of the lock kills it first.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
from pathlib import Path

import msgspec
import psutil

from farsteer.agents.process import posix
from farsteer.core.errors import AgentError, ErrorCode
from farsteer.core.wire import WireStruct, encode

_KILL_TIMEOUT = 3.0


class _Owner(WireStruct):
    pid: int
    started: float


class ConversationLock:
    """Held from `acquire` until `release` or the end of our process."""

    def __init__(self, file: int, native_id: str) -> None:
        self._file = file
        self.native_id = native_id

    @classmethod
    async def acquire(cls, state_dir: str, native_id: str) -> ConversationLock:
        """Raises AgentError `conflict` if another process uses the conversation."""
        loop = asyncio.get_running_loop()
        acquiring = loop.run_in_executor(None, cls._acquire, Path(state_dir), native_id)
        try:
            return await asyncio.shield(acquiring)
        except asyncio.CancelledError:
            acquiring.add_done_callback(_release_unused)
            raise

    @classmethod
    def _acquire(cls, state_dir: Path, native_id: str) -> ConversationLock:
        folder = state_dir / "locks"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Hashed because Droid chooses the id: it may not be a valid file name.
        path = folder / hashlib.sha256(native_id.encode()).hexdigest()
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _kill_orphan(os.pread(file, 4096, 0))
        except OSError:
            os.close(file)
            message = f"another process drives Droid's conversation {native_id}"
            raise AgentError(message, code=ErrorCode.CONFLICT) from None
        except BaseException:
            os.close(file)
            raise
        return cls(file, native_id)

    def record_process(self, pid: int) -> None:
        """Write into the lock file which process uses the conversation."""
        try:
            owner = encode(_Owner(pid=pid, started=psutil.Process(pid).create_time()))
        except psutil.Error:
            return
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, owner, 0)

    def release(self) -> None:
        """Idempotent. The file is kept: otherwise two processes could lock two files of the same name."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _release_unused(acquired: asyncio.Future[ConversationLock]) -> None:
    """Release a lock that was acquired after its caller was cancelled."""
    if not acquired.cancelled() and acquired.exception() is None:
        acquired.result().release()


def _kill_orphan(owner: bytes) -> None:
    try:
        known = msgspec.json.decode(owner, type=_Owner)
        process = psutil.Process(known.pid)
        if process.create_time() != known.started or process.status() == psutil.STATUS_ZOMBIE:
            return
        mark = posix.read_mark(known.pid)
        posix.signal_group(known.pid, posix.SIGKILL)
        if mark is not None:
            posix.kill_marked(mark.__eq__)
        process.wait(_KILL_TIMEOUT)
    except (msgspec.DecodeError, psutil.NoSuchProcess):
        return
    except psutil.TimeoutExpired as error:
        message = "cannot kill the Droid process that a dead runner has left behind"
        raise AgentError(message, code=ErrorCode.CONFLICT) from error
