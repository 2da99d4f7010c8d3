"""Starts hubs and runners by forking a process that has imported them: in 20 ms instead of 600 ms.

`python -m tests.faults.fork_server` reads a `StartOrder` per line and writes an `Event` per line. A child has its own
session, environment, directory and log. When the input ends, all children are killed.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import importlib
import os
import select
import signal
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
"""Of this version. The source of a release can take its place."""
_PR_SET_PDEATHSIG = 1
_MODULES = (
    "farsteer.cli.main", "farsteer.cli.commands.daemons", "farsteer.cli.daemon.hub_process",
    "farsteer.cli.daemon.runner_process",
)  # fmt: skip
"""What the children need besides the modules of the steps."""


class StartOrder(msgspec.Struct):
    argv: list[str]
    """The arguments of `tests.faults.process`."""
    environment: dict[str, str]
    directory: str
    log: str
    """The file to which standard error is appended."""


class Event(msgspec.Struct):
    kind: Literal["ready", "started", "exited"]
    pid: int = 0
    status: int = 0
    """The exit code, negative for a signal."""


class ChildProcess:
    """A process that the server has started."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.exited: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        """The exit code, negative for a signal."""

    def send_signal(self, number: signal.Signals) -> None:
        """Does nothing if the process has ended."""
        if not self.exited.done():
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)


class ForkServer:
    """The client of the server, which it starts as a process of its own. Use it as a context manager."""

    def __init__(self, source: Path = SOURCE) -> None:
        self.python_path = f"{source}{os.pathsep}{ROOT}"
        """Of the server and of what it starts."""
        self._children: dict[int, ChildProcess] = {}
        self._started: asyncio.Queue[ChildProcess] = asyncio.Queue()
        self._ready = asyncio.Event()
        self._lock = asyncio.Lock()

    async def __aenter__(self) -> ForkServer:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.faults.fork_server", stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE, cwd=ROOT, env={**os.environ, "PYTHONPATH": self.python_path},
        )  # fmt: skip
        self._reading = asyncio.create_task(self._read_events())
        async with asyncio.timeout(60):
            await self._ready.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()
        await self._reading

    async def start(self, order: StartOrder) -> ChildProcess:
        assert self._process.stdin is not None
        async with self._lock:
            self._process.stdin.write(msgspec.json.encode(order) + b"\n")
            return await self._started.get()

    async def _read_events(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            event = msgspec.json.decode(line, type=Event)
            match event.kind:
                case "ready":
                    self._ready.set()
                case "started":
                    child = self._children[event.pid] = ChildProcess(event.pid)
                    self._started.put_nowait(child)
                case "exited":
                    self._children.pop(event.pid).exited.set_result(event.status)


def _serve() -> None:
    from tests.faults import process

    for module in _MODULES:
        importlib.import_module(module)
    process.import_steps()
    signal_pipe, signal_write = os.pipe()
    os.set_blocking(signal_write, False)
    signal.set_wakeup_fd(signal_write)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for number in (signal.SIGINT, signal.SIGTERM):
        # It ends with its input, and takes its children along.
        signal.signal(number, signal.SIG_IGN)
    gc.collect()
    gc.freeze()
    children: set[int] = set()
    _write(Event("ready"))
    unread = b""
    while True:
        readable, _, _ = select.select([0, signal_pipe], [], [])
        if signal_pipe in readable:
            os.read(signal_pipe, 4096)
            _report_exits(children)
        if 0 in readable:
            data = os.read(0, 65536)
            if not data:
                break
            *lines, unread = (unread + data).split(b"\n")
            for line in lines:
                pid = _fork(msgspec.json.decode(line, type=StartOrder))
                children.add(pid)
                _write(Event("started", pid))
    for pid in children:
        os.kill(pid, signal.SIGKILL)
    while children:
        _report_exits(children, wait=True)


def _report_exits(children: set[int], *, wait: bool = False) -> None:
    while children:
        pid, status = os.waitpid(-1, 0 if wait else os.WNOHANG)
        if pid == 0:
            return
        children.discard(pid)
        _write(Event("exited", pid, os.waitstatus_to_exitcode(status)))


def _fork(order: StartOrder) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        code = _run(order)
    finally:
        os._exit(code)


def _run(order: StartOrder) -> int:
    """In the child: become the process that was ordered."""
    from tests.faults import process

    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setsid()
    os.chdir(order.directory)
    os.environ.clear()
    os.environ.update(order.environment)
    empty = os.open(os.devnull, os.O_RDWR)
    log = os.open(order.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    for number, target in ((0, empty), (1, empty), (2, log)):
        os.dup2(target, number)
    os.closerange(3, 64)
    try:
        return process.main(order.argv)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
        raise


def _write(event: Event) -> None:
    os.write(1, msgspec.json.encode(event) + b"\n")


if __name__ == "__main__":
    _serve()
