"""A fake hub as an httpx transport: gives scripted answers and records the requests."""

import base64
import json
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx

URL = "http://127.0.0.1:3006"

Answer = httpx.Response | Exception | Callable[[httpx.Request], httpx.Response]


def jwt(lifetime: float = 900, number: int = 0) -> str:
    """Return a JWT whose times are years away from this machine's clock."""
    claims = {"iat": 1_000_000, "exp": 1_000_000 + lifetime, "n": number}
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{payload}.x"


def error(status: int, code: str, text: str = "no", **details: Any) -> httpx.Response:
    return httpx.Response(status, json={"error": {"code": code, "message": text, "details": details}})


class Chunks(httpx.AsyncByteStream):
    """A response body in several chunks; an exception among them breaks the connection."""

    def __init__(self, chunks: list[bytes | Exception]) -> None:
        self.chunks = chunks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self.chunks:
            if isinstance(chunk, Exception):
                raise chunk
            yield chunk


class FakeHub(httpx.AsyncBaseTransport):
    def __init__(self, lifetime: float = 900) -> None:
        self.requests: list[httpx.Request] = []
        self.exchanges = 0
        self.lifetime = lifetime
        self.answers: deque[Answer] = deque()

    def script(self, *answers: Answer) -> None:
        self.answers.extend(answers)

    def stream(self, *chunks: bytes | Exception) -> None:
        """Send these chunks to the next subscriber, then close the connection."""
        self.script(
            httpx.Response(200, headers={"Content-Type": "text/event-stream"}, stream=Chunks([*chunks]))
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        if request.url.path == "/api/auth":
            self.exchanges += 1
            return httpx.Response(
                200,
                json={
                    "token": jwt(self.lifetime, self.exchanges),
                    "user": {"id": 1, "email": "me@example.com"},
                    "namespace": "default",
                    "expiresAt": int(time.time() * 1000),
                },
            )
        self.requests.append(request)
        answer = self.answers.popleft()
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, httpx.Response) else answer(request)
