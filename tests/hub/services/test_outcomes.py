"""Outcomes that the hub gave or learned by itself reach the log, through the runner, once."""

from __future__ import annotations

import pytest

from farsteer.core import events as ev
from farsteer.core.api import SendMessage
from farsteer.core.commands import KnownOutcome, Send, Settle
from farsteer.core.errors import Conflict, ErrorCode, NotCapable
from farsteer.core.queue import ItemState
from farsteer.core.wire import to_builtins
from farsteer.hub import Hub
from farsteer.hub.store.sqlite import sessions
from farsteer.link.messages import Call, Reply
from tests.hub.conftest import create
from tests.hub.scripted import ScriptedRunner, caller
from tests.support.eventually import eventually

ME = caller()


async def unlogged(hub: Hub, runner: ScriptedRunner) -> list[str]:
    found = await hub.store.list_unlogged_outcomes(ME.namespace, runner.info.id)
    return [outcome.item.id for outcome in found]


async def test_a_cancelled_message_is_told_to_the_runner_when_it_connects_until_the_log_has_it(
    hub: Hub,
) -> None:
    async with ScriptedRunner(hub) as runner:
        session_id = await create(hub, runner)
    item = await hub.messages.send(ME, session_id, SendMessage(text="never mind"))
    await hub.messages.cancel(ME, session_id, item.id)
    for _ in range(2):
        async with ScriptedRunner(hub, info=runner.info, logs=runner.logs) as later:
            (settle,) = await later.wait_for(Settle)
            assert (settle.item_id, settle.state, settle.checked) == (item.id, ItemState.CANCELLED, 0)
            assert settle.item.text == "never mind"
    async with ScriptedRunner(hub, info=runner.info, logs=runner.logs) as later:
        await later.wait_for(Settle)
        await later.append(session_id, ev.QueueUpdate(item_id=item.id, state=ItemState.CANCELLED))
    async with ScriptedRunner(hub, info=runner.info, logs=runner.logs) as later:
        await later.ping()
        assert later.commands(Settle) == []


async def test_a_runner_of_protocol_2_is_told_nothing_that_it_does_not_know(hub: Hub) -> None:
    async with ScriptedRunner(hub) as runner:
        session_id = await create(hub, runner)
    item = await hub.messages.send(ME, session_id, SendMessage(text="never mind"))
    await hub.messages.cancel(ME, session_id, item.id)
    async with ScriptedRunner(hub, info=runner.info, protocol=2) as old:
        await old.ping()
        assert old.commands(Settle) == []
        assert old.welcome is not None
        assert (old.welcome.acked, old.welcome.items, old.welcome.restored) == ({}, {}, [])
    assert await unlogged(hub, runner) == [item.id]


async def test_a_refused_message_is_told_at_once(hub: Hub, runner: ScriptedRunner, session_id: str) -> None:
    refusal = NotCapable("this agent accepts no message").record()
    runner.answers[Send] = lambda call: Reply(id=call.id, error=refusal)
    item = await hub.messages.send(ME, session_id, SendMessage(text="x"))
    (settle,) = await runner.wait_for(Settle)
    assert (settle.item_id, settle.state, settle.reason) == (item.id, ItemState.FAILED, refusal.message)


async def test_what_the_runner_has_settled_is_settled_by_its_word(
    hub: Hub, runner: ScriptedRunner, session_id: str
) -> None:
    def answer(call: Call) -> Reply:
        return Reply(id=call.id, result=to_builtins(KnownOutcome(ItemState.DELIVERED)))

    runner.answers[Send] = answer
    runner.confirms_messages = False
    item = await hub.messages.send(ME, session_id, SendMessage(text="x"))
    (settle,) = await runner.wait_for(Settle)
    assert (settle.item_id, settle.state) == (item.id, ItemState.DELIVERED)
    assert (await hub.messages.queue(ME, session_id)).items == []
    with pytest.raises(Conflict) as refusal:
        await hub.messages.cancel(ME, session_id, item.id)
    assert (refusal.value.code, refusal.value.details) == (ErrorCode.NOT_CANCELLABLE, {"state": "delivered"})


async def test_an_answer_that_makes_no_sense_changes_nothing(
    hub: Hub, runner: ScriptedRunner, session_id: str
) -> None:
    runner.confirms_messages = False
    for result in ("nonsense", {"outcome": "queued"}, {"outcome": "sold"}, [1]):
        runner.answers[Send] = lambda call, result=result: Reply(id=call.id, result=result)
        item = await hub.messages.send(ME, session_id, SendMessage(text="x"))
        await runner.wait_until(
            lambda item=item: any(one.item.id == item.id for one in runner.commands(Send))
        )
    await runner.ping()
    assert await unlogged(hub, runner) == []


async def test_sessions_that_the_runner_lacks_are_sent_in_parts(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "_MAX_KNOWN_BYTES", 1)
    async with ScriptedRunner(hub) as runner:
        ids = [await create(hub, runner) for _ in range(3)]
    later = ScriptedRunner(hub, info=runner.info)
    async with later:
        assert later.welcome is not None
        assert (later.welcome.acked, later.welcome.more) == (dict.fromkeys(ids, 0), True)
        await eventually(lambda: len(later.more) == 2)
        parts = [later.welcome, *later.more]
        assert [known.spec.id for part in parts for known in part.restored] == ids
        assert [part.more for part in parts] == [True, True, False]
