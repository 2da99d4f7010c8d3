"""Measures how long the event loop of a process is blocked.

`python -m tests.support.stalls FILE COMMAND…` runs a command of farsteer and writes every stall of its event loop to a
file. `watched_hub` and `watched_runner` start a hub and a runner in this way. `StallProbe` measures the event loop of
the calling process.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import psutil

TOKEN = "a-token-for-stall-tests-only"
LIMIT_SECONDS = 0.1
"""No input may block an event loop for longer than this."""

_TICK_SECONDS = 0.005
_REPORTED_SECONDS = 0.02
_SAMPLED_SECONDS = 0.04
_SECONDS = 30.0
_ROOT = Path(__file__).parents[2]


class Stall(msgspec.Struct, frozen=True):
    ended_at: float
    """On the clock of `time.monotonic`, which all processes of a machine share."""
    seconds: float
    """How late a timer was."""
    cpu_seconds: float
    """How much of it the thread of the event loop computed. The rest it waited: for a core, the GIL or a disk."""
    where: str
    """What the event loop was doing, if it could be seen."""


class StallProbe:
    """Watches one event loop with a timer, and with a thread that looks at its stack while the timer is late."""

    def __init__(self, report: Callable[[Stall], object]) -> None:
        self._report = report
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._cpu = 0.0
        self._where = ""
        self._stopped = threading.Event()

    def start(self) -> None:
        """Watch the running event loop."""
        self._schedule(asyncio.get_running_loop())
        watcher = threading.Thread(
            target=self._watch, args=[threading.get_ident()], name="stalls", daemon=True
        )
        watcher.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._timer is not None:
            self._timer.cancel()

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        self._where = ""
        self._cpu = time.thread_time()
        self._due = time.monotonic() + _TICK_SECONDS
        self._timer = loop.call_later(_TICK_SECONDS, self._tick, loop)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        now = time.monotonic()
        late = now - self._due
        if late > _REPORTED_SECONDS:
            self._report(Stall(now, late, min(late, time.thread_time() - self._cpu), self._where))
        self._schedule(loop)

    def _watch(self, thread: int) -> None:
        while not self._stopped.wait(_TICK_SECONDS * 2):
            if time.monotonic() - self._due > _SAMPLED_SECONDS and not self._where:
                frame = sys._current_frames().get(thread)
                stack = traceback.extract_stack(frame)[-6:]
                self._where = " > ".join(
                    f"{Path(one.filename).name}:{one.lineno} {one.name}" for one in stack
                )


def run(report_file: Path, command: list[str]) -> int:
    """Run a command of farsteer with a probe on each event loop that it runs."""
    from farsteer.cli.main import main

    encoder = msgspec.json.Encoder()
    run_in_loop = asyncio.Runner.run
    with report_file.open("ab", buffering=0) as report:

        def watched(self: asyncio.Runner, coro: Coroutine[Any, Any, Any], **options: Any) -> Any:
            probe = StallProbe(lambda stall: report.write(encoder.encode(stall) + b"\n"))
            self.get_loop().call_soon(probe.start)
            try:
                return run_in_loop(self, coro, **options)
            finally:
                probe.stop()

        asyncio.Runner.run = watched
        sys.argv = ["farsteer", *command]
        return main()


class WatchedProcess:
    """A hub or a runner in its own process, with its stalls, its memory and its log."""

    def __init__(self, root: Path, process: subprocess.Popen[str]) -> None:
        self.root = root
        self.home = root / "home"
        self.process = process

    def stalls(self, since: float = 0.0) -> list[Stall]:
        """Return the stalls that ended after `since`, the longest first.

        A stall is known when it has ended: wait for an answer of the process before this is called.
        """
        lines = (self.root / "stalls").read_bytes().splitlines()
        found = [msgspec.json.decode(line, type=Stall) for line in lines]
        return sorted((stall for stall in found if stall.ended_at > since), key=lambda stall: -stall.seconds)

    @property
    def log(self) -> str:
        return (self.root / "log").read_text(errors="replace")

    @property
    def resident_bytes(self) -> int:
        return psutil.Process(self.process.pid).memory_info().rss

    @property
    def peak_bytes(self) -> int:
        """The most memory that the process has had."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))

    def reset_peak(self) -> None:
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")


class WatchedHub(WatchedProcess):
    url = ""


@asynccontextmanager
async def watched_hub(
    root: Path, *options: str, command: str = "up", module: str = "tests.support.stalls"
) -> AsyncGenerator[WatchedHub]:
    """Start a hub, with a runner unless `command` is "hub", on a free port. `TOKEN` is its owner's token.

    `module` is run instead of this one.
    """
    hub = WatchedHub(root, _spawn(root, module, [command, "--port", "0", *options]))
    async with _running(hub, "ready at ") as line:
        hub.url = line.partition("ready at ")[2].partition(",")[0]
        yield hub


@asynccontextmanager
async def watched_runner(
    root: Path, hub: WatchedHub, *, module: str = "tests.support.stalls"
) -> AsyncGenerator[WatchedProcess]:
    """Start a runner that is connected to the hub over a websocket."""
    runner = WatchedProcess(root, _spawn(root, module, ["runner", "--hub", hub.url]))
    async with _running(runner, "connected to "):
        yield runner


@asynccontextmanager
async def _running(watched: WatchedProcess, announcement: str) -> AsyncGenerator[str]:
    """Wait for the line that says that it is ready, and end the process at the end."""
    process = watched.process
    try:
        assert process.stdout is not None
        async with asyncio.timeout(_SECONDS):
            line = await asyncio.to_thread(process.stdout.readline)
        assert announcement in line, line + watched.log
        yield line
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(process.communicate, None, _SECONDS)


def _spawn(root: Path, module: str, command: list[str]) -> subprocess.Popen[str]:
    home = root / "home"
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    (root / "stalls").touch()
    environment = {
        "PATH": os.environ["PATH"], "PYTHONPATH": str(_ROOT), "HOME": str(root), "FARSTEER_HOME": str(home),
        "CLI_API_TOKEN": TOKEN,
    }  # fmt: skip
    with (root / "log").open("a") as log:
        return subprocess.Popen(
            [sys.executable, "-m", module, str(root / "stalls"), *command],
            env=environment, cwd=root, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True,
            start_new_session=True,
        )  # fmt: skip


if __name__ == "__main__":
    sys.exit(run(Path(sys.argv[1]), sys.argv[2:]))
