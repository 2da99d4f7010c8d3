"""InProcessClient: the limits of the REST API hold, and the events of one session are bounded, with a gap."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from farsteer.client.live_events import Gap
from farsteer.core.api import Approve, CreateSession, NewAttachment, NewMcpServer
from farsteer.core.errors import BadRequest
from farsteer.faces import in_process_client
from farsteer.faces.in_process_client import InProcessClient, _SessionEvents
from farsteer.hub import Hub
from farsteer.hub.feed import SyncEvent
from tests.hub.scripted import caller


def event(subject: str, cursor: int | None) -> SyncEvent:
    return SyncEvent("default", "session-updated", subject, b'{"type":"session-updated"}', cursor)


async def test_a_reader_that_falls_behind_gets_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_process_client, "_MAX_QUEUED_EVENTS", 2)
    events = _SessionEvents("a")
    events.put([event("a", 1), event("b", 2), event("a", 3), event("a", None)])
    assert [(await anext(events)).type for _ in range(2)] == ["session-updated"] * 2
    events.put([event("a", 4), event("a", 5), event("a", 6), event("a", 7)])
    assert isinstance(await anext(events), Gap)
    assert (await anext(events)).type == "session-updated"


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[InProcessClient]:
    hub = await Hub.open(tmp_path, "the-owners-token-of-these-tests")
    try:
        yield InProcessClient(hub, caller())
    finally:
        await hub.close()


_SERVERS = [NewMcpServer(name=f"s{number}", command="x") for number in range(101)]
_TOO_MUCH: dict[str, Callable[[InProcessClient], Awaitable[object]]] = {
    "mcp servers": lambda hub: hub.create_session(
        CreateSession(machine_id="m", directory="/", mcp_servers=_SERVERS)
    ),
    "directory": lambda hub: hub.create_session(CreateSession(machine_id="m", directory="/" * 5000)),
    "text": lambda hub: hub.send("s", "x" * 1_000_001),
    "attachments": lambda hub: hub.send("s", "x", attachments=[NewAttachment(name="a", data="")] * 21),
    "title": lambda hub: hub.rename("s", "x" * 201),
    "fork title": lambda hub: hub.fork("s", title="x" * 201),
    "model": lambda hub: hub.set_model("s", "x" * 201),
    "answer": lambda hub: hub.answer("s", "a", Approve(message="x" * 10_001)),
}


@pytest.mark.parametrize("call", _TOO_MUCH.values(), ids=_TOO_MUCH)
async def test_an_editor_has_the_limits_of_the_rest_api(
    client: InProcessClient, call: Callable[[InProcessClient], Awaitable[object]]
) -> None:
    with pytest.raises(BadRequest, match="length"):
        await call(client)
