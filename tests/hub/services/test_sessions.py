import asyncio
import base64
import json
from pathlib import Path

import pytest

from farsteer.core import events as ev
from farsteer.core.api import ClearMessages, MessagesResponse, NewAttachment, RenameSession, SendMessage
from farsteer.core.commands import Abort, Cancel, Configure, Delete, Resume, Send, SendNow, Stop
from farsteer.core.errors import BadRequest, Conflict, ErrorCode, Forbidden, MachineOffline, NotFound
from farsteer.core.events import SessionStatus
from farsteer.core.ids import new_id
from farsteer.core.modes import PermissionMode, ReasoningEffort
from farsteer.core.queue import MAX_QUEUED, Delivery, ItemState
from farsteer.core.wire import decode
from farsteer.hub import Hub, Scope
from tests.hub.conftest import OWNER_TOKEN, create
from tests.hub.scripted import Audience, ScriptedRunner, caller, refuse, silent

ME = caller()


class TestLists:
    async def test_the_liveliest_first_page_by_page(self, hub: Hub, runner: ScriptedRunner) -> None:
        ids = [await create(hub, runner) for _ in range(7)]
        await runner.say(ids[2], ev.AgentMessage(message_id="m", text="said last"))
        await runner.say(
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
        # Within one millisecond there is no newest.
        assert ids[2] in [session.id for session in sessions if session.updated_at == updated[0]]
        assert updated == sorted(updated, reverse=True)

    async def test_filters(self, hub: Hub, runner: ScriptedRunner) -> None:
        async def found(**where: object) -> list[str]:
            return [session.id for session in (await hub.sessions.list(ME, **where)).sessions]  # pyright: ignore[reportArgumentType]

        one, two = await create(hub, runner), await create(hub, runner)
        await runner.say(one, ev.TitleUpdate(title="100%_sure"), ev.TurnStart(turn_id="t"))
        await runner.say(two, ev.AgentMessage(message_id="m", text="back\\slash"))
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
    async def test_wrong_paging_is_refused(self, hub: Hub, wrong: dict[str, object]) -> None:
        with pytest.raises(BadRequest):
            await hub.sessions.list(ME, **wrong)  # pyright: ignore[reportArgumentType]


class TestMessages:
    async def test_a_page_is_the_stored_bytes_and_reads_as_declared(
        self, hub: Hub, runner: ScriptedRunner, session_id: str
    ) -> None:
        await runner.say(session_id, *[ev.AgentMessage(message_id=str(n), text="é\n") for n in range(5)])
        body = await hub.messages.list(ME, session_id, limit=2)
        page = decode(body, MessagesResponse)
        assert [message.seq for message in page.messages] == [4, 5]
        assert (page.page.has_more, page.page.next_before_seq, page.page.next_after_seq) == (True, 4, None)
        assert bytes(runner.logs[session_id].items[4].body) in body
        first = decode(await hub.messages.list(ME, session_id, limit=3, before_seq=4), MessagesResponse)
        assert [message.seq for message in first.messages] == [1, 2, 3]
        assert (first.page.has_more, first.page.next_before_seq) == (False, None)
        after = decode(await hub.messages.list(ME, session_id, limit=3, after_seq=1), MessagesResponse)
        assert [message.seq for message in after.messages] == [2, 3, 4]
        assert (after.page.has_more, after.page.next_after_seq) == (True, 4)
        with pytest.raises(BadRequest):
            await hub.messages.list(ME, session_id, limit=201)

    async def test_cleared_history_is_gone_for_readers(
        self, hub: Hub, runner: ScriptedRunner, session_id: str
    ) -> None:
        await runner.say(session_id, *[ev.Notice(text=str(n)) for n in range(5)])
        cleared = await hub.messages.clear(ME, session_id, ClearMessages(keep_count=1))
        assert (cleared.cleared, cleared.remaining) == (4, 1)
        page = decode(await hub.messages.list(ME, session_id), MessagesResponse)
        assert [message.seq for message in page.messages] == [5]


class TestSending:
    async def test_a_message_is_accepted_handed_over_and_followed_to_its_end(
        self, hub: Hub, runner: ScriptedRunner, session_id: str
    ) -> None:
        audience = Audience(hub)
        accepted = await hub.messages.send(ME, session_id, SendMessage(text="hello"))
        assert (accepted.state, accepted.position) == (ItemState.ACCEPTED, 0)
        (sent,) = await runner.called(Send)
        assert (sent.item.id, sent.item.text, sent.item.sent_from) == (accepted.id, "hello", "default")
        await runner.until(lambda: runner.acked.get(session_id) == 1)
        (queued,) = (await hub.messages.queue(ME, session_id)).items
        assert queued.state is ItemState.QUEUED
        await runner.say(session_id, ev.QueueUpdate(item_id=accepted.id, state=ItemState.DELIVERED))
        assert (await hub.messages.queue(ME, session_id)).items == []
        queues = [update["data"]["queue"] for update in audience.of("session-updated")]
        assert [[item.get("state", "accepted") for item in queue] for queue in queues] == [
            ["accepted"], ["queued"], [],
        ]  # fmt: skip

    async def test_the_same_local_id_is_the_same_message(
        self, hub: Hub, runner: ScriptedRunner, session_id: str
    ) -> None:
        first = await hub.messages.send(ME, session_id, SendMessage(text="a", local_id="l"))
        await runner.until(lambda: runner.acked.get(session_id) == 1)
        again = await hub.messages.send(ME, session_id, SendMessage(text="a", local_id="l"))
        assert (again.id, again.state) == (first.id, ItemState.QUEUED)
        other = await create(hub, runner)
        assert (await hub.messages.send(ME, other, SendMessage(text="a", local_id="l"))).id != first.id
        assert len(runner.commands(Send)) <= 2

    async def test_messages_are_handed_over_in_order(
        self, hub: Hub, runner: ScriptedRunner, session_id: str
    ) -> None:
        for n in range(20):
            accepted = await hub.messages.send(ME, session_id, SendMessage(text=str(n)))
            assert accepted.position <= n
        sent = await runner.called(Send, 20)
        assert [command.item.text for command in sent] == [str(n) for n in range(20)]

    async def test_a_message_for_an_offline_machine_waits_for_it(self, hub: Hub) -> None:
        async with ScriptedRunner(hub) as runner:
            session_id = await create(hub, runner)
        for text in ("one", "two"):
            await hub.messages.send(ME, session_id, SendMessage(text=text))
        async with ScriptedRunner(hub, info=runner.info, logs=runner.logs) as again:
            sent = await again.called(Send, 2)
            assert [command.item.text for command in sent] == ["one", "two"]

    async def test_an_unconfirmed_message_is_handed_over_again_with_the_same_id(self, hub: Hub) -> None:
        async with ScriptedRunner(hub) as runner:
            session_id = await create(hub, runner)
            runner.confirms_messages = False
            accepted = await hub.messages.send(ME, session_id, SendMessage(text="one"))
            await runner.called(Send)
            await hub.messages.send(ME, session_id, SendMessage(text="two"))
            await runner.called(Send, 2)
            assert [command.item.text for command in runner.commands(Send)] == ["one", "two"]
        async with ScriptedRunner(hub, info=runner.info, logs=runner.logs) as again:
            sent = await again.called(Send, 2)
            assert [command.item.text for command in sent] == ["one", "two"]
            assert sent[0].item.id == accepted.id
            await again.until(lambda: again.acked.get(session_id) == 2)
        async with ScriptedRunner(hub, info=runner.info, logs=runner.logs) as third:
            await third.ping()
            assert third.commands(Send) == []

    async def test_what_the_runner_refuses_has_failed_visibly(
        self, hub: Hub, runner: ScriptedRunner, session_id: str
    ) -> None:
        audience = Audience(hub)
        runner.answers[Send] = refuse(NotFound("this machine does not have that session"))
        await hub.messages.send(ME, session_id, SendMessage(text="a", local_id="l"))
        await audience.until(lambda: len(audience.of("session-updated")) == 2)
        assert [item["state"] for item in audience.of("session-updated")[-1]["data"]["queue"]] == ["failed"]
        assert (await hub.messages.queue(ME, session_id)).items == []
        again = await hub.messages.send(ME, session_id, SendMessage(text="a", local_id="l"))
        assert again.state is ItemState.FAILED

    async def test_a_runner_cannot_unmake_a_message(
        self, hub: Hub, runner: ScriptedRunner, session_id: str
    ) -> None:
        runner.confirms_messages = False
        item = await hub.messages.send(ME, session_id, SendMessage(text="x", local_id="l"))
        await runner.called(Send)
        for state in (ItemState.ACCEPTED, ItemState.DELIVERED, ItemState.QUEUED):
            await runner.say(session_id, ev.QueueUpdate(item_id=item.id, state=state))
        again = await hub.messages.send(ME, session_id, SendMessage(text="x", local_id="l"))
        assert again.state is ItemState.DELIVERED

    async def test_the_queue_has_an_end(self, hub: Hub, runner: ScriptedRunner, session_id: str) -> None:
        runner.answers[Send] = silent
        for n in range(MAX_QUEUED):
            assert (await hub.messages.send(ME, session_id, SendMessage(text="x"))).position == n
        with pytest.raises(Conflict) as error:
            await hub.messages.send(ME, session_id, SendMessage(text="x"))
        assert error.value.code is ErrorCode.QUEUE_FULL

    async def test_attachments_reach_the_agent_and_are_shown_by_name(
        self, hub: Hub, runner: ScriptedRunner, session_id: str
    ) -> None:
        data = base64.b64encode(b"picture").decode()
        audience = Audience(hub)
        await hub.messages.send(
            ME,
            session_id,
            SendMessage(text="look", attachments=[NewAttachment(name="a.png", data=data)]),
        )
        (sent,) = await runner.called(Send)
        assert (sent.item.attachments[0].data, sent.item.attachments[0].size) == (data, 7)
        await runner.until(lambda: runner.acked.get(session_id) == 1)
        (queued,) = (await hub.messages.queue(ME, session_id)).items
        assert (queued.attachments[0].name, queued.attachments[0].data) == ("a.png", None)
        assert all(data not in json.dumps(update) for update in audience.of("session-updated"))

    @pytest.mark.parametrize("data", ["!", "YQ", "YQ==\n", "é"])
    async def test_an_attachment_that_is_no_base64_is_refused(
        self, hub: Hub, session_id: str, data: str
    ) -> None:
        with pytest.raises(BadRequest):
            await hub.messages.send(
                ME, session_id, SendMessage(text="x", attachments=[NewAttachment(name="a", data=data)])
            )
        assert (await hub.messages.queue(ME, session_id)).items == []


class TestCancelling:
    async def test_what_no_runner_has_seen_is_taken_back_here(self, hub: Hub) -> None:
        async with ScriptedRunner(hub) as runner:
            session_id = await create(hub, runner)
        item = await hub.messages.send(ME, session_id, SendMessage(text="x", local_id="l"))
        await hub.messages.cancel(ME, session_id, item.id)
        await hub.messages.cancel(ME, session_id, item.id)
        again = await hub.messages.send(ME, session_id, SendMessage(text="x", local_id="l"))
        assert again.state is ItemState.CANCELLED
        async with ScriptedRunner(hub, info=runner.info, logs=runner.logs) as later:
            await later.ping()
            assert later.commands(Send) == []

    async def test_what_a_runner_has_is_that_runners_to_cancel(
        self, hub: Hub, runner: ScriptedRunner, session_id: str
    ) -> None:
        item = await hub.messages.send(ME, session_id, SendMessage(text="x"))
        await runner.until(lambda: runner.acked.get(session_id) == 1)
        await hub.messages.cancel(ME, session_id, item.id)
        assert runner.commands(Cancel) == [Cancel(item_id=item.id)]
        runner.answers[Cancel] = refuse(
            Conflict("the agent already has this message", code=ErrorCode.NOT_CANCELLABLE)
        )
        with pytest.raises(Conflict) as error:
            await hub.messages.cancel(ME, session_id, item.id)
        assert error.value.code is ErrorCode.NOT_CANCELLABLE

    async def test_one_that_may_be_on_an_offline_machine_is_not_promised_to_be_cancelled(
        self, hub: Hub
    ) -> None:
        async with ScriptedRunner(hub) as runner:
            session_id = await create(hub, runner)
            runner.confirms_messages = False
            item = await hub.messages.send(ME, session_id, SendMessage(text="x"))
            await runner.called(Send)
        with pytest.raises(MachineOffline):
            await hub.messages.cancel(ME, session_id, item.id)

    async def test_an_outcome_stands(self, hub: Hub, runner: ScriptedRunner, session_id: str) -> None:
        item = await hub.messages.send(ME, session_id, SendMessage(text="x"))
        await runner.until(lambda: runner.acked.get(session_id) == 1)
        await runner.say(session_id, ev.QueueUpdate(item_id=item.id, state=ItemState.DELIVERED))
        with pytest.raises(Conflict) as error:
            await hub.messages.cancel(ME, session_id, item.id)
        assert error.value.code is ErrorCode.NOT_CANCELLABLE
        with pytest.raises(NotFound):
            await hub.messages.cancel(ME, session_id, new_id())


class TestSendingNow:
    async def test_what_no_runner_has_seen_goes_first_when_one_comes(self, hub: Hub) -> None:
        async with ScriptedRunner(hub) as runner:
            session_id = await create(hub, runner)
        items = [await hub.messages.send(ME, session_id, SendMessage(text=text)) for text in "abc"]
        await hub.messages.send_now(ME, session_id, items[2].id)
        shown = (await hub.messages.queue(ME, session_id)).items
        assert [item.delivery for item in shown] == [Delivery.QUEUE, Delivery.QUEUE, Delivery.NOW]
        async with ScriptedRunner(hub, info=runner.info, logs=runner.logs) as later:
            sent = await later.called(Send, 3)
            assert [(command.item.text, command.item.delivery) for command in sent] == [
                ("c", Delivery.NOW), ("a", Delivery.QUEUE), ("b", Delivery.QUEUE),
            ]  # fmt: skip

    async def test_what_a_runner_has_is_that_runners_to_move(
        self, hub: Hub, runner: ScriptedRunner, session_id: str
    ) -> None:
        item = await hub.messages.send(ME, session_id, SendMessage(text="x"))
        await runner.until(lambda: runner.acked.get(session_id) == 1)
        await hub.messages.send_now(ME, session_id, item.id)
        assert runner.commands(SendNow) == [SendNow(item_id=item.id)]
        runner.answers[SendNow] = refuse(Conflict("it has it", code=ErrorCode.NOT_CANCELLABLE))
        with pytest.raises(Conflict) as error:
            await hub.messages.send_now(ME, session_id, item.id)
        assert error.value.code is ErrorCode.NOT_CANCELLABLE

    async def test_what_was_given_to_a_link_that_broke_goes_first_over_the_next(self, hub: Hub) -> None:
        async with ScriptedRunner(hub) as runner:
            session_id = await create(hub, runner)
            runner.answers[Send] = silent
            item = await hub.messages.send(ME, session_id, SendMessage(text="x"))
            await runner.called(Send)
        with pytest.raises(MachineOffline):
            await hub.messages.send_now(ME, session_id, item.id)
        later = ScriptedRunner(hub, info=runner.info, logs=runner.logs)
        later.answers |= {Send: silent, SendNow: refuse(NotFound("no such message in the queue"))}
        async with later:
            asked = asyncio.create_task(hub.messages.send_now(ME, session_id, item.id))
            sent = await later.called(Send)
            assert sent[0].item.id == item.id
            asked.cancel()
            await asyncio.wait([asked])

    async def test_an_outcome_stands(self, hub: Hub, runner: ScriptedRunner, session_id: str) -> None:
        item = await hub.messages.send(ME, session_id, SendMessage(text="x"))
        await runner.until(lambda: runner.acked.get(session_id) == 1)
        for state in (ItemState.HANDED_OVER, ItemState.DELIVERED):
            await runner.say(session_id, ev.QueueUpdate(item_id=item.id, state=state))
            with pytest.raises(Conflict) as error:
                await hub.messages.send_now(ME, session_id, item.id)
            assert error.value.code is ErrorCode.NOT_CANCELLABLE
        with pytest.raises(NotFound):
            await hub.messages.send_now(ME, session_id, new_id())
        assert runner.commands(SendNow) == []

    async def test_the_way_of_delivery_reaches_the_runner(
        self, hub: Hub, runner: ScriptedRunner, session_id: str
    ) -> None:
        for delivery in Delivery:
            await hub.messages.send(ME, session_id, SendMessage(text="x", delivery=delivery))
        assert {command.item.delivery for command in await runner.called(Send, 3)} == {*Delivery}


async def test_commands_reach_the_runner(hub: Hub, runner: ScriptedRunner, session_id: str) -> None:
    await hub.sessions.abort(ME, session_id)
    await hub.sessions.stop(ME, session_id)
    await hub.sessions.resume(ME, session_id)
    await hub.sessions.rename(ME, session_id, RenameSession(title=" New name "))
    await hub.sessions.configure(
        ME, session_id, permission_mode=PermissionMode.PLAN, model="m", effort=ReasoningEffort.HIGH
    )
    assert [call.command for call in runner.calls[1:]] == [
        Abort(), Stop(), Resume(), Configure(title="New name"),
        Configure(permission_mode=PermissionMode.PLAN, model="m", effort=ReasoningEffort.HIGH),
    ]  # fmt: skip
    with pytest.raises(BadRequest):
        await hub.sessions.rename(ME, session_id, RenameSession(title="  "))


async def test_deleting_ends_it_everywhere_at_once(hub: Hub, runner: ScriptedRunner, session_id: str) -> None:
    audience = Audience(hub)
    await hub.sessions.delete(ME, session_id)
    assert audience.of("session-removed") == [
        {
            "type": "session-removed",
            "namespace": "default",
            "sessionId": session_id,
            "cursor": audience.of("session-removed")[0]["cursor"],
        }
    ]
    await runner.called(Delete)
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
    await runner.say(
        session_id,
        ev.AgentMessage(message_id="m", text="hello"),
        ev.ModeUpdate(permission_mode=PermissionMode.YOLO, model="opus"),
    )
    runner.confirms_messages = False
    sent = await hub.messages.send(ME, session_id, SendMessage(text="waiting", local_id="l"))
    await runner.called(Send)
    before = await hub.sessions.get(ME, session_id)
    messages = await hub.messages.list(ME, session_id)
    await hub.close()
    await runner.ended()

    hub = await Hub.open(home, OWNER_TOKEN)
    away = await hub.sessions.get(ME, session_id)
    assert (away.status, away.active) == (SessionStatus.UNREACHABLE, False)
    assert await hub.messages.list(ME, session_id) == messages
    again = ScriptedRunner(hub, info=runner.info, logs=runner.logs)
    again.confirms_messages = False
    async with again:
        assert again.welcome is not None
        assert again.welcome.acked == {session_id: 2}
        after = await hub.sessions.get(ME, session_id)
        assert after == before
        assert (after.permission_mode, after.model) == (PermissionMode.YOLO, "opus")
        (resent,) = await again.called(Send)
        assert resent.item.id == sent.id
    await hub.close()


async def test_a_hub_that_was_killed_tells_that_its_machines_are_away(home: Path) -> None:
    hub = await Hub.open(home, OWNER_TOKEN)
    async with ScriptedRunner(hub) as runner:
        session_id = await create(hub, runner)
        cursor = (await hub.store.feed_bounds(ME.namespace)).highest
        # as after kill -9: the links' ends were never written
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
