"""The `tokens` table. The row of a revoked token is deleted."""

from __future__ import annotations

import sqlite3

from farsteer.core.errors import NotFound
from farsteer.core.ids import OWNER_ID
from farsteer.hub.store.base import TokenRow
from farsteer.hub.store.sqlite.transaction import Transaction


def select(db: sqlite3.Connection) -> list[TokenRow]:
    rows = db.execute(
        "SELECT id, digest, label, namespace, scopes, created_at, expires_at, last_used_at, created_by FROM tokens"
        " ORDER BY created_at, id"
    )
    return [
        TokenRow(id, digest, label, namespace, tuple(scopes.split()), *rest)
        for id, digest, label, namespace, scopes, *rest in rows
    ]


def insert(tx: Transaction, token: TokenRow) -> None:
    if token.created_by not in (None, OWNER_ID):
        found = tx.db.execute("SELECT 1 FROM tokens WHERE id = ?", (token.created_by,)).fetchone()
        if found is None:
            raise NotFound("the token that creates this one does not exist any more")
    tx.db.execute(
        "INSERT INTO tokens (id, digest, label, namespace, scopes, created_at, expires_at, created_by)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            token.id, token.digest, token.label, token.namespace, " ".join(token.scopes), token.created_at,
            token.expires_at, token.created_by,
        ),
    )  # fmt: skip


def delete(tx: Transaction, token_id: str) -> list[str]:
    """Delete a token and all that descend from it. Return their ids."""
    rows = tx.db.execute(
        "WITH RECURSIVE family (id) AS (SELECT id FROM tokens WHERE id = ?"
        " UNION SELECT tokens.id FROM tokens JOIN family ON tokens.created_by = family.id) SELECT id FROM family",
        (token_id,),
    ).fetchall()
    tx.db.executemany("DELETE FROM tokens WHERE id = ?", rows)
    return [id for (id,) in rows]


def record_use(tx: Transaction, token_id: str, at: int) -> None:
    tx.db.execute("UPDATE tokens SET last_used_at = ? WHERE id = ?", (at, token_id))
