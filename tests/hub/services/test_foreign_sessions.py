"""Foreign sessions, with runners that tell the truth and runners that do not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Self

import pytest
from msgspec.structs import replace

from farsteer.core.commands import Adopt, Delete, DescribeSessions
from farsteer.core.errors import FarsteerError, Forbidden, MachineOffline, NotCapable, NotFound, QuotaExceeded
from farsteer.core.events import SessionStatus
from farsteer.core.foreign import HeldSession
from farsteer.core.ids import new_id
from farsteer.core.modes import PermissionMode
from farsteer.core.session import SessionSpec
from farsteer.core.wire import to_builtins
from farsteer.hub import Hub, Scope
from farsteer.hub.store.conformance import LogBuilder
from farsteer.link.messages import Call, Events, Reply
from tests.hub.conftest import OWNER_TOKEN, create
from tests.hub.scripted import FeedRecorder, ScriptedRunner, caller


class Holder(ScriptedRunner):
    """A runner that has sessions of which the hub knows nothing."""

    def __init__(self, hub: Hub, ids: list[str], *, confirmed: int = 5, **options: Any) -> None:
        super().__init__(hub, **options)
        for id in ids:
            self.logs[id] = LogBuilder(id, seq=confirmed, status=SessionStatus.IDLE, title="found")
        self.confirmed = confirmed
        self.described: dict[str, Any] = {}
        """Fields that it describes otherwise."""
        self.answers[DescribeSessions] = self._describe

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        # The hub makes its calls from now on.
        await self.ping()
        return self

    def _describe(self, call: Call) -> Reply:
        assert isinstance(call.command, DescribeSessions)
        held = [self._held(id) for id in call.command.session_ids if id in self.logs]
        return Reply(id=call.id, result=to_builtins(held))

    def _held(self, id: str) -> HeldSession:
        spec = SessionSpec(id=id, machine_id=self.info.id, directory="/work", agent="demo")
        held = HeldSession(
            spec=spec, state=self.logs[id].state, confirmed=self.confirmed, updated_at=int(id[:6], 16)
        )
        return replace(held, **self.described)


async def foreign(hub: Hub, runner: ScriptedRunner, namespace: str = "default") -> list[str]:
    found = await hub.foreign_sessions.list(caller(namespace), runner.info.id)
    return [session.id for session in found.sessions]


async def refused(work: Any, kind: type[FarsteerError]) -> None:
    with pytest.raises(kind):
        await work


async def seqs(hub: Hub, session_id: str) -> list[int]:
    page = json.loads(await hub.messages.list(caller(), session_id, limit=200))
    return [message["seq"] for message in page["messages"]]


async def test_a_foreign_session_is_listed_adopted_and_goes_on(hub: Hub) -> None:
    ids = [new_id() for _ in range(3)]
    feed = FeedRecorder(hub)
    async with Holder(hub, ids) as runner:
        assert await foreign(hub, runner) == sorted(ids, reverse=True)
        assert (await hub.machines.get(caller(), runner.info.id)).foreign_sessions == 3
        assert feed.of("machine-updated")[-1]["data"]["foreignSessions"] == 3
        chosen = ids[0]
        adopted = await hub.foreign_sessions.adopt(caller(), runner.info.id, chosen)
        assert (adopted.session.id, adopted.session.seq) == (chosen, 5)
        assert runner.commands(Adopt) == [Adopt(acked=5)]
        assert set(await foreign(hub, runner)) == set(ids[1:])
        assert feed.of("machine-updated")[-1]["data"]["foreignSessions"] == 2
        assert [event["sessionId"] for event in feed.of("session-added")] == [chosen]
        log = runner.logs[chosen]
        await runner.send(Events(session=chosen, entries=log.add_messages(2), state=log.state))
        await runner.wait_until(lambda: runner.acked.get(chosen) == 7)
        assert await seqs(hub, chosen) == [5, 6, 7]


async def test_nothing_is_lost_if_the_machine_has_the_whole_log(hub: Hub) -> None:
    id = new_id()
    async with Holder(hub, [id], confirmed=0) as runner:
        runner.logs[id].add_messages(2)
        await hub.foreign_sessions.adopt(caller(), runner.info.id, id)
        log = runner.logs[id]
        await runner.send(Events(session=id, entries=log.entries, state=log.state))
        await runner.wait_until(lambda: runner.acked.get(id) == 2)
        assert await seqs(hub, id) == [1, 2]


async def test_the_hub_may_die_between_any_two_steps_of_an_adoption(hub: Hub) -> None:
    """Stored, but the runner was not told: it learns it when it connects, or from a repeated request."""
    id = new_id()
    async with Holder(hub, [id]) as runner:
        runner.answers[Adopt] = lambda call: Reply(id=call.id, error=NotFound("gone").record())
        await refused(hub.foreign_sessions.adopt(caller(), runner.info.id, id), NotFound)
        assert await foreign(hub, runner) == []
        del runner.answers[Adopt]
        adopted = await hub.foreign_sessions.adopt(caller(), runner.info.id, id)
        assert adopted.session.id == id
        await runner.disconnect()
        await runner.connect()
        assert runner.welcome is not None
        assert runner.welcome.acked[id] == 5
        assert runner.welcome.foreign == []


async def test_an_ended_session_is_deleted_also_when_its_machine_is_offline(hub: Hub) -> None:
    first, second = new_id(), new_id()
    async with Holder(hub, [first, second]) as runner:
        await hub.foreign_sessions.end(caller(), runner.info.id, first)
        await runner.wait_for(Delete)
        await runner.disconnect()
        await refused(hub.foreign_sessions.list(caller(), runner.info.id), MachineOffline)
        await hub.foreign_sessions.end(caller(), runner.info.id, second)
        for call in (hub.foreign_sessions.end, hub.foreign_sessions.adopt):
            await refused(call(caller(), runner.info.id, second), FarsteerError)
        await runner.connect()
        assert runner.welcome is not None
        assert set(runner.welcome.deleted) == {first, second}
        assert runner.welcome.foreign == []


async def test_another_namespaces_session_is_never_foreign(hub: Hub) -> None:
    """A runner that names it learns nothing, takes nothing over and ends nothing."""
    async with ScriptedRunner(hub, "theirs") as victim:
        live, deleted = await create(hub, victim), await create(hub, victim)
        await hub.sessions.delete(caller("theirs"), deleted)
        async with Holder(hub, [live, deleted], info=None) as attacker:
            assert await foreign(hub, attacker) == []
            assert (await hub.machines.get(caller(), attacker.info.id)).foreign_sessions == 0
            for id in (live, deleted):
                for call in (hub.foreign_sessions.adopt, hub.foreign_sessions.end):
                    await refused(call(caller(), attacker.info.id, id), NotFound)
            assert attacker.commands(DescribeSessions) == []
        assert (await hub.sessions.get(caller("theirs"), live)).id == live
        assert victim.commands(Delete) != [Delete(), Delete()]


async def test_the_machine_of_another_namespace_does_not_exist(hub: Hub) -> None:
    id = new_id()
    async with Holder(hub, [id], namespace="theirs") as runner:
        for work in (
            hub.foreign_sessions.list(caller(), runner.info.id),
            hub.foreign_sessions.adopt(caller(), runner.info.id, id),
            hub.foreign_sessions.end(caller(), runner.info.id, id),
        ):
            await refused(work, NotFound)
        assert await foreign(hub, runner, "theirs") == [id]


async def test_a_known_session_is_not_ended_as_a_foreign_one(
    hub: Hub, runner: ScriptedRunner, session_id: str
) -> None:
    await refused(hub.foreign_sessions.end(caller(), runner.info.id, session_id), NotFound)
    await refused(hub.foreign_sessions.end(caller(), runner.info.id, new_id()), NotFound)
    await refused(hub.foreign_sessions.adopt(caller(), runner.info.id, new_id()), NotFound)
    assert (await hub.sessions.get(caller(), session_id)).id == session_id


async def test_a_session_that_asks_nobody_needs_the_scope_to_approve(hub: Hub) -> None:
    id = new_id()
    async with Holder(hub, [id]) as runner:
        state = replace(runner.logs[id].state, permission_mode=PermissionMode.YOLO)
        runner.described["state"] = state
        writer = caller("default", Scope.READ, Scope.WRITE)
        await refused(hub.foreign_sessions.adopt(writer, runner.info.id, id), Forbidden)
        await refused(hub.foreign_sessions.list(caller("default", Scope.READ), runner.info.id), Forbidden)
        await refused(hub.foreign_sessions.end(caller("default", Scope.READ), runner.info.id, id), Forbidden)
        assert await foreign(hub, runner) == [id]
        await hub.foreign_sessions.adopt(caller(), runner.info.id, id)


@pytest.mark.parametrize("confirmed", [-1, 6, 2**60])
async def test_numbers_that_make_no_sense_are_refused(hub: Hub, confirmed: int) -> None:
    id = new_id()
    async with Holder(hub, [id]) as runner:
        runner.described["confirmed"] = confirmed
        await refused(hub.foreign_sessions.adopt(caller(), runner.info.id, id), FarsteerError)
        await refused(hub.sessions.get(caller(), id), NotFound)


async def test_an_answer_about_other_sessions_is_ignored(hub: Hub) -> None:
    asked, other = new_id(), new_id()
    async with Holder(hub, [asked]) as runner:
        runner.described["state"] = LogBuilder(other, seq=5).state
        assert await foreign(hub, runner) == []
        await refused(hub.foreign_sessions.adopt(caller(), runner.info.id, asked), NotFound)
        runner.answers[DescribeSessions] = lambda call: Reply(id=call.id, result={"not": "a list"})
        await refused(hub.foreign_sessions.list(caller(), runner.info.id), FarsteerError)


async def test_the_limit_of_sessions_holds(home: Path) -> None:
    (home / "hub.toml").write_text("[limits]\nsessions = 1\n")
    hub = await Hub.open(home, OWNER_TOKEN)
    try:
        id = new_id()
        async with Holder(hub, [id]) as runner:
            await create(hub, runner)
            await refused(hub.foreign_sessions.adopt(caller(), runner.info.id, id), QuotaExceeded)
            assert await foreign(hub, runner) == [id]
    finally:
        await hub.close()


async def test_an_old_runner_is_not_sent_what_it_does_not_know(hub: Hub) -> None:
    id = new_id()
    async with Holder(hub, [id], protocol=2) as runner:
        await refused(hub.foreign_sessions.list(caller(), runner.info.id), NotCapable)
        assert runner.commands(DescribeSessions) == []
        await hub.foreign_sessions.end(caller(), runner.info.id, id)
        await runner.wait_for(Delete)
