"""The `tokens` table. The row of a revoked token is deleted."""

from __future__ import annotations

import sqlite3

from farsteer.core.errors import NotFound
from farsteer.core.ids import OWNER_ID
from farsteer.hub.store.base import TokenRow
from farsteer.hub.store.sqlite.transaction import Transaction


def select(db: sqlite3.Connection) -> list[TokenRow]:
    rows = db.execute(
        "SELECT id, digest, label, namespace, scopes, created_at, expires_at, last_used_at, created_by, device"
        " FROM tokens ORDER BY created_at, id"
    )
    return [
        TokenRow(id, digest, label, namespace, tuple(scopes.split()), *rest)
        for id, digest, label, namespace, scopes, *rest in rows
    ]


def insert(tx: Transaction, token: TokenRow) -> None:
    check_creator(tx.db, token.created_by)
    tx.db.execute(
        "INSERT INTO tokens (id, digest, label, namespace, scopes, created_at, expires_at, created_by, device)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            token.id, token.digest, token.label, token.namespace, " ".join(token.scopes), token.created_at,
            token.expires_at, token.created_by, token.device,
        ),
    )  # fmt: skip


def check_creator(db: sqlite3.Connection, token_id: str | None) -> int | None:
    """Return when a token expires. Raises NotFound if it is not stored any more."""
    if token_id in (None, OWNER_ID):
        return None
    found = db.execute("SELECT expires_at FROM tokens WHERE id = ?", (token_id,)).fetchone()
    if found is None:
        raise NotFound("the token that creates this one does not exist any more")
    return found[0]


def count(db: sqlite3.Connection, namespace: str) -> int:
    return db.execute("SELECT count(*) FROM tokens WHERE namespace = ?", (namespace,)).fetchone()[0]


def delete(tx: Transaction, token_id: str) -> list[str]:
    """Delete a token and all that descend from it. Return their ids."""
    rows = tx.db.execute(
        "WITH RECURSIVE family (id) AS (SELECT id FROM tokens WHERE id = ?"
        " UNION SELECT tokens.id FROM tokens JOIN family ON tokens.created_by = family.id) SELECT id FROM family",
        (token_id,),
    ).fetchall()
    tx.db.executemany("DELETE FROM tokens WHERE id = ?", rows)
    tx.db.executemany("DELETE FROM pairings WHERE created_by = ?", rows)
    return [id for (id,) in rows]


def record_use(tx: Transaction, token_id: str, at: int) -> None:
    tx.db.execute("UPDATE tokens SET last_used_at = ? WHERE id = ?", (at, token_id))
