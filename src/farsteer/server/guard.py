"""What a request must pass before any face sees it: its Host, its Origin and the size of its body.

A browser lets any page send requests to a local port. A page that came by DNS rebinding carries its own name as
Host, any other page carries its Origin; both are refused here, for HTTP and websockets alike. This stands beside the
bearer token, never instead of it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from ipaddress import ip_address

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from farsteer.core.errors import BadRequest, ErrorCode, FarsteerError, Forbidden, TooLarge, Unavailable
from farsteer.server.responses import error_reply

_HOST = re.compile(r"(?:\[(?P<v6>[0-9a-f:.]+)\]|(?P<name>[a-z0-9._-]+))(?::\d{1,5})?")
_PREFLIGHT = {
    "access-control-allow-methods": "GET, POST, PATCH, DELETE",
    "access-control-allow-headers": "authorization, content-type, idempotency-key, last-event-id",
    "access-control-max-age": "600",
    "vary": "origin",
}


class Hosts:
    """The names this server answers to: loopback, the address it is bound to, and the configured ones.

    An address needs no name resolution and cannot be rebound: a server bound to every interface answers to any.
    """

    def __init__(self, bind: str, allowed: Iterable[str] = ()) -> None:
        self._names = {"localhost", bind.lower(), *(name.lower() for name in allowed)}
        self._any_address = bind in ("0.0.0.0", "::", "")  # noqa: S104

    def allows(self, host: str) -> bool:
        match = _HOST.fullmatch(host.lower())
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
    """The outermost application."""

    def __init__(self, app: ASGIApp, *, hosts: Hosts, origins: Iterable[str] = (), max_body: int) -> None:
        self._app = app
        self._hosts = hosts
        self._origins = frozenset(origin.lower().rstrip("/") for origin in origins)
        self._max_body = max_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        try:
            self._check_host(headers)
            foreign = self._foreign_origin(headers)
        except FarsteerError as error:
            await error_reply(error)(scope, receive, send)
            return
        if foreign is not None:
            if scope["type"] == "http" and _is_preflight(scope, headers):
                await Response(None, 204, {"access-control-allow-origin": foreign, **_PREFLIGHT})(
                    scope, receive, send
                )
                return
            send = _with_cors(send, foreign)
        if scope["type"] == "http":
            await self._limited(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _check_host(self, headers: Headers) -> None:
        given = headers.getlist("host")
        if len(given) != 1:
            raise BadRequest("exactly one Host header is needed")
        if not self._hosts.allows(given[0]):
            raise Forbidden(
                "this hub does not answer to that Host; start it with --allowed-host to change that",
                code=ErrorCode.HOST_NOT_ALLOWED,
            )

    def _foreign_origin(self, headers: Headers) -> str | None:
        """The origin of a configured foreign page; None for our own pages and for programs that send none."""
        given = headers.getlist("origin")
        if not given:
            return None
        origin = given[0].lower()
        if len(given) == 1:
            if origin in self._origins:
                return given[0]
            if origin.partition("://")[2] == headers["host"].lower():
                return None
        raise Forbidden(
            "pages of that Origin may not use this hub; start it with --allowed-origin to change that",
            code=ErrorCode.ORIGIN_NOT_ALLOWED,
        )

    async def _limited(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application with a body that ends at the limit, whether it looks at its size or not."""
        taken = 0
        started = False

        async def counted() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > self._max_body:
                raise TooLarge("the body is too large", limit=self._max_body)
            return message

        async def watched(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, counted, watched)
        except TooLarge as error:
            if started:
                raise
            await error_reply(error)(scope, receive, send)
        except asyncio.CancelledError:
            # Nobody cancels a request but a server that ends and has waited long enough.
            if not started:
                await error_reply(Unavailable("the hub is stopping"))(scope, receive, send)


def _is_preflight(scope: Scope, headers: Headers) -> bool:
    return scope["method"] == "OPTIONS" and "access-control-request-method" in headers


def _with_cors(send: Send, origin: str) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers["access-control-allow-origin"] = origin
            headers["access-control-expose-headers"] = "retry-after"
            headers.add_vary_header("origin")
        await send(message)

    return sending
