"""Scenarios 21 to 38: one process, its queue, and what becomes of both when it is stopped, hangs or dies."""

from __future__ import annotations

import asyncio
import re
import signal
import time

import psutil
import pytest

from farsteer.agents.demo.history import read_conversation
from farsteer.agents.demo.launch import DemoLaunch
from farsteer.core import commands
from farsteer.core import events as ev
from farsteer.core.api import SendMessage
from farsteer.core.errors import AgentError, Conflict, ErrorCode, FarsteerError
from farsteer.core.events import SessionStatus, TurnEndReason
from farsteer.core.launch import LaunchMode
from farsteer.core.queue import ItemState
from farsteer.hub.services.creation import CreationFailed
from tests.hub.scripted import caller
from tests.scenarios.chat import Chat, lives
from tests.scenarios.world import World
from tests.support.eventually import eventually

WORD = "The password is dolphin."
RECALL = "what password did I tell you?"


def stored_messages(chat: Chat) -> list[str]:
    """The messages that the demo agent has taken, read from its disk."""
    _, records = read_conversation(chat.adapter.plans[0].state_dir, str(chat.state.native_id))
    return [record["text"] for record in records if record["role"] == "user"]


async def freeze(chat: Chat) -> None:
    """Stop the agent, so that it reads nothing more."""
    agent = psutil.Process(chat.pid)
    agent.suspend()
    await eventually(lambda: agent.status() == psutil.STATUS_STOPPED)


def started(chat: Chat) -> list[str | None]:
    """The messages that began a turn, in order."""
    return [start.item_id for start in chat.of(ev.TurnStart)]


async def test_21_one_process_for_many_turns(chat: Chat) -> None:
    pid = chat.pid
    for text in ("say one", "say two", "say three"):
        assert (await chat.say(text)).reason is TurnEndReason.END_TURN
        assert chat.alive() == [pid]
    assert len(chat.adapter.plans) == 1


async def test_22_message_during_launch(chat: Chat) -> None:
    await chat.stop()
    chat.adapter.gate.clear()
    await chat.warm()
    await chat.adapter.asked(2)
    item = await chat.send("say hello")
    await chat.until(ev.QueueUpdate, item_id=item, state=ItemState.QUEUED)
    chat.adapter.gate.set()
    assert (await chat.turn(item)).answer == "hello"
    assert (await chat.say("history")).answer.count("say hello") == 1
    assert len(chat.adapter.plans) == 2


async def test_23_message_between_abort_and_cleanup(world: World) -> None:
    world.limit(interrupt_end=0.1, stop_grace=0.3)
    chat = await world.create()
    await chat.begin("stubborn")
    await chat.until(ev.AgentMessage)
    await chat.abort()
    await eventually(chat.ending)
    item = await chat.send("say hello")
    assert (await chat.turn(item)).answer == "hello"
    assert chat.outcomes(item) == [ItemState.DELIVERED]
    assert (await chat.say("history")).answer.count("say hello") == 1
    assert len(chat.adapter.launches) == 2


async def test_23_resume_between_stop_and_cleanup(world: World) -> None:
    """Who asks for a process while the old one ends gets the next one."""
    world.limit(stop_grace=0.2)
    chat = await world.create()
    await chat.begin("stubborn")
    await chat.until(ev.AgentMessage)
    stopping = asyncio.create_task(chat.stop())
    await eventually(chat.ending)
    await chat.resume()
    await stopping
    assert chat.state.status is SessionStatus.IDLE
    assert chat.alive() == [chat.pid]
    assert len(chat.adapter.plans) == 2


@pytest.mark.parametrize("agent", ["demo", "droid"])
async def test_24_crash_mid_turn(world: World, agent: str) -> None:
    world.droid()
    chat = await world.create(agent)
    await chat.say(WORD)
    first = await chat.begin("slow 1000" if agent == "demo" else "work")
    recall, last = [await chat.send(text) for text in (RECALL if agent == "demo" else "recall", "say last")]
    await chat.kill_agent()
    turn = await chat.turn(first)
    assert turn.reason is TurnEndReason.CRASHED
    assert all(message.partial for message in turn.of(ev.AgentMessage))
    assert "dolphin" in (await chat.turn(recall)).answer
    assert (await chat.turn(last)).answer == "last"
    assert chat.adapter.starts == [LaunchMode.CREATE, LaunchMode.RESUME]
    assert (await chat.say("say later")).answer == "later"
    assert chat.state.turn_id is None
    assert not (await chat.view()).thinking


async def test_25_crash_while_idle(chat: Chat) -> None:
    await chat.say(WORD)
    await chat.kill_agent()
    end = await chat.until(ev.LaunchEnd)
    assert end.exit_code == -signal.SIGKILL
    assert (await chat.view()).error is None
    assert chat.of(ev.Notice) == []
    assert not any(update.error for update in chat.of(ev.StatusUpdate))
    assert (await chat.say(RECALL)).answer == "dolphin"
    assert chat.adapter.starts == [LaunchMode.CREATE, LaunchMode.RESUME]


async def test_26_hard_kill_keeps_queue(world: World) -> None:
    world.limit(interrupt_end=0.1, stop_grace=0.2)
    chat = await world.create()
    hung = await chat.begin("stubborn")
    # It takes interrupts until it has said this.
    await chat.until(ev.AgentMessage)
    later = await chat.send("say later")
    await chat.until(ev.QueueUpdate, item_id=later, state=ItemState.QUEUED)
    urgent = await chat.hurry("say urgent")
    assert (await chat.turn(hung)).reason is TurnEndReason.CANCELLED
    assert (await chat.turn(urgent)).answer == "urgent"
    assert (await chat.turn(later)).answer == "later"
    assert started(chat) == [hung, urgent, later]
    assert len(chat.adapter.launches) == 2


async def test_27_in_flight_not_duplicated(chat: Chat) -> None:
    """A message is handed over and not confirmed when the agent dies."""
    await chat.say("never confirm")
    item = await chat.send("hang")
    await eventually(lambda: "hang" in stored_messages(chat))
    await chat.kill_agent()
    assert await chat.outcome(item) is ItemState.UNKNOWN
    assert (await chat.turn(item)).reason is TurnEndReason.FAILED
    assert (await chat.say("say later")).answer == "later"
    assert started(chat).count(item) == 1
    assert stored_messages(chat).count("hang") == 1


async def test_27_unread_message_goes_to_the_next_process(chat: Chat) -> None:
    """The agent reads no more: what it left in the pipe is known not to be taken."""
    await chat.say("say first")
    await freeze(chat)
    item = await chat.send("say hello")
    await chat.until(ev.UserMessage, item_id=item)
    await chat.kill_agent()
    turn = await chat.turn(item)
    assert turn.reason is TurnEndReason.END_TURN
    assert turn.answer == "hello"
    assert chat.outcomes(item) == [ItemState.DELIVERED]
    assert started(chat).count(item) == 1
    assert len(chat.of(ev.UserMessage, item_id=item)) == 1
    assert stored_messages(chat).count("say hello") == 1


@pytest.mark.parametrize("ended_by", ["abort", "stop", "cancel", "now"])
async def test_27_turn_that_waits_for_a_process_can_be_ended(chat: Chat, ended_by: str) -> None:
    await chat.say("say first")
    await freeze(chat)
    item = await chat.send("say hello")
    await chat.until(ev.UserMessage, item_id=item)
    chat.adapter.gate.clear()
    await chat.kill_agent()
    await chat.until(ev.QueueUpdate, 2, item_id=item, state=ItemState.QUEUED)
    assert chat.state.turn_id is not None
    match ended_by:
        case "abort":
            await chat.abort()
        case "stop":
            await chat.stop()
        case "cancel":
            await chat.cancel(item)
        case _:
            await chat.hurry("say urgent")
    assert (await chat.turn(item)).reason is TurnEndReason.CANCELLED
    assert await chat.outcome(item) is ItemState.CANCELLED
    chat.adapter.gate.set()
    assert (await chat.say("say later")).answer == "later"
    assert "say hello" not in stored_messages(chat)


async def test_27_runner_restarts_while_a_turn_waits_for_a_process(world: World, chat: Chat) -> None:
    await chat.say("say first")
    await freeze(chat)
    item = await chat.send("say hello")
    await chat.until(ev.UserMessage, item_id=item)
    chat.adapter.gate.clear()
    await chat.kill_agent()
    await chat.until(ev.QueueUpdate, 2, item_id=item, state=ItemState.QUEUED)
    chat.adapter.gate.set()
    await world.restart_runner()
    turn = await chat.turn(item)
    assert (turn.reason, turn.answer) == (TurnEndReason.END_TURN, "hello")
    assert started(chat).count(item) == 1
    assert stored_messages(chat).count("say hello") == 1


async def test_27_agent_that_never_takes_a_message(world: World) -> None:
    """A message fails when three processes in a row ended before they took it."""
    chat = await world.create()

    async def send(*_: object) -> None:
        raise AgentError("it is gone", code=ErrorCode.MESSAGE_NOT_TAKEN)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DemoLaunch, "send", send)
        item = await chat.send("say hello")
        turn = await chat.turn(item)
    assert turn.reason is TurnEndReason.FAILED
    assert await chat.outcome(item) is ItemState.FAILED
    assert len(chat.adapter.plans) == 3
    assert (await chat.say("say later")).answer == "later"


async def test_28_cancel_queued_is_real(chat: Chat) -> None:
    running = await chat.begin("hang")
    waiting = await chat.send("say never")
    await chat.until(ev.QueueUpdate, item_id=waiting, state=ItemState.QUEUED)
    await chat.cancel(waiting)
    assert await chat.outcome(waiting) is ItemState.CANCELLED
    with pytest.raises(Conflict) as refused:
        await chat.cancel(running)
    assert refused.value.code is ErrorCode.NOT_CANCELLABLE
    await chat.abort()
    await chat.turn(running)
    assert "never" not in (await chat.say("history")).answer


@pytest.mark.parametrize("cleared_by", ["stop", "rewind"])
async def test_29_every_cleared_queue_is_announced(chat: Chat, cleared_by: str) -> None:
    await chat.say("say one")
    (message,) = [entry for entry in chat.entries if isinstance(entry.content, ev.AgentMessage)]
    assert isinstance(message.content, ev.AgentMessage)
    await chat.begin("hang")
    waiting = [await chat.send(f"say {n}") for n in range(3)]
    await chat.until(ev.QueueUpdate, item_id=waiting[-1], state=ItemState.QUEUED)
    if cleared_by == "stop":
        await chat.stop()
    else:
        await chat.command(commands.Rewind(first_seq=message.seq + 1, cut_at=message.content.anchor))
    for item in waiting:
        assert await chat.outcome(item) is ItemState.CANCELLED
    assert not set(started(chat)) & {*waiting}
    assert (await chat.view()).queue == ()


async def test_30_fifo_under_simultaneous_senders(world: World, chat: Chat) -> None:
    def sender(label: str, text: str) -> asyncio.Task[str]:
        async def send() -> str:
            sent = await world.hub.messages.send(caller(label=label), chat.id, SendMessage(text=text))
            return sent.id

        return asyncio.create_task(send())

    tasks = [sender(label, f"say {label} {n}") for n in range(5) for label in ("web", "im")]
    items = [await task for task in tasks]
    turns = [await chat.turn(item) for item in items]
    assert [turn.reason for turn in turns] == [TurnEndReason.END_TURN] * 10
    assert started(chat) == items
    assert [turn.answer for turn in turns] == [f"{label} {n}" for n in range(5) for label in ("web", "im")]
    senders = [message.sent_from for message in chat.of(ev.UserMessage)]
    assert senders == ["web", "im"] * 5


@pytest.mark.parametrize("by", ["stop", "abort"])
async def test_31_stop_during_startup(world: World, chat: Chat, by: str) -> None:
    await chat.stop()
    world.demo.behave.append("slow-start")
    item = await chat.send("say never")
    await chat.adapter.asked(2)
    begun = time.monotonic()
    await (chat.stop() if by == "stop" else chat.abort())
    assert time.monotonic() - begun < 5
    assert await chat.outcome(item) is ItemState.CANCELLED
    assert not (await chat.view()).thinking
    if by == "stop":
        assert chat.state.status is SessionStatus.STOPPED
        assert chat.alive() == []
    assert "never" not in (await chat.say("history")).answer
    assert item not in started(chat)


@pytest.mark.parametrize("by", ["stop", "abort"])
async def test_31_stop_right_after_a_message(world: World, chat: Chat, by: str) -> None:
    """It does not overtake the message, which would then be executed after it."""
    await chat.stop()
    chat.adapter.gate.clear()
    item = await chat.send("say never")
    await (chat.stop() if by == "stop" else chat.abort())
    assert await chat.outcome(item) is ItemState.CANCELLED
    chat.adapter.gate.set()
    assert "never" not in (await chat.say("history")).answer


async def test_32_interrupt_acknowledged_but_hung_tool(world: World) -> None:
    world.limit(interrupt_end=0.3)
    chat = await world.create()
    await chat.say(WORD)
    item = await chat.begin("ignore interrupt")
    await chat.until(ev.AgentMessage, 2)
    begun = time.monotonic()
    await chat.abort()
    assert (await chat.turn(item)).reason is TurnEndReason.CANCELLED
    assert 0.3 <= time.monotonic() - begun < 5
    assert (await chat.say(RECALL)).answer == "dolphin"
    assert len(chat.alive()) == 1


@pytest.mark.parametrize("agent", ["demo", "droid"])
async def test_33_interrupt_not_acknowledged(world: World, agent: str) -> None:
    world.droid()
    world.limit(interrupt=0.3, stop_grace=0.1)
    chat = await world.create(agent)
    await chat.say("say before")
    item = await chat.begin("hang deaf" if agent == "demo" else "hang")
    if agent == "droid":
        psutil.Process(chat.pid).suspend()
    begun = time.monotonic()
    await chat.abort()
    assert (await chat.turn(item)).reason is TurnEndReason.CANCELLED
    assert 0.3 <= time.monotonic() - begun < 8
    assert (await chat.say("say after")).answer == "after"
    assert chat.adapter.starts == [LaunchMode.CREATE, LaunchMode.RESUME]


@pytest.mark.parametrize("by", ["abort", "stop", "send now"])
async def test_33_interrupt_while_the_message_is_on_its_way(world: World, by: str) -> None:
    """An agent that reads no more confirms neither a message nor an interrupt."""
    world.limit(interrupt=0.3, stop_grace=0.1)
    chat = await world.create()
    await chat.say("deaf")
    item = await chat.send("say never")
    await chat.until(ev.UserMessage, item_id=item)
    later = await chat.send("say later")
    await eventually(lambda: chat.unread() == 1)
    begun = time.monotonic()
    if by == "send now":
        urgent = await chat.hurry("say urgent")
        assert (await chat.turn(urgent)).answer == "urgent"
    else:
        await (chat.abort() if by == "abort" else chat.stop())
    assert await chat.outcome(item) is ItemState.UNKNOWN
    assert (await chat.turn(item)).reason is TurnEndReason.CANCELLED
    assert time.monotonic() - begun < 5
    assert await chat.outcome(later) is (ItemState.CANCELLED if by == "stop" else ItemState.DELIVERED)
    assert "never" not in (await chat.say("history")).answer


async def test_34_stop_keeps_later_queue(chat: Chat) -> None:
    running = await chat.begin("hang")
    later = [await chat.send(text) for text in ("say one", "say two")]
    await chat.abort()
    assert (await chat.turn(running)).reason is TurnEndReason.CANCELLED
    assert [(await chat.turn(item)).answer for item in later] == ["one", "two"]
    assert len(chat.adapter.launches) == 1


async def test_35_sigterm_ignored(world: World) -> None:
    world.limit(stop_grace=0.2)
    chat = await world.create()
    await chat.begin("orphan\nescape\nescape twice\nstubborn")
    await chat.until(ev.AgentMessage, 4)
    left = [int(n) for said in chat.of(ev.AgentMessage) for n in re.findall(r"Process (\d+)", said.text)]
    assert len(left) == 3
    assert all(map(lives, left))
    begun = time.monotonic()
    await chat.stop()
    assert time.monotonic() - begun < 5
    assert chat.alive() == []
    await eventually(lambda: not any(map(lives, left)))
    (end,) = chat.of(ev.TurnEnd)
    assert end.reason is TurnEndReason.CANCELLED
    assert chat.state.status is SessionStatus.STOPPED


async def test_36_startup_timeout(world: World, chat: Chat) -> None:
    await chat.stop()
    world.demo.behave.append("hang-at-start")
    item = await chat.send("say never")
    assert await chat.outcome(item) is ItemState.FAILED
    (failed,) = chat.of(ev.StatusUpdate, status=SessionStatus.FAILED)
    assert "not ready within" in (failed.error or "")
    assert not (await chat.view()).thinking
    assert chat.resting()
    assert (await chat.say("say again")).answer == "again"


async def test_36_startup_timeout_of_the_first_process(world: World) -> None:
    """Nobody has the session yet: it is refused, and nothing is left of it."""
    world.demo.behave.append("hang-at-start")
    refused = await world.try_create()
    assert isinstance(refused, CreationFailed)
    assert "not ready within" in refused.error.message
    assert (await world.hub.sessions.list(world.caller)).sessions == []
    assert world.runner._actors == {}
    assert (await (await world.create()).say("say hello")).answer == "hello"


async def test_37_early_notice_does_not_stop_the_startup_timer(world: World, chat: Chat) -> None:
    await chat.stop()
    world.demo.behave.append("talk-at-start")
    assert await chat.outcome(await chat.send("say never")) is ItemState.FAILED
    (error,) = world.demo.errors
    assert isinstance(error, FarsteerError)
    assert "not ready within" in error.message
    assert (await chat.say("say again")).answer == "again"


async def test_38_warm_up_failures_bounded(world: World, chat: Chat) -> None:
    await chat.say(WORD)
    world.demo.behave.extend(["die-at-start"] * 10)
    before = len(chat.entries)
    await chat.kill_agent()
    await chat.until(ev.LaunchEnd)
    await eventually(lambda: len(world.demo.errors) == 3 and chat.resting())
    assert len(world.demo.plans) == 4
    assert chat.kinds()[before:] == ["launch_end"]
    world.demo.behave.clear()
    assert (await chat.say(RECALL)).answer == "dolphin"
    assert len(world.demo.plans) == 5
