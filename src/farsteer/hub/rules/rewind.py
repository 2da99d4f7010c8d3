"""Rewinds: where a conversation can be cut, what the agent remembers before the cut, and what the cut did.

These functions read encoded entries. They look for a few bytes first and decode an entry only if it may matter, since
a long log holds many entries that do not.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from msgspec import Struct

from farsteer.core.events import (
    AgentMessage,
    AgentThought,
    Entry,
    QueueUpdate,
    SessionEvent,
    TurnStart,
    UserMessage,
    decode_entry,
)
from farsteer.core.queue import REWIND_REASON, ItemState
from farsteer.core.session import SessionState, apply

_ANCHOR = b'"anchor":'
_AGENT_MESSAGE = b'"kind":"agent_message"'
_USER_MESSAGE = b'"kind":"user_message"'
_QUEUE_UPDATE = b'"kind":"queue_update"'

_MAX_LOOK_BACK = 1000
"""How many entries before a cut are searched for the last message."""

_EMPTY_STATE = SessionState(id="", agent="", directory="")


class RewindPoint(Struct, frozen=True):
    """A visible entry of a log, and what a rewind to just before it needs to know."""

    entry: Entry
    first_seq: int
    """The first entry to remove: the start of the turn that the entry opened, or the entry itself."""
    cut_at: str | None
    """The agent's last anchor before `first_seq`."""
    answered: bool
    """The agent has answered before `first_seq`, with or without an anchor."""
    last_seq: int
    """The last entry of the log."""


class RewindResult(Struct, frozen=True):
    seq: int
    """The `rewound` entry."""
    cancelled: list[str]
    """The waiting messages that the rewind cancelled."""


def first_removed(entry: Entry, previous: Entry | None) -> int:
    """Return the first entry that a rewind to before `entry` removes: a message takes its turn's start along.

    `previous` is the entry just before it, or None if there is none or an earlier rewind removed it.
    """
    message = entry.content
    if (
        previous is not None
        and isinstance(message, UserMessage)
        and isinstance(previous.content, TurnStart)
        and previous.content.item_id == message.item_id
    ):
        return previous.seq
    return entry.seq


def last_answer(newest_first: Iterable[bytes]) -> tuple[str | None, bool]:
    """Return the agent's last anchor, and whether it has answered at all.

    One answer is often several messages, thoughts first and text last; the last anchor counts. Entries of older
    versions have no anchors: there, only a complete message shows that the agent has answered.
    """
    answered = False
    for body in newest_first:
        if _ANCHOR in body or (not answered and _AGENT_MESSAGE in body):
            event = decode_entry(body).content
            if isinstance(event, AgentMessage | AgentThought) and event.anchor is not None:
                return event.anchor, True
            answered = answered or (isinstance(event, AgentMessage) and not event.partial)
    return None, answered


def last_message(newest_first: Iterable[bytes]) -> str | None:
    """Return the text of the last message, as a list of sessions shows it."""
    for body in islice(newest_first, _MAX_LOOK_BACK):
        if _USER_MESSAGE in body or _AGENT_MESSAGE in body:
            text = message_text(decode_entry(body).content)
            if text is not None:
                return text
    return None


def message_text(event: SessionEvent) -> str | None:
    """Return the text that a list of sessions shows for this event, or None if it is no message."""
    return apply(_EMPTY_STATE, event).last_message


def items_cancelled_by_rewind(entries: Iterable[bytes]) -> list[str]:
    """Return the items that were cancelled because of a rewind, and not by anybody."""
    cancelled: list[str] = []
    for body in entries:
        if _QUEUE_UPDATE in body:
            event = decode_entry(body).content
            if (
                isinstance(event, QueueUpdate)
                and event.state is ItemState.CANCELLED
                and event.reason == REWIND_REASON
            ):
                cancelled.append(event.item_id)
    return cancelled
