"""Scenarios 58 to 73 of the catalogue: going back in a conversation, and going two ways from one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from farsteer.agents.base import EventEmitted, Launch, LaunchPlan, Output, Sink
from farsteer.core import commands
from farsteer.core import events as ev
from farsteer.core.errors import AgentError, ErrorCode
from farsteer.core.events import TurnEndReason
from farsteer.core.launch import LaunchMode
from farsteer.core.queue import ItemState
from farsteer.faces.app import ServerConfig, serve
from tests.scenarios import log as read
from tests.scenarios.agents import RecordedDemo
from tests.scenarios.chat import Chat
from tests.scenarios.world import World
from tests.support.eventually import eventually
from tests.support.stack import OWNER, Account


@pytest.fixture
async def me(world: World) -> AsyncIterator[Account]:
    """A client of the hub that the world begins with."""
    async with (
        serve(world.hub, ServerConfig(port=0)) as url,
        Account(base_url=url, timeout=30) as account,
    ):
        answer = await account.post_json("/api/auth", {"accessToken": OWNER})
        account.headers["authorization"] = f"Bearer {answer['token']}"
        yield account


both = pytest.mark.parametrize("agent", ["demo", "droid"])
"""The demo agent cuts its own conversation; a Droid goes on in another one, under a name it chooses."""


async def begun(world: World, agent: str) -> Chat:
    world.droid()
    return await world.create(agent)


async def seq_of(me: Account, chat: Chat, text: str) -> int:
    """Where a person has said that."""
    log = await me.messages(chat.id, limit=200)
    [seq] = [e["seq"] for e in log if e["content"]["kind"] == "user_message" and e["content"]["text"] == text]
    return seq


async def rewind(me: Account, chat: Chat, text: str, **more: Any) -> Any:
    """Go on from before that message."""
    body = {"seq": await seq_of(me, chat, text), **more}
    return await me.post_json(f"/api/sessions/{chat.id}/rewind", body)


async def fork(world: World, me: Account, chat: Chat, **body: Any) -> Chat:
    created = await me.post_json(f"/api/sessions/{chat.id}/fork", body)
    return world.open(created["sessionId"])


async def visible(me: Account, chat: Chat) -> list[str]:
    """What a client is shown of the conversation."""
    return read.texts(await me.messages(chat.id, limit=200), "user_message", "agent_message")


async def remembered(chat: Chat) -> str:
    """What the agent itself knows of the conversation, by its own word."""
    return (await chat.say("history" if chat.agent == "demo" else "transcript")).answer


@both
async def test_58_last_assistant_anchor(world: World, me: Account, agent: str) -> None:
    chat = await begun(world, agent)
    turn = await chat.say("think of a whale")
    [thought], [answer] = turn.of(ev.AgentThought), turn.of(ev.AgentMessage)
    assert answer.anchor is not None
    # A Droid thinks and answers in one message, the demo agent in two.
    assert (thought.anchor == answer.anchor) is (agent == "droid")
    await chat.say("say removed")
    await rewind(me, chat, "say removed")
    assert chat.of(ev.Rewound)[-1].cut_at == answer.anchor, "the text, which is last, and not the thinking"
    known = await remembered(chat)
    assert chat.adapter.plans[-1].cut_at == answer.anchor
    assert answer.text in known
    assert "removed" not in known


@both
async def test_59_warm_process_carries_the_cut(world: World, me: Account, agent: str) -> None:
    chat = await begun(world, agent)
    await chat.say("remember the dolphin")
    await chat.say("remember the whale")
    await rewind(me, chat, "remember the whale", restoreFiles=False)
    await chat.adapter.started(2)
    assert chat.adapter.plans[1].cut_at is not None
    known = await remembered(chat)
    assert len(chat.adapter.plans) == 2, "the warm process is the one that answers"
    assert "dolphin" in known
    assert "whale" not in known


@both
async def test_60_rewind_persists(world: World, me: Account, agent: str) -> None:
    chat = await begun(world, agent)
    await chat.say("say one")
    await chat.say("say two")
    await chat.say("say three")
    await rewind(me, chat, "say two")
    assert await visible(me, chat) == ["say one", "one"]
    await chat.say("say four")
    kept = await me.messages(chat.id, limit=200)
    assert read.texts(kept, "user_message", "agent_message") == ["say one", "one", "say four", "four"]
    await world.restart_hub()
    await world.restart_runner()
    shown = [entry.seq for entry in await chat.log()]
    assert shown[: len(kept)] == [entry["seq"] for entry in kept]
    await chat.say("say five")
    said = [e.content.text for e in await chat.log() if isinstance(e.content, ev.UserMessage)]
    assert said == ["say one", "say four", "say five"]
    assert "two" not in await remembered(chat)


@both
async def test_61_rewind_to_the_first_message(world: World, me: Account, agent: str) -> None:
    """The agent begins anew under a name that it has not had; for everybody else it is the same session."""
    chat = await begun(world, agent)
    await chat.say("remember the dolphin")
    before = await chat.view()
    done = await rewind(me, chat, "remember the dolphin")
    assert done["text"] == "remember the dolphin"
    assert await visible(me, chat) == []
    [listed] = (await me.get_json("/api/sessions"))["sessions"]
    assert listed["id"] == chat.id
    assert (await remembered(chat)).lower().startswith("nothing")
    after = await chat.view()
    assert after.native_id != before.native_id
    assert chat.adapter.plans[-1].decision.start is LaunchMode.CREATE
    await world.restart_runner()
    assert "dolphin" not in await remembered(chat)
    assert chat.adapter.plans[-1].decision.start is LaunchMode.RESUME
    assert [one["id"] for one in (await me.get_json("/api/sessions"))["sessions"]] == [chat.id]


class Nameless(RecordedDemo):
    """An agent that can go back, and does not say how it calls what it has said."""

    async def start(self, plan: LaunchPlan, sink: Sink) -> Launch:
        return await super().start(plan, _WithoutAnchors(sink))


class _WithoutAnchors:
    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    async def put(self, outputs: Sequence[Output]) -> None:
        await self._sink.put([_unnamed(output) for output in outputs])


def _unnamed(output: Output) -> Output:
    if isinstance(output, EventEmitted) and isinstance(output.event, ev.AgentMessage | ev.AgentThought):
        return EventEmitted(replace(output.event, anchor=None))
    return output


async def test_62_unknown_anchor(world: World, me: Account) -> None:
    world.demo = world.agents["demo"] = Nameless()
    chat = await world.create()
    await chat.say("remember the dolphin")
    await chat.say("remember the whale")
    before = await chat.view()
    done = await rewind(me, chat, "remember the whale")
    assert (await visible(me, chat))[0::2] == ["remember the dolphin"]
    assert done["files"]["status"] == "failed", "nobody guesses what they were"
    assert len(chat.of(ev.Notice, code="anchor_unknown")) == 1, "and people are told"
    assert "dolphin" in await remembered(chat), "too much is better than nothing"
    assert (await chat.view()).native_id == before.native_id
    assert LaunchMode.CREATE not in world.demo.starts[1:]


async def test_63_agent_rejects_anchor(world: World, me: Account, chat: Chat) -> None:
    await chat.say("remember the dolphin")
    await chat.say("remember the whale")
    [first, _] = chat.of(ev.AgentMessage)
    await chat.stop()
    # The agent has named its messages anew behind our back, as after a repair of its files.
    file = world.agent_file(str((await chat.view()).native_id))
    file.write_text(file.read_text().replace(f'"anchor":"{first.anchor}"', '"anchor":"another"'))
    await rewind(me, chat, "remember the whale", restoreFiles=False)
    before = (await chat.view()).native_id
    turn = await chat.say("say still here")
    assert (turn.reason, turn.answer) == (TurnEndReason.END_TURN, "still here")
    assert len(chat.of(ev.Notice, code="anchor_unknown")) == 1
    assert chat.of(ev.StatusUpdate, status=ev.SessionStatus.FAILED) == []
    starts = len(world.demo.plans)
    await chat.stop()
    assert "dolphin" in await remembered(chat)
    assert world.demo.plans[starts].cut_at is None, "it is not asked for again"
    assert (await chat.view()).native_id == before


async def test_64_failed_warm_launch_keeps_the_cut(world: World, me: Account, chat: Chat) -> None:
    await chat.say("remember the dolphin")
    await chat.say("remember the whale")
    world.demo.refusals.append(AgentError("not today", code=ErrorCode.AGENT_START_FAILED))
    await rewind(me, chat, "remember the whale", restoreFiles=False)
    await world.demo.started(2)
    assert len(world.demo.errors) == 1
    assert world.demo.plans[1].cut_at == world.demo.plans[2].cut_at is not None
    known = await remembered(chat)
    assert "dolphin" in known
    assert "whale" not in known


@both
async def test_65_rewind_then_restart_before_sending(world: World, me: Account, agent: str) -> None:
    chat = await begun(world, agent)
    await chat.say("remember the dolphin")
    await chat.say("remember the whale")
    await rewind(me, chat, "remember the whale")
    await world.restart_runner()
    await world.restart_runner()
    assert await visible(me, chat) == ["remember the dolphin", chat.of(ev.AgentMessage)[0].text]
    known = await remembered(chat)
    assert "dolphin" in known
    assert "whale" not in known
    # The cut was made once: what is said after it stays.
    await chat.say("say after the cut")
    await world.restart_runner()
    assert "after the cut" in await remembered(chat)


@pytest.mark.parametrize("way", ["abort", "stop"])
async def test_66_rewind_right_after_stop(world: World, me: Account, chat: Chat, way: str) -> None:
    await chat.say("remember the dolphin")
    await chat.begin("ignore interrupt")
    stopping = asyncio.create_task(chat.abort() if way == "abort" else chat.stop())
    began = time.monotonic()
    await rewind(me, chat, "ignore interrupt")
    assert time.monotonic() - began < 5
    await stopping
    assert [end.reason for end in chat.of(ev.TurnEnd)][1:] == [TurnEndReason.CANCELLED]
    assert "dolphin" in await remembered(chat)


async def test_67_send_during_rewind(world: World, me: Account, chat: Chat) -> None:
    await chat.say("remember the dolphin")
    await chat.say("remember the whale")
    await chat.stop()
    # Files are restored by a process, and that one does not come up yet.
    world.demo.gate.clear()
    rewinding = asyncio.create_task(rewind(me, chat, "remember the whale"))
    await world.demo.asked(2)
    item = await chat.send("history")
    await chat.until(ev.QueueUpdate, item_id=item, state=ItemState.QUEUED)
    world.demo.gate.set()
    done = await rewinding
    assert done["cancelled"] == []
    turn = await chat.turn(item)
    assert "dolphin" in turn.answer
    assert "whale" not in turn.answer
    [rewound] = [entry.seq for entry in chat.entries if isinstance(entry.content, ev.Rewound)]
    assert turn.entries[0].seq > rewound
    assert (await visible(me, chat))[-2] == "history"


async def test_68_files(world: World, me: Account) -> None:
    chat = await world.create(yolo=True)
    directory = world.directory
    outside = directory.parent / "outside.txt"
    outside.write_text("untouched")
    await chat.say("write a.txt one")
    await chat.say("write a.txt two\nwrite b.txt new")
    (directory / "b.txt").unlink()
    (directory / "b.txt").symlink_to(outside)
    done = await rewind(me, chat, "write a.txt two\nwrite b.txt new")
    assert done["files"]["status"] == "partial"
    assert (done["files"]["restored"], done["files"]["skipped"]) == (["a.txt"], ["b.txt"])
    assert (directory / "a.txt").read_text() == "one\n"
    assert (directory / "b.txt").is_symlink()
    assert outside.read_text() == "untouched"

    await chat.say("write a.txt three")
    await chat.say("lose copies")
    done = await rewind(me, chat, "write a.txt three")
    assert done["files"]["status"] == "failed"
    assert done["files"]["reason"]
    assert (directory / "a.txt").read_text() == "three\n"
    assert (await visible(me, chat))[-2:] == ["write a.txt one", "a.txt is done."], (
        "the cut is made all the same"
    )
    assert "three" not in await remembered(chat)


async def test_69_rewind_state_does_not_leak_into_new_or_other_session(world: World, me: Account) -> None:
    one, other = await world.create(), await world.create()
    for chat in (one, other):
        await chat.say("remember the dolphin")
        await chat.say("remember the whale")
    await rewind(me, one, "remember the whale")
    new = await world.create()
    await new.say("remember the seal")
    await other.stop()
    assert "whale" in await remembered(other)
    assert "seal" in await remembered(new)
    cut = {plan.session_id for plan in world.demo.plans if plan.cut_at is not None}
    assert cut <= {one.id}
    assert "whale" not in await remembered(one)


async def test_70_fork_then_config_change_before_first_message(world: World, me: Account) -> None:
    world.demo.can(live_model=False)
    source = await world.create()
    await source.say("remember the dolphin")
    branch = await fork(world, me, source)
    await me.post_json(f"/api/sessions/{branch.id}/model", {"model": "demo-1-mini"})
    turn = await branch.say("history\nmodel")
    assert "dolphin" in turn.answer
    assert "demo-1-mini" in turn.answer
    plans = [plan for plan in world.demo.plans if plan.session_id == branch.id]
    assert plans[-1].model == "demo-1-mini"
    assert (await branch.view()).native_id != (await source.view()).native_id


async def test_71_fork_of_expired_source(world: World, me: Account) -> None:
    source = await world.create()
    await source.say("remember the dolphin")
    await source.stop()
    world.agent_file(str((await source.view()).native_id)).unlink()
    branch = await fork(world, me, source)
    assert "remember the dolphin" in await visible(me, branch), "people still have it"
    turn = await branch.say("say hello")
    assert (turn.reason, turn.answer) == (TurnEndReason.END_TURN, "hello")
    plans = [plan for plan in world.demo.plans if plan.session_id == branch.id]
    assert [plan.fork_of is not None for plan in plans] == [True, False]
    assert len(branch.of(ev.Notice, code="conversation_missing")) == 1
    await branch.stop()
    assert "hello" in await remembered(branch)


async def test_72_fork_does_not_touch_the_source_and_a_busy_source_is_safe(world: World, me: Account) -> None:
    source = await world.create()
    await source.say("remember the dolphin")
    await source.say("remember the whale")
    file = world.agent_file(str((await source.view()).native_id))
    before, log = file.read_bytes(), await me.messages(source.id, limit=200)
    branch = await fork(world, me, source, seq=await seq_of(me, source, "remember the whale"))
    assert "dolphin" in await remembered(branch)
    assert "whale" not in await remembered(branch)
    assert (file.read_bytes(), await me.messages(source.id, limit=200)) == (before, log)

    running = await source.begin("ask")
    processes = len(world.demo.launches)
    second = await fork(world, me, source)
    assert "whale" in await remembered(second)
    view = await source.view()
    assert (view.status, len(view.approvals)) == (ev.SessionStatus.WAITING, 1)
    await source.answer(view.approvals[0], answers={"colour": ["blue"]})
    assert (await source.turn(running)).answer == "You chose colour: blue."
    assert [plan.session_id for plan in world.demo.plans[processes:]] == [second.id], (
        "no new process for the source"
    )


@pytest.mark.parametrize("moment", ["before the cut", "before the hub knows"])
async def test_73_two_file_rewind_crash(world: World, me: Account, chat: Chat, moment: str) -> None:
    """Our log, the hub's and the agent's own conversation: all old or, by the next message, all new."""
    await chat.say("remember the dolphin")
    await chat.say("remember the whale")
    seq = await seq_of(me, chat, "remember the whale")
    cut_at = chat.of(ev.AgentMessage)[0].anchor
    if moment == "before the cut":
        await chat.stop()
        world.demo.gate.clear()
        answer = asyncio.create_task(me.post(f"/api/sessions/{chat.id}/rewind", json={"seq": seq}))
        await world.demo.asked(2)
        await world.crash_runner()
        world.demo.gate.set()
        assert (await answer).status_code in (409, 503), "whoever asked is told that it was not done"
    else:
        await world._cut_link()
        actor = world.runner.actor(chat.id)
        assert actor is not None
        await actor.execute(commands.Rewind(first_seq=seq - 1, cut_at=cut_at))
        assert "remember the whale" in await visible(me, chat)
        await world.crash_runner()
    await world.start_runner()
    is_new = moment != "before the cut"
    await eventually(lambda: bool(chat.of(ev.Rewound)) is is_new)
    assert ("remember the whale" in await visible(me, chat)) is not is_new
    assert ("whale" in await remembered(chat)) is not is_new
    assert "dolphin" in await remembered(chat)


@both
@pytest.mark.parametrize("crashes", [False, True])
async def test_61_no_conversation_of_a_rewound_session_outlives_it(
    world: World, me: Account, agent: str, crashes: bool
) -> None:
    """A Droid cuts by copying, and so does one that was started in advance and never needed."""
    chat = await begun(world, agent)
    for text in ("say one", "say two", "say three"):
        await chat.say(text)
    await rewind(me, chat, "say three")
    if crashes:
        await chat.adapter.started(2)
        await eventually(
            lambda: chat.adapter.launch.native_id in (*chat.state.left_behind, chat.state.native_id)
        )
        await world.restart_runner()
    await chat.say("say four")
    await rewind(me, chat, "say two")
    await rewind(me, chat, "say one")
    await chat.say("say five")

    def conversations() -> list[Path]:
        return [*world.home.parent.rglob("*.jsonl")]

    assert conversations()
    await chat.delete()
    await eventually(lambda: not conversations())
