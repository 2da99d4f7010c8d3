"""Colours, where a person looks and has not switched them off."""

from __future__ import annotations

import os
from typing import TextIO

from farsteer.cli.view import Line

_CODES = {
    "dim": "2",
    "bold cyan": "1;36",
    "blue": "34",
    "green": "32",
    "red": "31",
    "bold yellow": "1;33",
}


def coloured(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def painted(line: Line, on: bool) -> str:
    code = _CODES.get(line.style) if on else None
    return line.text if code is None or not line.text else f"\x1b[{code}m{line.text}\x1b[0m"
