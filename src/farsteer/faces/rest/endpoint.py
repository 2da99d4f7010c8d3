"""One endpoint of the API, declared once: what it takes, what it answers, who may call it.

The same declaration is served, tested and documented.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import msgspec
from starlette.requests import Request
from starlette.types import ASGIApp

from farsteer.core.api import RequestBody
from farsteer.core.errors import BadRequest, ErrorCode, FarsteerError
from farsteer.core.ids import check_id
from farsteer.hub import Caller, Hub, Scope
from farsteer.server.auth import address

B = TypeVar("B")
Q = TypeVar("Q")

SMALL = 256 * 1024
"""Enough for every body but texts and attachments."""

TEXTS = 16 * 1024 * 1024
"""Enough for one text of the longest kind, however its characters are written."""

AGENT_IDS = {"approvalId"}
"""Ids in paths that agents give: any short text. All others are ours, and UUIDs."""
MAX_AGENT_ID = 200


class Nothing(RequestBody):
    """The body of a command that takes no arguments: empty, or {}."""


class NoQuery(RequestBody):
    """The query of an endpoint that takes none."""


@dataclass(frozen=True, slots=True)
class Call(Generic[B, Q]):
    """One request, authenticated and decoded."""

    hub: Hub
    request: Request
    body: B
    query: Q
    by: Caller | None

    @property
    def caller(self) -> Caller:
        assert self.by is not None, "an open endpoint has no caller"
        return self.by

    def id(self, name: str) -> str:
        """An id of the path. Malformed: 400; well-formed but not yours: the hub answers 404."""
        given: str = self.request.path_params[name]
        if name not in AGENT_IDS:
            return check_id(given, name)
        if len(given) > MAX_AGENT_ID:
            raise BadRequest(f"{name} is too long", code=ErrorCode.INVALID_ID)
        return given

    @property
    def address(self) -> str:
        return address(self.request)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint(Generic[B, Q]):
    method: str
    path: str
    handler: Callable[[Call[B, Q]], Awaitable[msgspec.Struct | bytes | ASGIApp]]
    """Answers with the response struct, with JSON bytes of that shape, or with a whole response."""
    summary: str
    tag: str
    response: Any
    """The shape of a success; None where it is no JSON."""
    scope: Scope | None
    """What the token must allow; None: open to everybody."""
    access_token: bool = False
    """Also takes an access token as bearer, for programs that cannot renew a JWT."""
    body: type[B] | None = None
    body_optional: bool = False
    max_body: int = SMALL
    query: type[Q] | None = None
    status: int = 200
    media_type: str = "application/json"
    other_media_types: tuple[str, ...] = ()
    """What a success may be as well."""
    errors: tuple[int, ...] = ()
    """The statuses of its own errors, besides those every endpoint of its kind has."""
    failure: Callable[[FarsteerError], msgspec.Struct] | None = None
    """How an error of this endpoint looks, where the contract says so, with its shape."""
    failure_shape: Any = None
    headers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    """Request headers it reads, with their schemas."""
    description: str = ""
    example: Any = None
    """A request body for the documents."""


AnyEndpoint = Endpoint[Any, Any]
