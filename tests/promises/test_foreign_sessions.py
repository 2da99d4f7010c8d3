"""Sessions that the hub has lost and their machine has: they are shown, adopted or ended."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from farsteer import AsyncClient
from farsteer.core.errors import FarsteerError, NotFound
from farsteer.core.events import AgentMessage, Notice, SessionStatus
from farsteer.core.foreign import ForeignSessionView
from tests.promises.station import Station, machine_is
from tests.support.eventually import eventually

pytestmark = pytest.mark.faults


async def lose_hub(station: Station) -> AsyncClient:
    """Kill the hub and start it with an empty database. The runner goes on."""
    await station.kill(station.hub)
    for path in (station.root / "hub").glob("hub.db*"):
        path.unlink()
    await station.start_hub()
    client = station.client()
    await machine_is(client, active=True)
    return client


async def only_foreign(client: AsyncClient) -> ForeignSessionView:
    [machine] = await client.machines()
    assert machine.foreign_sessions == 1
    [session] = await client.foreign_sessions(machine.id)
    return session


def agents_of(station: Station, session_id: str) -> set[int]:
    """The processes that carry the launch mark of a session."""
    found: set[int] = set()
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            environment = path.read_bytes()
        except OSError:
            continue
        if session_id.encode() in environment and str(station.root).encode() in environment:
            found.add(int(path.parent.name))
    return found


@pytest.mark.timeout(120)
async def test_a_session_that_the_hub_lost_is_adopted_with_its_living_agent(station: Station) -> None:
    client = station.client()
    session = await client.start(str(station.desk), agent="demo", title="lost and found")
    for n in range(4):
        await session.ask(f"say {n}")
    seq = (await client.session(session.id)).seq
    agents = agents_of(station, session.id)
    assert agents

    client = await lose_hub(station)
    found = await only_foreign(client)
    assert (found.id, found.agent, found.title, found.status) == (
        session.id, "demo", "lost and found", SessionStatus.IDLE,
    )  # fmt: skip
    assert found.lost == found.seq == seq
    with pytest.raises(NotFound):
        await client.session(session.id)

    adopted = await client.adopt_foreign_session(found.machine_id, found.id)
    assert (adopted.id, adopted.title) == (session.id, "lost and found")
    again = await client.adopt_foreign_session(found.machine_id, found.id)
    assert again.id == session.id, "repeating it is safe"
    [machine] = await client.machines()
    assert machine.foreign_sessions == 0

    answer = await client.attach(session.id).ask("history")
    assert "say 3" in answer.text, "the agent remembers"
    assert agents <= agents_of(station, session.id), "its process was not started again"
    entries = [entry async for entry in client.messages(session.id)]
    assert [entry.seq for entry in entries] == list(range(seq, seq + len(entries)))
    notices = [entry for entry in entries if isinstance(entry.content, Notice)]
    assert [entry.seq for entry in notices] == [seq], "one notice for all that is lost"
    assert entries[0] == notices[0]
    assert any(isinstance(entry.content, AgentMessage) for entry in entries)

    # It is a normal session now, also for a hub and a runner that are killed.
    await station.kill(station.hub)
    await station.kill(station.runner)
    await station.start_hub()
    await station.start_runner()
    client = station.client()
    assert (await client.attach(session.id).ask("say still here")).text == "still here"


@pytest.mark.timeout(120)
async def test_a_session_that_both_were_killed_with_is_adopted(station: Station) -> None:
    """The runner was killed too: what it has not confirmed is in its journal, and its agent is gone."""
    client = station.client()
    session = await client.start(str(station.desk), agent="demo")
    await session.ask("say one")
    await station.kill(station.hub)
    await station.kill(station.runner)
    for path in (station.root / "hub").glob("hub.db*"):
        path.unlink()
    await station.start_hub()
    await station.start_runner()
    client = station.client()
    found = await only_foreign(client)
    assert found.status is SessionStatus.STOPPED
    await client.adopt_foreign_session(found.machine_id, found.id)
    assert "say one" in (await client.attach(session.id).ask("history")).text


@pytest.mark.timeout(120)
async def test_a_session_that_the_hub_lost_is_ended(station: Station) -> None:
    client = station.client()
    session = await client.start(str(station.desk), agent="demo")
    await session.ask("say one")
    agents = agents_of(station, session.id)
    assert agents
    client = await lose_hub(station)
    found = await only_foreign(client)
    await client.end_foreign_session(found.machine_id, found.id)
    await eventually(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in agents))
    assert await client.foreign_sessions(found.machine_id) == []
    for call in (client.adopt_foreign_session, client.end_foreign_session):
        with pytest.raises(FarsteerError) as refused:
            await call(found.machine_id, found.id)
        assert refused.value.status == 404
    await station.kill(station.hub)
    await station.start_hub()
    client = station.client()
    await machine_is(client, active=True)
    [machine] = await client.machines()
    assert machine.foreign_sessions == 0
