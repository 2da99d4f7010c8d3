"""The declaration of an endpoint: what it accepts, what it returns and who may call it.

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
from farsteer.hub.auth.caller import ConditionalScope
from farsteer.server.auth import client_address

B = TypeVar("B")
Q = TypeVar("Q")

DEFAULT_MAX_BODY = 256 * 1024
"""Enough for every body without long texts or attachments."""

TEXT_MAX_BODY = 16 * 1024 * 1024
"""Enough for one text of the maximum length, even if every character is escaped."""

AGENT_ASSIGNED_IDS = {"approvalId"}
"""Ids in paths that agents assign: any short text. All others are UUIDs of ours."""
MAX_AGENT_ID_LENGTH = 200


class EmptyBody(RequestBody):
    """The body of a command without arguments: empty, or `{}`."""


class EmptyQuery(RequestBody):
    """The query of an endpoint without parameters."""


@dataclass(frozen=True, slots=True)
class EndpointCall(Generic[B, Q]):
    """One request, authenticated and decoded."""

    hub: Hub
    request: Request
    body: B
    query: Q
    authenticated_caller: Caller | None
    """None for endpoints that need no token."""

    @property
    def caller(self) -> Caller:
        assert self.authenticated_caller is not None, "an endpoint without scope has no caller"
        return self.authenticated_caller

    def id(self, name: str) -> str:
        """Return an id of the path.

        Raises:
            BadRequest: it is malformed. Whether the object exists is checked by the hub.
        """
        value: str = self.request.path_params[name]
        if name not in AGENT_ASSIGNED_IDS:
            return check_id(value, name)
        if len(value) > MAX_AGENT_ID_LENGTH:
            raise BadRequest(f"{name} is too long", code=ErrorCode.INVALID_ID)
        return value

    @property
    def hub_address(self) -> str:
        """The address by which the client has reached the hub. The request guard has checked it."""
        return f"{self.request.scope['scheme']}://{self.request.headers['host']}"

    @property
    def client_address(self) -> str:
        return client_address(self.request)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint(Generic[B, Q]):
    method: str
    path: str
    handler: Callable[[EndpointCall[B, Q]], Awaitable[msgspec.Struct | bytes | ASGIApp]]
    """Returns the response struct, JSON bytes of that type, or a complete response. Its name is the operation id."""
    summary: str
    tag: str
    response: Any
    """The type of a successful response; None if it is not JSON."""
    scope: Scope | None
    """The scope the token must have; None if no token is needed."""
    also: tuple[ConditionalScope, ...] = ()
    """Further scopes that it needs in some cases. The hub's services check them."""
    accepts_access_token: bool = False
    """Whether an access token is accepted as well as a JWT, for programs that cannot renew a JWT."""
    body: type[B] | None = None
    body_optional: bool = False
    max_body: int = DEFAULT_MAX_BODY
    query: type[Q] | None = None
    status: int = 200
    media_type: str = "application/json"
    other_media_types: tuple[str, ...] = ()
    """Further media types of a successful response."""
    sends_events: bool = False
    """Whether a successful response is a stream of live events."""
    errors: tuple[int, ...] = ()
    """The statuses of its own errors, besides those that follow from the rest of the declaration."""
    make_error_body: Callable[[FarsteerError], msgspec.Struct] | None = None
    """Makes the body of an error if the endpoint does not use the common form."""
    error_type: Any = None
    """The type that `make_error_body` returns."""
    headers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    """The request headers it reads, with their JSON schemas."""
    description: str = ""
    example: Any = None
    """A request body for the documentation."""


AnyEndpoint = Endpoint[Any, Any]
