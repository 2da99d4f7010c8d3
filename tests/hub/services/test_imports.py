"""Imports: listing the stored conversations of a machine, and making sessions of them."""

import asyncio
import json
from typing import Any

import pytest

from farsteer.core import events as ev
from farsteer.core.api import ImportConversation
from farsteer.core.capabilities import AgentInfo, Capabilities
from farsteer.core.commands import Create, ListConversations
from farsteer.core.errors import AgentError, Conflict, Forbidden, MachineOffline, NotCapable, NotFound
from farsteer.core.ids import is_uuid, new_id
from farsteer.hub import Hub, Scope
from farsteer.link.messages import Call, Events, Reply
from tests.hub.conftest import created, failed
from tests.hub.scripted import FeedRecorder, ScriptedRunner, caller, machine, refuse

ME = caller()


def agent(name: str, *, imports: bool = True, available: bool = True) -> AgentInfo:
    can = Capabilities(import_history=imports)
    return AgentInfo(name=name, title=name, available=available, capabilities=can)


def conversation(native_id: str, updated_at: int, **fields: Any) -> dict[str, Any]:
    return {"nativeId": native_id, "agent": "demo", "directory": "/work", "updatedAt": updated_at, **fields}


async def import_session(
    hub: Hub, runner: ScriptedRunner, native_id: str, key: str | None = None, **more: Any
) -> str:
    request = ImportConversation(agent="demo", native_id=native_id, **more)
    result = await hub.imports.import_conversation(ME, runner.info.id, request, idempotency_key=key)
    return created(result).session_id


async def listed(hub: Hub, machine_id: str, agent: str | None = None, limit: int = 100) -> list[str]:
    found = await hub.imports.conversations(ME, machine_id, agent=agent, directory=None, limit=limit)
    return [one.native_id for one in found.conversations]


async def test_the_machine_lists_the_conversations_of_an_agent(hub: Hub, runner: ScriptedRunner) -> None:
    session = new_id()
    stored = [conversation("b", 2, title="later", sessionId=session), conversation("a", 1)]
    runner.answers[ListConversations] = lambda call: Reply(id=call.id, result=stored)
    found = await hub.imports.conversations(ME, runner.info.id, agent="demo", directory="/work", limit=7)
    assert [(one.native_id, one.session_id) for one in found.conversations] == [("b", session), ("a", None)]
    (call,) = runner.calls
    assert call.session == ""
    assert call.command == ListConversations(agent="demo", directory="/work", limit=7)


async def test_without_an_agent_all_that_can_list_are_asked(hub: Hub) -> None:
    agents = (
        agent("one"),
        agent("two"),
        agent("without import", imports=False),
        agent("gone", available=False),
    )
    async with ScriptedRunner(hub, info=machine(agents=agents)) as runner:

        def list_conversations(call: Call) -> Reply:
            assert isinstance(call.command, ListConversations)
            at = {"one": 1, "two": 2}[call.command.agent]
            name = call.command.agent
            return Reply(id=call.id, result=[conversation(f"{name}+", at + 2), conversation(name, at)])

        runner.answers[ListConversations] = list_conversations
        assert await listed(hub, runner.info.id) == ["two+", "one+", "two", "one"]
        assert await listed(hub, runner.info.id, limit=3) == ["two+", "one+", "two"]


async def test_conversations_that_cannot_be_listed_are_an_error(hub: Hub, runner: ScriptedRunner) -> None:
    id = runner.info.id
    runner.answers[ListConversations] = refuse(NotCapable("no"))
    with pytest.raises(NotCapable):
        await listed(hub, id, "demo")
    runner.answers[ListConversations] = lambda call: Reply(id=call.id, result=[{"odd": 1}])
    with pytest.raises(AgentError):
        await listed(hub, id, "demo")
    with pytest.raises(NotFound):
        await hub.imports.conversations(caller("other"), id, agent=None, directory=None, limit=1)
    reader = caller("default", Scope.READ)
    with pytest.raises(Forbidden):
        await hub.imports.conversations(reader, id, agent=None, directory=None, limit=1)
    await runner.disconnect()
    with pytest.raises(MachineOffline):
        await listed(hub, id, "demo")


async def test_an_unused_uuid_becomes_the_sessions_id(hub: Hub, runner: ScriptedRunner) -> None:
    native = new_id()
    assert await import_session(hub, runner, native, title="mine") == native
    (create,) = runner.commands(Create)
    assert (create.spec.native_id, create.spec.agent, create.spec.title) == (native, "demo", "mine")
    assert create.spec.source == "import"
    named = await import_session(hub, runner, "chat-1")
    assert named != "chat-1"
    assert is_uuid(named)


async def test_an_id_is_never_used_for_two_sessions(hub: Hub, runner: ScriptedRunner) -> None:
    native = new_id()
    assert await import_session(hub, runner, native) == native
    second = await import_session(hub, runner, native)
    assert second != native, "the machine decides whether it is a session already"
    await hub.sessions.delete(ME, native)
    third = await import_session(hub, runner, native)
    assert third not in (native, second)


async def test_a_session_id_cannot_begin_twice(hub: Hub, runner: ScriptedRunner) -> None:
    native = new_id()
    await import_session(hub, runner, native)
    spec = runner.commands(Create)[0].spec
    with pytest.raises(Conflict):
        await hub.store.begin_session(ME.namespace, spec)
    assert (await hub.sessions.get(ME, native)).id == native


async def test_the_error_names_the_session_that_has_the_conversation(
    hub: Hub, runner: ScriptedRunner
) -> None:
    other = new_id()
    runner.answers[Create] = refuse(Conflict("this conversation is a session already", session=other))
    request = ImportConversation(agent="demo", native_id="chat-1")
    failure = failed(await hub.imports.import_conversation(ME, runner.info.id, request), 409)
    assert failure.error.details == {"session": other}
    assert (await hub.sessions.list(ME)).sessions == []


async def test_the_same_key_gives_the_same_session(hub: Hub, runner: ScriptedRunner) -> None:
    first = await import_session(hub, runner, "chat-1", key="k")
    assert await import_session(hub, runner, "chat-1", key="k") == first
    assert len(runner.commands(Create)) == 1
    with pytest.raises(Conflict):
        await import_session(hub, runner, "chat-2", key="k")


async def test_an_imported_history_is_stored_when_the_session_appears(
    hub: Hub, runner: ScriptedRunner
) -> None:
    feed = FeedRecorder(hub)
    made = runner.answers[Create]

    def adopted(call: Call) -> Reply | None:
        reply = made(call)
        assert reply is not None
        log = runner.logs[call.session]
        for n in range(500):
            log.add(ev.AgentMessage(message_id=str(n), text=f"text {n}"))
        return Reply(id=call.id, state=log.state, seq=log.state.seq)

    runner.answers[Create] = adopted
    request = ImportConversation(agent="demo", native_id="chat-1")
    creating = asyncio.create_task(hub.imports.import_conversation(ME, runner.info.id, request))
    await runner.wait_for(Create)
    (session_id,) = runner.logs
    log = runner.logs[session_id]
    await runner.ping()
    assert not creating.done(), "the answer waits for the history to be stored"
    for first in range(0, 500, 100):
        await runner.send(Events(session=session_id, entries=log.entries[first : first + 100], state=None))
    created(await creating)
    view = await hub.sessions.get(ME, session_id)
    assert (view.seq, view.last_message) == (500, "text 499")
    page = json.loads(await hub.messages.list(ME, session_id, after_seq=0, limit=200))
    assert [entry["content"]["text"] for entry in page["messages"]] == [f"text {n}" for n in range(200)]
    await runner.append(session_id, ev.AgentMessage(message_id="new", text="new"))
    page = json.loads(await hub.messages.list(ME, session_id, limit=2))
    assert [entry["content"]["text"] for entry in page["messages"]] == ["text 499", "new"]
    assert [event.type for event in feed.events[:2]] == ["session-added", "message-received"]
    assert len(feed.of("message-received")) == 1, "what is old is no news"
    feed.stop()
