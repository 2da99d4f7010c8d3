"""Bodies about who may do what: authentication, tokens, limits, presence."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from farsteer.core.api.base import Name, RequestBody, ResponseBody
from farsteer.core.identity import Identity
from farsteer.core.wire import WireStruct

MAX_TOKEN_SECONDS = 10 * 365 * 86400


class AuthRequest(RequestBody):
    access_token: Annotated[str, Meta(min_length=1, max_length=512)]
    email: Annotated[str, Meta(max_length=254)] | None = None
    client_id: Annotated[str, Meta(max_length=100)] | None = None
    device_type: Annotated[str, Meta(max_length=100)] | None = None


class User(WireStruct):
    id: int
    email: str
    """The name that other users see: the email that the client claims, or the label of its token."""
    client_id: str | None = None
    device_type: str | None = None
    identity: Identity | None = None


class AuthResponse(ResponseBody):
    token: str
    user: User
    namespace: str
    expires_at: int


class LimitView(ResponseBody):
    kind: str
    """What is limited: `sessions`, `machines`, `sockets`, `namespace_queued_bytes`. `hub.toml` uses the same names."""
    limit: int
    used: int


class LimitsResponse(ResponseBody):
    limits: list[LimitView]


class Typing(RequestBody):
    text: Annotated[str, Meta(max_length=10_000)]
    client_id: Annotated[str, Meta(max_length=100)] | None = None


class UserTyping(ResponseBody):
    """What somebody is typing, as other users are told."""

    email: str
    client_id: str
    text: str
    updated_at: int
    identity: Identity


class OnlineUser(ResponseBody):
    email: str
    client_id: str
    device_type: str | None
    session_id: str | None
    identity: Identity | None = None


class OnlineUsersResponse(ResponseBody):
    users: list[OnlineUser]


ScopeName = Annotated[
    str, Meta(extra_json_schema={"enum": ["read", "write", "approve", "files", "admin", "runner"]})
]


class NewToken(RequestBody):
    label: Name
    namespace: Annotated[str, Meta(pattern="^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")] | None = None
    scopes: list[ScopeName] | None = None
    expires_in: Annotated[int, Meta(ge=1, le=MAX_TOKEN_SECONDS)] | None = None
    """Lifetime in seconds, or None for a token that is valid until it is revoked.

    A token ends with the one that created it, at the latest.
    """


class TokenView(ResponseBody):
    id: str
    label: str
    namespace: str
    scopes: tuple[str, ...]
    created_at: int
    expires_at: int | None
    last_used_at: int | None
    created_by: str | None
    """The id of the token that created it, or `owner`. None for a token of a version that did not record this."""
    device: str | None = None
    """What the device calls itself that got this token by a pairing. None if the token was made otherwise."""


class TokenCreated(ResponseBody):
    token: TokenView
    secret: str
    """The access token. It is returned only here; the hub stores its hash."""


class TokensResponse(ResponseBody):
    tokens: list[TokenView]


class NewPairing(RequestBody):
    label: Name | None = None
    """What the new device's token is called. Without it, `paired device`."""
    scopes: list[ScopeName] | None = None
    """At most your own. Without it, `read`, `write`, `approve` and `files`, as far as you have them."""
    expires_in: Annotated[int, Meta(ge=1, le=MAX_TOKEN_SECONDS)] | None = None
    """Lifetime of the device's token in seconds. It ends with the token that made the pairing, at the latest."""


class PairingView(ResponseBody):
    """An offer to make a token for the device that knows the code."""

    id: str
    label: str
    namespace: str
    scopes: tuple[str, ...]
    created_at: int
    expires_at: int
    """When the code stops working, in milliseconds since 1970."""
    created_by: str


class PairingCreated(ResponseBody):
    pairing: PairingView
    code: str
    """Works once, until the pairing expires. It is returned only here; the hub stores a keyed hash."""


class PairingsResponse(ResponseBody):
    pairings: list[PairingView]


class RedeemPairing(RequestBody):
    code: Annotated[str, Meta(min_length=1, max_length=64)]
    """Case, spaces and dashes do not matter."""
    label: Name
    """What the device calls itself: a claim, shown as `device` of its token."""
