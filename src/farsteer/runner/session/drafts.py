"""Drafts: the text that an agent has streamed of messages it has not finished.

If the runner is killed, drafts are all that is left of those messages. They are collected here in memory; the session's
log writes them to the journal. Rows of the journal are only added, and deleted together when their message is finished.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from farsteer.core.events import AgentMessage, AgentThought, Delta, DeltaKind, SessionEvent, TurnEnd

_MAX_CHARS = 1024 * 1024
"""Characters of all open drafts of a session together. Text beyond that is streamed but not drafted."""
_MAX_OPEN = 64
_MAX_FINISHED = 512
"""How many finished messages of a turn are remembered, so that their late deltas are ignored."""


class DraftKey(NamedTuple):
    kind: DeltaKind
    message_id: str


class DraftDelta(NamedTuple):
    """Text at `offset` of a draft. It replaces everything from there on."""

    key: DraftKey
    offset: int
    text: str


class Draft(NamedTuple):
    key: DraftKey
    text: str

    @property
    def event(self) -> SessionEvent:
        """The partial message to log when nobody will finish it."""
        event = AgentMessage if self.key.kind is DeltaKind.MESSAGE else AgentThought
        return event(message_id=self.key.message_id, text=self.text, partial=True)


def assemble_drafts(deltas: Iterable[DraftDelta]) -> tuple[Draft, ...]:
    """Build the drafts from their deltas, ordered by their first delta."""
    texts: dict[DraftKey, str] = {}
    for key, offset, text in deltas:
        before = texts.get(key, "")
        if offset <= len(before):
            texts[key] = before[:offset] + text
    return tuple(Draft(key, text) for key, text in texts.items())


@dataclass(slots=True)
class _OpenDraft:
    size: int = 0
    """The offset at which the next delta continues."""
    counted: int = 0
    """Characters that count against the limit, including replaced ones: the journal has those too."""
    stored: bool = False
    """The journal has a part of it, or is about to get it."""
    unsaved: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])


class Drafts:
    """The open drafts of one session."""

    def __init__(self, stored: Sequence[Draft] = ()) -> None:
        self._stored = list(stored)
        """Drafts that the previous runner process left in the journal."""
        self._open: dict[DraftKey, _OpenDraft] = {}
        self._finished: dict[DraftKey, None] = {}
        self._counted = 0

    def add(self, deltas: Iterable[Delta]) -> None:
        """Add streamed text. Input and output of tools are not drafted."""
        for delta in deltas:
            if delta.kind in (DeltaKind.MESSAGE, DeltaKind.THOUGHT):
                self._add(DraftKey(delta.kind, delta.message_id), delta.offset, delta.text)

    def _add(self, key: DraftKey, offset: int, text: str) -> None:
        draft = self._open.get(key)
        if draft is None:
            if key in self._finished or len(self._open) >= _MAX_OPEN:
                return
            draft = self._open[key] = _OpenDraft()
        text = text[: _MAX_CHARS - self._counted]
        # A draft ends at its first gap, for example where text did not fit.
        if not text or offset > draft.size:
            return
        draft.unsaved.append((offset, text))
        draft.size = offset + len(text)
        draft.counted += len(text)
        self._counted += len(text)

    @property
    def has_unsaved(self) -> bool:
        """There is text that the journal does not have."""
        return any(draft.unsaved for draft in self._open.values())

    def pop_unsaved(self) -> list[DraftDelta]:
        """Return the text that the journal does not have. The caller writes it to the journal."""
        unsaved: list[DraftDelta] = []
        for key, draft in self._open.items():
            if draft.unsaved:
                unsaved += _merge(key, draft.unsaved)
                draft.unsaved = []
                draft.stored = True
        return unsaved

    def finish(self, event: SessionEvent) -> list[DraftKey]:
        """Close the drafts that `event` replaces. Returns those that the journal must delete together with it."""
        match event:
            case AgentMessage():
                return self._finish(DraftKey(DeltaKind.MESSAGE, event.message_id))
            case AgentThought():
                return self._finish(DraftKey(DeltaKind.THOUGHT, event.message_id))
            case TurnEnd():
                return self._finish_all()
            case _:
                return []

    @property
    def stored(self) -> tuple[Draft, ...]:
        """What the previous runner process left in the journal."""
        return tuple(self._stored)

    def stored_events(self) -> list[SessionEvent]:
        """Return the drafts of the previous runner process as partial messages."""
        return [draft.event for draft in self._stored]

    def _finish(self, key: DraftKey) -> list[DraftKey]:
        draft = self._open.pop(key, None)
        if draft is None:
            return []
        self._counted -= draft.counted
        self._finished[key] = None
        if len(self._finished) > _MAX_FINISHED:
            del self._finished[next(iter(self._finished))]
        return [key] if draft.stored else []

    def _finish_all(self) -> list[DraftKey]:
        stored = [draft.key for draft in self._stored]
        stored += [key for key, draft in self._open.items() if draft.stored]
        self._stored.clear()
        self._open.clear()
        self._finished.clear()
        self._counted = 0
        return stored


def _merge(key: DraftKey, deltas: list[tuple[int, str]]) -> list[DraftDelta]:
    """Join deltas that continue each other."""
    merged: list[DraftDelta] = []
    start, parts, end = deltas[0][0], list[str](), deltas[0][0]
    for offset, text in deltas:
        if offset != end:
            merged.append(DraftDelta(key, start, "".join(parts)))
            start, parts = offset, []
        parts.append(text)
        end = offset + len(text)
    merged.append(DraftDelta(key, start, "".join(parts)))
    return merged
