"""Identity and resume: which conversation an agent is started with, whatever happened before."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from farsteer.agents.base import EventEmitted, Registered
from farsteer.core import commands
from farsteer.core import events as ev
from farsteer.core.errors import ErrorCode, FarsteerError, NotFound
from farsteer.core.events import SessionStatus, TurnEndReason
from farsteer.core.ids import is_uuid, new_id
from farsteer.core.launch import LaunchMode
from farsteer.core.queue import ItemState, QueueItem
from farsteer.core.session import SessionSpec, SessionState
from farsteer.runner.journal import Journal
from farsteer.runner.session.actor import SessionActor
from farsteer.runner.session.context import ActorContext, SessionAgent
from farsteer.runner.session.log import SessionLog
from tests.runner.scripted import Recorder
from tests.scenarios.agents import RecordedDemo
from tests.scenarios.chat import Chat
from tests.scenarios.world import LIMITS, World
from tests.support.eventually import eventually

WORD = "The password is dolphin."
RECALL = "what password did I tell you?"


async def test_01_fresh_create(chat: Chat) -> None:
    assert not chat.state.registered
    await chat.say("say hello")
    (plan,) = chat.adapter.plans
    assert plan.decision.start is LaunchMode.CREATE
    assert plan.decision.native_id == chat.id
    assert chat.state.registered
    assert chat.state.native_id == chat.id
    assert (await chat.view()).native_id == chat.id


async def test_02_create_and_resume_never_together(world: World) -> None:
    """The same conversation, started for every reason there is."""
    world.demo.can(live_model=False)
    chat = await world.create()
    await chat.say(WORD)
    await chat.configure(model="demo-1-mini")
    await chat.adapter.started(2)
    await chat.kill_agent()
    await chat.adapter.started(3)
    await chat.say("say crashed")
    await chat.stop()
    await chat.say("say stopped")
    await world.restart_runner()
    await chat.say("say restarted")
    assert chat.adapter.starts == [LaunchMode.CREATE, *[LaunchMode.RESUME] * 4]
    assert {plan.decision.native_id for plan in chat.adapter.plans} == {chat.id}
    assert not any(plan.cut_at or plan.fork_of for plan in chat.adapter.plans)
    generations = [plan.generation for plan in chat.adapter.plans]
    assert generations == sorted({*generations})
    assert chat.adapter.errors == []


async def test_03_second_launch_resumes(world: World) -> None:
    world.demo.can(live_model=False)
    chat = await world.create()
    await chat.say(WORD)
    await chat.configure(model="demo-1-mini")
    plan = await chat.adapter.asked(2)
    assert (plan.decision.start, plan.decision.native_id) == (LaunchMode.RESUME, chat.id)
    assert plan.model == "demo-1-mini"
    assert (await chat.say(RECALL)).answer == "dolphin"


@pytest.mark.parametrize("asked_for_ours", [True, False])
async def test_04_different_native_id(world: World, *, asked_for_ours: bool) -> None:
    """The agent names the conversation otherwise, whether or not it was given a name."""
    if asked_for_ours:
        world.demo.behave.append("own-id")
    else:
        world.demo.learn_ids()
    chat = await world.create()
    await chat.say(WORD)
    native = chat.state.native_id
    assert is_uuid(native or "")
    assert native != chat.id
    assert (await chat.view()).native_id == native
    await chat.stop()
    assert (await chat.say(RECALL)).answer == "dolphin"
    assert world.demo.plans[1].decision.native_id == native


async def test_05_legacy_two_id_session(world: World) -> None:
    """Stored when the agent named its conversations itself; today it takes our ids."""
    world.demo.learn_ids()
    chat = await world.create()
    await chat.say(WORD)
    native = chat.state.native_id
    await world.crash_runner()
    world.demo.names_itself = False
    world.demo.can(caller_chosen_id=True)
    await world.start_runner()
    assert (await chat.say(RECALL)).answer == "dolphin"
    assert world.demo.plans[1].decision.native_id == native != chat.id


async def test_06_never_queried_row(world: World) -> None:
    unused, used = await world.create(), await world.create()
    await used.say(WORD)
    await world.crash_runner()
    for chat in (unused, used):
        await world.rewrite(chat, native_id=None, registered=False)
    await world.start_runner()
    await unused.say("say hello")
    assert (await used.say(RECALL)).answer == "dolphin"
    decided = [(plan.session_id, plan.decision.start) for plan in world.demo.plans[2:]]
    assert decided == [(unused.id, LaunchMode.CREATE), (used.id, LaunchMode.RESUME)]


@pytest.mark.slow
@pytest.mark.parametrize("stored", [False, True], ids=["no native id", "native id"])
async def test_07_non_uuid_hub_id(home: Path, project: Path, *, stored: bool) -> None:
    """The hub makes no such ids; a runner that is given one keeps it, and the agent gets one that it takes."""
    name, native = "cron-7-nightly", new_id()
    demo, out, journal = RecordedDemo(), Recorder(), await Journal.open(project / "runner.db")
    state = SessionState(id=name, agent="demo", directory=str(project))
    if stored:
        (project / f"{native}.jsonl").write_text('{"role":"user","anchor":"u","text":"before"}\n')
        state = SessionState(id=name, agent="demo", directory=str(project), native_id=native, registered=True)
    spec = SessionSpec(id=name, machine_id="m", directory=str(project))
    await journal.create_session(spec, state)
    context = ActorContext(SessionAgent(demo, str(project)), LIMITS)
    actor = SessionActor(spec, SessionLog(state, journal, out), context)
    actor.run_in_background()
    for text in ("say one", "say two"):
        await actor.execute(commands.Send(item=QueueItem(id=new_id(), text=text, created_at=1)))
        await out.until(ev.TurnEnd, 1 if text == "say one" else 2, reason=TurnEndReason.END_TURN)
        await actor.execute(commands.Stop())
    assert demo.starts == [LaunchMode.RESUME if stored else LaunchMode.CREATE, LaunchMode.RESUME]
    (used,) = {plan.decision.native_id for plan in demo.plans}
    assert is_uuid(used or "")
    assert not stored or used == native
    assert {plan.session_id for plan in demo.plans} == {actor.state.id} == {name}
    await actor.close("end of test")
    await journal.close()


async def test_08_prewarm_timeout_does_not_unregister(chat: Chat, world: World) -> None:
    await chat.say(WORD)
    world.demo.behave.append("hang-at-start")
    await chat.kill_agent()
    await chat.adapter.started(2)
    assert len(world.demo.errors) == 1
    assert chat.adapter.starts == [LaunchMode.CREATE, LaunchMode.RESUME, LaunchMode.RESUME]
    assert chat.state.registered
    assert (await chat.say(RECALL)).answer == "dolphin"


async def test_09_provider_switch_during_warm_launch_of_history(world: World) -> None:
    await _switch_while_warming(world, history=True)


async def test_10_provider_switch_during_warm_launch_of_a_new_session(world: World) -> None:
    await _switch_while_warming(world, history=False)


async def _switch_while_warming(world: World, *, history: bool) -> None:
    """A change that needs a new process, while one is being warmed."""
    adapter = world.demo
    adapter.can(live_model=False)
    chat = await world.create()
    if history:
        await chat.say(WORD)
    adapter.gate.clear()
    await chat.kill_agent()
    await adapter.asked(2)
    await chat.configure(model="demo-1-mini")
    adapter.gate.set()
    await adapter.started(3)
    assert (await chat.say(RECALL)).answer == ("dolphin" if history else "You have told me no password.")
    assert adapter.starts[1:] == [LaunchMode.RESUME if history else LaunchMode.CREATE] * 2
    assert adapter.plans[2].model == "demo-1-mini"
    assert adapter.errors == []
    assert chat.of(ev.Notice) == []


async def test_11_already_in_use(chat: Chat, world: World) -> None:
    await chat.say(WORD)
    await world.crash_runner()
    await world.rewrite(chat, registered=False)
    world.demo.blind = True
    await world.start_runner()
    assert (await chat.say(RECALL)).answer == "dolphin"
    assert world.demo.starts == [LaunchMode.CREATE, LaunchMode.CREATE, LaunchMode.RESUME]
    assert chat.state.registered
    assert chat.state.native_id == chat.id


async def test_11_already_in_use_and_then_gone(chat: Chat, world: World) -> None:
    """An agent that contradicts itself is tried once for each thing it says, and no more."""
    await chat.stop()
    world.demo.behave.extend(["in-use", "missing"] * 5)
    assert await chat.outcome(await chat.send("say never")) is ItemState.FAILED
    assert world.demo.starts[1:] == [LaunchMode.CREATE, LaunchMode.RESUME, LaunchMode.CREATE]
    assert chat.resting()
    assert len(chat.of(ev.StatusUpdate, status=SessionStatus.FAILED)) == 1
    world.demo.behave.clear()
    assert (await chat.say("say hello")).answer == "hello"


@pytest.mark.parametrize("agent", ["demo", "droid"])
async def test_12_conversation_gone(world: World, agent: str) -> None:
    world.droid()
    recall = RECALL if agent == "demo" else "recall"
    chat = await world.create(agent)
    await chat.say(WORD)
    before = [entry.id for entry in await chat.log()]
    await chat.stop()
    world.lose(chat)
    assert "dolphin" not in (await chat.say(recall)).answer
    assert chat.adapter.starts == [LaunchMode.CREATE, LaunchMode.RESUME, LaunchMode.CREATE]
    (notice,) = chat.of(ev.Notice)
    assert notice.code == ErrorCode.CONVERSATION_MISSING
    assert [entry.id for entry in await chat.log()][: len(before)] == before
    await chat.say("The password is salmon.")
    await chat.stop()
    assert "salmon" in (await chat.say(recall)).answer
    assert chat.adapter.starts[3:] == [LaunchMode.RESUME]


@pytest.mark.parametrize("agent", ["demo", "droid"])
async def test_13_server_assigned_id_survives_restart(world: World, agent: str) -> None:
    world.demo.learn_ids()
    world.droid()
    chat = await world.create(agent)
    await chat.say(WORD)
    native = chat.state.native_id
    assert native not in (None, chat.id)
    await world.crash_runner()
    await world.stop_hub()
    await world.start_hub()
    await world.start_runner()
    said = await chat.say(RECALL if agent == "demo" else "recall")
    assert "dolphin" in said.answer
    decision = chat.adapter.plans[1].decision
    assert (decision.start, decision.native_id) == (LaunchMode.RESUME, native)
    assert (await chat.view()).native_id == native


@pytest.mark.parametrize("learned", [False, True], ids=["our id", "its own id"])
async def test_14_new_session_is_not_resumed(world: World, *, learned: bool) -> None:
    if learned:
        world.demo.learn_ids()
    chat = await world.create()
    await world.restart_runner()
    await chat.say("say hello")
    assert chat.adapter.starts == [LaunchMode.CREATE, LaunchMode.CREATE]
    assert chat.state.registered


async def test_15_cross_runtime_open(chat: Chat, world: World) -> None:
    """Another agent stands where the session's was: its history can be read, nothing is run, and that is said once."""
    await chat.say(WORD)
    await world.crash_runner()
    other = world.agents["demo"] = world.droid()
    await world.start_runner()
    assert await chat.outcome(await chat.send(RECALL)) is ItemState.FAILED
    assert other.starts == [LaunchMode.REFUSE]
    assert other.launches == []
    (failed,) = chat.of(ev.StatusUpdate, status=SessionStatus.FAILED)
    assert "another agent" in (failed.error or "")
    assert WORD in [
        entry.content.text for entry in await chat.log() if isinstance(entry.content, ev.UserMessage)
    ]
    world.agents["demo"] = world.demo
    await world.restart_runner()
    assert (await chat.say(RECALL)).answer == "dolphin"


async def test_16_late_init_of_a_dead_launch(chat: Chat) -> None:
    await chat.stop()
    await chat.resume()
    before, seq = chat.state, chat.entries[-1].seq
    dead = chat.adapter.taps[0]
    await dead.put([Registered(native_id=new_id()), EventEmitted(event=ev.TitleUpdate(title="a ghost"))])
    await chat.say("say hello")
    assert chat.state.native_id == before.native_id == chat.id
    assert [kind for kind in chat.kinds()[seq:] if kind == "title_update"] == []


async def test_17_init_while_message_queued_during_abort(chat: Chat) -> None:
    """A message comes while its process ends: the next process is announced once, and has it."""
    await chat.begin("stubborn")
    await chat.until(ev.AgentMessage)
    stopping = asyncio.create_task(chat.stop())
    await eventually(chat.ending)
    turn = await chat.say("say hello")
    await stopping
    assert turn.answer == "hello"
    assert [start.generation for start in chat.of(ev.LaunchStart)] == [1, 2]
    assert len(chat.of(ev.CommandsUpdate)) == 2
    assert (await chat.view()).id == chat.id


async def test_18_deleted_session_not_revived(chat: Chat, world: World) -> None:
    await chat.begin("work 1000 0.01")
    tap, file = chat.adapter.taps[0], world.agent_file(chat.id)
    assert file.exists()
    await chat.delete()
    await eventually(lambda: world.runner.actor(chat.id) is None and not chat.alive())
    await tap.put([EventEmitted(event=ev.AgentMessage(message_id="late", text="a ghost"))])
    for attempt in (chat.resume, chat.view, lambda: chat.send("hello")):
        with pytest.raises(NotFound):
            await attempt()
    await eventually(lambda: not file.exists())
    await world.restart_runner()
    assert world.runner.actor(chat.id) is None
    with pytest.raises(FarsteerError):
        await chat.log()


async def test_20_handshake_before_the_row_exists(world: World) -> None:
    """A warm process has named its conversation before anybody was told; the first message makes that last."""
    world.demo.learn_ids()
    chat = await world.create()
    await chat.kill_agent()
    await chat.adapter.started(2)
    assert len(chat.of(ev.LaunchStart)) == 1
    await chat.say(WORD)
    native = chat.state.native_id
    assert native == world.demo.launches[1].native_id
    await world.restart_runner()
    assert (await chat.view()).native_id == native
    assert (await chat.say(RECALL)).answer == "dolphin"
    assert world.demo.plans[2].decision.native_id == native
