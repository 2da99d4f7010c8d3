"""The terminal, as far as it is POSIX's own."""

from __future__ import annotations

import asyncio
import os
import termios
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TextIO


async def read_line(stream: TextIO) -> str | None:
    """The next line typed at a terminal, without blocking the loop; None at its end. Can be cancelled."""
    loop = asyncio.get_running_loop()
    descriptor = stream.fileno()
    readable = asyncio.Event()
    loop.add_reader(descriptor, readable.set)
    try:
        # A terminal hands out whole lines, so one read is one line.
        await readable.wait()
        data = os.read(descriptor, 65536)
    finally:
        loop.remove_reader(descriptor)
    return data.decode(errors="replace") if data else None


@contextmanager
def keys(stream: TextIO, pressed: Callable[[bytes], None]) -> Generator[None]:
    """Inside the block every key is handed to `pressed` as it is typed, Ctrl-C and Ctrl-Z too; b"" is the end."""
    descriptor = stream.fileno()
    before = termios.tcgetattr(descriptor)
    now = termios.tcgetattr(descriptor)
    now[0] &= ~(termios.ICRNL | termios.INLCR | termios.IXON)
    now[3] &= ~(termios.ECHO | termios.ICANON | termios.ISIG | termios.IEXTEN)
    loop = asyncio.get_running_loop()

    def readable() -> None:
        try:
            data = os.read(descriptor, 65536)
        except OSError:
            data = b""
        if not data:
            loop.remove_reader(descriptor)
        pressed(data)

    termios.tcsetattr(descriptor, termios.TCSADRAIN, now)
    loop.add_reader(descriptor, readable)
    try:
        yield
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
