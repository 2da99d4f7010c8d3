"""A line of input, edited by the bytes a terminal sends. Pure: it reads nothing and draws nothing."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass

PASTE_ON, PASTE_OFF = "\x1b[?2004h", "\x1b[?2004l"
"""Ask the terminal to mark what is pasted, so that a pasted line break sends nothing."""

_KEY = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1bO[A-Za-z]|\x1b[^\[O]|[^\x1b]", re.DOTALL)
_BEGINNING = re.compile(r"\x1b(\[[0-9;?]*[ -/]*|O)?")
_PASTE_BEGIN, _PASTE_END = "\x1b[200~", "\x1b[201~"
_MAX_PENDING = 64
_MAX_HISTORY = 200


@dataclass(frozen=True, slots=True)
class Submitted:
    text: str


@dataclass(frozen=True, slots=True)
class Interrupted:
    """Ctrl-C."""


@dataclass(frozen=True, slots=True)
class Ended:
    """Ctrl-D on an empty line."""


Action = Submitted | Interrupted | Ended


class LineEditor:
    def __init__(self) -> None:
        self.text = ""
        self.cursor = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._pending = ""
        self._pasting = False
        self._history: list[str] = []
        self._recalled = 0

    def feed(self, data: bytes) -> list[Action]:
        """Edit by what was typed; returns what the person has decided."""
        actions: list[Action] = []
        for key in self._keys(self._decoder.decode(data)):
            action = self._paste(key) if self._pasting else self._key(key)
            if action is not None:
                actions.append(action)
        return actions

    def clear(self) -> None:
        self._set("")

    def _keys(self, text: str) -> Iterator[str]:
        text = self._pending + text
        self._pending = ""
        position = 0
        while position < len(text):
            rest = _BEGINNING.fullmatch(text, position)
            if rest is not None and len(text) - position <= _MAX_PENDING:
                # The rest of this key is still on its way.
                self._pending = text[position:]
                return
            match = _KEY.match(text, position)
            if match is None:
                position += 1
                continue
            yield match.group()
            position = match.end()

    def _paste(self, key: str) -> None:
        if key == _PASTE_END:
            self._pasting = False
        elif len(key) == 1:
            self._insert("\n" if key == "\r" else key)

    def _key(self, key: str) -> Action | None:
        match key:
            case "\r" | "\n":
                return self._submit()
            case "\x03":
                return Interrupted()
            case "\x04" if not self.text:
                return Ended()
            case "\x1b[200~":
                self._pasting = True
            case "\x1b[A" | "\x1bOA":
                self._recall(-1)
            case "\x1b[B" | "\x1bOB":
                self._recall(1)
            case _:
                self._edit(key)
        return None

    def _edit(self, key: str) -> None:
        match key:
            case "\x7f" | "\x08":
                self._delete(self.cursor - 1, self.cursor)
            case "\x04" | "\x1b[3~":
                self._delete(self.cursor, self.cursor + 1)
            case "\x15":
                self._delete(0, self.cursor)
            case "\x0b":
                self._delete(self.cursor, len(self.text))
            case "\x17":
                before = self.text[: self.cursor].rstrip()
                self._delete(len(before) - len(before.split(" ")[-1]), self.cursor)
            case "\x1b[D" | "\x1bOD" | "\x02":
                self.cursor = max(0, self.cursor - 1)
            case "\x1b[C" | "\x1bOC" | "\x06":
                self.cursor = min(len(self.text), self.cursor + 1)
            case "\x1b[H" | "\x1bOH" | "\x1b[1~" | "\x01":
                self.cursor = 0
            case "\x1b[F" | "\x1bOF" | "\x1b[4~" | "\x05":
                self.cursor = len(self.text)
            case "\x1b\r" | "\x1b\n":
                self._insert("\n")
            case _ if len(key) == 1 and (key.isprintable() or key == "\t"):
                self._insert(key)
            case _:
                return

    def _submit(self) -> Submitted | None:
        text = self.text
        self.clear()
        if not text.strip():
            return Submitted("")
        if text not in self._history[-1:]:
            self._history = [*self._history[1 - _MAX_HISTORY :], text]
        self._recalled = len(self._history)
        return Submitted(text)

    def _recall(self, step: int) -> None:
        self._recalled = min(max(0, self._recalled + step), len(self._history))
        self._set(self._history[self._recalled] if self._recalled < len(self._history) else "")

    def _insert(self, text: str) -> None:
        self.text = self.text[: self.cursor] + text + self.text[self.cursor :]
        self.cursor += len(text)

    def _delete(self, start: int, end: int) -> None:
        start = max(0, start)
        self.text = self.text[:start] + self.text[end:]
        self.cursor = start

    def _set(self, text: str) -> None:
        self.text = text
        self.cursor = len(text)
