"""Text for a terminal: columns and tables, and colours. Tables and `one_line` clean what they are given."""

from __future__ import annotations

import os
import textwrap
import time
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TextIO

from farsteer.core.text import clean_line

_MAX_FACT = 10_000
"""How many characters of a value `facts_table` shows."""


def one_line(text: str, width: int) -> str:
    """Return `text` cleaned, as one line of at most `width` columns."""
    text = clean_line(text, 4 * width)
    return text if columns(text) <= width else _truncate(text, width - 1) + "…"


def columns(text: str) -> int:
    """Return how many columns `text` takes on a terminal."""
    return sum(_character_columns(char) for char in text)


def _character_columns(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _truncate(text: str, width: int) -> str:
    used = 0
    for index, char in enumerate(text):
        used += _character_columns(char)
        if used > width:
            return text[:index]
    return text


def table(rows: Sequence[Sequence[str]], width: int) -> str:
    """Return `rows` as aligned columns; the last column is truncated so that a row fits into `width`."""
    rows = [[clean_line(cell) for cell in row] for row in rows]
    widths = [max(columns(cell) for cell in column) for column in zip(*rows, strict=True)]
    last_width = max(20, width - sum(widths[:-1]) - 2 * (len(widths) - 1))
    lines: list[str] = []
    for row in rows:
        *cells, last = row
        padded = [cell + " " * (size - columns(cell)) for cell, size in zip(cells, widths, strict=False)]
        lines.append("  ".join([*padded, one_line(last, last_width)]).rstrip())
    return "\n".join(lines)


def facts_table(facts: Mapping[str, str], width: int) -> str:
    """Return `name: value` for each fact that has a value; long values are wrapped beside their name."""
    indent = 2 + max(len(name) for name in facts) + 1
    lines: list[str] = []
    for name, value in facts.items():
        if value:
            wrapped = textwrap.wrap(
                clean_line(value, _MAX_FACT), max(20, width - indent), break_on_hyphens=False
            )
            lines.append(f"{name + ':':<{indent}}" + f"\n{' ' * indent}".join(wrapped))
    return "\n".join(lines)


def short_path(path: str) -> str:
    """Return a path cleaned, with `~` for the home directory of the person."""
    home = str(Path.home())
    return clean_line(f"~{path[len(home) :]}" if path == home or path.startswith(f"{home}/") else path, 80)


def ago(milliseconds: int, now: float | None = None) -> str:
    """Return how long ago a time was, in the largest unit that fits: `5s`, `3m`, `2h`, `4d`."""
    seconds = max(0, int((time.time() if now is None else now) - milliseconds / 1000))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


class Style(StrEnum):
    """What a text means; the values are rich's styles."""

    PLAIN = ""
    DIM = "dim"
    USER = "bold cyan"
    TOOL = "blue"
    GOOD = "green"
    BAD = "red"
    ASK = "bold yellow"


@dataclass(frozen=True, slots=True)
class StyledText:
    text: str
    style: Style = Style.PLAIN


def print_styled(stream: TextIO, *parts: StyledText) -> None:
    """Print one line, in colour if `stream` is a terminal and `$NO_COLOR` and `$TERM` allow it."""
    if not (stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"):
        print("".join(part.text for part in parts), file=stream, flush=True)
        return
    # Imported here because it is slow to import and most calls do not print to a terminal.
    from rich.console import Console
    from rich.text import Text

    console = Console(file=stream, highlight=False)
    console.print(Text.assemble(*((part.text, part.style) for part in parts)), soft_wrap=True)
