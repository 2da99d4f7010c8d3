"""Pairing: a short code, made by somebody with a token, that another device redeems once for a token of its own.

A code has 50 bits and lives for ten minutes. Guesses are limited per client address before the code is looked at; from
very many addresses at the full speed of a hub they find one of a thousand open codes with a chance of less than one in
a hundred thousand. The hub stores a hash of the code that is keyed with its signing key, so that the database alone
does not tell it either.
"""

from __future__ import annotations

import hmac
import secrets

from farsteer.core.api import (
    Done,
    NewPairing,
    PairingCreated,
    PairingsResponse,
    PairingView,
    RedeemPairing,
    TokenCreated,
)
from farsteer.core.clock import Clock
from farsteer.core.errors import NotFound, Unauthorized
from farsteer.core.ids import OWNER_ID, new_id
from farsteer.core.text import clean_line
from farsteer.hub.auth.caller import Caller, Scope
from farsteer.hub.auth.rate_limit import FailureLimit
from farsteer.hub.auth.tokens import Tokens
from farsteer.hub.metrics import Metrics
from farsteer.hub.store.base import PairingRow, Store

LIFETIME_MS = 10 * 60 * 1000
MAX_OPEN = 20
"""The limit per namespace."""
DEFAULT_LABEL = "paired device"
_DEFAULT_SCOPES = (Scope.READ, Scope.WRITE, Scope.APPROVE, Scope.FILES)
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Without I, L, O and U (Crockford's base 32): what is typed for them is understood."""
_LENGTH = 10
_GROUP = 5
_MISREAD = str.maketrans("ILO", "110", " -\t")
_MAX_NAME = 200


class Pairings:
    def __init__(self, store: Store, tokens: Tokens, metrics: Metrics, clock: Clock) -> None:
        self._store = store
        self._tokens = tokens
        self._metrics = metrics
        self._clock = clock
        self._failures = FailureLimit()

    async def create(self, caller: Caller, request: NewPairing) -> PairingCreated:
        """Make a code for a device. Its token gets these scopes, which must be among the caller's own.

        Raises Forbidden, Unauthorized if the caller's token is revoked meanwhile, and Conflict if too many are open.
        """
        caller.require(Scope.ADMIN)
        names = request.scopes
        if names is None:
            names = [scope.value for scope in _DEFAULT_SCOPES if scope in caller.scopes]
        scopes = self._tokens.grantable_scopes(caller, names)
        code = "".join(secrets.choice(_ALPHABET) for _ in range(_LENGTH))
        now = self._clock()
        row = PairingRow(
            id=new_id(),
            digest=self._digest(code),
            label=request.label or DEFAULT_LABEL,
            namespace=caller.namespace,
            scopes=tuple(scope.value for scope in scopes),
            created_at=now,
            expires_at=now + LIFETIME_MS,
            created_by=OWNER_ID if caller.owner else caller.token_id,
            lifetime=None if request.expires_in is None else request.expires_in * 1000,
        )
        try:
            await self._store.add_pairing(row, MAX_OPEN)
        except NotFound:
            raise Unauthorized("this token was revoked") from None
        return PairingCreated(pairing=_view(row), code=f"{code[:_GROUP]}-{code[_GROUP:]}")

    async def list(self, caller: Caller) -> PairingsResponse:
        """Return the pairings that nobody has redeemed yet, without their codes."""
        caller.require(Scope.ADMIN)
        rows = await self._store.list_pairings(caller.namespace)
        return PairingsResponse(pairings=[_view(row) for row in rows])

    async def cancel(self, caller: Caller, pairing_id: str) -> Done:
        """Raises NotFound if it was redeemed, cancelled or has expired."""
        caller.require(Scope.ADMIN)
        await self._store.delete_pairing(caller.namespace, pairing_id)
        return Done()

    async def redeem(self, request: RedeemPairing, address: str) -> TokenCreated:
        """Return the token that a code stands for. The code works only this once.

        Raises:
            NotFound: there is no open pairing with this code, or the token that made it was revoked.
            RateLimited: too many attempts from this address have failed. The code was not looked at.
            Conflict: the namespace has too many tokens. The code still works.
        """
        self._failures.check(address)
        name = clean_line(request.label, _MAX_NAME).strip() or DEFAULT_LABEL
        try:
            return await self._tokens.redeem(self._digest(request.code), name)
        except NotFound:
            self._metrics.auth_failures += 1
            self._failures.record(address)
            raise NotFound("this pairing code is wrong, was used or has expired; ask for a new one") from None

    def _digest(self, code: str) -> bytes:
        plain = code.upper().translate(_MISREAD)
        return hmac.digest(self._tokens.pairing_key, plain.encode(errors="replace"), "sha256")


def _view(row: PairingRow) -> PairingView:
    return PairingView(
        id=row.id,
        label=row.label,
        namespace=row.namespace,
        scopes=row.scopes,
        created_at=row.created_at,
        expires_at=row.expires_at,
        created_by=row.created_by,
    )
