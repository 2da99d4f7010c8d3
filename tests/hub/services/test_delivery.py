"""Delivery follows the store: whatever is accepted is offered again after a failure, while the machine is connected."""

import asyncio
import logging
import sqlite3
from collections.abc import Callable

import pytest

from farsteer.core.api import SendMessage
from farsteer.core.commands import Cancel, Delete, Send, SendNow
from farsteer.core.errors import Conflict, ErrorCode, FarsteerError, Internal, NotFound, Unavailable
from farsteer.core.queue import Delivery, ItemState
from farsteer.hub import Hub, tasks
from farsteer.link.messages import Call, Reply
from tests.hub.conftest import create
from tests.hub.scripted import ScriptedRunner, caller, refuse, silent
from tests.support.eventually import eventually
from tests.support.failing_store import FailingCalls

ME = caller()


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_FIRST_DELAY", 0.005)
    monkeypatch.setattr(tasks, "_LONGEST_DELAY", 0.05)


@pytest.fixture
def failing(hub: Hub) -> FailingCalls:
    return FailingCalls(hub.store)


async def send(hub: Hub, session_id: str, text: str, delivery: Delivery = Delivery.QUEUE) -> str:
    return (await hub.messages.send(ME, session_id, SendMessage(text=text, delivery=delivery))).id


def texts(runner: ScriptedRunner) -> list[str]:
    return [command.item.text for command in runner.commands(Send)]


async def states(hub: Hub, session_id: str) -> list[ItemState]:
    return [item.state for item in (await hub.messages.queue(ME, session_id)).items]


def first_time(answer: Callable[[Call], Reply | None], times: int = 1) -> Callable[[Call], Reply | None]:
    """Answer so the first `times`, then with success."""
    left = [answer] * times
    return lambda call: left.pop()(call) if left else Reply(id=call.id)


class TestFailedWrites:
    @pytest.mark.parametrize(
        "error", [Unavailable("full"), sqlite3.OperationalError("locked"), MemoryError(), RuntimeError("?")]
    )
    async def test_a_failed_claim_is_repeated(
        self, hub: Hub, runner: ScriptedRunner, session_id: str, failing: FailingCalls, error: Exception
    ) -> None:
        claims = 0

        def fail(name: str, _: int) -> Exception | None:
            nonlocal claims
            claims += name == "claim_items"
            return error if name == "claim_items" and claims <= 3 else None

        failing.before = fail
        await send(hub, session_id, "one")
        await send(hub, session_id, "two")
        await runner.wait_for(Send, 2)
        assert texts(runner) == ["one", "two"]

    async def test_a_claim_that_failed_after_its_commit_is_repeated(
        self, hub: Hub, runner: ScriptedRunner, session_id: str, failing: FailingCalls
    ) -> None:
        errors = [MemoryError()]
        failing.after = lambda name, _: errors.pop() if name == "claim_items" and errors else None
        await send(hub, session_id, "one")
        await runner.wait_for(Send)

    async def test_a_message_of_a_request_that_failed_or_was_given_up_is_delivered(
        self, hub: Hub, runner: ScriptedRunner, session_id: str, failing: FailingCalls
    ) -> None:
        errors: list[BaseException] = [asyncio.CancelledError(), MemoryError()]
        failing.after = lambda name, _: errors.pop() if name == "accept_item" and errors else None
        for text, error in (("one", MemoryError), ("two", asyncio.CancelledError)):
            with pytest.raises(error):
                await send(hub, session_id, text)
            await eventually(lambda text=text: text in texts(runner))

    async def test_an_outcome_that_could_not_be_written_is_written_later(
        self, hub: Hub, runner: ScriptedRunner, session_id: str, failing: FailingCalls
    ) -> None:
        runner.answers[Send] = refuse(NotFound("no such session"))
        errors = [Unavailable("the disk is full")]
        failing.before = lambda name, _: errors.pop() if name == "fail_item" and errors else None
        await send(hub, session_id, "one")
        await eventually(lambda: "fail_item" in failing.names and not errors)

        async def failed() -> bool:
            return await states(hub, session_id) == []

        await eventually(failed)

    async def test_a_machine_that_connects_while_the_store_fails_gets_its_messages(
        self, hub: Hub, failing: FailingCalls
    ) -> None:
        async with ScriptedRunner(hub) as runner:
            session_id = await create(hub, runner)
        await send(hub, session_id, "one")
        errors = [Unavailable("the disk is full"), MemoryError()]
        failing.before = lambda name, _: (
            errors.pop() if name == "list_sessions_with_accepted_items" and errors else None
        )
        async with ScriptedRunner(hub, info=runner.info, logs=runner.logs) as again:
            await again.wait_for(Send)
            assert not errors

    async def test_nothing_is_repeated_when_nothing_fails(
        self, hub: Hub, runner: ScriptedRunner, session_id: str, failing: FailingCalls
    ) -> None:
        for n in range(5):
            await send(hub, session_id, str(n))
        await runner.wait_for(Send, 5)
        await eventually(lambda: not hub.messages._delivery._active)
        assert texts(runner) == [*"01234"]
        assert failing.names.count("accept_item") == 5
        # The first message finds out which machine the session has. The others are claimed as they are accepted.
        assert failing.names.count("claim_items") <= 2

    async def test_a_failure_is_logged_once_a_minute(
        self, hub: Hub, runner: ScriptedRunner, session_id: str, failing: FailingCalls,
        caplog: pytest.LogCaptureFixture,
    ) -> None:  # fmt: skip
        errors = [Unavailable("the disk is full") for _ in range(8)]
        failing.before = lambda name, _: errors.pop() if name == "claim_items" and errors else None
        with caplog.at_level(logging.WARNING, "farsteer.hub.services.delivery"):
            await send(hub, session_id, "one")
            await runner.wait_for(Send)
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        assert "the disk is full" in caplog.text

    async def test_a_failing_delivery_ends_with_its_link(self, hub: Hub, failing: FailingCalls) -> None:
        async with ScriptedRunner(hub) as runner:
            session_id = await create(hub, runner)
            failing.before = lambda name, _: Unavailable("full") if name == "claim_items" else None
            await send(hub, session_id, "one")
            await eventually(lambda: failing.names.count("claim_items") > 2)
        await eventually(lambda: not hub.messages._delivery._active)
        failing.before = lambda *_: None
        async with ScriptedRunner(hub, info=runner.info, logs=runner.logs) as again:
            await again.wait_for(Send)


class TestFailedCalls:
    @pytest.mark.parametrize(
        "error",
        [
            Unavailable("no answer", code=ErrorCode.TIMEOUT),
            Conflict("this session is closing"),
            Internal("the runner failed: MemoryError"),
            Unavailable("the journal cannot be written"),
        ],
        ids=lambda error: str(error.code.value),
    )
    async def test_a_message_whose_offer_failed_is_offered_again_over_the_same_link(
        self, hub: Hub, runner: ScriptedRunner, session_id: str, error: FarsteerError
    ) -> None:
        runner.answers[Send] = first_time(refuse(error), 2)
        ids = [await send(hub, session_id, text) for text in ("one", "two", "three")]

        async def queued() -> bool:
            return await states(hub, session_id) == [ItemState.QUEUED] * 3

        await eventually(queued)
        assert {item.id for item in runner.logs[session_id].state.queue} == {*ids}

    async def test_a_message_that_the_runner_always_fails_at_gets_an_outcome_and_blocks_nothing(
        self, hub: Hub, runner: ScriptedRunner, session_id: str
    ) -> None:
        def answer(call: Call) -> Reply:
            assert isinstance(call.command, Send)
            bad = call.command.item.text == "bad"
            return refuse(Internal("the runner failed"))(call) if bad else Reply(id=call.id)

        runner.answers[Send] = answer
        await send(hub, session_id, "bad")
        good = await send(hub, session_id, "good")

        async def only_good() -> bool:
            items = (await hub.messages.queue(ME, session_id)).items
            return [(item.id, item.state) for item in items] == [(good, ItemState.QUEUED)]

        await eventually(only_good)

    async def test_messages_are_sent_without_waiting_for_answers_and_in_order(
        self, hub: Hub, runner: ScriptedRunner, session_id: str
    ) -> None:
        runner.answers[Send] = silent
        await send(hub, session_id, "0")
        await runner.wait_for(Send)
        for n in range(1, 20):
            await send(hub, session_id, str(n))
        await runner.wait_for(Send, 20)
        assert texts(runner) == [str(n) for n in range(20)]

    async def test_what_waits_for_a_machine_is_sent_in_order_and_some_at_a_time(self, hub: Hub) -> None:
        async with ScriptedRunner(hub) as runner:
            session_id = await create(hub, runner)
        for n in range(90):
            await send(hub, session_id, str(n))
        again = ScriptedRunner(hub, info=runner.info, logs=runner.logs)
        again.answers[Send] = silent
        async with again:
            await again.wait_for(Send, 32)
            await again.ping()
            assert texts(again) == [str(n) for n in range(32)]
        async with ScriptedRunner(hub, info=runner.info, logs=runner.logs) as third:
            await third.wait_for(Send, 90)
            assert texts(third) == [str(n) for n in range(90)]

    async def test_large_messages_are_sent_one_by_one(self, hub: Hub) -> None:
        async with ScriptedRunner(hub) as runner:
            session_id = await create(hub, runner)
        for n in range(3):
            await send(hub, session_id, str(n) * 2_000_000)
        again = ScriptedRunner(hub, info=runner.info, logs=runner.logs)
        again.answers[Send] = silent
        async with again:
            await again.wait_for(Send)
            await again.ping()
            assert len(again.commands(Send)) == 1

    async def test_a_deletion_that_failed_on_the_machine_is_repeated(
        self, hub: Hub, runner: ScriptedRunner, session_id: str
    ) -> None:
        runner.answers[Delete] = first_time(refuse(Internal("the runner failed")), 2)
        await hub.sessions.delete(ME, session_id)
        await runner.wait_for(Delete, 3)


class TestChanges:
    """Cancelling and prioritising a message whose offer failed."""

    async def test_a_message_whose_offer_failed_is_cancelled(
        self, hub: Hub, runner: ScriptedRunner, session_id: str
    ) -> None:
        taken: set[str] = set()

        def cancel(call: Call) -> Reply:
            assert isinstance(call.command, Cancel)
            return Reply(id=call.id) if call.command.item_id in taken else refuse(NotFound("?"))(call)

        def take(call: Call) -> Reply | None:
            assert isinstance(call.command, Send)
            if not runner.commands(Cancel):
                return refuse(Conflict("this session is closing"))(call)
            taken.add(call.command.item.id)
            return Reply(id=call.id)

        runner.answers |= {Send: take, Cancel: cancel}
        item = await send(hub, session_id, "one")
        await runner.wait_for(Send)
        await hub.messages.cancel(ME, session_id, item)
        assert taken == {item}

    async def test_a_message_whose_offer_failed_is_sent_now(
        self, hub: Hub, runner: ScriptedRunner, session_id: str
    ) -> None:
        runner.answers[SendNow] = refuse(NotFound("no such message in the queue"))
        runner.answers[Send] = lambda call: (
            Reply(id=call.id) if runner.commands(SendNow) else refuse(Conflict("closing"))(call)
        )
        first = await send(hub, session_id, "one")
        urgent = await send(hub, session_id, "two")
        await runner.wait_for(Send, 2)
        await hub.messages.send_now(ME, session_id, urgent)
        await eventually(lambda: len(runner.logs[session_id].state.queue) == 2)
        assert [ref.id for ref in runner.logs[session_id].state.queue] == [urgent, first]
