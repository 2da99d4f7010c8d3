"""What a client asks for when it connects, and how much the server spends on it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from farsteer.core.errors import BadRequest, Unauthorized
from farsteer.core.ids import check_id
from farsteer.core.live_events import EVENT_TYPES

Cursor = Annotated[str, Meta(max_length=100)]
Token = Annotated[str, Meta(min_length=1, max_length=8192)]


@dataclass(frozen=True, slots=True)
class EventLimits:
    """Sizes in bytes and times in seconds, for each client."""

    soft_limit: int = 256 * 1024
    """Unsent bytes above which a client is behind: it gets no more deltas."""
    hard_limit: int = 8 * 1024 * 1024
    """Unsent bytes above which its connection is aborted; it can resume from its cursor."""
    page_size: int = 200
    """Events read at a time for a client that catches up."""
    catch_up_buffer: int = 1024 * 1024
    """Bytes of new events kept for a client while a page is read for it."""
    held_states: int = 256
    """Latest states (typing, presence) kept for a client that is behind."""
    message_size: int = 64 * 1024
    """The largest frame or body a client may send."""
    stall_timeout: float = 30.0
    """How long a client that catches up may take to read what it was sent."""
    connect_timeout: float = 10.0
    """From the Engine.IO handshake to a valid token."""
    close_timeout: float = 5.0
    """How long a client may take to close its connection after it was told to."""
    heartbeat_interval: float = 15.0
    """Between comments on an SSE stream."""
    ping_interval: float = 25.0
    ping_timeout: float = 20.0


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Which events of a namespace a client wants; None means all."""

    namespace: str
    session_id: str | None = None
    types: frozenset[str] | None = None


class ConnectOptions(Struct, frozen=True, rename="camel"):
    """The `auth` object of a Socket.IO connection. Unknown fields are ignored."""

    token: Token
    since: Cursor | None = None
    session_id: str | None = None
    types: Annotated[list[str], Meta(max_length=100)] | None = None


class TokenRenewal(Struct, frozen=True):
    """The payload of the Socket.IO event `auth`."""

    token: Token


def parse_connect_options(value: Any) -> ConnectOptions:
    """Raises Unauthorized if there is no token, BadRequest if a field is invalid."""
    if not isinstance(value, dict) or "token" not in value:
        raise Unauthorized("a token is needed: connect with auth: {token: <JWT>}")
    try:
        return msgspec.convert(value, ConnectOptions)
    except msgspec.ValidationError as error:
        raise BadRequest(f"auth: {error}") from None


def parse_token_renewal(value: Any) -> TokenRenewal:
    """Raises BadRequest if it is invalid."""
    try:
        return msgspec.convert(value, TokenRenewal)
    except msgspec.ValidationError as error:
        raise BadRequest(f"auth: {error}") from None


def make_filter(namespace: str, session_id: str | None, types: Iterable[str] | None) -> EventFilter:
    """Raises BadRequest for a malformed session id or an unknown type."""
    if session_id is not None:
        check_id(session_id, "sessionId")
    chosen = None if types is None else frozenset(types)
    unknown = (chosen or frozenset()) - EVENT_TYPES
    if unknown:
        raise BadRequest(f"no event has the type {min(unknown)[:100]!r}", types=sorted(EVENT_TYPES))
    return EventFilter(namespace, session_id, chosen)
