"""A namespace has limits, and machines that are gone can be removed."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from farsteer.core import events as ev
from farsteer.core.api import CreateSession, SendMessage
from farsteer.core.errors import Conflict, ErrorCode, Forbidden, NotFound
from farsteer.core.ids import new_id
from farsteer.hub import Hub, Scope
from farsteer.hub.services.creation import CreationFailed
from tests.hub.conftest import OWNER_TOKEN, create, created, failed
from tests.hub.scripted import FeedRecorder, ScriptedRunner, caller, machine

ME = caller()
QUEUED = "namespace_queued_bytes"


@pytest.fixture
async def small_hub(home: Path) -> AsyncIterator[Hub]:
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    (home / "hub.toml").write_text("[limits]\nsessions = 3\nmachines = 2\n")
    hub = await Hub.open(home, OWNER_TOKEN)
    yield hub
    await hub.close()


async def test_sessions_beyond_the_limit_are_refused(small_hub: Hub) -> None:
    async with ScriptedRunner(small_hub) as runner, ScriptedRunner(small_hub, "other") as other:
        request = CreateSession(machine_id=runner.info.id, directory="/work")
        # At once, so that creations in progress have to count.
        results = await asyncio.gather(*(small_hub.sessions.create(ME, request) for _ in range(8)))
        refused = [result for result in results if isinstance(result, CreationFailed)]
        assert len(refused) == 5
        for result in refused:
            error = failed(result, 429).error
            assert error.code is ErrorCode.QUOTA_EXCEEDED
            assert error.details == {"kind": "sessions", "limit": 3, "used": 3}
            assert "hub.toml" in error.message
        done = next(result for result in results if not isinstance(result, CreationFailed))
        await create(small_hub, other)
        await small_hub.sessions.delete(ME, done.session_id)
        created(await small_hub.sessions.create(ME, request))


async def test_a_creation_that_fails_takes_no_place(small_hub: Hub) -> None:
    async with ScriptedRunner(small_hub) as runner:
        request = CreateSession(machine_id=new_id(), directory="/work")
        for _ in range(5):
            failed(await small_hub.sessions.create(ME, request), 404)
        await create(small_hub, runner)


async def test_a_machine_beyond_the_limit_is_refused_with_words(small_hub: Hub) -> None:
    async with ScriptedRunner(small_hub) as first, ScriptedRunner(small_hub):
        third = ScriptedRunner(small_hub)
        await third.connect()
        assert third.refused is not None
        assert "machines" in third.refused
        assert "hub.toml" in third.refused
        with pytest.raises(NotFound):
            await small_hub.machines.get(ME, third.info.id)
        await third.disconnect()
        async with ScriptedRunner(small_hub, "other"):
            pass
    async with ScriptedRunner(small_hub, info=first.info):
        pass
    await small_hub.machines.remove(ME, first.info.id)
    async with ScriptedRunner(small_hub):
        pass


async def test_limits_are_shown_with_what_is_used(small_hub: Hub) -> None:
    async with ScriptedRunner(small_hub) as runner:
        session_id = await create(small_hub, runner)
        shown = {one.kind: (one.used, one.limit) for one in (await small_hub.quotas.list(ME)).limits}
        assert shown == {
            "sessions": (1, 3),
            "machines": (1, 2),
            "sockets": (0, 1000),
            QUEUED: (0, 256 * 2**20),
        }
        elsewhere = await small_hub.quotas.list(caller("elsewhere"))
        assert {one.used for one in elsewhere.limits} == {0}
        runner.confirms_messages = False
        await small_hub.messages.send(ME, session_id, SendMessage(text="x" * 1000))
        [queued] = [one for one in (await small_hub.quotas.list(ME)).limits if one.kind == QUEUED]
        assert queued.used > 1000
        with pytest.raises(Forbidden):
            await small_hub.quotas.list(caller("default", Scope.WRITE))


async def test_a_connected_machine_is_not_removed(hub: Hub, runner: ScriptedRunner, session_id: str) -> None:
    for delete_sessions in (False, True):
        with pytest.raises(Conflict):
            await hub.machines.remove(ME, runner.info.id, delete_sessions=delete_sessions)
    assert (await hub.sessions.get(ME, session_id)).active


async def test_a_machine_with_sessions_is_removed_only_with_them(hub: Hub) -> None:
    async with ScriptedRunner(hub) as runner:
        session_id = await create(hub, runner)
    with pytest.raises(Conflict) as refused:
        await hub.machines.remove(ME, runner.info.id)
    assert refused.value.details == {"sessions": 1}
    assert (await hub.sessions.get(ME, session_id)).machine_id == runner.info.id


async def test_a_removed_machine_and_its_sessions_are_gone(hub: Hub) -> None:
    async with ScriptedRunner(hub) as runner, ScriptedRunner(hub) as other:
        sessions = sorted([await create(hub, runner) for _ in range(3)])
        kept = await create(hub, other)
        await runner.append(sessions[0], ev.Notice(text="x"))
        await runner.disconnect()
        feed = FeedRecorder(hub)
        await hub.machines.remove(ME, runner.info.id, delete_sessions=True)
        assert sorted(event["sessionId"] for event in feed.of("session-removed")) == sessions
        assert [event["machineId"] for event in feed.of("machine-removed")] == [runner.info.id]
        with pytest.raises(NotFound):
            await hub.machines.get(ME, runner.info.id)
        for id in sessions:
            with pytest.raises(NotFound):
                await hub.sessions.get(ME, id)
        assert (await hub.sessions.get(ME, kept)).machine_id == other.info.id
        with pytest.raises(NotFound):
            await hub.machines.remove(ME, runner.info.id)
    async with ScriptedRunner(hub, info=runner.info, logs=runner.logs) as again:
        assert again.welcome is not None
        assert sorted(again.welcome.deleted) == sessions, "its runner deletes what it has of them"


async def test_only_an_administrator_of_the_namespace_removes_a_machine(hub: Hub) -> None:
    async with ScriptedRunner(hub) as runner:
        pass
    with pytest.raises(Forbidden):
        await hub.machines.remove(caller("default", Scope.READ, Scope.WRITE, Scope.APPROVE), runner.info.id)
    with pytest.raises(NotFound):
        await hub.machines.remove(caller("other"), runner.info.id)
    assert not (await hub.machines.get(ME, runner.info.id)).active


async def test_the_key_of_a_removed_machine_is_forgotten(hub: Hub) -> None:
    info = machine()
    async with ScriptedRunner(hub, "one", info=info):
        pass
    await hub.machines.remove(caller("one"), info.id)
    async with ScriptedRunner(hub, "two", info=info):
        assert (await hub.machines.get(caller("two"), info.id)).active
