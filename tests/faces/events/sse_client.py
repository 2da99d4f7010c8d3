"""An SSE client that parses like the browser's EventSource."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx


class Stream:
    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._lines = response.aiter_lines()
        self.comments = 0

    async def next(self) -> tuple[str, str | None, Any]:
        """Return (name, id, data) of the next event."""
        name, id, data = "message", None, None
        async with asyncio.timeout(10):
            async for line in self._lines:
                field, _, value = line.partition(": ")
                if field == "event":
                    name = value
                elif field == "id":
                    id = value
                elif field == "data":
                    assert data is None, "one line each"
                    data = json.loads(value)
                elif line == "" and data is not None:
                    return name, id, data
                elif line == ":":
                    self.comments += 1
        raise EOFError

    async def numbers(self, last: object) -> list[Any]:
        found: list[Any] = []
        while not found or found[-1] != last:
            _, _, event = await self.next()
            found.append(event["message"])
        return found


@asynccontextmanager
async def subscribed(
    url: str, token: str, headers: dict[str, str] | None = None, **query: str
) -> AsyncIterator[Stream]:
    given = {"Authorization": f"Bearer {token}", **(headers or {})}
    async with (
        httpx.AsyncClient(base_url=url, headers=given) as http,
        http.stream("GET", "/api/events", params=query) as response,
    ):
        assert response.status_code == 200, await response.aread()
        yield Stream(response)
