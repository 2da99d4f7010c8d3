"""What a client asks for when it connects: its token, where to resume, and what to leave out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from farsteer.core.errors import BadRequest, Unauthorized
from farsteer.core.ids import check_id
from farsteer.faces.events.batch import Filter

EVENT_TYPES = frozenset(
    {
        "session-added", "session-updated", "session-removed", "message-received", "message-delta",
        "messages-cleared", "machine-updated", "typing-changed", "online-users-changed",
        "advisor-alert", "advisor-idle-suggestion", "group-message",
    }
)  # fmt: skip
"""Those of the document, and `message-delta`."""

Cursor = Annotated[str, Meta(max_length=100)]


class Auth(Struct, frozen=True, rename="camel"):
    """`auth` of a Socket.IO connection. Fields we do not know are the client's own."""

    token: Annotated[str, Meta(min_length=1, max_length=8192)]
    since: Cursor | None = None
    session_id: str | None = None
    types: Annotated[list[str], Meta(max_length=100)] | None = None


class Renewal(Struct, frozen=True):
    """Payload of the `auth` event."""

    token: Annotated[str, Meta(min_length=1, max_length=8192)]


def auth(value: Any) -> Auth:
    if not isinstance(value, dict) or "token" not in value:
        raise Unauthorized("a token is needed: connect with auth: {token: <JWT>}")
    try:
        return msgspec.convert(value, Auth)
    except msgspec.ValidationError as error:
        raise BadRequest(f"auth: {error}") from None


def renewal(value: Any) -> Renewal:
    try:
        return msgspec.convert(value, Renewal)
    except msgspec.ValidationError as error:
        raise BadRequest(f"auth: {error}") from None


def wanted(namespace: str, session_id: str | None, types: Iterable[str] | None) -> Filter:
    if session_id is not None:
        check_id(session_id, "sessionId")
    chosen = None if types is None else frozenset(types)
    unknown = (chosen or frozenset()) - EVENT_TYPES
    if unknown:
        raise BadRequest(f"no event has the type {min(unknown)[:100]!r}", types=sorted(EVENT_TYPES))
    return Filter(namespace, session_id, chosen)
