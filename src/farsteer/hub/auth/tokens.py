"""Tokens: the owner's, those minted for others, and the JWTs they are exchanged for.

An access token is `BASE[:namespace]`, split at the last colon. The owner's base may name any namespace; a minted one
belongs to its own. Namespace and scopes come from the token's row; a client declares only how it wants to be shown.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import secrets
from collections.abc import Callable
from pathlib import Path

import msgspec

from farsteer.core.api import (
    AuthRequest,
    AuthResponse,
    Done,
    NewToken,
    TokenCreated,
    TokensResponse,
    TokenView,
    User,
)
from farsteer.core.clock import Clock, now_ms
from farsteer.core.errors import BadRequest, Conflict, Forbidden, NotFound, Unauthorized
from farsteer.core.ids import DEFAULT_NAMESPACE, is_namespace, new_id
from farsteer.hub.auth.caller import ALL_SCOPES, Caller, Scope
from farsteer.hub.auth.jwt import LIFETIME_MS, Jwts
from farsteer.hub.auth.rate_limit import Throttle
from farsteer.hub.auth.secrets import owner_token, signing_key
from farsteer.hub.metrics import Metrics
from farsteer.hub.store.base import Store, TokenRow
from farsteer.hub.tasks import Tasks

_log = logging.getLogger(__name__)

PREFIX = "fst_"
MAX_TOKENS = 1000
"""In one namespace."""
_DEFAULT_SCOPES = (Scope.READ, Scope.WRITE, Scope.APPROVE)
_USED_MS = 60_000
"""`last_used_at` is no finer than this."""
_FOREVER = 2**53
_LONGEST_TIMER = 86_400.0


class Tokens:
    """Use `Tokens.open`."""

    def __init__(
        self, store: Store, tasks: Tasks, metrics: Metrics, owner: str, key: bytes, clock: Clock
    ) -> None:
        self._store = store
        self._tasks = tasks
        self._metrics = metrics
        self._clock = clock
        self._owner = _digest(owner)
        # Another owner token makes another id, so JWTs of the old one are worth nothing at once.
        self._owner_id = "owner-" + hmac.digest(key, owner.encode(), "sha256").hex()[:16]
        self._jwts = Jwts(key, clock)
        self._throttle = Throttle()
        self._rows: dict[str, TokenRow] = {}
        self._by_digest: dict[bytes, TokenRow] = {}
        self._revoke_callbacks: list[Callable[[str], None]] = []
        self._expiry: asyncio.TimerHandle | None = None

    @classmethod
    async def open(
        cls,
        home: Path,
        store: Store,
        tasks: Tasks,
        metrics: Metrics,
        *,
        given: str | None = None,
        clock: Clock = now_ms,
    ) -> Tokens:
        tokens = cls(store, tasks, metrics, owner_token(home, given), signing_key(home), clock)
        for row in await store.list_tokens():
            tokens._keep(row)
        tokens._expire()
        return tokens

    def close(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()

    # -- access tokens

    async def exchange(self, request: AuthRequest, client: str = "") -> AuthResponse:
        """A JWT for an access token. `client` is the address that failures are counted by."""
        caller = self._caller(request.access_token, client)
        now = self._clock()
        caller = msgspec.structs.replace(
            caller,
            # a JWT counts whole seconds
            expires_at=min(now + LIFETIME_MS, caller.expires_at) // 1000 * 1000,
            email=request.email or None,
            client_id=request.client_id,
            device_type=request.device_type,
        )
        user = User(
            id=caller.user_id,
            email=caller.name,
            client_id=caller.client_id,
            device_type=caller.device_type,
        )
        return AuthResponse(
            token=self._jwts.sign(caller, now),
            user=user,
            namespace=caller.namespace,
            expires_at=caller.expires_at,
        )

    async def link_caller(self, access_token: str, client: str = "") -> Caller:
        """Who a runner's access token speaks for; it needs the scope `runner`."""
        caller = self._caller(access_token, client)
        caller.require(Scope.RUNNER)
        return caller

    def identify(self, token: str, client: str = "") -> Caller:
        """Who shows a token where there was no exchange: an access token, or a JWT that one was exchanged for."""
        if token.count(".") == 2 and self._find(token) is None:
            return self.verify(token)
        return self._caller(token, client)

    async def link_namespace(self, access_token: str, client: str = "") -> str:
        return (await self.link_caller(access_token, client)).namespace

    def _caller(self, access_token: str, client: str) -> Caller:
        self._throttle.check(client)
        caller = self._find(access_token)
        if caller is None:
            self._throttle.failed(client)
            self._metrics.auth_failures += 1
            raise Unauthorized("invalid access token")
        return caller

    def _find(self, access_token: str) -> Caller | None:
        parts = _split(access_token)
        if parts is None:
            return None
        base, namespace = parts
        digest = _digest(base)
        if hmac.compare_digest(digest, self._owner):
            return Caller(
                namespace=namespace or DEFAULT_NAMESPACE,
                token_id=self._owner_id,
                scopes=ALL_SCOPES,
                expires_at=_FOREVER,
                owner=True,
            )
        row = self._by_digest.get(digest)
        if row is None or namespace not in (None, row.namespace) or self._is_over(row):
            return None
        self._used(row)
        return Caller(
            namespace=row.namespace,
            token_id=row.id,
            scopes=frozenset(Scope(scope) for scope in row.scopes),
            expires_at=row.expires_at or _FOREVER,
            label=row.label,
        )

    # -- JWTs

    def verify(self, jwt: str) -> Caller:
        """Who a JWT speaks for; Unauthorized when it is wrong, expired (`token_expired`) or revoked."""
        caller = self._jwts.verify(jwt)
        if caller.token_id != self._owner_id and caller.token_id not in self._rows:
            raise Unauthorized("this token was revoked")
        return caller

    # -- minting

    async def create(self, caller: Caller, request: NewToken) -> TokenCreated:
        """A token can give away only what it has itself."""
        caller.require(Scope.ADMIN)
        namespace = caller.namespace if request.namespace is None else request.namespace
        if not is_namespace(namespace):
            raise BadRequest("a namespace has 1 to 64 letters, digits, dots, dashes or underscores")
        if not _governs(caller, namespace):
            raise Forbidden("this token belongs to another namespace")
        scopes = _scopes(request.scopes)
        for scope in scopes:
            caller.require(scope)
        if sum(row.namespace == namespace for row in self._rows.values()) >= MAX_TOKENS:
            raise Conflict(f"this namespace has {MAX_TOKENS} tokens already; revoke some")
        secret = PREFIX + secrets.token_urlsafe(32)
        now = self._clock()
        row = TokenRow(
            id=new_id(),
            digest=_digest(secret),
            label=request.label,
            namespace=namespace,
            scopes=tuple(scope.value for scope in scopes),
            created_at=now,
            expires_at=None if request.expires_in is None else now + request.expires_in * 1000,
        )
        await self._store.add_token(row)
        self._keep(row)
        self._expire()
        return TokenCreated(token=_view(row), secret=secret)

    async def list(self, caller: Caller) -> TokensResponse:
        caller.require(Scope.ADMIN)
        rows = [row for row in self._rows.values() if _governs(caller, row.namespace)]
        return TokensResponse(tokens=[_view(row) for row in rows])

    async def revoke(self, caller: Caller, token_id: str) -> Done:
        """From now on it opens nothing, and what it opened is closed."""
        caller.require(Scope.ADMIN)
        row = self._rows.get(token_id)
        if row is None or not _governs(caller, row.namespace):
            raise NotFound("no such token")
        await self._store.delete_token(token_id)
        self._drop(row)
        return Done()

    def on_revoke(self, callback: Callable[[str], None]) -> Callable[[], None]:
        """Call `callback(token_id)` the moment a token is revoked or expires; returns how to stop that."""
        self._revoke_callbacks.append(callback)
        return lambda: self._revoke_callbacks.remove(callback)

    # -- rows

    def _keep(self, row: TokenRow) -> None:
        self._rows[row.id] = row
        self._by_digest[row.digest] = row

    def _drop(self, row: TokenRow) -> None:
        if self._rows.pop(row.id, None) is None:
            return
        del self._by_digest[row.digest]
        for callback in tuple(self._revoke_callbacks):
            callback(row.id)

    def _used(self, row: TokenRow) -> None:
        """Written at most once a minute, and nobody waits for it."""
        now = self._clock()
        if row.last_used_at is not None and now - row.last_used_at < _USED_MS:
            return
        self._keep(msgspec.structs.replace(row, last_used_at=now))
        self._tasks.spawn(self._store.record_token_use(row.id, now), "use of a token")

    def _is_over(self, row: TokenRow) -> bool:
        return row.expires_at is not None and row.expires_at <= self._clock()

    def _expire(self) -> None:
        """End what has expired, and come back when the next one does."""
        self.close()
        for row in [row for row in self._rows.values() if self._is_over(row)]:
            _log.info("the token %r has expired", row.label)
            self._drop(row)
            self._tasks.spawn(self._store.delete_token(row.id), "end of a token")
        ends = [row.expires_at for row in self._rows.values() if row.expires_at is not None]
        if ends:
            seconds = min((min(ends) - self._clock()) / 1000, _LONGEST_TIMER)
            self._expiry = asyncio.get_running_loop().call_later(max(seconds, 0.01), self._expire)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode(errors="replace")).digest()


def _split(access_token: str) -> tuple[str, str | None] | None:
    """Base and namespace; None if it is malformed."""
    text = access_token.strip()
    base, colon, namespace = text.rpartition(":")
    if not colon:
        return (text, None) if text else None
    if not base or base != base.strip() or not is_namespace(namespace):
        return None
    return base, namespace


def _governs(caller: Caller, namespace: str) -> bool:
    """Tokens of another namespace are the owner's business, and only when the owner comes as nobody else."""
    return namespace == caller.namespace or (caller.owner and caller.namespace == DEFAULT_NAMESPACE)


def _scopes(names: list[str] | None) -> list[Scope]:
    if names is None:
        return list(_DEFAULT_SCOPES)
    known = {scope.value for scope in Scope}
    for name in names:
        if name not in known:
            raise BadRequest(f"there is no scope {name!r}", scopes=sorted(known))
    if not names:
        raise BadRequest("a token needs at least one scope")
    return sorted({Scope(name) for name in names})


def _view(row: TokenRow) -> TokenView:
    return TokenView(
        id=row.id,
        label=row.label,
        namespace=row.namespace,
        scopes=row.scopes,
        created_at=row.created_at,
        expires_at=row.expires_at,
        last_used_at=row.last_used_at,
    )
