"""Entries that nobody has any more.

A hub that was set back, to a backup or by a disk that forgot what it had confirmed, lacks entries which we have dropped
on its word. A log has no gaps, so each of them is told as lost; without that no later entry could be taken.
"""

from __future__ import annotations

import logging
import time

import msgspec

from farsteer.core.events import Entry, Notice, role_of
from farsteer.core.wire import encode
from farsteer.link.messages import EncodedEntry

_MOST = 1000
_LOST = Notice(text="An entry is lost here: the hub was set back.", level="warning", code="entry_lost")
_log = logging.getLogger(__name__)


def filled(session: str, sent: int, last: int, items: list[EncodedEntry]) -> list[EncodedEntry]:
    """`items`, or if they do not continue `sent`, what stands for the missing ones; `last` is the log's end."""
    first = items[0].seq if items else last + 1
    missing = range(sent + 1, min(first, sent + 1 + _MOST))
    if not missing:
        return items
    _log.error("session %s: the hub lacks entries %d to %d, and so do we", session, sent + 1, first - 1)
    now = time.time_ns() // 1_000_000
    return [_item(session, seq, now) for seq in missing]


def _item(session: str, seq: int, now: int) -> EncodedEntry:
    entry = Entry(id=f"{session}:{seq}", seq=seq, role=role_of(_LOST), created_at=now, content=_LOST)
    return EncodedEntry(seq, str(Notice.__struct_config__.tag), msgspec.Raw(encode(entry)))
