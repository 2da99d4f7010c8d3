"""A scripted model, and a strict client for each wire format it speaks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from tests.model.wires import BASH, WIRES, Reply, Turn, Wire
from tests.support.model import ScriptedModel
from tests.support.model.conversation import Json


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ScriptedModel]:
    with ScriptedModel(log=tmp_path / "model.jsonl") as server:
        yield server


class Client:
    """Talks to the model in one wire format, as an agent does."""

    def __init__(self, http: httpx.AsyncClient, wire: Wire) -> None:
        self._http = http
        self.wire = wire

    async def post(
        self, *turns: Turn, model: str = "m-1", stream: bool = True, tools: dict[str, Json] | None = None,
        effort: str | None = None, headers: dict[str, str] | None = None,
    ) -> httpx.Response:  # fmt: skip
        offered = {"Bash": BASH} if tools is None else tools
        body = self.wire.body([*turns], model=model, stream=stream, tools=offered, effort=effort)
        return await self._http.post(self.wire.path(model, stream), json=body, headers=headers)

    async def ask(
        self, *turns: Turn, model: str = "m-1", stream: bool = True, tools: dict[str, Json] | None = None,
        effort: str | None = None,
    ) -> Reply:  # fmt: skip
        response = await self.post(*turns, model=model, stream=stream, tools=tools, effort=effort)
        assert response.status_code == 200, response.text
        return self.read(response, stream=stream)

    def read(self, response: httpx.Response, *, stream: bool = True) -> Reply:
        if not stream:
            return self.wire.whole(response.json())
        assert response.headers["content-type"] == "text/event-stream"
        return self.wire.streamed(server_sent(response.text))


def server_sent(text: str) -> list[tuple[str | None, str]]:
    assert text.endswith("\n\n")
    events: list[tuple[str | None, str]] = []
    for block in text.removesuffix("\n\n").split("\n\n"):
        lines = block.split("\n")
        name = lines.pop(0).removeprefix("event: ") if lines[0].startswith("event: ") else None
        assert len(lines) == 1
        assert lines[0].startswith("data: ")
        events.append((name, lines[0].removeprefix("data: ")))
    return events


async def outcomes(server: ScriptedModel, count: int) -> list[str | None]:
    """What became of the first requests; the last may still be written down when its client has its answer."""
    await server.log.wait(lambda seen: seen.number == count and seen.outcome is not None)
    return [seen.outcome for seen in server.log.turns]


@pytest.fixture
async def http(server: ScriptedModel) -> AsyncIterator[httpx.AsyncClient]:
    # There is no TLS to verify, and reading the machine's certificates would take longer than the test.
    async with httpx.AsyncClient(base_url=server.url, timeout=10, trust_env=False, verify=False) as http:
        yield http


@pytest.fixture(params=WIRES, ids=lambda wire: wire.name)
def client(http: httpx.AsyncClient, request: pytest.FixtureRequest) -> Client:
    return Client(http, request.param)


@pytest.fixture
def chat(http: httpx.AsyncClient) -> Client:
    return Client(http, next(wire for wire in WIRES if wire.name == "chat"))
