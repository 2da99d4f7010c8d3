"""Serving the endpoints of one path: authenticate, decode, call, respond.

Decoding is strict and bounded, and every refusal says what is wrong and where.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from farsteer.core.errors import (
    BadRequest,
    ErrorCode,
    FarsteerError,
    Forbidden,
    Internal,
    MethodNotAllowed,
    TooLarge,
    UnsupportedMedia,
)
from farsteer.core.ids import new_id
from farsteer.core.json_limits import JsonTooComplex
from farsteer.core.wire import decode
from farsteer.faces.rest.endpoint import AnyEndpoint, EmptyQuery, EndpointCall
from farsteer.hub import Caller, Hub
from farsteer.jsonrpc.input_check import check_input
from farsteer.server.auth import bearer_token, client_address, set_authenticated
from farsteer.server.responses import error_body, error_headers, error_response, make_response

_logger = logging.getLogger(__name__)

T = TypeVar("T", bound=msgspec.Struct)

BODY_SECONDS = 60.0
_UTF8_PARAMETERS = ("", "charset=utf-8", 'charset="utf-8"')
# The texts of msgspec's validation errors.
_UNKNOWN_FIELD = re.compile(
    r"Object contains unknown field `(?P<field>.*?)`(?: - at `(?P<path>.*)`)?", re.DOTALL
)
_INVALID_VALUE = re.compile(r"(?P<problem>.*?)(?: - at `(?P<path>.*)`)?", re.DOTALL)


class Resource:
    """An ASGI application for all endpoints of one path."""

    def __init__(self, hub: Hub, endpoints: Iterable[AnyEndpoint]) -> None:
        self._hub = hub
        self._endpoints = {endpoint.method: endpoint for endpoint in endpoints}
        if "GET" in self._endpoints:
            self._endpoints["HEAD"] = self._endpoints["GET"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        endpoint = self._endpoints.get(request.method)
        if endpoint is None:
            allow = sorted(self._endpoints)
            response = error_response(MethodNotAllowed(f"{request.method} is not allowed here", allow=allow))
        else:
            try:
                response = await self._respond(endpoint, request)
            except ClientDisconnect:
                return
        if request.method == "HEAD" and isinstance(response, Response):
            response.body = b""
        await response(scope, receive, send)

    async def _respond(self, endpoint: AnyEndpoint, request: Request) -> ASGIApp:
        make_error_body = error_body
        try:
            caller = self._authenticate(endpoint, request)
            make_error_body = endpoint.make_error_body or error_body
            query = decode_query(request.scope["query_string"], endpoint.query or EmptyQuery)
            body = await _read_and_decode_body(endpoint, request)
            result = await endpoint.handler(EndpointCall(self._hub, request, body, query, caller))
        except Forbidden as error:
            return _error_response(error, error_body)
        except FarsteerError as error:
            return _error_response(error, make_error_body)
        except ClientDisconnect:
            raise
        except Exception:
            # A defect of ours. The log has the traceback under the id that the client gets.
            error_id = new_id()
            _logger.exception("error %s in %s %s", error_id, request.method, endpoint.path)
            error = Internal(f"the hub failed; look for {error_id} in its log", id=error_id)
            return _error_response(error, make_error_body)
        return result if callable(result) else make_response(result, endpoint.status)

    def _authenticate(self, endpoint: AnyEndpoint, request: Request) -> Caller | None:
        if endpoint.scope is None:
            return None
        tokens = self._hub.tokens
        token = bearer_token(request.headers)
        if endpoint.accepts_access_token:
            caller = tokens.authenticate(token, client_address(request))
        else:
            caller = tokens.verify(token)
        set_authenticated(request.scope)
        caller.require(endpoint.scope)
        return caller


def _error_response(
    error: FarsteerError, make_error_body: Callable[[FarsteerError], msgspec.Struct]
) -> Response:
    return make_response(make_error_body(error), error.status, error_headers(error))


async def _read_and_decode_body(endpoint: AnyEndpoint, request: Request) -> Any:
    if endpoint.body is None:
        return None
    data = await read_body(request, endpoint.max_body)
    if not data and endpoint.body_optional:
        return endpoint.body()
    check_media_type(request)
    try:
        await check_input(data)
    except JsonTooComplex as error:
        raise BadRequest(f"the body is too complex: {error}", code=ErrorCode.INVALID_JSON) from None
    return decode_body(data, endpoint.body)


async def read_body(request: Request, limit: int) -> bytes:
    """Return the whole body.

    Raises:
        TooLarge: as soon as it is known that the body exceeds the limit.
        BadRequest: it did not arrive in time.
    """
    length = request.headers.get("content-length", "")
    if length.isdecimal() and (len(length) > 15 or int(length) > limit):
        raise TooLarge("the body is too large", limit=limit)
    # Most bodies are here already. The server closes a connection over which nothing of one arrives.
    body, is_whole = await _read_part(request)
    if is_whole and len(body) <= limit:
        return body
    chunks = bytearray(body)
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while not is_whole and len(chunks) <= limit:
                chunk, is_whole = await _read_part(request)
                chunks += chunk
    except TimeoutError:
        raise BadRequest(f"the body did not arrive within {BODY_SECONDS:.0f} seconds") from None
    if len(chunks) > limit:
        raise TooLarge("the body is too large", limit=limit)
    return bytes(chunks)


async def _read_part(request: Request) -> tuple[bytes, bool]:
    """Return a part of the body, and whether it is the last."""
    message = await request.receive()
    if message["type"] == "http.disconnect":
        raise ClientDisconnect
    return message.get("body", b""), not message.get("more_body", False)


def check_media_type(request: Request) -> None:
    """Raises UnsupportedMedia if the body is not declared as JSON in UTF-8."""
    content_type = request.headers.get("content-type", "")
    media_type, _, parameters = content_type.lower().partition(";")
    if media_type.strip() != "application/json" or parameters.strip() not in _UTF8_PARAMETERS:
        raise UnsupportedMedia("the body must be JSON in UTF-8: send Content-Type: application/json")


def decode_body(body: bytes, kind: type[T]) -> T:
    """Raises BadRequest if the body is not JSON of this type."""
    try:
        return decode(body, kind)
    except msgspec.ValidationError as error:
        raise _validation_error(error, "the body") from None
    except msgspec.DecodeError as error:
        raise BadRequest(f"the body is not JSON: {error}", code=ErrorCode.INVALID_JSON) from None


def decode_query(query: bytes, kind: type[T]) -> T:
    """Raises BadRequest if the query string has unknown, repeated or invalid parameters."""
    if not query:
        return msgspec.convert({}, kind)
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=50)
    except ValueError as error:
        raise BadRequest(f"the query cannot be read: {error}") from None
    parameters = dict(pairs)
    if len(parameters) < len(pairs):
        raise BadRequest("a query parameter is given twice")
    try:
        return msgspec.convert(parameters, kind, strict=False)
    except msgspec.ValidationError as error:
        raise _validation_error(error, "the query") from None


def _validation_error(error: msgspec.ValidationError, source: str) -> BadRequest:
    text = str(error)
    if unknown := _UNKNOWN_FIELD.fullmatch(text):
        field = _shorten(unknown["field"])
        path = unknown["path"] or "$"
        return BadRequest(
            f"{source} has an unknown field: {field}", code=ErrorCode.UNKNOWN_FIELD, field=field, path=path
        )
    invalid = _INVALID_VALUE.fullmatch(text)
    assert invalid is not None
    path = invalid["path"] or "$"
    return BadRequest(f"{source} is invalid at {path}: {_shorten(invalid['problem'])}", path=path)


def _shorten(text: str) -> str:
    """Shorten a text that the client sent, because it is part of the error message."""
    return text if len(text) <= 200 else text[:199] + "…"
