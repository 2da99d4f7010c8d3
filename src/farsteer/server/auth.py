"""Who is at the other end of a request: the token it shows and the address it comes from."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection

from farsteer.core.errors import Unauthorized

_MAX_TOKEN = 8192


def bearer(headers: Headers) -> str:
    """The token. It comes in its header and nowhere else: URLs end up in logs and histories."""
    given = headers.getlist("authorization")
    if len(given) != 1:
        raise Unauthorized("a token is needed: send Authorization: Bearer <token>")
    scheme, _, token = given[0].partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token or len(token) > _MAX_TOKEN or not token.isascii():
        raise Unauthorized("the Authorization header must be: Bearer <token>")
    return token


def address(connection: HTTPConnection) -> str:
    """What failures to sign in are counted by."""
    return connection.client.host if connection.client else ""
