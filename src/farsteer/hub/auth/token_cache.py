"""The access tokens that were created on this hub, in memory and in the store."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial

import msgspec

from farsteer.core.clock import Clock
from farsteer.core.errors import NotFound
from farsteer.core.ids import OWNER_ID
from farsteer.hub.store.base import NewDevice, Store, TokenRow
from farsteer.hub.tasks import BackgroundTasks

_logger = logging.getLogger(__name__)

_LAST_USED_MS = 60_000
"""The resolution of `last_used_at`, so that a busy token does not write to the store on every request."""
_MAX_TIMER_SECONDS = 86_400.0


class TokenCache:
    """Every token row of the store, held in memory so that authenticating a request reads no database.

    The cache assumes that this process is the only hub: it loads the rows once, and only its own `add`, `remove` and
    expiry change them. A second hub on the same store would not learn of a token that was created or revoked on the
    first. To run several, replace this class by one that also applies the changes made by other hubs (the store
    would announce them) and calls the `on_remove` callbacks for them, because those close the sockets and links that
    a revoked token opened. Nothing else in the hub keeps tokens.
    """

    def __init__(self, store: Store, tasks: BackgroundTasks, clock: Clock) -> None:
        self._store = store
        self._tasks = tasks
        self._clock = clock
        self._by_id: dict[str, TokenRow] = {}
        self._by_digest: dict[bytes, TokenRow] = {}
        self._remove_callbacks: list[Callable[[str], None]] = []
        self._expiry_timer: asyncio.TimerHandle | None = None

    async def load(self) -> None:
        for row in await self._store.list_tokens():
            self._put(row)
        self._remove_expired()

    def close(self) -> None:
        if self._expiry_timer is not None:
            self._expiry_timer.cancel()

    def __contains__(self, token_id: str) -> bool:
        return token_id in self._by_id

    def get(self, token_id: str) -> TokenRow | None:
        return self._by_id.get(token_id)

    def find(self, digest: bytes) -> TokenRow | None:
        """Return the token with this digest, or None if there is none or it has expired."""
        row = self._by_digest.get(digest)
        return None if row is None or self._is_expired(row) else row

    def rows(self) -> Iterable[TokenRow]:
        """Return all tokens, oldest first."""
        return self._by_id.values()

    async def add(self, row: TokenRow) -> None:
        """Store a token. Raises NotFound if the token that created it was removed in the meantime."""
        await self._store.add_token(row)
        self._add_stored(row)

    async def redeem(self, digest: bytes, device: NewDevice, max_tokens: int) -> TokenRow:
        """Turn the pairing with this digest into a token. Raises NotFound and Conflict, as the store does."""
        row = await self._store.redeem_pairing(digest, device, max_tokens)
        self._add_stored(row)
        return row

    def _add_stored(self, row: TokenRow) -> None:
        if row.created_by not in (None, OWNER_ID) and row.created_by not in self._by_id:
            # Removed after the new row was stored: the store has deleted both.
            raise NotFound("the token that creates this one does not exist any more")
        self._put(row)
        self._remove_expired()

    async def remove(self, token_id: str) -> None:
        """Remove a token and all tokens that were created with it."""
        for removed in await self._store.delete_token(token_id):
            self._drop(removed)

    def mark_used(self, row: TokenRow) -> None:
        """Update `last_used_at`, at most once a minute and in the background."""
        now = self._clock()
        if row.last_used_at is not None and now - row.last_used_at < _LAST_USED_MS:
            return
        self._put(msgspec.structs.replace(row, last_used_at=now))
        self._tasks.spawn(self._store.record_token_use(row.id, now), "update of a token's last use")

    def on_remove(self, callback: Callable[[str], None]) -> Callable[[], None]:
        """Call `callback(token_id)` when a token is revoked or expires. Returns a function that unsubscribes."""
        self._remove_callbacks.append(callback)
        return lambda: self._remove_callbacks.remove(callback)

    def _put(self, row: TokenRow) -> None:
        self._by_id[row.id] = row
        self._by_digest[row.digest] = row

    def _drop(self, token_id: str) -> None:
        row = self._by_id.pop(token_id, None)
        if row is None:
            return
        del self._by_digest[row.digest]
        for callback in tuple(self._remove_callbacks):
            callback(token_id)

    def _is_expired(self, row: TokenRow) -> bool:
        return row.expires_at is not None and row.expires_at <= self._clock()

    def _remove_expired(self) -> None:
        """Remove expired tokens and schedule the next run for when the next one expires."""
        self.close()
        for row in [row for row in self._by_id.values() if self._is_expired(row)]:
            _logger.info("token %r has expired", row.label)
            self._drop(row.id)
            self._tasks.spawn_until_done(partial(self.remove, row.id), "removal of an expired token")
        expiries = [row.expires_at for row in self._by_id.values() if row.expires_at is not None]
        if expiries:
            seconds = min((min(expiries) - self._clock()) / 1000, _MAX_TIMER_SECONDS)
            loop = asyncio.get_running_loop()
            self._expiry_timer = loop.call_later(max(seconds, 0.01), self._remove_expired)
