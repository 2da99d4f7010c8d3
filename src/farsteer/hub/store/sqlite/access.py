"""The part of the SQLite store that keeps access tokens and pairings."""

from __future__ import annotations

from functools import partial

from farsteer.hub.store.sqlite import pairings, tokens
from farsteer.hub.store.sqlite.database import StoreDatabase
from farsteer.hub.store.tokens import NewDevice, PairingRow, TokenRow


class AccessDatabase(StoreDatabase):
    """A base class of `SqliteStore`."""

    async def list_tokens(self) -> list[TokenRow]:
        return await self._read(tokens.select)

    async def add_token(self, token: TokenRow) -> None:
        await self._change(partial(tokens.insert, token=token))

    async def delete_token(self, token_id: str) -> list[str]:
        return await self._change(partial(tokens.delete, token_id=token_id))

    async def record_token_use(self, token_id: str, at: int) -> None:
        await self._change(partial(tokens.record_use, token_id=token_id, at=at))

    async def add_pairing(self, pairing: PairingRow, limit: int) -> None:
        await self._change(lambda tx: pairings.insert(tx, pairing, limit))

    async def list_pairings(self, namespace: str) -> list[PairingRow]:
        return await self._read(lambda db: pairings.select(db, namespace, self._clock()))

    async def delete_pairing(self, namespace: str, pairing_id: str) -> None:
        await self._change(lambda tx: pairings.delete(tx, namespace, pairing_id))

    async def redeem_pairing(self, digest: bytes, device: NewDevice, max_tokens: int) -> TokenRow:
        return await self._change(lambda tx: pairings.redeem(tx, digest, device, max_tokens))
