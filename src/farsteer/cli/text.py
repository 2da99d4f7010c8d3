"""Text on its way to a terminal. What agents write is not trusted: it must not move the cursor or set the title."""

from __future__ import annotations

import re
import textwrap
import time
import unicodedata
from collections.abc import Mapping, Sequence

# C0 but tab and line feed, DEL, C1, and the marks that turn the writing direction.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    """`text` without anything a terminal would obey; surrogates, which no terminal can be sent, become marks."""
    return _CONTROL.sub("", text.replace("\r\n", "\n")).encode(errors="replace").decode()


def one_line(text: str, width: int) -> str:
    """`text` as one line of at most `width` columns."""
    text = clean(" ".join(text.split()))
    return text if columns(text) <= width else _cut(text, width - 1) + "…"


def columns(text: str) -> int:
    return sum(_columns(char) for char in text)


def _columns(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _cut(text: str, width: int) -> str:
    used = 0
    for index, char in enumerate(text):
        used += _columns(char)
        if used > width:
            return text[:index]
    return text


def table(rows: Sequence[Sequence[str]], width: int) -> str:
    """Columns as wide as they need, the last one as wide as the terminal lets it be."""
    widths = [max(columns(cell) for cell in column) for column in zip(*rows, strict=True)]
    left = max(20, width - sum(widths[:-1]) - 2 * (len(widths) - 1))
    lines: list[str] = []
    for row in rows:
        *cells, last = row
        padded = [cell + " " * (size - columns(cell)) for cell, size in zip(cells, widths, strict=False)]
        lines.append("  ".join([*padded, one_line(last, left)]).rstrip())
    return "\n".join(lines)


def facts_table(facts: Mapping[str, str], width: int) -> str:
    """`name: value` for each that has a value, wrapped beside its name."""
    indent = 2 + max(len(name) for name in facts) + 1
    lines: list[str] = []
    for name, value in facts.items():
        if value:
            wrapped = textwrap.wrap(
                clean(" ".join(value.split())), max(20, width - indent), break_on_hyphens=False
            )
            lines.append(f"{name + ':':<{indent}}" + f"\n{' ' * indent}".join(wrapped))
    return "\n".join(lines)


def ago(milliseconds: int, now: float | None = None) -> str:
    """How long ago, in the largest unit that fits."""
    seconds = max(0, int((time.time() if now is None else now) - milliseconds / 1000))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
