"""Listing, changing, interrupting and deleting sessions, and what a restart keeps of them."""

from pathlib import Path
from typing import Any

import pytest

from farsteer.core import events as ev
from farsteer.core.api import ClearMessages, RenameSession, SendMessage
from farsteer.core.commands import Abort, Configure, Delete, Resume, Send, Stop
from farsteer.core.errors import BadRequest, Forbidden, NotFound
from farsteer.core.events import SessionStatus
from farsteer.core.ids import new_id
from farsteer.core.modes import PermissionMode, ReasoningEffort
from farsteer.hub import Hub, Scope
from tests.hub.conftest import OWNER_TOKEN, create
from tests.hub.scripted import FeedRecorder, ScriptedRunner, caller

ME = caller()


class TestLists:
    async def test_the_last_updated_come_first_page_by_page(self, hub: Hub, runner: ScriptedRunner) -> None:
        ids = [await create(hub, runner) for _ in range(7)]
        await runner.append(ids[2], ev.AgentMessage(message_id="m", text="said last"))
        await runner.append(
            ids[4], ev.TitleUpdate(title="renamed later"), ev.LaunchEnd(generation=1, reason="idle")
        )
        found: list[str] = []
        cursor: str | None = None
        while True:
            page = await hub.sessions.list(ME, limit=3, cursor=cursor)
            found += [session.id for session in page.sessions]
            cursor = page.next_cursor
            if cursor is None:
                break
        assert sorted(found) == sorted(ids)
        sessions = (await hub.sessions.list(ME)).sessions
        updated = [session.updated_at for session in sessions]
        # Two updates within one millisecond have no order.
        assert ids[2] in [session.id for session in sessions if session.updated_at == updated[0]]
        assert updated == sorted(updated, reverse=True)

    async def test_filters(self, hub: Hub, runner: ScriptedRunner) -> None:
        async def found(**where: Any) -> list[str]:
            return [session.id for session in (await hub.sessions.list(ME, **where)).sessions]

        one, two = await create(hub, runner), await create(hub, runner)
        await runner.append(one, ev.TitleUpdate(title="100%_sure"), ev.TurnStart(turn_id="t"))
        await runner.append(two, ev.AgentMessage(message_id="m", text="back\\slash"))
        async with ScriptedRunner(hub) as other:
            three = await create(hub, other)
            assert await found(machine_id=other.info.id) == [three]
        assert sorted(await found(machine_id=runner.info.id)) == sorted([one, two])
        assert await found(status=SessionStatus.WORKING) == [one]
        assert await found(status=SessionStatus.UNREACHABLE) == [three]
        assert await found(status=SessionStatus.IDLE) == [two]
        assert await found(text="100%_") == [one]
        assert await found(text="0%s") == []
        assert await found(text="k\\sl") == [two]
        assert len(await found(text="/WORK")) == 3
        assert len(await found(agent="demo")) == 3
        assert await found(agent="claude") == []

    @pytest.mark.parametrize(
        "wrong", [{"limit": 0}, {"limit": 201}, {"cursor": "x"}, {"cursor": "1_../x"}, {"cursor": "9" * 30}]
    )
    async def test_wrong_paging_is_refused(self, hub: Hub, wrong: dict[str, Any]) -> None:
        with pytest.raises(BadRequest):
            await hub.sessions.list(ME, **wrong)


async def test_commands_reach_the_runner(hub: Hub, runner: ScriptedRunner, session_id: str) -> None:
    await hub.sessions.abort(ME, session_id)
    await hub.sessions.stop(ME, session_id)
    await hub.sessions.resume(ME, session_id)
    await hub.sessions.rename(ME, session_id, RenameSession(title=" New name "))
    await hub.sessions.configure(
        ME, session_id, permission_mode=PermissionMode.PLAN, model="m", effort=ReasoningEffort.HIGH
    )
    assert [call.command for call in runner.calls[1:]] == [
        Abort(), Stop(), Resume(), Configure(title="New name", identity=ME.identity),
        Configure(
            permission_mode=PermissionMode.PLAN, model="m", effort=ReasoningEffort.HIGH, identity=ME.identity
        ),
    ]  # fmt: skip
    with pytest.raises(BadRequest):
        await hub.sessions.rename(ME, session_id, RenameSession(title="  "))


async def test_deleting_removes_a_session_at_once(hub: Hub, runner: ScriptedRunner, session_id: str) -> None:
    feed = FeedRecorder(hub)
    await hub.sessions.delete(ME, session_id)
    assert feed.of("session-removed") == [
        {
            "type": "session-removed",
            "namespace": "default",
            "sessionId": session_id,
            "cursor": feed.of("session-removed")[0]["cursor"],
        }
    ]
    await runner.wait_for(Delete)
    with pytest.raises(NotFound):
        await hub.sessions.get(ME, session_id)
    with pytest.raises(NotFound):
        await hub.messages.send(ME, session_id, SendMessage(text="x"))


async def test_reading_and_writing_need_their_scopes(hub: Hub, session_id: str) -> None:
    reader, writer = caller("default", Scope.READ), caller("default", Scope.WRITE)
    await hub.sessions.get(reader, session_id)
    for attempt in (
        hub.messages.send(reader, session_id, SendMessage(text="x")),
        hub.sessions.abort(reader, session_id),
        hub.sessions.delete(reader, session_id),
        hub.messages.clear(reader, session_id, ClearMessages()),
        hub.messages.cancel(reader, session_id, new_id()),
        hub.sessions.get(writer, session_id),
        hub.messages.list(writer, session_id),
        hub.sessions.list(writer),
        hub.messages.queue(writer, session_id),
    ):
        with pytest.raises(Forbidden):
            await attempt


async def test_a_restart_loses_nothing(home: Path) -> None:
    hub = await Hub.open(home, OWNER_TOKEN)
    runner = ScriptedRunner(hub)
    await runner.connect()
    session_id = await create(hub, runner, permission_mode="acceptEdits", title="Kept")
    await runner.append(
        session_id,
        ev.AgentMessage(message_id="m", text="hello"),
        ev.ModeUpdate(permission_mode=PermissionMode.YOLO, model="opus"),
    )
    runner.confirms_messages = False
    sent = await hub.messages.send(ME, session_id, SendMessage(text="waiting", local_id="l"))
    await runner.wait_for(Send)
    before = await hub.sessions.get(ME, session_id)
    messages = await hub.messages.list(ME, session_id)
    await hub.close()
    await runner.wait_closed()

    hub = await Hub.open(home, OWNER_TOKEN)
    offline = await hub.sessions.get(ME, session_id)
    assert (offline.status, offline.active) == (SessionStatus.UNREACHABLE, False)
    assert await hub.messages.list(ME, session_id) == messages
    again = ScriptedRunner(hub, info=runner.info, logs=runner.logs)
    again.confirms_messages = False
    async with again:
        assert again.welcome is not None
        assert again.welcome.acked == {session_id: 2}
        after = await hub.sessions.get(ME, session_id)
        assert after == before
        assert (after.permission_mode, after.model) == (PermissionMode.YOLO, "opus")
        (resent,) = await again.wait_for(Send)
        assert resent.item.id == sent.id
    await hub.close()


async def test_a_killed_hub_reports_its_machines_as_offline_when_it_restarts(home: Path) -> None:
    hub = await Hub.open(home, OWNER_TOKEN)
    async with ScriptedRunner(hub) as runner:
        session_id = await create(hub, runner)
        cursor = (await hub.store.feed_bounds(ME.namespace)).highest
        # Copy the files as kill -9 leaves them: the disconnections are not stored.
        copy = home.with_name("copy")
        copy.mkdir()
        for name in ("hub.db", "hub.db-wal", "jwt.key"):
            (copy / name).write_bytes((home / name).read_bytes())
    await hub.close()
    again = await Hub.open(copy, OWNER_TOKEN)
    page = await again.store.read_feed("default", cursor)
    assert [(event.type, event.subject) for event in page.events] == [
        ("machine-updated", runner.info.id), ("session-updated", session_id),
    ]  # fmt: skip
    assert not (await again.machines.get(ME, runner.info.id)).active
    await again.close()


async def test_a_mode_that_the_session_has_already_is_not_sent_for_a_caller_who_may_not_set_it(
    hub: Hub, runner: ScriptedRunner
) -> None:
    """Sent, it would undo the change of somebody who has just made the session ask again."""
    writer = caller("default", Scope.READ, Scope.WRITE)
    id = await create(hub, runner, permission_mode=PermissionMode.YOLO)
    await hub.sessions.configure(writer, id, permission_mode=PermissionMode.YOLO)
    await hub.sessions.configure(writer, id, permission_mode=PermissionMode.YOLO, model="m")
    assert runner.commands(Configure) == [Configure(model="m", identity=writer.identity)]
