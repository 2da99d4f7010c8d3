"""The `drafts` table. An empty draft keeps its row, so that no version is given twice."""

from __future__ import annotations

import sqlite3

from farsteer.core.api.drafts import MAX_SENT_DRAFT, DraftChange, DraftView
from farsteer.core.errors import Conflict, ErrorCode
from farsteer.core.identity import Identity
from farsteer.core.queue import QueueItem
from farsteer.core.wire import encode
from farsteer.hub.store.drafts import NewDraft
from farsteer.hub.store.sqlite.transaction import Transaction
from farsteer.storage.quarantine import decode_row

_NO_DRAFT = DraftView(text="", version=0, updated_at=None, by=None, identity=None, client_id=None)


def read(db: sqlite3.Connection, session_id: str) -> DraftView:
    row = db.execute(
        "SELECT text, version, updated_at, by, identity, client_id FROM drafts WHERE session_id = ?",
        (session_id,),
    ).fetchone()
    if row is None:
        return _NO_DRAFT
    text, version, updated_at, by, encoded, client_id = row
    identity = None if encoded is None else decode_row(encoded, Identity, "drafts", session_id, session_id)
    return DraftView(text, version, updated_at, by, identity, client_id)


def write(tx: Transaction, namespace: str, session_id: str, new: NewDraft, seen: int | None) -> DraftView:
    version = read(tx.db, session_id).version
    if seen is not None and seen != version:
        raise Conflict(
            "the draft was changed meanwhile: read it again", code=ErrorCode.DRAFT_OUTDATED, version=version
        )
    return _store(tx, namespace, session_id, new, version + 1)


def empty_if_sent(tx: Transaction, namespace: str, session_id: str, item: QueueItem) -> None:
    """Empty the draft of a session if it is the text of this message."""
    row = tx.db.execute(
        "SELECT version FROM drafts WHERE session_id = ? AND text = ? AND text <> ''", (session_id, item.text)
    ).fetchone()
    if row is not None:
        new = NewDraft(text="", by=item.sent_from or "", identity=item.identity, client_id="")
        _store(tx, namespace, session_id, new, row[0] + 1)


def delete(db: sqlite3.Connection, session_id: str) -> None:
    db.execute("DELETE FROM drafts WHERE session_id = ?", (session_id,))


def _store(tx: Transaction, namespace: str, session_id: str, new: NewDraft, version: int) -> DraftView:
    identity = None if new.identity is None else encode(new.identity)
    tx.db.execute(
        "INSERT OR REPLACE INTO drafts (session_id, text, version, updated_at, by, identity, client_id)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (session_id, new.text, version, tx.now, new.by, identity, new.client_id),
    )
    change = DraftChange(
        text=new.text if len(new.text) <= MAX_SENT_DRAFT else None,
        version=version,
        updated_at=tx.now,
        by=new.by,
        identity=new.identity,
        client_id=new.client_id,
    )
    tx.announce(namespace, "draft-updated", session_id, encode(change))
    return DraftView(new.text, version, tx.now, new.by, new.identity, new.client_id)
