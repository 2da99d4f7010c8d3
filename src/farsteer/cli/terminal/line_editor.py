"""A line of input, edited by the bytes that a terminal sends. Does no I/O."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass

PASTE_MODE_ON, PASTE_MODE_OFF = "\x1b[?2004h", "\x1b[?2004l"
"""Written to a terminal, these switch bracketed paste mode: pasted text arrives between two marks, so that a line
break in it does not submit the line."""

_PASTE_START, _PASTE_END = "\x1b[200~", "\x1b[201~"

_KEY_NAMES = {
    "\r": "enter",
    "\n": "enter",
    "\x1b\r": "alt-enter",
    "\x1b\n": "alt-enter",
    "\x03": "ctrl-c",
    "\x04": "ctrl-d",
    "\x7f": "backspace",
    "\x08": "backspace",
    "\x1b[3~": "delete",
    "\x15": "ctrl-u",
    "\x0b": "ctrl-k",
    "\x17": "ctrl-w",
    "\x1b[A": "up",
    "\x1bOA": "up",
    "\x1b[B": "down",
    "\x1bOB": "down",
    "\x1b[C": "right",
    "\x1bOC": "right",
    "\x06": "right",
    "\x1b[D": "left",
    "\x1bOD": "left",
    "\x02": "left",
    "\x1b[H": "home",
    "\x1bOH": "home",
    "\x1b[1~": "home",
    "\x01": "home",
    "\x1b[F": "end",
    "\x1bOF": "end",
    "\x1b[4~": "end",
    "\x05": "end",
    _PASTE_START: "paste",
}
"""What terminals send for the keys that do something; several sequences stand for the same key."""

_KEY = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1bO[A-Za-z]|\x1b[^\[O]|[^\x1b]", re.DOTALL)
_INCOMPLETE_KEY = re.compile(r"\x1b(\[[0-9;?]*[ -/]*|O)?")
_MAX_KEY_LENGTH = 64
_MAX_HISTORY = 200


@dataclass(frozen=True, slots=True)
class Submitted:
    """Enter was pressed. The text is empty if the line was blank."""

    text: str


@dataclass(frozen=True, slots=True)
class Interrupted:
    """Ctrl-C was pressed."""


@dataclass(frozen=True, slots=True)
class Ended:
    """Ctrl-D was pressed on an empty line."""


Action = Submitted | Interrupted | Ended


class LineEditor:
    """An editable line with a cursor and a history of submitted lines."""

    def __init__(self) -> None:
        self.text = ""
        self.cursor = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._incomplete = ""
        self._pasting = False
        self._history: list[str] = []
        self._history_index = 0

    def feed(self, data: bytes) -> list[Action]:
        """Apply typed bytes, which may be cut anywhere, and return the actions that they cause."""
        actions: list[Action] = []
        for key in self._split_keys(self._decoder.decode(data)):
            action = self._handle_pasted(key) if self._pasting else self._handle_key(key)
            if action is not None:
                actions.append(action)
        return actions

    def clear(self) -> None:
        self._set_text("")

    def _split_keys(self, text: str) -> Iterator[str]:
        text = self._incomplete + text
        self._incomplete = ""
        position = 0
        while position < len(text):
            incomplete = _INCOMPLETE_KEY.fullmatch(text, position)
            if incomplete is not None and len(text) - position <= _MAX_KEY_LENGTH:
                self._incomplete = text[position:]
                return
            match = _KEY.match(text, position)
            if match is None:
                position += 1
                continue
            yield match.group()
            position = match.end()

    def _handle_pasted(self, key: str) -> None:
        if key == _PASTE_END:
            self._pasting = False
        elif len(key) == 1:
            self._insert("\n" if key == "\r" else key)

    def _handle_key(self, key: str) -> Action | None:
        match _KEY_NAMES.get(key):
            case "enter":
                return self._submit()
            case "ctrl-c":
                return Interrupted()
            case "ctrl-d" if not self.text:
                return Ended()
            case "paste":
                self._pasting = True
            case "up":
                self._show_history(self._history_index - 1)
            case "down":
                self._show_history(self._history_index + 1)
            case None:
                if len(key) == 1 and (key.isprintable() or key == "\t"):
                    self._insert(key)
            case name:
                self._edit(name)
        return None

    def _edit(self, key_name: str) -> None:
        match key_name:
            case "alt-enter":
                self._insert("\n")
            case "backspace":
                self._delete(self.cursor - 1, self.cursor)
            case "delete" | "ctrl-d":
                self._delete(self.cursor, self.cursor + 1)
            case "ctrl-u":
                self._delete(0, self.cursor)
            case "ctrl-k":
                self._delete(self.cursor, len(self.text))
            case "ctrl-w":
                before = self.text[: self.cursor].rstrip()
                self._delete(len(before) - len(before.split(" ")[-1]), self.cursor)
            case "left":
                self.cursor = max(0, self.cursor - 1)
            case "right":
                self.cursor = min(len(self.text), self.cursor + 1)
            case "home":
                self.cursor = 0
            case "end":
                self.cursor = len(self.text)
            case _:
                raise AssertionError(key_name)

    def _submit(self) -> Submitted:
        text = self.text
        self.clear()
        if not text.strip():
            return Submitted("")
        if text not in self._history[-1:]:
            self._history = [*self._history[1 - _MAX_HISTORY :], text]
        self._history_index = len(self._history)
        return Submitted(text)

    def _show_history(self, index: int) -> None:
        self._history_index = min(max(0, index), len(self._history))
        self._set_text(self._history[self._history_index] if self._history_index < len(self._history) else "")

    def _insert(self, text: str) -> None:
        self.text = self.text[: self.cursor] + text + self.text[self.cursor :]
        self.cursor += len(text)

    def _delete(self, start: int, end: int) -> None:
        start = max(0, start)
        self.text = self.text[:start] + self.text[end:]
        self.cursor = start

    def _set_text(self, text: str) -> None:
        self.text = text
        self.cursor = len(text)
