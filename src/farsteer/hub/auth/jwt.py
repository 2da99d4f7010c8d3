"""JWTs (HS256), for which clients exchange an access token. Verified JWTs are cached until they expire."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from farsteer.core.clock import Clock
from farsteer.core.errors import ErrorCode, Unauthorized
from farsteer.hub.auth.caller import Caller, Scope

if TYPE_CHECKING:
    from joserfc.jwk import OctKey

LIFETIME_MS = 15 * 60 * 1000
_MAX_CACHED = 4096
_DOTS = 2
_MAX_LENGTH = 8192


class Claims(msgspec.Struct, frozen=True, omit_defaults=True):
    """The payload of a JWT. Names are short because every request carries them."""

    uid: int
    ns: str
    tid: str
    scopes: list[Scope]
    iat: int
    exp: int
    own: bool = False
    lbl: str = ""
    em: str | None = None
    cid: str | None = None
    dt: str | None = None


class JwtCodec:
    """Signs a `Caller` into a JWT and verifies a JWT back into a `Caller`."""

    def __init__(self, key: bytes, clock: Clock) -> None:
        self._secret = key
        self._clock = clock
        self._verified: OrderedDict[bytes, Caller] = OrderedDict()

    @cached_property
    def _key(self) -> OctKey:
        # Importing joserfc takes 150 ms; a starting hub does not wait for it.
        from joserfc.jwk import OctKey

        return OctKey.import_key(self._secret)

    def sign(self, caller: Caller, issued_at: int) -> str:
        from joserfc import jwt

        claims = Claims(
            uid=caller.user_id,
            ns=caller.namespace,
            tid=caller.token_id,
            scopes=sorted(caller.scopes),
            iat=issued_at // 1000,
            exp=caller.expires_at // 1000,
            own=caller.owner,
            lbl=caller.label,
            em=caller.email,
            cid=caller.client_id,
            dt=caller.device_type,
        )
        return jwt.encode({"alg": "HS256"}, msgspec.to_builtins(claims), self._key)

    def verify(self, token: str) -> Caller:
        """Return the caller. Raises Unauthorized if the JWT is invalid, with code `token_expired` if it has expired."""
        digest = hashlib.sha256(token.encode(errors="replace")).digest()
        caller = self._verified.get(digest)
        if caller is None:
            caller = self._verified[digest] = self._decode(token)
            if len(self._verified) > _MAX_CACHED:
                self._verified.popitem(last=False)
        if caller.expires_at <= self._clock():
            self._verified.pop(digest, None)
            raise Unauthorized("the token has expired", code=ErrorCode.TOKEN_EXPIRED)
        return caller

    def _decode(self, token: str) -> Caller:
        claims = self._decode_claims(token)
        return Caller(
            namespace=claims.ns,
            token_id=claims.tid,
            scopes=frozenset(claims.scopes),
            expires_at=claims.exp * 1000,
            user_id=claims.uid,
            owner=claims.own,
            email=claims.em,
            client_id=claims.cid,
            device_type=claims.dt,
            label=claims.lbl,
        )

    def _decode_claims(self, token: str) -> Claims:
        from joserfc import jwt
        from joserfc.errors import JoseError

        if len(token) > _MAX_LENGTH:
            raise Unauthorized("invalid token")
        if token.count(".") != _DOTS:
            # Most likely an access token, which is only ever sent to one place.
            raise Unauthorized("this is not a JWT: POST /api/auth exchanges an access token for one")
        try:
            claims: dict[str, Any] = jwt.decode(token, self._key, algorithms=["HS256"]).claims
            return msgspec.convert(claims, Claims)
        except (JoseError, ValueError, RecursionError, msgspec.ValidationError):
            raise Unauthorized("invalid token") from None
