"""The road to a hub: one pool of connections, the exchange of the access token, and errors as exceptions."""

from __future__ import annotations

import asyncio
import base64
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx
import msgspec

from farsteer import __version__
from farsteer.client.access import is_loopback
from farsteer.client.failure import failure
from farsteer.core.api import AuthRequest, AuthResponse, LogLineView
from farsteer.core.errors import FarsteerError, Internal, Unauthorized, Unavailable
from farsteer.core.wire import encode

T = TypeVar("T")
Query = Mapping[str, str | int | None]

REQUEST_SECONDS = 30.0
CREATE_SECONDS = 150.0
"""Creating a session waits until the agent is ready."""
HEARTBEAT_SECONDS = 45.0
"""A live stream that is silent for this long is dead."""
RENEW_BEFORE = 60.0
_RETRY_AFTER = (0.1, 0.4)

_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


@dataclass(frozen=True, slots=True)
class _Pass:
    """A JWT and until when, on our own clock, it is good."""

    jwt: str
    until: float


class Connection:
    def __init__(self, url: str, token: str, *, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self.url = url
        self._token = token
        self._pass: _Pass | None = None
        self._renewing = asyncio.Lock()
        self._http = httpx.AsyncClient(
            base_url=url,
            headers={"User-Agent": f"farsteer-python/{__version__}"},
            timeout=REQUEST_SECONDS,
            # Each live stream holds a connection for as long as it lives.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=10),
            # A proxy configured for the outside must not carry what stays on this machine.
            trust_env=not is_loopback(url),
            transport=transport,
        )

    async def aclose(self) -> None:
        await self._http.aclose()

    async def call(
        self,
        method: str,
        path: str,
        kind: type[T],
        *,
        body: msgspec.Struct | None = None,
        query: Query | None = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool | None = None,
        timeout: float = REQUEST_SECONDS,
        anonymous: bool = False,
    ) -> T:
        """One request, as the account of the token. Repeated after a lost connection only where that is harmless."""
        again = method == "GET" if repeatable is None else repeatable
        content = None if body is None else encode(body)
        fixed = {**(headers or {}), **({} if body is None else {"Content-Type": "application/json"})}
        for last in (anonymous, True):
            jwt = None if anonymous else await self._jwt()
            request = self._http.build_request(
                method,
                path,
                headers={**fixed, **_bearer(jwt)},
                params=_given(query) or None,
                content=content,
                timeout=timeout,
            )
            response = await self._send(request, again)
            if response.status_code != 401 or last:
                return _read(response, kind)
            self._forget(jwt)
        raise AssertionError("the last attempt returns or raises")

    async def _send(self, request: httpx.Request, again: bool) -> httpx.Response:
        for wait in (*_RETRY_AFTER, None):
            try:
                return await self._http.send(request)
            except httpx.TransportError as error:
                if wait is None or not (again or isinstance(error, _NOT_SENT)):
                    raise self.unreachable(error) from error
                await asyncio.sleep(jittered(wait))
        raise AssertionError("the last attempt returns or raises")

    async def _jwt(self) -> str:
        """A JWT with some life left; many callers at once make one exchange."""
        async with self._renewing:
            if self._pass is None or time.monotonic() > self._pass.until:
                self._pass = await self._exchange()
            return self._pass.jwt

    def _forget(self, jwt: str | None) -> None:
        """The hub refused it; unless somebody has a newer one already, the next call exchanges again."""
        if self._pass is not None and self._pass.jwt == jwt:
            self._pass = None

    async def _exchange(self) -> _Pass:
        answer = await self.call(
            "POST",
            "/api/auth",
            AuthResponse,
            body=AuthRequest(access_token=self._token),
            repeatable=True,
            anonymous=True,
        )
        lifetime = _lifetime(answer.token)
        return _Pass(answer.token, time.monotonic() + max(lifetime - RENEW_BEFORE, lifetime / 2))

    async def subscribe(self, path: str, *, query: Query, headers: Mapping[str, str]) -> httpx.Response:
        """An open response, for the caller to read and to close. `Unavailable` where trying again may help."""
        timeout = httpx.Timeout(REQUEST_SECONDS, read=HEARTBEAT_SECONDS)
        for last in (False, True):
            jwt = await self._jwt()
            request = self._http.build_request(
                "GET", path, params=_given(query), headers={**headers, **_bearer(jwt)}, timeout=timeout
            )
            try:
                response = await self._http.send(request, stream=True)
                if response.status_code == 200:
                    return response
                await response.aread()
            except httpx.TransportError as error:
                raise self.unreachable(error) from error
            if response.status_code != 401 or last:
                raise error_of(response)
            self._forget(jwt)
        raise AssertionError("the last attempt returns or raises")

    def unreachable(self, error: httpx.TransportError) -> Unavailable:
        match error:
            case httpx.TimeoutException():
                reason = "it does not answer in time"
            case httpx.ConnectError() if str(error) in ("", "All connection attempts failed"):
                reason = "nothing listens there"
            case _:
                reason = str(error) or type(error).__name__
        return Unavailable(f"no hub at {self.url}: {reason}", url=self.url)


def jittered(seconds: float) -> float:
    """Somewhat less, by chance, so that clients which failed together do not come back together."""
    return seconds * random.uniform(0.5, 1.0)  # noqa: S311


def _bearer(jwt: str | None) -> dict[str, str]:
    return {} if jwt is None else {"Authorization": f"Bearer {jwt}"}


def _given(query: Query | None) -> dict[str, str | int]:
    return {name: value for name, value in (query or {}).items() if value is not None}


def _read(response: httpx.Response, kind: type[T]) -> T:
    if not response.is_success:
        raise error_of(response)
    try:
        return msgspec.json.decode(response.content, type=kind)
    except msgspec.DecodeError as error:
        raise Internal(
            f"{response.url.path} answered what this client does not understand: {error}"
        ) from error


class _Failure(msgspec.Struct, rename="camel"):
    """Both bodies of a failure: the general one, and the one of a session that was not created."""

    error: dict[str, Any] | None = None
    message: str | None = None
    logs: list[LogLineView] = []


def error_of(response: httpx.Response) -> FarsteerError:
    """The exception the hub meant; an answer that is not a hub's becomes `Unavailable`."""
    try:
        found = msgspec.json.decode(response.content, type=_Failure)
    except msgspec.DecodeError:
        return Unavailable(f"{response.url.host} answered HTTP {response.status_code}, and not as a hub does")
    error = found.error or {}
    return failure(
        response.status_code,
        str(error.get("message") or found.message or f"HTTP {response.status_code}"),
        code=error.get("code"),
        details=error.get("details"),
        logs=found.logs,
    )


class _Claims(msgspec.Struct):
    iat: float
    exp: float


def _lifetime(jwt: str) -> float:
    """Seconds from issue to expiry. Both are the hub's clock, so that a wrong clock on this side does no harm."""
    try:
        payload = jwt.split(".")[1]
        claims = msgspec.json.decode(
            base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)), type=_Claims
        )
    except (IndexError, ValueError) as error:
        raise Unauthorized("the hub gave a token that is no JWT") from error
    return claims.exp - claims.iat
