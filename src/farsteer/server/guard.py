"""Checks of every request before any face sees it: Host, Origin and the size of the body. And whose request it is.

A browser lets any page send requests to a local port. After DNS rebinding the Host header names the page's own host;
otherwise the Origin header names the page. Both are refused here, for HTTP and websockets alike. These checks are an
addition to the bearer token, not a replacement for it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import ip_address

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from farsteer.core.errors import BadRequest, ErrorCode, FarsteerError, Forbidden, TooLarge, Unavailable
from farsteer.server.client_address import TrustedProxies, forwarded_scheme
from farsteer.server.responses import WHOLE_RESPONSE, error_response
from farsteer.server.scopes import find_connection
from farsteer.server.uvicorn_protocols import HttpConnection

_HOST_PATTERN = re.compile(r"(?:\[(?P<v6>[0-9a-f:.]+)\]|(?P<name>[a-z0-9._-]+))(?::\d{1,5})?")
_PREFLIGHT_HEADERS = {
    "access-control-allow-methods": "GET, POST, PATCH, DELETE",
    "access-control-allow-headers": "authorization, content-type, idempotency-key, last-event-id",
    "access-control-max-age": "600",
    "vary": "origin",
}


class AllowedHosts:
    """The Host headers this server accepts: loopback, the address it is bound to, and the configured names.

    A server bound to every interface accepts any IP address: DNS rebinding needs a name.
    """

    def __init__(self, bind: str, allowed: Iterable[str] = ()) -> None:
        self._names = {"localhost", bind.lower(), *(name.lower() for name in allowed)}
        self._any_address = bind in ("0.0.0.0", "::", "")  # noqa: S104

        self.allows = lru_cache(256)(self._allows)
        """Whether a Host header is accepted. Nearly all requests have the same few."""

    def _allows(self, host: str) -> bool:
        match = _HOST_PATTERN.fullmatch(host.lower())
        if match is None:
            return False
        name = match["v6"] or match["name"]
        if name in self._names:
            return True
        try:
            address = ip_address(name)
        except ValueError:
            return False
        return self._any_address or address.is_loopback


class Guard:
    """ASGI middleware that refuses requests with a foreign Host, a foreign Origin or a too large body."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: AllowedHosts,
        origins: Iterable[str] = (),
        max_body: int,
        proxies: TrustedProxies | None = None,
    ) -> None:
        self._app = app
        self._hosts = hosts
        self._origins = frozenset(origin.lower().rstrip("/") for origin in origins)
        self._max_body = max_body
        self._proxies = proxies or TrustedProxies()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] == "http":
            send = _with_whole_responses(scope, send)
        headers = Headers(scope=scope)
        client = scope.get("client")
        if client and client[0] in self._proxies:
            # In place, so that the connection too sees its client's address.
            scope["client"] = (self._proxies.client_address(client[0], headers), 0)
            if scope["type"] == "http":
                scope["scheme"] = forwarded_scheme(headers) or scope["scheme"]
        try:
            self._check_host(headers)
            origin = self._allowed_origin(headers)
        except FarsteerError as error:
            await error_response(error)(scope, receive, send)
            return
        if origin is not None:
            if scope["type"] == "http" and _is_preflight(scope, headers):
                await Response(None, 204, {"access-control-allow-origin": origin, **_PREFLIGHT_HEADERS})(
                    scope, receive, send
                )
                return
            send = _with_cors(send, origin)
        if scope["type"] == "http":
            await self._call_with_body_limit(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _check_host(self, headers: Headers) -> None:
        hosts = headers.getlist("host")
        if len(hosts) != 1:
            raise BadRequest("exactly one Host header is needed")
        if not self._hosts.allows(hosts[0]):
            raise Forbidden(
                "this Host is not allowed; start the hub with --allowed-host to allow it",
                code=ErrorCode.HOST_NOT_ALLOWED,
            )

    def _allowed_origin(self, headers: Headers) -> str | None:
        """Return the Origin if it is a configured one; None if it is our own, or if there is none.

        Raises:
            Forbidden: any other origin, or more than one.
        """
        origins = headers.getlist("origin")
        if not origins:
            return None
        origin = origins[0].lower()
        if len(origins) == 1:
            if origin in self._origins:
                return origins[0]
            if origin.partition("://")[2] == headers["host"].lower():
                return None
        raise Forbidden(
            "this Origin is not allowed; start the hub with --allowed-origin to allow it",
            code=ErrorCode.ORIGIN_NOT_ALLOWED,
        )

    async def _call_with_body_limit(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application; its `receive` raises TooLarge when the body exceeds the limit."""
        received = 0
        started = False

        async def limited_receive() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._max_body:
                raise TooLarge("the body is too large", limit=self._max_body)
            return message

        async def tracked_send(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, limited_receive, tracked_send)
        except TooLarge as error:
            if started:
                raise
            await error_response(error)(scope, receive, send)
        except asyncio.CancelledError:
            # Only the server cancels a request: after the time that open requests get at shutdown.
            if not started:
                await error_response(Unavailable("the hub is stopping"))(scope, receive, send)


def _is_preflight(scope: Scope, headers: Headers) -> bool:
    return scope["method"] == "OPTIONS" and "access-control-request-method" in headers


def _with_whole_responses(scope: Scope, send: Send) -> Send:
    """Let responses of one piece be written with one call, if the server is ours."""
    connection = find_connection(scope)
    if not isinstance(connection, HttpConnection):
        return send
    scope["extensions"] = {**scope.get("extensions", {}), WHOLE_RESPONSE: {}}

    async def send_or_respond(message: Message) -> None:
        if message["type"] == WHOLE_RESPONSE:
            await connection.respond(message["status"], message["headers"], message["body"])
        else:
            await send(message)

    return send_or_respond


def _with_cors(send: Send, origin: str) -> Send:
    async def send_with_cors(message: Message) -> None:
        if message["type"] in ("http.response.start", WHOLE_RESPONSE):
            headers = MutableHeaders(scope=message)
            headers["access-control-allow-origin"] = origin
            headers["access-control-expose-headers"] = "retry-after"
            headers.add_vary_header("origin")
        await send(message)

    return send_with_cors
