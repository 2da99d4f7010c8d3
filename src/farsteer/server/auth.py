"""The bearer token and the client address of a request."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection

from farsteer.core.errors import Unauthorized

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
    """Return the client's IP address, by which failed sign-ins are counted."""
    return connection.client.host if connection.client else ""
