"""The `tokens` table. The row of a revoked token is deleted."""

from __future__ import annotations

import sqlite3

from farsteer.hub.store.base import TokenRow
from farsteer.hub.store.sqlite.transaction import Transaction


def select(db: sqlite3.Connection) -> list[TokenRow]:
    rows = db.execute(
        "SELECT id, digest, label, namespace, scopes, created_at, expires_at, last_used_at FROM tokens"
        " ORDER BY created_at, id"
    )
    return [
        TokenRow(id, digest, label, namespace, tuple(scopes.split()), created, expires, used)
        for id, digest, label, namespace, scopes, created, expires, used in rows
    ]


def insert(tx: Transaction, token: TokenRow) -> None:
    tx.db.execute(
        "INSERT INTO tokens (id, digest, label, namespace, scopes, created_at, expires_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            token.id, token.digest, token.label, token.namespace, " ".join(token.scopes), token.created_at,
            token.expires_at,
        ),
    )  # fmt: skip


def delete(tx: Transaction, token_id: str) -> None:
    tx.db.execute("DELETE FROM tokens WHERE id = ?", (token_id,))


def record_use(tx: Transaction, token_id: str, at: int) -> None:
    tx.db.execute("UPDATE tokens SET last_used_at = ? WHERE id = ?", (at, token_id))
