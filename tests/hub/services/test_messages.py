"""Reading, sending, delivering, cancelling and prioritising messages."""

import asyncio
import base64
import json

import pytest

from farsteer.core import events as ev
from farsteer.core.api import ClearMessages, MessagesResponse, NewAttachment, SendMessage
from farsteer.core.commands import Cancel, Send, SendNow
from farsteer.core.errors import BadRequest, Conflict, ErrorCode, MachineOffline, NotFound
from farsteer.core.ids import new_id
from farsteer.core.queue import Delivery, ItemState
from farsteer.core.wire import decode
from farsteer.hub import Hub
from tests.hub.conftest import create
from tests.hub.scripted import FeedRecorder, ScriptedRunner, caller, refuse, silent

ME = caller()


class TestMessages:
    async def test_a_page_has_the_stored_bytes_and_the_declared_form(
        self, hub: Hub, runner: ScriptedRunner, session_id: str
    ) -> None:
        await runner.append(session_id, *[ev.AgentMessage(message_id=str(n), text="é\n") for n in range(5)])
        body = await hub.messages.list(ME, session_id, limit=2)
        page = decode(body, MessagesResponse)
        assert [message.seq for message in page.messages] == [4, 5]
        assert (page.page.has_more, page.page.next_before_seq, page.page.next_after_seq) == (True, 4, None)
        assert bytes(runner.logs[session_id].entries[4].body) in body
        first = decode(await hub.messages.list(ME, session_id, limit=3, before_seq=4), MessagesResponse)
        assert [message.seq for message in first.messages] == [1, 2, 3]
        assert (first.page.has_more, first.page.next_before_seq) == (False, None)
        after = decode(await hub.messages.list(ME, session_id, limit=3, after_seq=1), MessagesResponse)
        assert [message.seq for message in after.messages] == [2, 3, 4]
        assert (after.page.has_more, after.page.next_after_seq) == (True, 4)
        with pytest.raises(BadRequest):
            await hub.messages.list(ME, session_id, limit=201)

    async def test_cleared_history_is_hidden_from_readers(
        self, hub: Hub, runner: ScriptedRunner, session_id: str
    ) -> None:
        await runner.append(session_id, *[ev.Notice(text=str(n)) for n in range(5)])
        cleared = await hub.messages.clear(ME, session_id, ClearMessages(keep_count=1))
        assert (cleared.cleared, cleared.remaining) == (4, 1)
        page = decode(await hub.messages.list(ME, session_id), MessagesResponse)
        assert [message.seq for message in page.messages] == [5]


class TestSending:
    async def test_a_message_is_accepted_delivered_and_followed_to_its_outcome(
        self, hub: Hub, runner: ScriptedRunner, session_id: str
    ) -> None:
        feed = FeedRecorder(hub)
        accepted = await hub.messages.send(ME, session_id, SendMessage(text="hello"))
        assert (accepted.state, accepted.position) == (ItemState.ACCEPTED, 0)
        (sent,) = await runner.wait_for(Send)
        assert (sent.item.id, sent.item.text, sent.item.sent_from) == (accepted.id, "hello", "default")
        await runner.wait_until(lambda: runner.acked.get(session_id) == 1)
        (queued,) = (await hub.messages.queue(ME, session_id)).items
        assert queued.state is ItemState.QUEUED
        await runner.append(session_id, ev.QueueUpdate(item_id=accepted.id, state=ItemState.DELIVERED))
        assert (await hub.messages.queue(ME, session_id)).items == []
        queues = [update["data"]["queue"] for update in feed.of("session-updated")]
        assert [[item.get("state", "accepted") for item in queue] for queue in queues] == [
            ["accepted"], ["queued"], [],
        ]  # fmt: skip

    async def test_the_same_local_id_is_the_same_message(
        self, hub: Hub, runner: ScriptedRunner, session_id: str
    ) -> None:
        first = await hub.messages.send(ME, session_id, SendMessage(text="a", local_id="l"))
        await runner.wait_until(lambda: runner.acked.get(session_id) == 1)
        again = await hub.messages.send(ME, session_id, SendMessage(text="a", local_id="l"))
        assert (again.id, again.state) == (first.id, ItemState.QUEUED)
        other = await create(hub, runner)
        assert (await hub.messages.send(ME, other, SendMessage(text="a", local_id="l"))).id != first.id
        assert len(runner.commands(Send)) <= 2

    async def test_messages_are_delivered_in_order(
        self, hub: Hub, runner: ScriptedRunner, session_id: str
    ) -> None:
        for n in range(20):
            accepted = await hub.messages.send(ME, session_id, SendMessage(text=str(n)))
            assert accepted.position <= n
        sent = await runner.wait_for(Send, 20)
        assert [command.item.text for command in sent] == [str(n) for n in range(20)]

    async def test_a_message_for_an_offline_machine_waits_for_it(self, hub: Hub) -> None:
        async with ScriptedRunner(hub) as runner:
            session_id = await create(hub, runner)
        for text in ("one", "two"):
            await hub.messages.send(ME, session_id, SendMessage(text=text))
        async with ScriptedRunner(hub, info=runner.info, logs=runner.logs) as again:
            sent = await again.wait_for(Send, 2)
            assert [command.item.text for command in sent] == ["one", "two"]

    async def test_an_unconfirmed_message_is_delivered_again_with_the_same_id(self, hub: Hub) -> None:
        async with ScriptedRunner(hub) as runner:
            session_id = await create(hub, runner)
            runner.confirms_messages = False
            accepted = await hub.messages.send(ME, session_id, SendMessage(text="one"))
            await runner.wait_for(Send)
            await hub.messages.send(ME, session_id, SendMessage(text="two"))
            await runner.wait_for(Send, 2)
            assert [command.item.text for command in runner.commands(Send)] == ["one", "two"]
        async with ScriptedRunner(hub, info=runner.info, logs=runner.logs) as again:
            sent = await again.wait_for(Send, 2)
            assert [command.item.text for command in sent] == ["one", "two"]
            assert sent[0].item.id == accepted.id
            await again.wait_until(lambda: again.acked.get(session_id) == 2)
        async with ScriptedRunner(hub, info=runner.info, logs=runner.logs) as third:
            await third.ping()
            assert third.commands(Send) == []

    async def test_a_message_that_the_runner_refuses_fails_visibly(
        self, hub: Hub, runner: ScriptedRunner, session_id: str
    ) -> None:
        feed = FeedRecorder(hub)
        runner.answers[Send] = refuse(NotFound("this machine does not have that session"))
        await hub.messages.send(ME, session_id, SendMessage(text="a", local_id="l"))
        await feed.wait_until(lambda: len(feed.of("session-updated")) == 2)
        assert [item["state"] for item in feed.of("session-updated")[-1]["data"]["queue"]] == ["failed"]
        assert (await hub.messages.queue(ME, session_id)).items == []
        again = await hub.messages.send(ME, session_id, SendMessage(text="a", local_id="l"))
        assert again.state is ItemState.FAILED

    async def test_a_runner_cannot_revert_an_outcome(
        self, hub: Hub, runner: ScriptedRunner, session_id: str
    ) -> None:
        runner.confirms_messages = False
        item = await hub.messages.send(ME, session_id, SendMessage(text="x", local_id="l"))
        await runner.wait_for(Send)
        for state in (ItemState.ACCEPTED, ItemState.DELIVERED, ItemState.QUEUED):
            await runner.append(session_id, ev.QueueUpdate(item_id=item.id, state=state))
        again = await hub.messages.send(ME, session_id, SendMessage(text="x", local_id="l"))
        assert again.state is ItemState.DELIVERED

    async def test_the_queue_is_limited(self, hub: Hub, runner: ScriptedRunner, session_id: str) -> None:
        runner.answers[Send] = silent
        for n in range(100):
            assert (await hub.messages.send(ME, session_id, SendMessage(text="x"))).position == n
        with pytest.raises(Conflict) as error:
            await hub.messages.send(ME, session_id, SendMessage(text="x"))
        assert error.value.code is ErrorCode.QUEUE_FULL

    async def test_attachments_reach_the_agent_and_are_shown_by_name(
        self, hub: Hub, runner: ScriptedRunner, session_id: str
    ) -> None:
        data = base64.b64encode(b"picture").decode()
        feed = FeedRecorder(hub)
        await hub.messages.send(
            ME,
            session_id,
            SendMessage(text="look", attachments=[NewAttachment(name="a.png", data=data)]),
        )
        (sent,) = await runner.wait_for(Send)
        assert (sent.item.attachments[0].data, sent.item.attachments[0].size) == (data, 7)
        await runner.wait_until(lambda: runner.acked.get(session_id) == 1)
        (queued,) = (await hub.messages.queue(ME, session_id)).items
        assert (queued.attachments[0].name, queued.attachments[0].data) == ("a.png", None)
        assert all(data not in json.dumps(update) for update in feed.of("session-updated"))

    @pytest.mark.parametrize(
        "data",
        [
            "!",
            "YQ",
            "YQ==\n",
            "é",
            "A" * (1024 * 1024 - 2) + "==AAAA",
            "A" * 2**21 + "A",
            "A" * 2**21 + "!AAA",
        ],
    )
    async def test_an_attachment_that_is_not_base64_is_refused(
        self, hub: Hub, session_id: str, data: str
    ) -> None:
        with pytest.raises(BadRequest):
            await hub.messages.send(
                ME, session_id, SendMessage(text="x", attachments=[NewAttachment(name="a", data=data)])
            )
        assert (await hub.messages.queue(ME, session_id)).items == []


class TestCancelling:
    async def test_a_message_that_was_never_delivered_is_cancelled_on_the_hub(self, hub: Hub) -> None:
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

    async def test_a_message_that_the_runner_has_is_cancelled_by_the_runner(
        self, hub: Hub, runner: ScriptedRunner, session_id: str
    ) -> None:
        item = await hub.messages.send(ME, session_id, SendMessage(text="x"))
        await runner.wait_until(lambda: runner.acked.get(session_id) == 1)
        await hub.messages.cancel(ME, session_id, item.id)
        assert runner.commands(Cancel) == [Cancel(item_id=item.id)]
        runner.answers[Cancel] = refuse(
            Conflict("the agent already has this message", code=ErrorCode.NOT_CANCELLABLE)
        )
        with pytest.raises(Conflict) as error:
            await hub.messages.cancel(ME, session_id, item.id)
        assert error.value.code is ErrorCode.NOT_CANCELLABLE

    async def test_a_message_that_an_offline_machine_may_have_is_not_cancelled(self, hub: Hub) -> None:
        async with ScriptedRunner(hub) as runner:
            session_id = await create(hub, runner)
            runner.confirms_messages = False
            item = await hub.messages.send(ME, session_id, SendMessage(text="x"))
            await runner.wait_for(Send)
        with pytest.raises(MachineOffline):
            await hub.messages.cancel(ME, session_id, item.id)

    async def test_an_outcome_is_final(self, hub: Hub, runner: ScriptedRunner, session_id: str) -> None:
        item = await hub.messages.send(ME, session_id, SendMessage(text="x"))
        await runner.wait_until(lambda: runner.acked.get(session_id) == 1)
        await runner.append(session_id, ev.QueueUpdate(item_id=item.id, state=ItemState.DELIVERED))
        with pytest.raises(Conflict) as error:
            await hub.messages.cancel(ME, session_id, item.id)
        assert error.value.code is ErrorCode.NOT_CANCELLABLE
        with pytest.raises(NotFound):
            await hub.messages.cancel(ME, session_id, new_id())


class TestSendingNow:
    async def test_a_message_that_was_never_delivered_is_delivered_first(self, hub: Hub) -> None:
        async with ScriptedRunner(hub) as runner:
            session_id = await create(hub, runner)
        items = [await hub.messages.send(ME, session_id, SendMessage(text=text)) for text in "abc"]
        await hub.messages.send_now(ME, session_id, items[2].id)
        shown = (await hub.messages.queue(ME, session_id)).items
        assert [item.delivery for item in shown] == [Delivery.QUEUE, Delivery.QUEUE, Delivery.NOW]
        async with ScriptedRunner(hub, info=runner.info, logs=runner.logs) as later:
            sent = await later.wait_for(Send, 3)
            assert [(command.item.text, command.item.delivery) for command in sent] == [
                ("c", Delivery.NOW), ("a", Delivery.QUEUE), ("b", Delivery.QUEUE),
            ]  # fmt: skip

    async def test_a_message_that_the_runner_has_is_prioritised_by_the_runner(
        self, hub: Hub, runner: ScriptedRunner, session_id: str
    ) -> None:
        item = await hub.messages.send(ME, session_id, SendMessage(text="x"))
        await runner.wait_until(lambda: runner.acked.get(session_id) == 1)
        await hub.messages.send_now(ME, session_id, item.id)
        assert runner.commands(SendNow) == [SendNow(item_id=item.id)]
        runner.answers[SendNow] = refuse(Conflict("it has it", code=ErrorCode.NOT_CANCELLABLE))
        with pytest.raises(Conflict) as error:
            await hub.messages.send_now(ME, session_id, item.id)
        assert error.value.code is ErrorCode.NOT_CANCELLABLE

    async def test_a_message_lost_with_a_link_is_delivered_first_over_the_next(self, hub: Hub) -> None:
        async with ScriptedRunner(hub) as runner:
            session_id = await create(hub, runner)
            runner.answers[Send] = silent
            item = await hub.messages.send(ME, session_id, SendMessage(text="x"))
            await runner.wait_for(Send)
        with pytest.raises(MachineOffline):
            await hub.messages.send_now(ME, session_id, item.id)
        later = ScriptedRunner(hub, info=runner.info, logs=runner.logs)
        later.answers |= {Send: silent, SendNow: refuse(NotFound("no such message in the queue"))}
        async with later:
            asked = asyncio.create_task(hub.messages.send_now(ME, session_id, item.id))
            sent = await later.wait_for(Send)
            assert sent[0].item.id == item.id
            asked.cancel()
            await asyncio.wait([asked])

    async def test_an_outcome_is_final(self, hub: Hub, runner: ScriptedRunner, session_id: str) -> None:
        item = await hub.messages.send(ME, session_id, SendMessage(text="x"))
        await runner.wait_until(lambda: runner.acked.get(session_id) == 1)
        for state in (ItemState.HANDED_OVER, ItemState.DELIVERED):
            await runner.append(session_id, ev.QueueUpdate(item_id=item.id, state=state))
            with pytest.raises(Conflict) as error:
                await hub.messages.send_now(ME, session_id, item.id)
            assert error.value.code is ErrorCode.NOT_CANCELLABLE
        with pytest.raises(NotFound):
            await hub.messages.send_now(ME, session_id, new_id())
        assert runner.commands(SendNow) == []

    async def test_the_delivery_mode_reaches_the_runner(
        self, hub: Hub, runner: ScriptedRunner, session_id: str
    ) -> None:
        for delivery in Delivery:
            await hub.messages.send(ME, session_id, SendMessage(text="x", delivery=delivery))
        assert {command.item.delivery for command in await runner.wait_for(Send, 3)} == {*Delivery}
