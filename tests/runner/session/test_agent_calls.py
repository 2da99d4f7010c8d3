"""Handing messages to the agent: first in the queue, during a turn, or to an agent that does not respond."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest

from farsteer.agents.base import ApprovalAsked, EventEmitted, Exited, LaunchPlan, Prompt, Sink, TurnEnded
from farsteer.core import commands
from farsteer.core import events as ev
from farsteer.core.capabilities import Capabilities
from farsteer.core.errors import AgentError, Conflict, ErrorCode, NotCapable, NotFound
from farsteer.core.events import SessionStatus, TurnEndReason
from farsteer.core.modes import ToolKind
from farsteer.core.queue import Delivery, ItemState, QueueItem
from farsteer.runner.session.actor import SessionActor
from tests.runner.harness import SPEC, SessionHarness, approval, item, start_turn
from tests.runner.scripted import ScriptedAdapter, ScriptedLaunch
from tests.support.eventually import eventually


class Steerable(ScriptedAdapter):
    capabilities = Capabilities(caller_chosen_id=True, resume=True, steer=True, approvals=True)


def sent(name: str, delivery: Delivery) -> QueueItem:
    return msgspec.structs.replace(item(name, f"text {name}"), delivery=delivery)


async def test_send_now_interrupts_and_goes_first(harness: SessionHarness) -> None:
    actor, launch, prompt = await start_turn(harness)
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
    actor, launch, prompt = await start_turn(harness)
    for name in ("2", "3"):
        await actor.execute(commands.Send(item=item(name, f"text {name}")))
    await actor.execute(commands.SendNow(item_id="3"))
    with pytest.raises(Conflict) as refusal:
        await actor.execute(commands.SendNow(item_id="1"))
    assert refusal.value.details == {"state": "delivered"}
    with pytest.raises(NotFound):
        await actor.execute(commands.SendNow(item_id="never sent"))
    await launch.finish(prompt, TurnEndReason.CANCELLED)
    assert (await launch.prompt()).text == "text 3"


async def test_a_steered_message_lands_in_the_running_turn(harness: SessionHarness) -> None:
    harness.adapter = Steerable()
    actor, launch, prompt = await start_turn(harness)
    await actor.execute(commands.Send(item=sent("2", Delivery.STEER)))
    (steered,) = launch.steered
    assert (steered.turn_id, steered.text, steered.message_id) == (prompt.turn_id, "text 2", "2")
    await launch.finish(prompt)
    await harness.out.until(ev.TurnEnd)
    assert [m.item_id for m in harness.out.of(ev.UserMessage) if isinstance(m, ev.UserMessage)] == ["1", "2"]
    assert len(harness.out.of(ev.TurnStart)) == 1
    await harness.out.until(ev.QueueUpdate, item_id="2", state=ItemState.DELIVERED)


async def test_a_steered_message_that_the_agent_refuses_starts_the_next_turn(harness: SessionHarness) -> None:
    harness.adapter = Steerable()
    actor, launch, prompt = await start_turn(harness)
    launch.steer_error = Conflict("that turn is over")
    await actor.execute(commands.Send(item=sent("2", Delivery.STEER)))
    await launch.finish(prompt)
    assert (await launch.prompt()).text == "text 2"
    assert len(harness.out.of(ev.UserMessage)) == 2


async def test_a_steered_message_with_an_unknown_outcome_is_not_sent_again(
    harness: SessionHarness,
) -> None:
    harness.adapter = Steerable()
    actor, launch, prompt = await start_turn(harness)
    launch.steer_error = AgentError("it did not answer", code=ErrorCode.TIMEOUT)
    await actor.execute(commands.Send(item=sent("2", Delivery.STEER)))
    await harness.out.until(ev.QueueUpdate, item_id="2", state=ItemState.UNKNOWN)
    await launch.finish(prompt)
    await harness.out.until(ev.TurnEnd)
    assert launch.prompts.empty()


async def test_a_steered_message_does_not_overtake_waiting_ones(harness: SessionHarness) -> None:
    harness.adapter = Steerable()
    actor, launch, prompt = await start_turn(harness)
    await actor.execute(commands.Send(item=item("2", "text 2")))
    await actor.execute(commands.Send(item=sent("3", Delivery.STEER)))
    assert not launch.steered
    await launch.finish(prompt)
    prompt = await launch.prompt()
    assert prompt.text == "text 2"


async def test_an_agent_that_cannot_be_steered_refuses_and_nothing_is_queued(harness: SessionHarness) -> None:
    actor, _, _ = await start_turn(harness)
    with pytest.raises(NotCapable):
        await actor.execute(commands.Send(item=sent("2", Delivery.STEER)))
    assert [one.id for one in actor.state.queue] in ([], ["1"])


async def test_a_runner_that_dies_while_steering_does_not_send_it_again(harness: SessionHarness) -> None:
    harness.adapter = Steerable()
    dead, launch, _ = await start_turn(harness)
    launch.steer_hangs = True
    steering = asyncio.ensure_future(dead.execute(commands.Send(item=sent("2", Delivery.STEER))))
    await harness.out.until(ev.QueueUpdate, item_id="2", state=ItemState.HANDED_OVER)
    await harness.reload()
    await harness.out.until(ev.QueueUpdate, item_id="2", state=ItemState.UNKNOWN)
    await harness.out.until(ev.TurnEnd, reason=TurnEndReason.LOST)
    await harness.out.until(ev.UserMessage, item_id="2", text="text 2")
    steering.cancel()


async def test_the_log_has_a_message_that_was_steered_into_an_agent_that_crashed(
    harness: SessionHarness,
) -> None:
    harness.adapter = Steerable()
    actor, launch, prompt = await start_turn(harness)
    launch.steer_hangs = True
    steering = asyncio.create_task(actor.execute(commands.Send(item=sent("2", Delivery.STEER))))
    await harness.out.until(ev.QueueUpdate, item_id="2", state=ItemState.HANDED_OVER)
    await launch.finish(prompt, TurnEndReason.CRASHED)
    await harness.out.until(ev.UserMessage, item_id="2", text="text 2")
    await harness.out.until(ev.QueueUpdate, item_id="2", state=ItemState.UNKNOWN)
    await launch.exit(1, "it crashed")
    launch.release.set()
    await steering
    assert len(harness.out.of(ev.UserMessage)) == 2


async def test_an_accepted_interrupt_that_does_not_end_the_turn_ends_the_process(
    harness: SessionHarness,
) -> None:
    actor, launch, _ = await start_turn(harness)
    await actor.execute(commands.Abort())
    ended = await harness.out.until(ev.TurnEnd)
    assert isinstance(ended, ev.TurnEnd)
    assert ended.reason is TurnEndReason.CANCELLED
    assert launch.gone


async def test_silence_inside_a_turn_ends_it_as_failed_and_the_session_goes_on(
    harness: SessionHarness,
) -> None:
    harness.limits = msgspec.structs.replace(harness.limits, silence=0.1)
    actor, launch, _ = await start_turn(harness)
    await harness.out.until(ev.TurnEnd, reason=TurnEndReason.FAILED)
    assert launch.gone
    await actor.execute(commands.Send(item=item("2")))
    assert (await (await harness.adapter.launch()).prompt()).text == "hello"


async def test_waiting_for_a_person_or_for_a_tool_is_not_silence(harness: SessionHarness) -> None:
    harness.limits = msgspec.structs.replace(harness.limits, silence=0.1)
    actor, launch, prompt = await start_turn(harness)
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


async def test_an_agent_that_died_during_delivery_gets_no_further_message(harness: SessionHarness) -> None:
    """The next waiting message goes to the next process."""
    actor = await harness.create()
    await actor.execute(commands.Create(spec=actor.spec))
    launch = await harness.adapter.launch()
    launch.send_error = AgentError("it died", code=ErrorCode.AGENT_DIED)
    for name in ("1", "2"):
        await actor.execute(commands.Send(item=item(name, f"text {name}")))
    await harness.out.until(ev.QueueUpdate, item_id="1", state=ItemState.UNKNOWN)
    assert (await (await harness.adapter.launch()).prompt()).text == "text 2"


async def test_a_message_steered_by_a_defective_adapter_has_an_outcome(
    harness: SessionHarness,
) -> None:
    harness.adapter = Steerable()
    actor, launch, prompt = await start_turn(harness)
    launch.steer_error = RuntimeError("a defect")
    await actor.execute(commands.Send(item=sent("2", Delivery.STEER)))
    await launch.finish(prompt)
    await harness.out.until(ev.QueueUpdate, item_id="2", state=ItemState.UNKNOWN)


async def test_a_message_steered_into_a_turn_that_ended_has_an_outcome_after_a_kill_of_the_runner(
    harness: SessionHarness,
) -> None:
    harness.adapter = Steerable()
    actor, launch, prompt = await start_turn(harness)
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


# -- an agent that does not accept a message


class DyingLaunch(ScriptedLaunch):
    """Writes a message and dies before it confirms the one that it was given."""

    async def send(self, prompt: Prompt) -> None:
        message = EventEmitted(event=ev.AgentMessage(message_id="m", text="before it dies"))
        await self.emit(message, Exited(exit_code=-9, reason="killed"))
        raise AgentError("it died", code=ErrorCode.AGENT_DIED)


class DyingAdapter(ScriptedAdapter):
    async def start(self, plan: LaunchPlan, sink: Sink) -> ScriptedLaunch:
        return DyingLaunch(plan, sink)


async def test_what_an_agent_wrote_before_it_died_belongs_to_its_turn(harness: SessionHarness) -> None:
    harness.adapter = DyingAdapter()
    actor = await harness.create()
    await actor.execute(commands.Send(item=item("1")))
    await harness.out.until(ev.LaunchEnd)
    kinds = [kind for kind in harness.out.kinds() if kind in ("agent_message", "turn_end", "launch_end")]
    assert kinds == ["agent_message", "turn_end", "launch_end"]


class UnresponsiveLaunch(ScriptedLaunch):
    async def send(self, prompt: Prompt) -> None:
        self.prompts.put_nowait(prompt)
        await self.release.wait()


class UnresponsiveAdapter(ScriptedAdapter):
    """Its first process accepts no message."""

    async def start(self, plan: LaunchPlan, sink: Sink) -> ScriptedLaunch:
        self.plans.append(plan)
        launch = (UnresponsiveLaunch if len(self.plans) == 1 else ScriptedLaunch)(plan, sink)
        self.launches.put_nowait(launch)
        return launch


@pytest.fixture
async def session(harness: SessionHarness) -> AsyncIterator[SessionActor]:
    """A session whose agent does not accept the message it is given."""
    harness.adapter = UnresponsiveAdapter()
    actor = await harness.create()
    await actor.execute(commands.Create(spec=SPEC))
    unresponsive = await harness.adapter.launch()
    await actor.execute(commands.Send(item=item("first", "first")))
    await unresponsive.prompt()
    yield actor
    unresponsive.release.set()


async def test_abort_ends_the_turn_and_not_the_one_after_it(
    harness: SessionHarness, session: SessionActor
) -> None:
    second = asyncio.create_task(session.execute(commands.Send(item=item("second", "second"))))
    await asyncio.sleep(0)
    async with asyncio.timeout(5):
        await session.execute(commands.Abort())
        await second
    end = await harness.out.until(ev.TurnEnd)
    assert isinstance(end, ev.TurnEnd)
    assert end.reason is TurnEndReason.CANCELLED
    await harness.out.until(ev.QueueUpdate, item_id="first", state=ItemState.UNKNOWN)
    assert (await (await harness.adapter.launch()).prompt()).text == "second"


async def test_stop_ends_the_process_and_starts_no_other(
    harness: SessionHarness, session: SessionActor
) -> None:
    async with asyncio.timeout(5):
        await session.execute(commands.Stop())
    assert session.state.status is SessionStatus.STOPPED
    assert not session._timers.is_running("prewarm")
    assert len(harness.adapter.plans) == 1


async def test_a_command_that_is_not_urgent_waits_for_the_agent(
    harness: SessionHarness, session: SessionActor
) -> None:
    renaming = asyncio.create_task(session.execute(commands.Configure(title="renamed")))
    done, _ = await asyncio.wait({renaming}, timeout=3 * harness.limits.interrupt)
    assert not done
    await session.execute(commands.Abort())
    await renaming
