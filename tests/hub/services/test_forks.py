"""Forks: the copy is stored before the runner creates the session, and clients see one new session."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from farsteer.core import events as ev
from farsteer.core.api import ForkedFrom, ForkSession
from farsteer.core.capabilities import AgentInfo, Capabilities
from farsteer.core.commands import Create, Delete
from farsteer.core.errors import AgentError, Forbidden
from farsteer.core.modes import PermissionMode
from farsteer.core.session import Fork, SessionSpec, SessionType
from farsteer.hub import Hub, Scope
from farsteer.hub.services.creation import CreationFailed
from tests.hub.conftest import create, created
from tests.hub.scripted import FeedRecorder, ScriptedRunner, caller, machine, refuse

ME = caller()


def turn(text: str, anchor: str | None = None) -> list[ev.SessionEvent]:
    return [
        ev.TurnStart(turn_id=text, item_id=text),
        ev.UserMessage(item_id=text, text=text),
        ev.AgentMessage(message_id="m", text=f"to {text}", anchor=anchor),
        ev.TurnEnd(turn_id=text, reason=ev.TurnEndReason.END_TURN),
    ]


async def registered(hub: Hub, runner: ScriptedRunner, *events: ev.SessionEvent, **fields: Any) -> str:
    """Create a session whose agent has a conversation."""
    session_id = await create(hub, runner, **fields)
    log = runner.logs[session_id]
    log.state = replace(log.state, native_id="native", registered=True)
    await runner.append(session_id, *events)
    return session_id


async def fork(hub: Hub, session_id: str, **fields: Any) -> str:
    return created(await hub.forks.fork(ME, session_id, ForkSession(**fields))).session_id


async def refused(hub: Hub, session_id: str, **fields: Any) -> tuple[int, str]:
    result = await hub.forks.fork(ME, session_id, ForkSession(**fields))
    assert isinstance(result, CreationFailed)
    assert result.logs[-1].status == "error"
    return result.error.status, result.error.message


def spec_of(runner: ScriptedRunner) -> SessionSpec:
    return runner.commands(Create)[-1].spec


async def test_the_runner_is_told_which_part_the_agent_keeps(hub: Hub, runner: ScriptedRunner) -> None:
    source = await registered(
        hub, runner, *turn("one", "a"), *turn("two", "b"), title="The bug", permission_mode="acceptEdits"
    )
    await runner.append(source, ev.ModeUpdate(model="opus"))
    await fork(hub, source)
    whole = spec_of(runner)
    assert whole.fork == Fork(session_id=source, seq=9, native_id="native", cut_at="b", copied=8)
    assert (whole.agent, whole.directory, whole.session_type) == ("demo", "/work", SessionType.SIMPLE)
    assert (whole.model, whole.permission_mode) == ("opus", PermissionMode.ACCEPT_EDITS)
    assert whole.title == "Fork of The bug"

    for seq, expected in {
        6: Fork(session_id=source, seq=4, native_id="native", cut_at="a", copied=4),  # a message: before it
        7: Fork(session_id=source, seq=7, native_id="native", cut_at="b", copied=8),  # and a turn has an end
        2: Fork(session_id=source, seq=0, native_id=None, copied=0),
        1: Fork(session_id=source, seq=1, native_id=None, copied=2),
    }.items():
        await fork(hub, source, seq=seq, title="mine")
        assert spec_of(runner).fork == expected, seq
    assert spec_of(runner).title == "mine"


async def test_an_agent_without_anchors_takes_over_everything_rather_than_nothing(
    hub: Hub, runner: ScriptedRunner
) -> None:
    source = await registered(hub, runner, *turn("one"), *turn("two"))
    await fork(hub, source, seq=6)
    assert spec_of(runner).fork == Fork(session_id=source, seq=4, native_id="native", copied=4)


async def test_an_agent_that_forks_whole_conversations_only_refuses_a_fork_at_a_message(hub: Hub) -> None:
    whole = AgentInfo(
        name="demo", title="Demo", available=True, capabilities=Capabilities(resume=True, fork=True)
    )
    async with ScriptedRunner(hub, info=machine(agents=(whole,))) as runner:
        source = await registered(hub, runner, *turn("one"), *turn("two"))
        assert await refused(hub, source, seq=6) == (422, "this agent forks whole conversations only")
        await fork(hub, source)


async def test_clients_get_one_new_session_and_its_log_continues_after_the_copy(
    hub: Hub, runner: ScriptedRunner
) -> None:
    source = await registered(hub, runner, *turn("one", "a"))
    feed = FeedRecorder(hub)
    id = await fork(hub, source)
    await runner.append(id, ev.Notice(text="mine"))
    published = [event for event in feed.events if event.subject == id]
    assert [event.type for event in published] == ["session-added", "message-received"]
    added = json.loads(published[0].data)["data"]
    assert added["forkedFrom"] == {"sessionId": source, "seq": 4}
    assert (added["seq"], added["lastMessage"]) == (4, "to one")
    assert json.loads(published[1].data)["message"]["seq"] == 5
    assert [event for event in feed.events if event.subject == source] == []
    assert (await hub.sessions.get(ME, id)).forked_from == ForkedFrom(source, 4)
    assert (await hub.sessions.get(ME, source)).forked_from is None
    assert [session.id for session in (await hub.sessions.list(ME, text="to one")).sessions].count(id) == 1


async def test_what_cannot_be_forked_gives_a_failed_creation(hub: Hub, runner: ScriptedRunner) -> None:
    fresh = await create(hub, runner)
    await runner.append(fresh, *turn("one"))
    assert await refused(hub, fresh) == (
        409, "there is nothing to fork yet: the agent has no conversation",
    )  # fmt: skip
    source = await registered(hub, runner, *turn("one"))
    assert await refused(hub, source, seq=5) == (404, "there is no entry 5 in this conversation")
    with pytest.raises(Forbidden):
        await hub.forks.fork(caller("default", Scope.READ), source, ForkSession())
    assert len(runner.commands(Create)) == 2


async def test_a_fork_needs_the_capability_and_an_online_machine(hub: Hub) -> None:
    plain_agent = AgentInfo(name="demo", title="Demo", available=True, capabilities=Capabilities())
    async with ScriptedRunner(hub, info=machine(agents=(plain_agent,))) as runner:
        source = await registered(hub, runner, *turn("one"))
        assert await refused(hub, source) == (422, "this agent cannot fork a conversation")
    async with ScriptedRunner(hub) as other:
        source = await registered(hub, other, *turn("one"))
    assert (await refused(hub, source))[0] == 409


async def test_a_fork_that_its_runner_refuses_leaves_nothing(hub: Hub, runner: ScriptedRunner) -> None:
    source = await registered(hub, runner, *turn("one", "a"))
    before = await hub.messages.list(ME, source)
    runner.answers[Create] = refuse(AgentError("it does not start"))
    feed = FeedRecorder(hub)
    assert await refused(hub, source) == (422, "it does not start")
    assert feed.events == []
    assert [session.id for session in (await hub.sessions.list(ME)).sessions] == [source]
    assert await hub.messages.list(ME, source) == before
    await runner.ping()
    assert runner.commands(Delete) == []
