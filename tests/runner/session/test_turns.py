"""Messages that do not simply wait: first, or into the running turn; and agents that fall silent."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from farsteer.agents.base import ApprovalAsked, EventEmitted, TurnEnded
from farsteer.core import commands
from farsteer.core import events as ev
from farsteer.core.capabilities import Capabilities
from farsteer.core.errors import AgentError, Conflict, ErrorCode, NotCapable, NotFound
from farsteer.core.events import TurnEndReason
from farsteer.core.modes import ToolKind
from farsteer.core.queue import Delivery, ItemState, QueueItem
from tests.runner.conftest import SessionHarness
from tests.runner.scripted import ScriptedAdapter
from tests.runner.session.test_actor import approval, in_turn, item
from tests.support.eventually import eventually


class Steerable(ScriptedAdapter):
    capabilities = Capabilities(caller_chosen_id=True, resume=True, steer=True, approvals=True)


def sent(name: str, delivery: Delivery) -> QueueItem:
    return msgspec.structs.replace(item(name, f"text {name}"), delivery=delivery)


async def test_send_now_interrupts_and_goes_first(harness: SessionHarness) -> None:
    actor, launch, prompt = await in_turn(harness)
    for name in ("2", "3"):
        await actor.execute(commands.Send(item=item(name, f"text {name}")))
    await actor.execute(commands.Send(item=sent("now", Delivery.NOW)))
    await launch.interrupts.get()
    await launch.finish(prompt, TurnEndReason.CANCELLED)
    for name in ("now", "2", "3"):
        prompt = await launch.prompt()
        assert prompt.text == f"text {name}"
        await launch.finish(prompt)


async def test_a_waiting_message_can_be_sent_now(harness: SessionHarness) -> None:
    actor, launch, prompt = await in_turn(harness)
    for name in ("2", "3"):
        await actor.execute(commands.Send(item=item(name, f"text {name}")))
    await actor.execute(commands.SendNow(item_id="3"))
    with pytest.raises(NotFound):
        await actor.execute(commands.SendNow(item_id="1"))
    await launch.finish(prompt, TurnEndReason.CANCELLED)
    assert (await launch.prompt()).text == "text 3"


async def test_a_steered_message_lands_in_the_running_turn(harness: SessionHarness) -> None:
    harness.adapter = Steerable()
    actor, launch, prompt = await in_turn(harness)
    await actor.execute(commands.Send(item=sent("2", Delivery.STEER)))
    (steered,) = launch.steered
    assert (steered.turn_id, steered.text, steered.message_id) == (prompt.turn_id, "text 2", "2")
    await launch.finish(prompt)
    await harness.out.until(ev.TurnEnd)
    assert [m.item_id for m in harness.out.of(ev.UserMessage) if isinstance(m, ev.UserMessage)] == ["1", "2"]
    assert len(harness.out.of(ev.TurnStart)) == 1
    await harness.out.until(ev.QueueUpdate, item_id="2", state=ItemState.DELIVERED)


async def test_a_steered_message_that_comes_too_late_is_the_next_turn(harness: SessionHarness) -> None:
    harness.adapter = Steerable()
    actor, launch, prompt = await in_turn(harness)
    launch.steer_error = Conflict("that turn is over")
    await actor.execute(commands.Send(item=sent("2", Delivery.STEER)))
    await launch.finish(prompt)
    assert (await launch.prompt()).text == "text 2"
    assert len(harness.out.of(ev.UserMessage)) == 2


async def test_a_steered_message_of_unknown_fate_says_so_and_is_not_sent_again(
    harness: SessionHarness,
) -> None:
    harness.adapter = Steerable()
    actor, launch, prompt = await in_turn(harness)
    launch.steer_error = AgentError("it did not answer", code=ErrorCode.TIMEOUT)
    await actor.execute(commands.Send(item=sent("2", Delivery.STEER)))
    await harness.out.until(ev.QueueUpdate, item_id="2", state=ItemState.UNKNOWN)
    await launch.finish(prompt)
    await harness.out.until(ev.TurnEnd)
    assert launch.prompts.empty()


async def test_nothing_overtakes_what_waits_already(harness: SessionHarness) -> None:
    harness.adapter = Steerable()
    actor, launch, prompt = await in_turn(harness)
    await actor.execute(commands.Send(item=item("2", "text 2")))
    await actor.execute(commands.Send(item=sent("3", Delivery.STEER)))
    assert not launch.steered
    await launch.finish(prompt)
    prompt = await launch.prompt()
    assert prompt.text == "text 2"


async def test_an_agent_that_cannot_be_steered_refuses_and_nothing_is_queued(harness: SessionHarness) -> None:
    actor, _, _ = await in_turn(harness)
    with pytest.raises(NotCapable):
        await actor.execute(commands.Send(item=sent("2", Delivery.STEER)))
    assert [one.id for one in actor.state.queue] in ([], ["1"])


async def test_a_runner_that_dies_while_steering_does_not_send_it_again(harness: SessionHarness) -> None:
    harness.adapter = Steerable()
    dead, launch, _ = await in_turn(harness)
    launch.steer_hangs = True
    steering = asyncio.ensure_future(dead.execute(commands.Send(item=sent("2", Delivery.STEER))))
    await harness.out.until(ev.QueueUpdate, item_id="2", state=ItemState.HANDED_OVER)
    await harness.reload()
    await harness.out.until(ev.QueueUpdate, item_id="2", state=ItemState.UNKNOWN)
    await harness.out.until(ev.TurnEnd, reason=TurnEndReason.LOST)
    steering.cancel()


async def test_an_interrupt_that_is_taken_and_not_followed_ends_the_process(harness: SessionHarness) -> None:
    actor, launch, _ = await in_turn(harness)
    await actor.execute(commands.Abort())
    ended = await harness.out.until(ev.TurnEnd)
    assert isinstance(ended, ev.TurnEnd)
    assert ended.reason is TurnEndReason.CANCELLED
    assert launch.gone


async def test_silence_inside_a_turn_ends_it_as_failed_and_the_session_goes_on(
    harness: SessionHarness,
) -> None:
    harness.limits = msgspec.structs.replace(harness.limits, silence=0.1)
    actor, launch, _ = await in_turn(harness)
    await harness.out.until(ev.TurnEnd, reason=TurnEndReason.FAILED)
    assert launch.gone
    await actor.execute(commands.Send(item=item("2")))
    assert (await (await harness.adapter.launch()).prompt()).text == "hello"


async def test_waiting_for_a_person_or_for_a_tool_is_not_silence(harness: SessionHarness) -> None:
    harness.limits = msgspec.structs.replace(harness.limits, silence=0.1)
    actor, launch, prompt = await in_turn(harness)
    tool = ev.ToolCall(
        tool_call_id="t", title="make", tool_kind=ToolKind.EXECUTE, status=ev.ToolStatus.IN_PROGRESS
    )
    await launch.emit(EventEmitted(tool))
    with pytest.raises(TimeoutError):
        await eventually(lambda: launch.gone, 0.4)
    await launch.emit(ApprovalAsked(approval=approval("a")))
    await launch.emit(EventEmitted(ev.ToolCallUpdate(tool_call_id="t", status=ev.ToolStatus.COMPLETED)))
    with pytest.raises(TimeoutError):
        await eventually(lambda: launch.gone, 0.4)
    await launch.emit(TurnEnded(turn_id=prompt.turn_id, reason=TurnEndReason.END_TURN))
    await harness.out.until(ev.TurnEnd, reason=TurnEndReason.END_TURN)
    assert actor.state.turn_id is None


async def test_a_lost_agent_is_handed_no_further_message(harness: SessionHarness) -> None:
    """What waited behind the message that it died of goes to the next process."""
    actor = await harness.create()
    await actor.execute(commands.Create(spec=actor.spec))
    launch = await harness.adapter.launch()
    launch.send_error = AgentError("it died", code=ErrorCode.AGENT_DIED)
    for name in ("1", "2"):
        await actor.execute(commands.Send(item=item(name, f"text {name}")))
    await harness.out.until(ev.QueueUpdate, item_id="1", state=ItemState.UNKNOWN)
    assert (await (await harness.adapter.launch()).prompt()).text == "text 2"


async def test_a_message_that_was_steered_by_a_defective_adapter_has_an_outcome(
    harness: SessionHarness,
) -> None:
    harness.adapter = Steerable()
    actor, launch, prompt = await in_turn(harness)
    launch.steer_error = RuntimeError("a defect")
    await actor.execute(commands.Send(item=sent("2", Delivery.STEER)))
    await launch.finish(prompt)
    await harness.out.until(ev.QueueUpdate, item_id="2", state=ItemState.UNKNOWN)


async def test_a_message_steered_into_a_turn_that_ended_has_an_outcome_after_a_kill_of_the_runner(
    harness: SessionHarness,
) -> None:
    harness.adapter = Steerable()
    actor, launch, prompt = await in_turn(harness)
    launch.steer_hangs = True
    steering = asyncio.create_task(actor.execute(commands.Send(item=sent("2", Delivery.STEER))))
    await harness.out.until(ev.QueueUpdate, item_id="2", state=ItemState.HANDED_OVER)
    await launch.finish(prompt)
    await harness.out.until(ev.TurnEnd)
    assert actor._task is not None
    actor._task.cancel()
    steering.cancel()
    await harness.reload()
    await harness.out.until(ev.QueueUpdate, item_id="2", state=ItemState.UNKNOWN)
