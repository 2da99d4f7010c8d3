"""The part of the store's interface that concerns access tokens, and pairings, which become tokens of devices."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct


class TokenRow(Struct, frozen=True):
    id: str
    digest: bytes
    label: str
    namespace: str
    scopes: tuple[str, ...]
    created_at: int
    expires_at: int | None = None
    last_used_at: int | None = None
    created_by: str | None = None
    """The id of the token that created it, or OWNER_ID. None if that was not recorded."""
    device: str | None = None
    """What the device that was paired calls itself. None if it was not made by a pairing."""


class PairingRow(Struct, frozen=True):
    """An offer to make a token for whoever knows a code, until it expires."""

    id: str
    digest: bytes
    """Of the code."""
    label: str
    """Of the token."""
    namespace: str
    scopes: tuple[str, ...]
    """Of the token."""
    created_at: int
    expires_at: int
    created_by: str
    """The id of the token that made it, or OWNER_ID."""
    lifetime: int | None = None
    """Of the token, in milliseconds. None if it does not expire by itself."""


class NewDevice(Struct, frozen=True):
    """What a device brings that redeems a pairing: the id and the digest of its new token, and its name."""

    id: str
    digest: bytes
    name: str


class TokenStore(Protocol):
    async def list_tokens(self) -> list[TokenRow]: ...

    async def add_token(self, token: TokenRow) -> None:
        """Raises NotFound if the token that created it is not stored any more."""
        ...

    async def delete_token(self, token_id: str) -> list[str]:
        """Delete a token and all tokens that were created with it, directly or not. Return the ids of all.

        The pairings that any of them made are deleted too.
        """
        ...

    async def record_token_use(self, token_id: str, at: int) -> None: ...

    async def add_pairing(self, pairing: PairingRow, limit: int) -> None:
        """Raises NotFound if the token that makes it is not stored any more.

        Raises Conflict if the namespace has `limit` pairings that are open.
        """
        ...

    async def list_pairings(self, namespace: str) -> list[PairingRow]:
        """Return the pairings that are open, oldest first."""
        ...

    async def delete_pairing(self, namespace: str, pairing_id: str) -> None:
        """Raises NotFound if it is not open any more."""
        ...

    async def redeem_pairing(self, digest: bytes, device: NewDevice, max_tokens: int) -> TokenRow:
        """Replace a pairing by a token, which ends no later than the one that made the pairing.

        One transaction: of several attempts one succeeds. Raises NotFound if no open pairing has this digest, and
        Conflict if its namespace has `max_tokens`, in which case the pairing stays.
        """
        ...
