"""Reads lines and keys from a POSIX terminal without blocking the event loop."""

from __future__ import annotations

import asyncio
import os
import termios
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TextIO

_READ_BYTES = 65536


async def read_line(stream: TextIO) -> str | None:
    """Return the next line typed at a terminal, or None at the end of input. Can be cancelled."""
    loop = asyncio.get_running_loop()
    descriptor = stream.fileno()
    readable = asyncio.Event()
    loop.add_reader(descriptor, readable.set)
    try:
        # A terminal in line mode delivers whole lines, so that one read returns one line.
        await readable.wait()
        data = os.read(descriptor, _READ_BYTES)
    finally:
        loop.remove_reader(descriptor)
    return data.decode(errors="replace") if data else None


@contextmanager
def raw_keys(stream: TextIO, on_keys: Callable[[bytes], None]) -> Generator[None]:
    """Switch a terminal to raw input for the duration of the block, and restore it afterwards.

    Args:
        stream: The terminal.
        on_keys: Called with the bytes of each key as it is typed, also of Ctrl-C and Ctrl-Z, and with `b""` when
            the terminal was closed.
    """
    descriptor = stream.fileno()
    original = termios.tcgetattr(descriptor)
    raw = termios.tcgetattr(descriptor)
    raw[0] &= ~(termios.ICRNL | termios.INLCR | termios.IXON)
    raw[3] &= ~(termios.ECHO | termios.ICANON | termios.ISIG | termios.IEXTEN)
    loop = asyncio.get_running_loop()

    def read() -> None:
        try:
            data = os.read(descriptor, _READ_BYTES)
        except OSError:
            data = b""
        if not data:
            loop.remove_reader(descriptor)
        on_keys(data)

    termios.tcsetattr(descriptor, termios.TCSADRAIN, raw)
    loop.add_reader(descriptor, read)
    try:
        yield
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, original)
