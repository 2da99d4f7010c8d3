"""The `pairings` table. A pairing that was redeemed or cancelled is deleted at once, an expired one with the next."""

from __future__ import annotations

import sqlite3
from typing import Any

from farsteer.core.errors import Conflict, NotFound
from farsteer.hub.store.sqlite import tokens
from farsteer.hub.store.sqlite.transaction import Transaction
from farsteer.hub.store.tokens import NewDevice, PairingRow, TokenRow

_COLUMNS = "id, digest, label, namespace, scopes, created_at, expires_at, created_by, lifetime"


def insert(tx: Transaction, pairing: PairingRow, limit: int) -> None:
    tokens.check_creator(tx.db, pairing.created_by)
    tx.db.execute("DELETE FROM pairings WHERE expires_at <= ?", (tx.now,))
    if len(_select(tx.db, "namespace = ?", pairing.namespace)) >= limit:
        raise Conflict(f"{limit} pairings are open already: use one, cancel one, or wait until they expire")
    tx.db.execute(
        f"INSERT INTO pairings ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
        (
            pairing.id, pairing.digest, pairing.label, pairing.namespace, " ".join(pairing.scopes),
            pairing.created_at, pairing.expires_at, pairing.created_by, pairing.lifetime,
        ),
    )  # fmt: skip


def select(db: sqlite3.Connection, namespace: str, now: int) -> list[PairingRow]:
    return _select(db, "namespace = ? AND expires_at > ?", namespace, now)


def delete(tx: Transaction, namespace: str, pairing_id: str) -> None:
    deleted = tx.db.execute(
        "DELETE FROM pairings WHERE id = ? AND namespace = ? AND expires_at > ?",
        (pairing_id, namespace, tx.now),
    )
    if not deleted.rowcount:
        raise NotFound("no such pairing")


def redeem(tx: Transaction, digest: bytes, device: NewDevice, max_tokens: int) -> TokenRow:
    found = _select(tx.db, "digest = ? AND expires_at > ?", digest, tx.now)
    if not found:
        raise NotFound("no such pairing")
    [pairing] = found
    if tokens.count(tx.db, pairing.namespace) >= max_tokens:
        raise Conflict(f"this namespace has {max_tokens} tokens already; revoke some")
    ends = [tokens.check_creator(tx.db, pairing.created_by)]
    if ends[0] is not None and ends[0] <= tx.now:
        raise NotFound("no such pairing")
    if pairing.lifetime is not None:
        ends.append(tx.now + pairing.lifetime)
    token = TokenRow(
        id=device.id,
        digest=device.digest,
        label=pairing.label,
        namespace=pairing.namespace,
        scopes=pairing.scopes,
        created_at=tx.now,
        expires_at=min((end for end in ends if end is not None), default=None),
        created_by=pairing.created_by,
        device=device.name,
    )
    tokens.insert(tx, token)
    tx.db.execute("DELETE FROM pairings WHERE id = ?", (pairing.id,))
    return token


def _select(db: sqlite3.Connection, where: str, *values: Any) -> list[PairingRow]:
    query = f"SELECT {_COLUMNS} FROM pairings WHERE {where} ORDER BY created_at, id"  # noqa: S608
    return [
        PairingRow(id, digest, label, namespace, tuple(scopes.split()), *rest)
        for id, digest, label, namespace, scopes, *rest in db.execute(query, values)
    ]
