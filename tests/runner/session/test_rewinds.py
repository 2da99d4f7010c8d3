"""Rewinding: the turn ends, files are restored, the process ends, and then one event is logged."""

from __future__ import annotations

import asyncio

import pytest

from farsteer.agents.base import Registered
from farsteer.core import commands
from farsteer.core import events as ev
from farsteer.core.capabilities import Capabilities
from farsteer.core.errors import AgentError, Conflict, ErrorCode, NotCapable
from farsteer.core.events import FileRestore, TurnEndReason
from farsteer.core.launch import LaunchMode
from farsteer.core.queue import ItemState
from farsteer.runner.session.actor import SessionActor
from tests.runner.harness import SessionHarness, item, start_session, start_turn
from tests.runner.scripted import ScriptedAdapter, ScriptedLaunch


class Rewindable(ScriptedAdapter):
    capabilities = Capabilities(caller_chosen_id=True, resume=True, rewind=True, file_restore=True)


REWIND = commands.Rewind(first_seq=5, cut_at="anchor", files_at="item", by="ada")


async def start_session_with_turn(harness: SessionHarness) -> tuple[SessionActor, ScriptedLaunch]:
    """A session with one finished turn."""
    harness.adapter = Rewindable()
    actor, launch, prompt = await start_turn(harness)
    await launch.emit(Registered(native_id=actor.state.id))
    await launch.finish(prompt)
    await harness.out.until(ev.TurnEnd)
    return actor, launch


async def test_a_rewind_restores_files_and_the_next_process_gets_the_cut(harness: SessionHarness) -> None:
    actor, launch = await start_session_with_turn(harness)
    done = await actor.execute(REWIND)
    assert done == ev.Rewound(
        first_seq=5, cut_at="anchor", files=ev.FilesRestored(FileRestore.FULL, ("a.txt",)), by="ada"
    )
    assert launch.restored == [("item", "anchor")]
    assert launch.gone
    prewarmed = await harness.adapter.launch()
    assert (prewarmed.plan.decision.start, prewarmed.plan.cut_at) == (LaunchMode.RESUME, "anchor")
    await actor.execute(commands.Send(item=item("2")))
    await prewarmed.prompt()
    await harness.out.until(ev.QueueUpdate, item_id="2", state=ItemState.DELIVERED)
    assert actor.state.cut_at is None


async def test_the_cut_survives_a_restart_and_failed_starts(harness: SessionHarness) -> None:
    actor, _ = await start_session_with_turn(harness)
    await actor.execute(REWIND)
    await harness.adapter.launch()
    await actor.close("the runner ended")
    actor = await harness.reload()
    harness.adapter.start_errors = [AgentError("broken")]
    await actor.execute(commands.Send(item=item("2")))
    await harness.out.until(ev.QueueUpdate, item_id="2", state=ItemState.FAILED)
    await actor.execute(commands.Send(item=item("3")))
    launch = await harness.adapter.launch()
    assert launch.plan.cut_at == "anchor"


async def test_an_anchor_the_agent_does_not_know_is_dropped_once_and_the_message_is_answered(
    harness: SessionHarness,
) -> None:
    actor, _ = await start_session_with_turn(harness)
    harness.adapter.gate.clear()
    await actor.execute(REWIND)
    harness.adapter.start_errors = [AgentError("no such message", code=ErrorCode.ANCHOR_UNKNOWN)]
    await actor.execute(commands.Send(item=item("2")))
    harness.adapter.gate.set()
    launch = await harness.adapter.launch()
    await launch.prompt()
    assert (launch.plan.decision.start, launch.plan.cut_at) == (LaunchMode.RESUME, None)
    assert len(harness.out.of(ev.Notice)) == 1


async def test_a_rewind_to_the_first_message_starts_a_conversation_with_another_native_id(
    harness: SessionHarness,
) -> None:
    actor, _ = await start_session_with_turn(harness)
    native = actor.state.native_id
    await actor.execute(commands.Rewind(first_seq=4, cut_at=None))
    launch = await harness.adapter.launch()
    assert launch.plan.decision.start is LaunchMode.CREATE
    assert launch.plan.decision.native_id not in (None, native)
    assert actor.state.native_id == launch.plan.decision.native_id


async def test_without_an_anchor_the_agent_keeps_its_memory_and_no_files_are_restored(
    harness: SessionHarness,
) -> None:
    actor, launch = await start_session_with_turn(harness)
    native = actor.state.native_id
    done = await actor.execute(commands.Rewind(first_seq=5, cut_at=None, keeps=True, files_at="item"))
    assert (done.keeps, done.files.status, launch.restored) == (True, FileRestore.FAILED, [])
    assert len(harness.out.of(ev.Notice)) == 1, "people are told"
    launch = await harness.adapter.launch()
    plan = launch.plan
    assert (plan.decision.start, plan.decision.native_id, plan.cut_at) == (LaunchMode.RESUME, native, None)


async def test_a_rewind_ends_the_turn_first_and_messages_sent_meanwhile_come_after_the_cut(
    harness: SessionHarness,
) -> None:
    actor, launch = await start_session_with_turn(harness)
    for name in ("2", "3"):
        await actor.execute(commands.Send(item=item(name)))
    prompt = await launch.prompt()
    rewinding = asyncio.ensure_future(actor.execute(REWIND))
    await launch.interrupts.get()
    await actor.execute(commands.Send(item=item("4", "after the cut")))
    with pytest.raises(Conflict):
        await actor.execute(REWIND)
    await launch.finish(prompt, TurnEndReason.CANCELLED)
    await rewinding
    later = await harness.adapter.launch()
    assert (await later.prompt()).text == "after the cut"
    kinds = harness.out.kinds()
    assert kinds.index("rewound") > len(kinds) - 1 - kinds[::-1].index("turn_end")
    await harness.out.until(ev.QueueUpdate, item_id="3", state=ItemState.CANCELLED)


async def test_an_agent_that_cannot_rewind_refuses_and_nothing_changes(harness: SessionHarness) -> None:
    actor, launch = await start_session(harness)
    seq = actor.state.seq
    with pytest.raises(NotCapable):
        await actor.execute(REWIND)
    assert (actor.state.seq, launch.gone) == (seq, False)


async def test_files_that_cannot_be_restored_do_not_stop_the_rewind(harness: SessionHarness) -> None:
    actor, _ = await start_session_with_turn(harness)
    await actor.execute(commands.Stop())
    harness.adapter.start_errors = [AgentError("broken")]
    done = await actor.execute(REWIND)
    assert (done.files.status, done.files.reason) == (FileRestore.FAILED, "broken")
    assert done.cut_at == "anchor"


async def test_an_adapter_that_fails_to_restore_files_does_not_stop_the_rewind(
    harness: SessionHarness,
) -> None:
    actor, launch = await start_session_with_turn(harness)
    launch.restore_error = RuntimeError("a defect")
    done = await actor.execute(REWIND)
    assert (done.files.status, done.files.reason) == (
        FileRestore.FAILED,
        "the agent's adapter failed: RuntimeError",
    )


async def test_a_stop_during_a_rewind_leaves_no_process_and_the_rewind_is_completed(
    harness: SessionHarness,
) -> None:
    actor, launch = await start_session_with_turn(harness)
    await actor.execute(commands.Send(item=item("2")))
    prompt = await launch.prompt()
    rewinding = asyncio.ensure_future(actor.execute(REWIND))
    await launch.interrupts.get()
    stopping = asyncio.ensure_future(actor.execute(commands.Stop()))
    await launch.finish(prompt, TurnEndReason.CANCELLED)
    await stopping
    done = await rewinding
    assert (done.files.status, done.files.reason) == (FileRestore.FAILED, "the session was stopped")
    assert (actor.state.status, launch.gone) == (ev.SessionStatus.STOPPED, True)
    assert not actor._timers.is_running("prewarm")
