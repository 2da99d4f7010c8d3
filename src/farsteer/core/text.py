"""Text from runners, agents and clients, made safe for a log, a terminal or a page.

Such text is not trusted. Without cleaning it could move the cursor, set the window title, forge a line of a log or
show its characters in another order than they have. `clean` is for a block of text, `clean_line` for anything shown in
one line (names, titles, paths, reasons), `printable_json` for JSON that a person may look at.
"""

from __future__ import annotations

import re

from farsteer.core.wire import encode

MAX_LINE = 500
"""How many characters of a foreign text are shown in one line, unless the caller says otherwise."""

# C1; soft hyphen; direction marks, embeddings, overrides and isolates; line and paragraph separators; characters
# without width; tags.
_UNSEEN = (
    "\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f"
)
_JOINERS = "\u200c\u200d"
"""They have no width, but several scripts and emoji need them."""

_UNSAFE = re.compile(f"[\x00-\x08\x0b-\x1f{_UNSEEN}]")
_UNSAFE_IN_LINE = re.compile(
    f"[\x00-\x1f{_UNSEEN}]|(?<![^\x00-\x7f{_UNSEEN}{_JOINERS}\ud800-\udfff])[{_JOINERS}]"
)
_UNSAFE_IN_JSON = re.compile(f"[{_UNSEEN}{_JOINERS}]")


def clean(text: str) -> str:
    """Return a block of text without control, direction and invisible characters. Tabs and line feeds stay.

    Lone surrogates, which cannot be encoded, become `?`.
    """
    if text.isprintable():
        return text
    return _UNSAFE.sub("", text.replace("\r\n", "\n")).encode(errors="replace").decode()


def clip(text: str, limit: int) -> str:
    """Return at most `limit` characters of `text`, with an ellipsis if it was longer."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def clean_line(text: str, limit: int = MAX_LINE) -> str:
    """Return `text` cleaned and as one line of at most `limit` characters, with an ellipsis if it was longer."""
    if len(text) <= limit and text.isprintable() and "  " not in text and text.strip() == text:
        return text
    # The rest of a huge text is not looked at.
    head = text[: 4 * limit]
    line = " ".join(_UNSAFE_IN_LINE.sub("", " ".join(head.split())).split()).encode(errors="replace").decode()
    if len(line) > limit or len(head) < len(text):
        return line[: limit - 1] + "…"
    return line


def printable_json(value: object) -> str:
    """Return `value` as JSON that can be printed to a terminal: what `clean` removes is escaped, so nothing is lost."""
    return escape_json(encode(value).decode())


def escape_json(text: str) -> str:
    """Return JSON text with the characters that a terminal must not get as they are in escaped form.

    JSON itself demands this of the characters below U+0020 only.
    """
    return text if text.isascii() and "\x7f" not in text else _UNSAFE_IN_JSON.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    encoded = match[0].encode("utf-16-be")
    return "".join(f"\\u{encoded[index : index + 2].hex()}" for index in range(0, len(encoded), 2))
