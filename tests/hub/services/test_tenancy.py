"""Tenancy: for a caller of another namespace, no object exists in any service method."""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from farsteer.core import events as ev
from farsteer.core.api import (
    ClearMessages,
    CreateSession,
    ForkSession,
    RenameSession,
    RewindSession,
    SendMessage,
    SwitchAgent,
    Typing,
    WriteDraft,
)
from farsteer.core.approvals import Answer, Approval, ApprovalKind, Outcome
from farsteer.core.errors import NotFound
from farsteer.core.ids import new_id
from farsteer.hub import Caller, Hub
from tests.hub.conftest import failed
from tests.hub.scripted import FeedRecorder, ScriptedRunner, caller

Attempt = Callable[[Hub, Caller, str, str, str], Awaitable[Any]]

# (hub, caller, session, item or approval, machine)
ATTEMPTS: dict[str, Attempt] = {
    "sessions.get": lambda hub, who, session, _, __: hub.sessions.get(who, session),
    "sessions.rename": lambda hub, who, session, _, __: hub.sessions.rename(
        who, session, RenameSession(title="x")
    ),
    "sessions.delete": lambda hub, who, session, _, __: hub.sessions.delete(who, session),
    "messages.list": lambda hub, who, session, _, __: hub.messages.list(who, session),
    "messages.send": lambda hub, who, session, _, __: hub.messages.send(who, session, SendMessage(text="x")),
    "messages.clear": lambda hub, who, session, _, __: hub.messages.clear(who, session, ClearMessages()),
    "sessions.abort": lambda hub, who, session, _, __: hub.sessions.abort(who, session),
    "sessions.stop": lambda hub, who, session, _, __: hub.sessions.stop(who, session),
    "sessions.resume": lambda hub, who, session, _, __: hub.sessions.resume(who, session),
    "sessions.configure": lambda hub, who, session, _, __: hub.sessions.configure(who, session, model="x"),
    "sessions.switch_agent": lambda hub, who, session, _, __: hub.sessions.switch_agent(
        who, session, SwitchAgent(agent="x")
    ),
    "messages.queue": lambda hub, who, session, _, __: hub.messages.queue(who, session),
    "messages.cancel": lambda hub, who, session, item, __: hub.messages.cancel(who, session, item),
    "messages.send_now": lambda hub, who, session, item, __: hub.messages.send_now(who, session, item),
    "rewinds.rewind": lambda hub, who, session, _, __: hub.rewinds.rewind(who, session, RewindSession(seq=1)),
    "approvals.answer": lambda hub, who, session, approval, __: hub.approvals.answer(
        who, session, approval, Answer(outcome=Outcome.APPROVED)
    ),
    "presence.typing": lambda hub, who, session, _, __: hub.presence.typing(who, session, Typing(text="x")),
    "drafts.read": lambda hub, who, session, _, __: hub.drafts.read(who, session),
    "drafts.write": lambda hub, who, session, _, __: hub.drafts.write(who, session, WriteDraft(text="x")),
    "files.list": lambda hub, who, session, _, __: hub.files.list(who, session),
    "files.read": lambda hub, who, session, _, __: hub.files.read(who, session, "a", offset=0, length=1),
    "files.changes": lambda hub, who, session, _, __: hub.files.changes(who, session),
    "files.diff": lambda hub, who, session, _, __: hub.files.diff(who, session, "a"),
    "files.browse": lambda hub, who, _, __, machine: hub.files.browse(who, machine),
    "machines.get": lambda hub, who, _, __, machine: hub.machines.get(who, machine),
    "machines.release": lambda hub, who, _, __, machine: hub.machines.release(who, machine),
    "foreign_sessions.list": lambda hub, who, _, __, machine: hub.foreign_sessions.list(who, machine),
    "foreign_sessions.adopt": lambda hub, who, session, _, machine: hub.foreign_sessions.adopt(
        who, machine, session
    ),
    "foreign_sessions.end": lambda hub, who, session, _, machine: hub.foreign_sessions.end(
        who, machine, session
    ),
    "machines.remove": lambda hub, who, _, __, machine: hub.machines.remove(
        who, machine, delete_sessions=True
    ),
}
SERVICES = (
    "sessions", "messages", "rewinds", "forks", "approvals", "machines", "foreign_sessions", "presence",
    "files", "drafts",
)  # fmt: skip
# These name no object. Other tests check what they show.
LISTS = {
    "sessions.list",
    "sessions.create",
    "forks.fork",
    "approvals.inbox",
    "machines.list",
    "machines.agents",
    "presence.online",
    "presence.join",
}


def test_every_method_that_takes_a_caller_is_listed(hub: Hub) -> None:
    found = {
        f"{service}.{name}"
        for service in SERVICES
        for name, method in inspect.getmembers(getattr(hub, service), inspect.ismethod)
        if not name.startswith("_") and "caller" in inspect.signature(method).parameters
    }
    assert found == ATTEMPTS.keys() | LISTS


@pytest.fixture
async def busy(hub: Hub, runner: ScriptedRunner, session_id: str) -> tuple[str, str, str]:
    """A session with an accepted message and an open approval."""
    approval = Approval(id=new_id(), kind=ApprovalKind.PERMISSION, title="?", created_at=1)
    await runner.append(session_id, ev.TurnStart(turn_id="t"), ev.ApprovalRequested(approval=approval))
    item = await hub.messages.send(caller(), session_id, SendMessage(text="secret words"))
    return session_id, item.id, approval.id


@pytest.mark.parametrize("name", ATTEMPTS)
async def test_objects_of_another_namespace_do_not_exist(
    hub: Hub, runner: ScriptedRunner, busy: tuple[str, str, str], name: str
) -> None:
    session_id, item, approval = busy
    subject = approval if name == "approvals.answer" else item
    calls = len(runner.calls)
    attempt = ATTEMPTS[name]
    machine_id = runner.info.id
    with pytest.raises(NotFound) as foreign:
        await attempt(hub, caller("other"), session_id, subject, machine_id)
    with pytest.raises(NotFound) as unknown:
        await attempt(hub, caller("other"), new_id(), subject, new_id())
    assert foreign.value.message == unknown.value.message
    assert foreign.value.code == unknown.value.code
    await runner.ping()
    assert [call for call in runner.calls[calls:] if not hasattr(call.command, "item")] == []


async def test_lists_and_events_show_nothing_of_others(
    hub: Hub, runner: ScriptedRunner, busy: tuple[str, str, str]
) -> None:
    other = caller("other")
    assert (await hub.sessions.list(other)).sessions == []
    assert (await hub.sessions.list(other, text="secret")).sessions == []
    assert (await hub.approvals.inbox(other)).approvals == []
    assert (await hub.machines.list(other)).machines == []
    assert (await hub.machines.agents(other)).agents == []
    hub.presence.join(caller(), "tab")
    assert hub.presence.online(other).users == []
    page = await hub.store.read_feed("other", 0)
    assert page.events == []
    assert (await hub.store.read_feed("other", 0, session_id=busy[0])).events == []


async def test_a_session_cannot_be_created_on_a_foreign_machine(hub: Hub, runner: ScriptedRunner) -> None:
    feed = FeedRecorder(hub)
    request = CreateSession(machine_id=runner.info.id, directory="/work")
    failed(await hub.sessions.create(caller("other"), request), 404)
    await runner.ping()
    assert runner.calls == []
    assert feed.events == []


async def test_a_foreign_session_cannot_be_forked(hub: Hub, runner: ScriptedRunner, session_id: str) -> None:
    for id in (session_id, new_id()):
        failure = failed(await hub.forks.fork(caller("other"), id, ForkSession()), 404)
        assert failure.error.message == "no such session"
    await runner.ping()
    assert len(runner.calls) == 1
