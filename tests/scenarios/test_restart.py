"""Scenarios 39 to 57: restarts by configuration, silence, and when a turn is over."""

from __future__ import annotations

import asyncio
import time

import pytest

from farsteer.core import commands
from farsteer.core import events as ev
from farsteer.core.events import SessionStatus, ToolStatus, TurnEndReason
from farsteer.core.launch import LaunchMode
from farsteer.core.modes import PermissionMode
from farsteer.core.queue import ItemState
from tests.scenarios.agents import Recording
from tests.scenarios.chat import Chat
from tests.scenarios.world import World
from tests.support.eventually import eventually

WORD = "The password is dolphin."
RECALL = "what password did I tell you?"


@pytest.fixture
async def fixed(world: World) -> Chat:
    """A session of an agent that takes another model only when it is started."""
    world.demo.can(live_model=False)
    return await world.create()


async def test_39_config_burst(fixed: Chat) -> None:
    await fixed.say(WORD)
    for number in range(7):
        await fixed.configure(model=f"model-{number}")
    await fixed.adapter.started(2)
    assert (await fixed.say(RECALL)).answer == "dolphin"
    assert fixed.quiet()
    assert [plan.model for plan in fixed.adapter.plans] == [None, "model-6"]


async def test_40_same_config_again(world: World, fixed: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    await fixed.configure(model="other")
    await fixed.adapter.started(2)
    await fixed.say("say hello")
    seq = fixed.state.seq
    await fixed.configure(model="other")
    assert fixed.state.seq == seq
    assert fixed.quiet()
    assert len(fixed.adapter.plans) == 2
    # An agent's environment is its runner's: a new value comes with a new runner, and with a new process.
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    await world.restart_runner()
    await fixed.say("say hello")
    assert [plan.environment.get("TZ") for plan in fixed.adapter.plans[1:]][-1] == "Asia/Tokyo"
    assert len(fixed.adapter.plans) == 3


async def test_41_config_change_in_a_running_turn(fixed: Chat) -> None:
    await fixed.say(WORD)
    item = await fixed.begin("work 4 0.05\nmodel")
    await fixed.configure(model="other")
    turn = await fixed.turn(item)
    assert turn.reason is TurnEndReason.END_TURN
    assert "model demo-1," in turn.answer
    await fixed.adapter.started(2)
    assert (await fixed.say(RECALL)).answer == "dolphin"
    assert "model other," in (await fixed.say("model")).answer
    assert fixed.adapter.starts == [LaunchMode.CREATE, LaunchMode.RESUME]


async def test_42_stale_latch(fixed: Chat) -> None:
    """The message starts the new process before the timer does, which then finds nothing to do."""
    await fixed.configure(model="other")
    turn = await fixed.say("work 5 0.05")
    assert turn.reason is TurnEndReason.END_TURN
    assert fixed.quiet()
    assert [plan.model for plan in fixed.adapter.plans] == [None, "other"]
    assert fixed.alive() == [fixed.pid]


async def test_42_stale_latch_of_a_process_that_is_being_warmed(fixed: Chat) -> None:
    """It was told the old values: the message waits for the one that is told the new ones."""
    fixed.adapter.gate.clear()
    await fixed.kill_agent()
    await fixed.adapter.asked(2)
    await fixed.configure(model="other")
    item = await fixed.send("work 5 0.05\nmodel")
    await fixed.until(ev.LaunchStart, 2)
    fixed.adapter.gate.set()
    turn = await fixed.turn(item)
    assert turn.reason is TurnEndReason.END_TURN
    assert "model other," in turn.answer
    assert fixed.outcomes(item) == [ItemState.DELIVERED]
    assert fixed.quiet()
    assert fixed.alive() == [fixed.pid]


async def test_43_leaked_abort_flag(fixed: Chat) -> None:
    item = await fixed.begin("hang")
    await fixed.abort()
    await fixed.configure(model="other")
    assert (await fixed.say("say hello")).answer == "hello"
    assert (await fixed.turn(item)).reason is TurnEndReason.CANCELLED
    assert [end.reason for end in fixed.of(ev.TurnEnd)] == [TurnEndReason.CANCELLED, TurnEndReason.END_TURN]


async def test_44_background_work_blocks_a_deferred_restart_and_is_ended_by_name(world: World) -> None:
    """What runs beside the conversation is a tool here: it holds a restart back, and ends with its process."""
    world.demo.can(live_model=False)
    chat = await world.create(permission_mode=PermissionMode.YOLO)
    await chat.begin("run sleep 60")
    await chat.until(ev.ToolCallUpdate, status=ToolStatus.IN_PROGRESS)
    await chat.configure(model="other")
    await eventually(chat.quiet)
    assert len(chat.adapter.plans) == 1
    await chat.stop()
    (failed,) = chat.of(ev.ToolCallUpdate, status=ToolStatus.FAILED)
    assert chat.kinds().index("turn_end") > [entry.content for entry in chat.entries].index(failed)


async def test_45_inactivity(world: World) -> None:
    """The turn has failed and the session goes on; nothing is said to the agent in a person's name."""
    world.limit(silence=0.3)
    chat = await world.create()
    await chat.say(WORD)
    turn = await chat.say("hang")
    assert turn.reason is TurnEndReason.FAILED
    assert "wrote no output" in (turn.error or "")
    assert (await chat.say(RECALL)).answer == "dolphin"
    assert chat.adapter.starts == [LaunchMode.CREATE, LaunchMode.RESUME]
    said = (await chat.say("history")).answer
    assert [line.split(": ")[1] for line in said.split("\n") if "user:" in line] == [WORD, "hang", RECALL]


async def test_46_sleep_is_not_inactivity(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a sleep the clock on the wall is an hour ahead; the one that silence is measured with stood still."""
    world.limit(silence=5.0)
    chat = await world.create()
    item = await chat.begin("quiet 0.3")
    wall = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: wall() + 3600 * 1_000_000_000)
    monkeypatch.setattr(time, "time", lambda: wall() / 1e9 + 3600)
    turn = await chat.turn(item)
    assert turn.reason is TurnEndReason.END_TURN
    assert turn.entries[-1].created_at - turn.entries[0].created_at > 3_000_000


async def test_47_human_wait_is_not_inactivity(world: World) -> None:
    world.limit(silence=0.15)
    chat = await world.create()
    item = await chat.begin("ask")
    approval = await chat.asked()
    until = asyncio.get_running_loop().time() + 0.5
    await eventually(lambda: asyncio.get_running_loop().time() > until)
    assert (await chat.view()).status is SessionStatus.WAITING
    await chat.answer(approval, answers={"colour": ["red"]})
    turn = await chat.turn(item)
    assert turn.reason is TurnEndReason.END_TURN
    assert "red" in turn.answer


async def test_48_termination_wait_capped(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """An adapter whose `stop` never returns."""
    world.limit(stop=0.3)
    chat = await world.create()
    item = await chat.begin("hang")
    launch = chat.adapter.launch
    monkeypatch.setattr(launch, "stop", lambda grace: asyncio.Event().wait())
    begun = time.monotonic()
    await chat.stop()
    assert time.monotonic() - begun < 5
    assert (await chat.turn(item)).reason is TurnEndReason.CANCELLED
    assert chat.state.status is SessionStatus.STOPPED
    await eventually(lambda: chat.alive() == [])
    assert (await chat.say("say hello")).answer == "hello"


async def test_49_read_after_finish(chat: Chat) -> None:
    """Who reads when the end is told finds the answer of this turn, not of the one before."""
    for number in range(5):
        await chat.say(f"say answer {number}")
        assert (await chat.view()).last_message == f"answer {number}"
        stored = [entry.content for entry in await chat.log()]
        assert isinstance(stored[-1], ev.TurnEnd)
        assert [event.text for event in stored if isinstance(event, ev.AgentMessage)][
            -1
        ] == f"answer {number}"


@pytest.mark.parametrize(
    ("agent", "text", "reason"),
    [
        ("demo", "crash", TurnEndReason.CRASHED),
        ("demo", "hang", TurnEndReason.CANCELLED),
        ("demo", "fail no luck", TurnEndReason.FAILED),
        ("droid", "fail", TurnEndReason.FAILED),
    ],
)
async def test_50_failed_turn_is_not_success(
    world: World, agent: str, text: str, reason: TurnEndReason
) -> None:
    world.droid()
    chat = await world.create(agent)
    await chat.say("say the old answer")
    item = await chat.begin(text)
    if reason is TurnEndReason.CANCELLED:
        await chat.abort()
    turn = await chat.turn(item)
    assert turn.reason is reason
    assert "the old answer" not in turn.answer
    assert reason is TurnEndReason.CANCELLED or turn.error


@pytest.mark.parametrize("agent", ["demo", "droid"])
async def test_51_warm_process_is_idle(world: World, agent: str) -> None:
    """Nobody sees it, and it can be given a message at once."""
    world.droid()
    chat = await world.create(agent)
    before = chat.state.seq
    await chat.kill_agent()
    await chat.adapter.started(2)
    await chat.command(commands.Configure(title="a fence"))
    assert [entry.content for entry in chat.entries if entry.seq > before] == [
        *chat.of(ev.LaunchEnd),
        *chat.of(ev.TitleUpdate),
    ]
    view = await chat.view()
    assert not view.thinking
    assert view.turn_id is None
    assert (await chat.say("say hello")).answer == "hello"
    assert len(chat.adapter.plans) == 2
    assert chat.alive() == [chat.pid]


async def test_52_identity_change_stops_idle_process(world: World, chat: Chat) -> None:
    """A conversation that begins anew, as a new session or from before its first message, is not the old one."""
    await chat.say(WORD)
    before, pid = world.agent_file(chat.id).read_bytes(), chat.pid
    other = await world.create()
    assert (await other.say(RECALL)).answer == "You have told me no password."
    first = next(entry.seq for entry in chat.entries if isinstance(entry.content, ev.UserMessage))
    await chat.command(commands.Rewind(first_seq=first, cut_at=None))
    assert pid not in chat.alive()
    assert (await chat.say(RECALL)).answer == "You have told me no password."
    assert chat.state.native_id not in (chat.id, other.state.native_id)
    assert world.agent_file(chat.id).read_bytes() == before


@pytest.mark.parametrize("agent", ["demo", "0.36", "0.215"])
async def test_53_tool_loop_is_one_turn(world: World, agent: str) -> None:
    """Also where Droid says that it is idle before its last message."""
    adapter: Recording = world.demo
    if agent != "demo":
        adapter = world.droid(agent, "--misbehave", "premature-idle")
    chat = await world.create(adapter.name, permission_mode=PermissionMode.YOLO)
    turn = await chat.say("run echo one\nrun echo two\nsay the end" if agent == "demo" else "run echo one")
    assert turn.answer.endswith("the end" if agent == "demo" else "Done.")
    assert len(turn.of(ev.ToolCall)) == (2 if agent == "demo" else 1)
    await chat.say("say more")
    assert len(chat.of(ev.TurnEnd)) == 2
    after = [entry for entry in chat.entries if entry.seq > turn.entries[-1].seq]
    assert "Done." not in [
        entry.content.text for entry in after if isinstance(entry.content, ev.AgentMessage)
    ]


@pytest.mark.parametrize("agent", ["demo", "droid"])
async def test_54_history_replay_of_the_agent_dropped(world: World, agent: str) -> None:
    world.droid()
    chat = await world.create(agent)
    await chat.say("say once")
    await chat.stop()
    assert (await chat.say("say twice")).answer == "twice"
    assert [message.text for message in chat.of(ev.AgentMessage)] == ["once", "twice"]
    assert [message.text for message in chat.of(ev.UserMessage)] == ["say once", "say twice"]


async def test_55_child_thread_cannot_end_the_main_turn(chat: Chat) -> None:
    turn = await chat.say("background")
    assert turn.reason is TurnEndReason.END_TURN
    assert "I am not done when my helper is." in turn.answer
    await chat.say("say hello")
    assert len(chat.of(ev.TurnEnd)) == len(chat.of(ev.TurnStart)) == 2
