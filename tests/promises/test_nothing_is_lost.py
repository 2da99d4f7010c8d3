"""Kill the hub, the runner or the agent: acknowledged data is still there, and the session continues."""

from __future__ import annotations

import asyncio
import signal
import time

import psutil
import pytest

from farsteer import AsyncClient
from farsteer.core import events as ev
from farsteer.core.errors import MachineOffline
from farsteer.core.events import Entry, SessionStatus, TurnEndReason
from farsteer.core.live_events import MachineUpdatedEvent
from farsteer.core.modes import PermissionMode
from farsteer.core.queue import ItemState
from tests.promises.station import SECONDS, Station, machine_is
from tests.support.eventually import eventually


async def log_of(client: AsyncClient, session_id: str) -> list[Entry]:
    entries = [entry async for entry in client.messages(session_id)]
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
    return entries


async def until_logged(client: AsyncClient, session_id: str, kind: type, count: int = 1) -> None:
    async def seen() -> bool:
        return sum(isinstance(e.content, kind) for e in await log_of(client, session_id)) >= count

    await eventually(seen, SECONDS)


async def test_a_killed_hub_comes_back_with_everything_and_the_turn_goes_on(station: Station) -> None:
    client = station.client()
    session = await client.start(station.desk, agent="demo", title="survivor", permission_mode="acceptEdits")
    await session.ask("hello")
    before = await log_of(client, session.id)
    await session.send("slow 20")
    await until_logged(client, session.id, ev.TurnStart, 2)
    await station.kill(station.hub)
    await station.start_hub()
    client = station.client()
    await machine_is(client, active=True)
    await until_logged(client, session.id, ev.TurnEnd, 2)
    after = await log_of(client, session.id)
    assert after[: len(before)] == before
    view = await client.session(session.id)
    assert (view.title, view.permission_mode) == ("survivor", PermissionMode.ACCEPT_EDITS)
    assert str(await client.attach(session.id).ask("hello again"))


async def test_a_killed_runner_leaves_no_agent_and_the_next_message_resumes_with_the_context(
    station: Station,
) -> None:
    client = station.client()
    session = await client.start(station.desk, agent="demo", permission_mode="acceptEdits")
    await session.ask("remember the dolphin")
    await session.send("hang")
    await until_logged(client, session.id, ev.TurnStart, 2)
    assert station.runner is not None
    agents = psutil.Process(station.runner.pid).children(recursive=True)
    assert agents
    await station.kill(station.runner)
    await machine_is(client, active=False)
    assert (await client.session(session.id)).status is SessionStatus.UNREACHABLE
    await eventually(lambda: not any(agent.is_running() and agent.status() != "zombie" for agent in agents))
    await station.start_runner()
    await machine_is(client, active=True)
    await until_logged(client, session.id, ev.TurnEnd, 2)
    ends = [e.content.reason for e in await log_of(client, session.id) if isinstance(e.content, ev.TurnEnd)]
    assert ends == [TurnEndReason.END_TURN, TurnEndReason.LOST]
    assert "dolphin" in str(await client.attach(session.id).ask("history"))
    view = await client.session(session.id)
    assert view.permission_mode is PermissionMode.ACCEPT_EDITS


async def test_a_message_for_an_absent_machine_waits_and_is_delivered_once(station: Station) -> None:
    client = station.client()
    session = await client.start(station.desk, agent="demo")
    await session.ask("hello")
    await station.kill(station.runner, signal.SIGTERM)
    await machine_is(client, active=False)
    accepted = await client.send(session.id, "are you there", local_id="mine")
    again = await client.send(session.id, "are you there", local_id="mine")
    assert accepted.id == again.id
    assert accepted.state is ItemState.ACCEPTED
    with pytest.raises(MachineOffline):
        await client.start(station.desk, agent="demo", machine=(await client.machines())[0].id)
    await station.start_runner()
    await until_logged(client, session.id, ev.TurnEnd, 2)
    said = [e for e in await log_of(client, session.id) if isinstance(e.content, ev.UserMessage)]
    assert [entry.local_id for entry in said][1:] == ["mine"]
    assert await client.queue(session.id) == []


async def test_a_killed_agent_ends_its_turn_at_once_and_is_not_run_again(station: Station) -> None:
    client = station.client()
    session = await client.start(station.desk, agent="demo")
    await session.send("hang")
    # Queued and delivered: killed before that, its fate would be unknown.
    await until_logged(client, session.id, ev.QueueUpdate, 2)
    assert station.runner is not None
    (agent,) = psutil.Process(station.runner.pid).children()
    agent.kill()
    await until_logged(client, session.id, ev.TurnEnd)
    entries = await log_of(client, session.id)
    assert [e.content.reason for e in entries if isinstance(e.content, ev.TurnEnd)] == [TurnEndReason.CRASHED]
    assert "hang" in str(await session.ask("history"))
    entries = await log_of(client, session.id)
    assert [e.content.text for e in entries if isinstance(e.content, ev.UserMessage)] == ["hang", "history"]


async def test_a_closed_link_makes_the_machine_inactive_within_two_seconds(station: Station) -> None:
    client = station.client()
    async with client.events(types=["machine-updated"]) as events:
        await station.kill(station.runner)
        killed = time.monotonic()
        async with asyncio.timeout(2.0):
            async for event in events:
                if isinstance(event.content, MachineUpdatedEvent) and not event.content.data.active:
                    break
    assert time.monotonic() - killed < 2.0


async def test_a_journal_that_is_behind_the_hub_goes_on_where_the_hub_is(station: Station) -> None:
    """As after a crash between the two commits of an event, or when the journal was restored from a backup."""
    client = station.client()
    session = await client.start(station.desk, agent="demo")
    await session.ask("remember the dolphin")
    await station.kill(station.runner, signal.SIGTERM)
    journal = station.root / "runner" / "runner.db"
    backup = journal.read_bytes()
    await station.start_runner()
    await machine_is(client, active=True)
    await client.attach(session.id).ask("hello")
    before = await log_of(client, session.id)
    await station.kill(station.runner, signal.SIGTERM)
    journal.write_bytes(backup)
    await station.start_runner()
    await machine_is(client, active=True)
    assert "dolphin" in str(await client.attach(session.id).ask("history"))
    after = await log_of(client, session.id)
    assert after[: len(before)] == before
