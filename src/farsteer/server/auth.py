"""The bearer token and the client address of a request, and what a valid token means for its connection."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.types import Scope

from farsteer.core.errors import Unauthorized
from farsteer.server.client_address import address_group
from farsteer.server.scopes import find_connection

_MAX_TOKEN_LENGTH = 8192


def bearer_token(headers: Headers) -> str:
    """Return the token of the Authorization header.

    The query string is never read for it, because URLs end up in logs and browser histories.

    Raises:
        Unauthorized: the header is missing, repeated or malformed.
    """
    values = headers.getlist("authorization")
    if len(values) != 1:
        raise Unauthorized("a token is needed: send Authorization: Bearer <token>")
    scheme, _, token = values[0].partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token or len(token) > _MAX_TOKEN_LENGTH or not token.isascii():
        raise Unauthorized("the Authorization header must be: Bearer <token>")
    return token


def client_address(connection: HTTPConnection) -> str:
    """Return the client's address, by which failed sign-ins are counted.

    It is the one that a trusted proxy reports, because the request guard has put that into the scope.
    """
    return address_group(connection.client.host) if connection.client else ""


def log_bad_input(scope: Scope, message: str) -> None:
    """Log what the client of a request did wrong, at most once a minute for its address."""
    connection = find_connection(scope)
    if connection is not None:
        connection.shared.bad_input.warning(client_address(HTTPConnection(scope)), message)


def set_authenticated(scope: Scope) -> None:
    """The client of this request has shown a valid token: its connection is not among those that may be cut off."""
    connection = find_connection(scope)
    if connection is not None:
        connection.set_authenticated()
