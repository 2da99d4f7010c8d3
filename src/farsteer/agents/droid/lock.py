"""One process per conversation: Droid itself lets any number of them write to the same one.

The lock is our process's own, so a runner that dies gives it up. The Droid it leaves behind may go on working for half
a minute, so the lock names it, and whoever takes the lock next ends it first.
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

_GRACE = 3.0


class _Holder(WireStruct):
    pid: int
    started: float


class ConversationLock:
    """Held from `take` until `release` or the end of our process, however it ends."""

    def __init__(self, file: int, native_id: str) -> None:
        self._file = file
        self.native_id = native_id

    @classmethod
    async def take(cls, state_dir: str, native_id: str) -> ConversationLock:
        """Raises AgentError when somebody else drives this conversation."""
        taking = asyncio.get_running_loop().run_in_executor(None, cls._take, Path(state_dir), native_id)
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:
            taking.add_done_callback(_let_go)
            raise

    @classmethod
    def _take(cls, state_dir: Path, native_id: str) -> ConversationLock:
        folder = state_dir / "locks"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A native id is Droid's to choose: it may be no name for a file.
        path = folder / hashlib.sha256(native_id.encode()).hexdigest()
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _end_orphan(os.pread(file, 4096, 0))
        except OSError:
            os.close(file)
            message = f"another process drives Droid's conversation {native_id}"
            raise AgentError(message, code=ErrorCode.CONFLICT) from None
        except BaseException:
            os.close(file)
            raise
        return cls(file, native_id)

    def name(self, pid: int) -> None:
        """Say which process writes to the conversation."""
        try:
            holder = encode(_Holder(pid=pid, started=psutil.Process(pid).create_time()))
        except psutil.Error:
            return
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, holder, 0)

    def release(self) -> None:
        """Idempotent. The file stays: removing it would let two processes lock two files of the same name."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _let_go(taken: asyncio.Future[ConversationLock]) -> None:
    """Nobody waits for it any more."""
    if not taken.cancelled() and taken.exception() is None:
        taken.result().release()


def _end_orphan(holder: bytes) -> None:
    try:
        known = msgspec.json.decode(holder, type=_Holder)
        process = psutil.Process(known.pid)
        if process.create_time() != known.started or process.status() == psutil.STATUS_ZOMBIE:
            return
        mark = posix.read_mark(known.pid)
        posix.signal_group(known.pid, posix.SIGKILL)
        if mark is not None:
            posix.kill_marked(mark.__eq__)
        process.wait(_GRACE)
    except (msgspec.DecodeError, psutil.NoSuchProcess):
        return
    except psutil.TimeoutExpired as error:
        raise AgentError(
            "the Droid of a runner that died cannot be ended", code=ErrorCode.CONFLICT
        ) from error
