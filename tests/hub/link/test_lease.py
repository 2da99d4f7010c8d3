"""Two runners with one identity, as the hub sees them: one has the lease, the other is refused."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path

import pytest
from msgspec.structs import replace

from farsteer.core import events as ev
from farsteer.core.api import SendMessage
from farsteer.core.commands import Send
from farsteer.core.errors import Conflict, Forbidden, NotFound
from farsteer.core.ids import new_id
from farsteer.hub import Hub, Scope
from farsteer.hub.store.conformance.harness import LogBuilder
from farsteer.link.messages import Events, Goodbye, Hello, IdentityClaimed, Refused, ToRunner, Welcome
from farsteer.link.transport import LinkClosed, MemoryTransport, memory_pair
from tests.hub.conftest import OWNER_TOKEN, create
from tests.hub.scripted import FeedRecorder, ScriptedRunner, caller, machine
from tests.support.handshake import DEADLINE, make_hello, shake_hands

ME = caller()
MACHINE = machine()


class Runner:
    """A runner of protocol 3 that only shakes hands."""

    def __init__(self, host: str = "box", place: str = "disk", boot: str = "monday") -> None:
        self.instance = new_id()
        self.host, self.place, self.boot = host, place, boot
        self.end: MemoryTransport[object, ToRunner]
        self.serving: asyncio.Task[None]

    def hello(self, sessions: dict[str, int] | None = None) -> Hello:
        hello = make_hello(replace(MACHINE, host=self.host), sessions)
        return replace(hello, instance=self.instance, place=self.place, boot=self.boot)

    async def connect(self, hub: Hub, sessions: dict[str, int] | None = None) -> ToRunner:
        self.end, far = memory_pair()
        self.serving = asyncio.create_task(hub.link.serve(far, "default"))
        return await shake_hands(self.end, self.hello(sessions))

    async def accepted(self, hub: Hub) -> int:
        """Connect and return the generation of the lease."""
        answer = await self.connect(hub)
        assert isinstance(answer, Welcome), answer
        return answer.lease

    async def refused(self, hub: Hub) -> Refused:
        answer = await self.connect(hub)
        assert isinstance(answer, Refused), answer
        assert answer.code == "identity_in_use"
        await self.wait_closed()
        return answer

    async def leave(self, *, in_order: bool) -> None:
        if in_order:
            await self.end.send(Goodbye())
        else:
            await self.end.close()
        await self.wait_closed()

    async def receive(self) -> ToRunner:
        async with asyncio.timeout(DEADLINE):
            return await self.end.receive()

    async def wait_closed(self) -> None:
        async with asyncio.timeout(DEADLINE):
            await self.serving


COPY = {"host": "laptop", "place": "another disk"}


async def test_a_copy_is_refused_while_the_first_is_connected(hub: Hub) -> None:
    first, copy = Runner(), Runner(**COPY)
    lease = await first.accepted(hub)
    refusal = await copy.refused(hub)
    assert "from box, since" in refusal.reason
    assert "farsteer runner --new-identity" in refusal.reason
    assert refusal.retry_after > 0
    assert (await hub.machines.get(ME, MACHINE.id)).host == "box", "the refused one has changed nothing"
    assert not first.serving.done()
    await first.leave(in_order=True)
    assert await copy.accepted(hub) == lease + 1


async def test_a_copy_is_refused_until_the_owner_releases_the_machine(hub: Hub) -> None:
    first, copy = Runner(), Runner(**COPY)
    lease = await first.accepted(hub)
    with pytest.raises(Conflict):
        await hub.machines.release(ME, MACHINE.id)
    await first.leave(in_order=False)
    refusal = await copy.refused(hub)
    assert f"farsteer machines release {MACHINE.id}" in refusal.reason
    assert refusal.retry_after == 0
    for other, error in ((caller("team2"), NotFound), (caller("default", Scope.WRITE), Forbidden)):
        with pytest.raises(error):
            await hub.machines.release(other, MACHINE.id)
    await copy.refused(hub)
    await hub.machines.release(ME, MACHINE.id)
    assert await copy.accepted(hub) == lease + 1
    assert "from laptop, since" in (await first.refused(hub)).reason


async def test_the_same_process_gets_its_lease_back(hub: Hub) -> None:
    runner = Runner()
    lease = await runner.accepted(hub)
    before = runner.serving
    assert await runner.accepted(hub) == lease
    async with asyncio.timeout(DEADLINE):
        await before
    await runner.leave(in_order=False)
    assert await runner.accepted(hub) == lease


async def test_a_restarted_runner_gets_in_at_once_although_the_dead_one_looks_connected(hub: Hub) -> None:
    dead, restarted = Runner(), Runner()
    lease = await dead.accepted(hub)
    assert await restarted.accepted(hub) == lease + 1
    await dead.wait_closed()


async def test_after_a_reboot_it_gets_in_when_the_dead_link_has_ended(hub: Hub) -> None:
    dead, rebooted = Runner(), Runner(boot="tuesday")
    await dead.accepted(hub)
    assert (await rebooted.refused(hub)).retry_after > 0
    await dead.leave(in_order=False)
    await rebooted.accepted(hub)


async def test_a_restart_of_the_hub_keeps_the_lease(home: Path) -> None:
    hub = await Hub.open(home, OWNER_TOKEN)
    first, copy = Runner(), Runner(**COPY)
    lease = await first.accepted(hub)
    await hub.close()
    hub = await Hub.open(home, OWNER_TOKEN)
    await copy.refused(hub)
    assert await first.accepted(hub) == lease
    await copy.refused(hub)
    await hub.close()


async def test_both_runners_and_the_clients_are_told_once(hub: Hub, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    first, copy = Runner(), Runner(**COPY)
    await first.accepted(hub)
    feed = FeedRecorder(hub)
    for _ in range(3):
        await copy.refused(hub)
    assert await first.receive() == IdentityClaimed(host="laptop")
    (told,) = feed.of("machine-updated")
    conflict = (await hub.machines.get(ME, MACHINE.id)).conflict
    assert conflict is not None
    assert told["data"]["conflict"]["host"] == conflict.host == "laptop"
    assert "laptop" in conflict.message
    assert conflict.at >= told["data"]["conflict"]["at"], "the time of the last attempt"
    assert len([record for record in caplog.records if "refused a runner" in record.message]) == 1
    another = Runner(host="desktop", place="a third disk")
    await another.refused(hub)
    assert await first.receive() == IdentityClaimed(host="desktop")
    await first.leave(in_order=True)
    await copy.accepted(hub)
    assert (await hub.machines.get(ME, MACHINE.id)).conflict is None


async def test_a_refused_runner_writes_nothing_and_gets_no_message(hub: Hub) -> None:
    async with ScriptedRunner(hub, info=MACHINE) as first:
        session_id = await create(hub, first)
        copy = Runner(**COPY)
        await copy.refused(hub)
        entry = LogBuilder(session_id).add(ev.Notice(text="forged"))
        with pytest.raises(LinkClosed):
            await copy.end.send(Events(session=session_id, entries=[entry]))
        await hub.messages.send(ME, session_id, SendMessage(text="once"))
        await first.wait_for(Send)
        await first.wait_until(lambda: first.acked.get(session_id) == 1)
        log = json.loads(await hub.messages.list(ME, session_id))["messages"]
        assert [entry["content"]["kind"] for entry in log] == ["queue_update"]


async def test_a_runner_of_protocol_2_does_not_displace_one_that_has_a_lease(hub: Hub) -> None:
    first = Runner()
    await first.accepted(hub)
    old = ScriptedRunner(hub, info=MACHINE, protocol=2)
    await old.connect()
    assert "another runner" in (old.refused or "")
    await first.leave(in_order=False)
    async with ScriptedRunner(hub, info=MACHINE, protocol=2):
        await first.refused(hub)
    await first.accepted(hub)


async def test_the_names_of_a_runner_are_bounded(hub: Hub) -> None:
    runner = Runner(place="x" * 1000)
    answer = await runner.connect(hub)
    assert isinstance(answer, Refused)
    assert "too long" in answer.reason
