"""HTTP to a hub: a connection pool, the exchange of the access token for a JWT, retries, and errors as exceptions."""

from __future__ import annotations

import asyncio
import base64
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from farsteer import __version__
from farsteer.client.config import is_loopback
from farsteer.client.errors import hub_error
from farsteer.client.time_limit import time_limit
from farsteer.core.api import AuthRequest, AuthResponse, LogLineView
from farsteer.core.errors import Conflict, FarsteerError, Internal, TimedOut, Unauthorized, Unavailable
from farsteer.core.wire import decode, encode

T = TypeVar("T")
Query = Mapping[str, str | int | None]

REQUEST_SECONDS = 30.0
CREATE_SECONDS = 150.0
"""The timeout of requests that wait until an agent has started."""
STREAM_IDLE_SECONDS = 45.0
"""A stream without data for this long is dead: the hub sends heartbeats more often."""
RENEW_SECONDS = 60.0
"""A JWT is renewed this long before it expires."""
_RETRY_DELAYS = (0.1, 0.4)

_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


@dataclass(frozen=True, slots=True)
class _Jwt:
    token: str
    renew_at: float
    """By our own monotonic clock."""


class RestConnection:
    """Sends requests to one hub, authenticated by one access token."""

    def __init__(self, url: str, token: str, *, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self.url = url
        self._access_token = token
        self._jwt: _Jwt | None = None
        self._jwt_lock = asyncio.Lock()
        self._http = httpx.AsyncClient(
            base_url=url,
            headers={"User-Agent": f"farsteer-python/{__version__}"},
            timeout=REQUEST_SECONDS,
            # Each live stream holds a connection for as long as it is open.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=10),
            # Requests to this machine must not go through a configured proxy.
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
        wait: float = REQUEST_SECONDS,
        timeout: float | None = None,
        anonymous: bool = False,
    ) -> T:
        """Send a request and return its decoded answer.

        Args:
            method: The HTTP method.
            path: The path, with quoted parts.
            kind: The type of the answer.
            body: Sent as JSON.
            query: Query parameters; those that are None are left out.
            headers: Additional headers.
            repeatable: Whether the request may be sent again when it is unknown if the hub received it. Defaults to
                True for GET. A request that was certainly not sent is always repeated.
            wait: Seconds that the hub may be silent. Sending a large body may take longer.
            timeout: Seconds that the whole call may take, with all attempts. Replaces `wait`.
            anonymous: Send no JWT.

        Raises:
            FarsteerError: The hub answered with an error.
            Unavailable: The hub could not be reached, or what answered is not a hub.
            TimedOut: It took longer than `wait` or `timeout`.
            Conflict: The client is closed.
            Internal: The answer could not be decoded.
        """
        repeat = method == "GET" if repeatable is None else repeatable
        content = None if body is None else encode(body)
        fixed = {**(headers or {}), **({} if body is None else {"Content-Type": "application/json"})}
        async with time_limit(timeout, f"{method} {path} of {self.url}"):
            for last_attempt in (anonymous, True):
                jwt = None if anonymous else await self._get_jwt()
                request = self._http.build_request(
                    method,
                    path,
                    headers={**fixed, **_authorization(jwt)},
                    params=_without_none(query) or None,
                    content=content,
                    timeout=wait if timeout is None else timeout,
                )
                response = await self._send(request, repeat=repeat)
                if response.status_code != 401 or last_attempt:
                    return _decode(response, kind)
                self._discard_jwt(jwt)
        raise AssertionError("the last attempt returns or raises")

    async def open_stream(
        self, path: str, *, query: Query, headers: Mapping[str, str], timeout: float | None = None
    ) -> httpx.Response:
        """Send a GET request and return the response with its body unread. The caller reads and closes it.

        Args:
            path: The path, with quoted parts.
            query: Query parameters; those that are None are left out.
            headers: Additional headers.
            timeout: Seconds that each step may take: connecting, and each chunk.

        Raises:
            FarsteerError: As `call`.
        """
        limits = httpx.Timeout(timeout or REQUEST_SECONDS, read=timeout or STREAM_IDLE_SECONDS)
        for last_attempt in (False, True):
            jwt = await self._get_jwt()
            request = self._http.build_request(
                "GET",
                path,
                params=_without_none(query),
                headers={**headers, **_authorization(jwt)},
                timeout=limits,
            )
            self._check_open()
            try:
                response = await self._http.send(request, stream=True)
                if response.status_code == 200:
                    return response
                await response.aread()
            except httpx.TransportError as error:
                raise self.unreachable(error) from error
            if response.status_code != 401 or last_attempt:
                raise _error_of(response)
            self._discard_jwt(jwt)
        raise AssertionError("the last attempt returns or raises")

    def unreachable(self, error: httpx.TransportError) -> Unavailable:
        """Return the exception for a request that failed on its way."""
        match error:
            case httpx.TimeoutException():
                return TimedOut(f"no hub at {self.url}: it does not answer in time", url=self.url)
            case httpx.ConnectError() if str(error) in ("", "All connection attempts failed"):
                reason = "nothing listens there"
            case _:
                reason = str(error) or type(error).__name__
        return Unavailable(f"no hub at {self.url}: {reason}", url=self.url)

    def _check_open(self) -> None:
        """Raise Conflict after `aclose`, which another task may have called while this one waited."""
        if self._http.is_closed:
            # Not Unavailable: trying again does not help, and a stream would try for ever.
            raise Conflict(f"the client for {self.url} is closed; open another one")

    async def _send(self, request: httpx.Request, *, repeat: bool) -> httpx.Response:
        for delay in (*_RETRY_DELAYS, None):
            self._check_open()
            try:
                return await self._http.send(request)
            except httpx.TransportError as error:
                if delay is None or not (repeat or isinstance(error, _NEVER_SENT)):
                    raise self.unreachable(error) from error
                await asyncio.sleep(jittered(delay))
        raise AssertionError("the last attempt returns or raises")

    async def _get_jwt(self) -> str:
        """Return a JWT that is valid for some time. Concurrent callers share one exchange."""
        async with self._jwt_lock:
            if self._jwt is None or time.monotonic() > self._jwt.renew_at:
                self._jwt = await self._exchange_token()
            return self._jwt.token

    def _discard_jwt(self, refused: str | None) -> None:
        """Make the next call exchange the access token again, unless another caller has done so already."""
        if self._jwt is not None and self._jwt.token == refused:
            self._jwt = None

    async def _exchange_token(self) -> _Jwt:
        answer = await self.call(
            "POST",
            "/api/auth",
            AuthResponse,
            body=AuthRequest(access_token=self._access_token),
            repeatable=True,
            anonymous=True,
        )
        lifetime = _jwt_lifetime(answer.token)
        return _Jwt(answer.token, time.monotonic() + max(lifetime - RENEW_SECONDS, lifetime / 2))


def api_path(*parts: str) -> str:
    """Return `/api/PART/PART...` with every part quoted, so that an id cannot change the path."""
    return "/".join(("/api", *(quote(part, safe="") for part in parts)))


def jittered(seconds: float) -> float:
    """Return a random delay up to `seconds`, so that clients that failed together do not retry together."""
    return seconds * random.uniform(0.5, 1.0)  # noqa: S311


def _authorization(jwt: str | None) -> dict[str, str]:
    return {} if jwt is None else {"Authorization": f"Bearer {jwt}"}


def _without_none(query: Query | None) -> dict[str, str | int]:
    return {name: value for name, value in (query or {}).items() if value is not None}


def _decode(response: httpx.Response, kind: type[T]) -> T:
    if not response.is_success:
        raise _error_of(response)
    try:
        return decode(response.content, kind)
    except msgspec.DecodeError as error:
        message = f"this client does not understand the answer of {response.url.path}: {error}"
        raise Internal(message) from error


class _ErrorBody(msgspec.Struct, rename="camel"):
    """Both forms of an error: the general one, and that of a session that could not be created."""

    error: dict[str, Any] | None = None
    message: str | None = None
    logs: list[LogLineView] = []


def _error_of(response: httpx.Response) -> FarsteerError:
    try:
        body = decode(response.content, _ErrorBody)
    except msgspec.DecodeError:
        return Unavailable(f"{response.url.host} is not a hub: it answered HTTP {response.status_code}")
    error = body.error or {}
    return hub_error(
        response.status_code,
        str(error.get("message") or body.message or f"HTTP {response.status_code}"),
        code=error.get("code"),
        details=error.get("details"),
        logs=body.logs,
    )


class _Claims(msgspec.Struct):
    iat: float
    exp: float


def _jwt_lifetime(jwt: str) -> float:
    """Return the seconds from issue to expiry. Both are times of the hub's clock, so that ours may be wrong."""
    try:
        payload = jwt.split(".")[1]
        claims = msgspec.json.decode(
            base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)), type=_Claims
        )
    except (IndexError, ValueError) as error:
        raise Unauthorized("the hub returned a token that is not a JWT") from error
    return claims.exp - claims.iat
