"""What an agent has streamed of messages that it has not finished: all there is of them if the runner dies.

Pieces are kept as they come, and the journal gets those that it has not yet. Nothing here waits or writes; the
session's log does. Rows of the journal are only ever added and, when their message is finished, deleted together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from farsteer.core.events import AgentMessage, AgentThought, Delta, DeltaKind, SessionEvent, TurnEnd

_KEPT = 1024 * 1024
"""Characters of all open drafts of a session together; what is streamed beyond them is only live."""
_OPEN = 64
_FINISHED = 512
"""Finished messages of a turn whose late fragments are noticed."""


class DraftKey(NamedTuple):
    kind: DeltaKind
    message_id: str


class DraftDelta(NamedTuple):
    """Text that goes to `offset`; whatever was there is replaced, with all that followed."""

    key: DraftKey
    offset: int
    text: str


class Draft(NamedTuple):
    key: DraftKey
    text: str

    @property
    def event(self) -> SessionEvent:
        """What the log says of a message that nobody will finish."""
        said = AgentMessage if self.key.kind is DeltaKind.MESSAGE else AgentThought
        return said(message_id=self.key.message_id, text=self.text, partial=True)


def assemble(pieces: Iterable[DraftDelta]) -> tuple[Draft, ...]:
    """The drafts that these pieces make, in the order in which they were begun."""
    texts: dict[DraftKey, str] = {}
    for key, offset, text in pieces:
        before = texts.get(key, "")
        if offset <= len(before):
            texts[key] = before[:offset] + text
    return tuple(Draft(key, text) for key, text in texts.items())


@dataclass(slots=True)
class _Open:
    size: int = 0
    """Where the next fragment goes on."""
    kept: int = 0
    """Characters that count against the limit, replaced ones too: the journal has them."""
    stored: bool = False
    """The journal has something of it, or is about to."""
    new: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    """What the journal has not got yet."""


class Drafts:
    def __init__(self, left: Sequence[Draft] = ()) -> None:
        self._left = list(left)
        """What an earlier life of the runner left."""
        self._open: dict[DraftKey, _Open] = {}
        self._finished: dict[DraftKey, None] = {}
        self._kept = 0

    def hear(self, deltas: Iterable[Delta]) -> None:
        for delta in deltas:
            if delta.kind is not DeltaKind.TOOL_OUTPUT:
                self._hear(DraftKey(delta.kind, delta.message_id), delta.offset, delta.text)

    def _hear(self, key: DraftKey, offset: int, text: str) -> None:
        draft = self._open.get(key)
        if draft is None:
            if key in self._finished or len(self._open) >= _OPEN:
                return
            draft = self._open[key] = _Open()
        text = text[: _KEPT - self._kept]
        # What comes after a gap is no part of the text so far: what did not fit ends the draft.
        if not text or offset > draft.size:
            return
        draft.new.append((offset, text))
        draft.size = offset + len(text)
        draft.kept += len(text)
        self._kept += len(text)

    @property
    def unsaved(self) -> bool:
        """There are pieces that the journal has not got."""
        return any(draft.new for draft in self._open.values())

    def take(self) -> list[DraftDelta]:
        """Those pieces, which the caller writes down now."""
        taken: list[DraftDelta] = []
        for key, draft in self._open.items():
            if draft.new:
                taken += _merged(key, draft.new)
                draft.new = []
                draft.stored = True
        return taken

    def note(self, event: SessionEvent) -> list[DraftKey]:
        """`event` comes into the log: the drafts that the journal has to forget with it."""
        match event:
            case AgentMessage():
                return self._finish(DraftKey(DeltaKind.MESSAGE, event.message_id))
            case AgentThought():
                return self._finish(DraftKey(DeltaKind.THOUGHT, event.message_id))
            case TurnEnd():
                return self._forget_all()
            case _:
                return []

    def left(self) -> list[SessionEvent]:
        """What an earlier life left, as the log says it; once."""
        return [draft.event for draft in self._left]

    def _finish(self, key: DraftKey) -> list[DraftKey]:
        draft = self._open.pop(key, None)
        if draft is None:
            return []
        self._kept -= draft.kept
        self._finished[key] = None
        if len(self._finished) > _FINISHED:
            del self._finished[next(iter(self._finished))]
        return [key] if draft.stored else []

    def _forget_all(self) -> list[DraftKey]:
        stored = [draft.key for draft in self._left]
        stored += [key for key, draft in self._open.items() if draft.stored]
        self._left.clear()
        self._open.clear()
        self._finished.clear()
        self._kept = 0
        return stored


def _merged(key: DraftKey, pieces: list[tuple[int, str]]) -> list[DraftDelta]:
    """Fragments that follow each other as one piece."""
    merged: list[DraftDelta] = []
    start, parts, end = pieces[0][0], list[str](), pieces[0][0]
    for offset, text in pieces:
        if offset != end:
            merged.append(DraftDelta(key, start, "".join(parts)))
            start, parts = offset, []
        parts.append(text)
        end = offset + len(text)
    merged.append(DraftDelta(key, start, "".join(parts)))
    return merged
