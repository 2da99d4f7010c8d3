"""One address of the API: finds the endpoint for the method, authenticates, decodes, calls, answers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from farsteer.core.api import AuthRequest
from farsteer.core.errors import ErrorCode, FarsteerError, Internal, MethodNotAllowed, Unauthorized
from farsteer.core.ids import new_id
from farsteer.faces.rest.decode import check_media_type, decode_body, decode_query, read_body
from farsteer.faces.rest.endpoint import AnyEndpoint, Call, NoQuery
from farsteer.hub import Caller, Hub
from farsteer.server.auth import address, bearer
from farsteer.server.responses import error_body, error_headers, error_reply, reply

logger = logging.getLogger(__name__)


class Resource:
    """An ASGI application for one path."""

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
            response = error_reply(MethodNotAllowed(f"{request.method} is not possible here", allow=allow))
        else:
            try:
                response = await self._answer(endpoint, request)
            except ClientDisconnect:
                return
        if request.method == "HEAD" and isinstance(response, Response):
            response.body = b""
        await response(scope, receive, send)

    async def _answer(self, endpoint: AnyEndpoint, request: Request) -> ASGIApp:
        shape = error_body
        try:
            caller = await self._authenticate(endpoint, request)
            shape = endpoint.failure or error_body
            query = decode_query(request.scope["query_string"], endpoint.query or NoQuery)
            body = await _body(endpoint, request)
            answer = await endpoint.handler(Call(self._hub, request, body, query, caller))
        except FarsteerError as error:
            return _refusal(error, shape)
        except ClientDisconnect:
            raise
        except Exception:
            # Where a defect of ours becomes an answer: the log has the traceback, the caller its id.
            error_id = new_id()
            logger.exception("error %s in %s %s", error_id, request.method, endpoint.path)
            return _refusal(Internal(f"the hub failed; look for {error_id} in its log", id=error_id), shape)
        return answer if callable(answer) else reply(answer, endpoint.status)

    async def _authenticate(self, endpoint: AnyEndpoint, request: Request) -> Caller | None:
        if endpoint.scope is None:
            return None
        tokens = self._hub.tokens
        token = bearer(request.headers)
        try:
            caller = tokens.verify(token)
        except Unauthorized as refused:
            if not endpoint.access_token or refused.code is ErrorCode.TOKEN_EXPIRED:
                raise
            signed_in = await tokens.exchange(AuthRequest(access_token=token), address(request))
            caller = tokens.verify(signed_in.token)
        caller.require(endpoint.scope)
        return caller


def _refusal(error: FarsteerError, shape: Callable[[FarsteerError], Struct]) -> Response:
    return reply(shape(error), error.status, error_headers(error))


async def _body(endpoint: AnyEndpoint, request: Request) -> Any:
    if endpoint.body is None:
        return None
    data = await read_body(request, endpoint.max_body)
    if not data and endpoint.body_optional:
        return endpoint.body()
    check_media_type(request)
    return decode_body(data, endpoint.body)
