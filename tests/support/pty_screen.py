"""A program in a terminal of its own: what is typed into it, and what its screen shows."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import signal
import struct
import subprocess
import termios
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import pyte

ROWS, COLUMNS = 50, 120
SECONDS = 25.0
ENTER, ESCAPE, INTERRUPT, END, SUSPEND = b"\r", b"\x1b", b"\x03", b"\x04", b"\x1a"
_KEY_SECONDS = 2.0
DOWN = b"\x1b[B"
_QUERIES = {b"\x1b[6n": b"\x1b[1;1R", b"\x1b[c": b"\x1b[?62c", b"\x1b[>c": b"\x1b[>0;0;0c", b"\x1b[>0q": b""}
"""What programs ask a terminal, and its answer."""


class Screen(pyte.HistoryScreen):
    """pyte's screen, for programs that send newer sequences than it knows."""

    def select_graphic_rendition(self, *attributes: int, private: bool = False) -> None:
        if not private:
            super().select_graphic_rendition(*attributes)

    def report_device_status(self, mode: int, **_: Any) -> None:
        """`PtyProgram` answers."""

    def report_device_attributes(self, mode: int = 0, **_: Any) -> None:
        """`PtyProgram` answers."""


class PtyProgram:
    """Starts a program as the leader of a new session with a pty as its terminal.

    `text` is the screen with what was scrolled away, `output` everything it has ever written.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: Path | str,
        environment: Mapping[str, str] | None = None,
        rows: int = ROWS,
        columns: int = COLUMNS,
        term: str = "xterm-256color",
    ) -> None:
        self.argv = [*argv]
        self._cwd = cwd
        self._environment = {**(environment or os.environ), "TERM": term}
        self.screen = Screen(columns, rows, history=5000)
        self._stream = pyte.ByteStream(self.screen)
        self.output = b""
        self._changed = asyncio.Event()
        self._ours = -1
        self.process: subprocess.Popen[bytes]

    async def __aenter__(self) -> PtyProgram:
        self._ours, theirs = pty.openpty()
        self._set_size(theirs)
        self.modes = termios.tcgetattr(theirs)
        try:
            self.process = self._start(theirs)
        finally:
            os.close(theirs)
        os.set_blocking(self._ours, False)
        asyncio.get_running_loop().add_reader(self._ours, self._read)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and hasattr(error, "add_note"):
            error.add_note(f"The screen:\n{self.text}")
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(signal.SIGHUP)
            try:
                await asyncio.to_thread(self.process.wait, 15)
            except subprocess.TimeoutExpired:
                self.process.kill()
                await asyncio.to_thread(self.process.wait)
        asyncio.get_running_loop().remove_reader(self._ours)
        os.close(self._ours)

    def use_screen(self, screen: Screen) -> None:
        """Show the output on another screen of the same size. For a program that was not started yet."""
        self.screen = screen
        self._stream = pyte.ByteStream(screen)

    def resize(self, rows: int, columns: int) -> None:
        """Change the size of the terminal, as if its window was resized."""
        self.screen.resize(rows, columns)
        self._set_size(self._ours)

    def _set_size(self, terminal: int) -> None:
        size = struct.pack("HHHH", self.screen.lines, self.screen.columns, 0, 0)
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, size)

    def _start(self, terminal: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.argv, cwd=self._cwd, env=self._environment, stdin=terminal, stdout=terminal, stderr=terminal,
            start_new_session=True, preexec_fn=_control_terminal,  # noqa: PLW1509 - one system call
        )  # fmt: skip

    @property
    def lines(self) -> list[str]:
        columns = range(self.screen.columns)
        scrolled = ["".join(row[column].data for column in columns) for row in self.screen.history.top]
        return [line.rstrip() for line in (*scrolled, *self.screen.display)]

    @property
    def text(self) -> str:
        return "\n".join(self.lines).strip("\n")

    @property
    def shown(self) -> str:
        """What is on the screen now."""
        return "\n".join(line.rstrip() for line in self.screen.display)

    @property
    def modes_now(self) -> list[Any]:
        return termios.tcgetattr(self._ours)

    def clear(self) -> None:
        """Forget what the screen shows, to wait for what comes."""
        self.screen.reset()

    def press(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    async def type(self, text: str) -> None:
        """Type a text into a field that shows what is typed, then Enter."""
        self.press(text.encode())
        await self.shows(text[-20:])
        self.press(ENTER)

    async def shows(self, text: str, seconds: float = SECONDS) -> None:
        """Wait until the screen shows a text, however its lines are broken."""
        wanted = "".join(text.split())
        await self.until(lambda: wanted in "".join(self.shown.split()), seconds)

    async def told(self, text: str, count: int = 1, seconds: float = SECONDS) -> None:
        """Wait until a text was written so many times, in one piece."""
        await self.until(lambda: self.output.count(text.encode()) >= count, seconds)

    async def press_until(self, keys: bytes, condition: Callable[[], bool]) -> None:
        """Press keys, again if they have no effect: a dialog may take none at first."""
        async with asyncio.timeout(SECONDS):
            while True:
                self.press(keys)
                with suppress(TimeoutError):
                    return await self.until(condition, _KEY_SECONDS)

    async def until(self, condition: Callable[[], bool], seconds: float = SECONDS) -> None:
        async with asyncio.timeout(seconds):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def exit_code(self, seconds: float = SECONDS) -> int:
        return await asyncio.to_thread(self.process.wait, seconds)

    def _read(self) -> None:
        try:
            data = os.read(self._ours, 65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self._ours)
        self.output += data
        for query, answer in _QUERIES.items():
            if query in data and answer:
                self.press(answer)
        self._stream.feed(data)
        self._changed.set()


def _control_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
