"""Authentication: the owner's access token, the tokens created for others, and the JWTs they are exchanged for.

An access token is `BASE[:namespace]`, split at the last colon. The owner's token may name any namespace; a created
token only its own. Namespace and scopes come from the token's row; a client declares only its email and device.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Sequence
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
from farsteer.core.errors import BadRequest, Conflict, ErrorCode, Forbidden, NotFound, Unauthorized
from farsteer.core.ids import DEFAULT_NAMESPACE, OWNER_ID, is_namespace, new_id
from farsteer.hub.auth.caller import ALL_SCOPES, Caller, Scope
from farsteer.hub.auth.jwt import LIFETIME_MS, JwtCodec
from farsteer.hub.auth.rate_limit import FailureLimit
from farsteer.hub.auth.secrets import load_owner_token, load_signing_key
from farsteer.hub.auth.token_cache import TokenCache
from farsteer.hub.metrics import Metrics
from farsteer.hub.store.base import NewDevice, Store, TokenRow
from farsteer.hub.tasks import BackgroundTasks

PREFIX = "fst_"
MAX_TOKENS = 1000
"""The limit per namespace."""
_DEFAULT_SCOPES = (Scope.READ, Scope.WRITE, Scope.APPROVE)
_NEVER_EXPIRES = 2**53


class Tokens:
    """Use `Tokens.open`."""

    def __init__(self, cache: TokenCache, metrics: Metrics, owner: str, key: bytes, clock: Clock) -> None:
        self._cache = cache
        self._metrics = metrics
        self._clock = clock
        self._owner_digest = _digest(owner)
        # The id depends on the owner token, so that changing that token invalidates the JWTs issued for it.
        self._owner_id = "owner-" + hmac.digest(key, owner.encode(), "sha256").hex()[:16]
        self._jwts = JwtCodec(key, clock)
        self.pairing_key = hmac.digest(key, b"pairing codes", "sha256")
        """Keys the hashes of pairing codes, which are short."""
        self._failures = FailureLimit()

    @classmethod
    async def open(
        cls,
        home: Path,
        store: Store,
        tasks: BackgroundTasks,
        metrics: Metrics,
        *,
        owner_token: str | None = None,
        clock: Clock = now_ms,
    ) -> Tokens:
        """Load secrets and token rows. `owner_token` is as for `load_owner_token`."""
        owner, key = load_owner_token(home, owner_token), load_signing_key(home)
        cache = TokenCache(store, tasks, clock)
        await cache.load()
        return cls(cache, metrics, owner, key, clock)

    def close(self) -> None:
        self._cache.close()

    # Authentication. `address` is the client address by which failures are limited.

    async def exchange(self, request: AuthRequest, address: str = "") -> AuthResponse:
        """Return a JWT for an access token. Raises Unauthorized or RateLimited."""
        caller = self._authenticate(request.access_token, address)
        now = self._clock()
        caller = msgspec.structs.replace(
            caller,
            # A JWT counts whole seconds.
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
            identity=caller.identity,
        )
        return AuthResponse(
            token=self._jwts.sign(caller, now),
            user=user,
            namespace=caller.namespace,
            expires_at=caller.expires_at,
        )

    def verify(self, jwt: str, address: str | None = None) -> Caller:
        """Return the caller of a JWT.

        Without an address failures are not limited, so that a client whose JWT has become invalid learns that it must
        sign in again.

        Raises:
            Unauthorized: it is invalid, expired (`token_expired`) or revoked.
            RateLimited: it is invalid, as too many from this address were.
        """
        try:
            caller = self._jwts.verify(jwt)
        except Unauthorized as error:
            # Only who had a valid JWT has an expired one.
            if error.code is not ErrorCode.TOKEN_EXPIRED:
                self._record_failure(address)
            raise
        if not self.is_valid(caller.token_id):
            raise _revoked()
        return caller

    def expiry(self, token_id: str) -> int | None:
        """Return when an access token expires, or None if it never does. A JWT of it expires earlier.

        Raises Unauthorized if the token was revoked or has expired.
        """
        if token_id == self._owner_id:
            return None
        row = self._cache.get(token_id)
        if row is None:
            raise _revoked()
        return row.expires_at

    def is_valid(self, token_id: str) -> bool:
        """Return whether the token is the owner's, or one that is neither revoked nor expired."""
        return token_id == self._owner_id or token_id in self._cache

    def authenticate(self, token: str, address: str = "") -> Caller:
        """Return the caller of an access token or of a JWT, for protocols without a sign-in step."""
        if token.count(".") == 2 and self._find(token) is None:
            return self.verify(token, address)
        return self._authenticate(token, address)

    def authenticate_runner(self, access_token: str, address: str = "") -> Caller:
        """Return the caller of a runner's access token. Raises Forbidden without the scope `runner`."""
        caller = self._authenticate(access_token, address)
        caller.require(Scope.RUNNER)
        return caller

    def on_revoke(self, callback: Callable[[str], None]) -> Callable[[], None]:
        """Call `callback(token_id)` when a token is revoked or expires. Returns a function that unsubscribes."""
        return self._cache.on_remove(callback)

    def _authenticate(self, access_token: str, address: str) -> Caller:
        caller = self._find(access_token)
        if caller is None:
            self._record_failure(address)
            raise Unauthorized("invalid access token")
        return caller

    def _record_failure(self, address: str | None) -> None:
        """Raises RateLimited if there were too many."""
        self._metrics.auth_failures += 1
        if address is not None:
            self._failures.record(address)

    def _find(self, access_token: str) -> Caller | None:
        parts = _split(access_token)
        if parts is None:
            return None
        base, namespace = parts
        digest = _digest(base)
        if hmac.compare_digest(digest, self._owner_digest):
            return Caller(
                namespace=namespace or DEFAULT_NAMESPACE,
                token_id=self._owner_id,
                scopes=ALL_SCOPES,
                expires_at=_NEVER_EXPIRES,
                owner=True,
            )
        row = self._cache.find(digest)
        if row is None or namespace not in (None, row.namespace):
            return None
        self._cache.mark_used(row)
        return Caller(
            namespace=row.namespace,
            token_id=row.id,
            scopes=frozenset(Scope(scope) for scope in row.scopes),
            expires_at=row.expires_at or _NEVER_EXPIRES,
            label=row.label,
        )

    # Management of created tokens.

    async def create(self, caller: Caller, request: NewToken) -> TokenCreated:
        """Create a token. Its scopes must be among the caller's own, and it ends with the caller's token.

        Raises Forbidden for a scope or namespace that the caller lacks, and Unauthorized if the caller's token is
        revoked in the meantime.
        """
        caller.require(Scope.ADMIN)
        namespace = caller.namespace if request.namespace is None else request.namespace
        if not is_namespace(namespace):
            raise BadRequest("a namespace has 1 to 64 letters, digits, dots, dashes or underscores")
        if not _may_manage(caller, namespace):
            raise Forbidden("this token belongs to another namespace")
        scopes = self.grantable_scopes(caller, request.scopes)
        if sum(row.namespace == namespace for row in self._cache.rows()) >= MAX_TOKENS:
            raise Conflict(f"this namespace has {MAX_TOKENS} tokens already; revoke some")
        secret = _new_secret()
        now = self._clock()
        expiries = [None if caller.owner else self.expiry(caller.token_id)]
        if request.expires_in is not None:
            expiries.append(now + request.expires_in * 1000)
        row = TokenRow(
            id=new_id(),
            digest=_digest(secret),
            label=request.label,
            namespace=namespace,
            scopes=tuple(scope.value for scope in scopes),
            created_at=now,
            expires_at=min((expiry for expiry in expiries if expiry is not None), default=None),
            created_by=OWNER_ID if caller.owner else caller.token_id,
        )
        try:
            await self._cache.add(row)
        except NotFound:
            raise _revoked() from None
        return TokenCreated(token=_token_view(row), secret=secret)

    def grantable_scopes(self, caller: Caller, names: Sequence[str] | None) -> Sequence[Scope]:
        """Return the scopes of a new token. Raises Forbidden if the caller lacks one of them, and BadRequest."""
        scopes = _parse_scopes(names)
        for scope in scopes:
            caller.require(scope)
        return scopes

    async def redeem(self, digest: bytes, device: str) -> TokenCreated:
        """Return the token that the pairing with this digest stands for, and end the pairing.

        Raises NotFound if there is none, and Conflict if its namespace has too many tokens.
        """
        secret = _new_secret()
        new = NewDevice(id=new_id(), digest=_digest(secret), name=device)
        row = await self._cache.redeem(digest, new, MAX_TOKENS)
        return TokenCreated(token=_token_view(row), secret=secret)

    async def list(self, caller: Caller) -> TokensResponse:
        caller.require(Scope.ADMIN)
        rows = [row for row in self._cache.rows() if _may_manage(caller, row.namespace)]
        return TokensResponse(tokens=[_token_view(row) for row in rows])

    async def revoke(self, caller: Caller, token_id: str) -> Done:
        """Remove a token and all tokens that were created with it, and close what they opened. Raises NotFound."""
        caller.require(Scope.ADMIN)
        row = self._cache.get(token_id)
        if row is None or not _may_manage(caller, row.namespace):
            raise NotFound("no such token")
        await self._cache.remove(row.id)
        return Done()


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode(errors="replace")).digest()


def _new_secret() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def _split(access_token: str) -> tuple[str, str | None] | None:
    """Return base and namespace, or None if the token is malformed."""
    text = access_token.strip()
    base, colon, namespace = text.rpartition(":")
    if not colon:
        return (text, None) if text else None
    if not base or base != base.strip() or not is_namespace(namespace):
        return None
    return base, namespace


def _may_manage(caller: Caller, namespace: str) -> bool:
    """Whether the caller may manage tokens of `namespace`: its own, or any for the owner in the default namespace."""
    return namespace == caller.namespace or (caller.owner and caller.namespace == DEFAULT_NAMESPACE)


def _revoked() -> Unauthorized:
    return Unauthorized("this token was revoked")


def _parse_scopes(names: Sequence[str] | None) -> list[Scope]:
    if names is None:
        return list(_DEFAULT_SCOPES)
    known = {scope.value for scope in Scope}
    for name in names:
        if name not in known:
            raise BadRequest(f"there is no scope {name!r}", scopes=sorted(known))
    if not names:
        raise BadRequest("a token needs at least one scope")
    return sorted({Scope(name) for name in names})


def _token_view(row: TokenRow) -> TokenView:
    return TokenView(
        id=row.id,
        label=row.label,
        namespace=row.namespace,
        scopes=row.scopes,
        created_at=row.created_at,
        expires_at=row.expires_at,
        last_used_at=row.last_used_at,
        created_by=row.created_by,
        device=row.device,
    )
