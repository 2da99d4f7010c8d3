"""A machine is its key: whoever holds a runner token of the namespace, but not the key, is not that machine."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
from pathlib import Path

import pytest
from msgspec.structs import replace

from farsteer.core import events as ev
from farsteer.core.api import SendMessage
from farsteer.core.capabilities import MachineInfo
from farsteer.core.commands import Abort, Send
from farsteer.hub import Hub
from farsteer.hub.link import server
from farsteer.hub.store.conformance.harness import LogBuilder
from farsteer.link.identity import MachineKey, token_digest
from farsteer.link.messages import Challenge, Events, Hello, Proof, Refused, ToHub, ToRunner, Welcome
from farsteer.link.transport import LinkClosed, MemoryTransport, memory_pair
from tests.hub.conftest import OWNER_TOKEN, create
from tests.hub.scripted import FeedRecorder, ScriptedRunner, caller, machine
from tests.support.handshake import DEADLINE, key_of, make_hello, shake_hands

ME = caller()
THIEF = MachineKey(b"t" * 32)


class Link:
    """A link to the hub that a test speaks itself."""

    def __init__(self, hub: Hub, namespace: str = "default") -> None:
        ends: tuple[MemoryTransport[ToHub, ToRunner], MemoryTransport[ToRunner, ToHub]] = memory_pair()
        self.end, hub_end = ends
        self.serving = asyncio.create_task(hub.link.serve(hub_end, namespace))

    async def challenge(self, hello: Hello) -> Challenge:
        """Send hello and return the challenge."""
        await self.end.send(hello)
        answer = await self.receive()
        assert isinstance(answer, Challenge)
        return answer

    async def receive(self) -> ToRunner:
        async with asyncio.timeout(DEADLINE):
            return await self.end.receive()

    async def prove(self, signature: bytes) -> ToRunner:
        await self.end.send(Proof(signature=signature))
        return await self.receive()

    async def wait_closed(self) -> None:
        async with asyncio.timeout(DEADLINE):
            await self.serving


async def test_a_stolen_runner_token_does_not_take_over_a_machine(
    hub: Hub, runner: ScriptedRunner, session_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    feed = FeedRecorder(hub)
    forged = replace(runner.info, host="forged", agents=())
    thief = ScriptedRunner(hub, info=forged, logs={session_id: LogBuilder(session_id)}, key=THIEF)
    with caplog.at_level(logging.WARNING):
        await thief.connect()
    await thief.wait_closed()
    assert thief.welcome is None
    assert f"DELETE /api/machines/{runner.info.id}" in (thief.refused or "")
    assert runner.info.id in caplog.text, "the owner finds it in the hub's log"
    with pytest.raises(LinkClosed):
        await thief.send(
            Events(session=session_id, entries=[LogBuilder(session_id).add(ev.Notice(text="x"))])
        )

    await hub.sessions.abort(ME, session_id)
    assert runner.commands(Abort), "the real runner was not evicted"
    await hub.messages.send(ME, session_id, SendMessage(text="a secret prompt"))
    assert (await runner.wait_for(Send))[0].item.text == "a secret prompt"
    assert thief.calls == []
    stored = await hub.machines.get(ME, runner.info.id)
    assert (stored.active, stored.host) == (True, "box")
    assert feed.of("machine-updated") == []


async def test_a_proof_by_another_key_than_the_one_in_hello_is_refused(hub: Hub) -> None:
    info = machine()
    for key in (key_of(info.id), THIEF):
        answer = await shake_hands(Link(hub).end, make_hello(info), key)
        assert isinstance(answer, Welcome if key is not THIEF else Refused)


async def test_a_replayed_proof_is_refused(hub: Hub) -> None:
    info = machine()
    key = key_of(info.id)
    first = Link(hub)
    challenge = await first.challenge(make_hello(info))
    proof = key.sign(challenge, info.id, token_digest(""))
    assert isinstance(await first.prove(proof), Welcome)
    second = Link(hub)
    assert await second.challenge(make_hello(info)) != challenge
    assert isinstance(await second.prove(proof), Refused)
    await second.wait_closed()
    assert (await hub.machines.get(ME, info.id)).active


@pytest.mark.parametrize("wrong", ["nonce", "machine", "length"])
async def test_a_proof_of_something_else_is_refused(hub: Hub, wrong: str) -> None:
    info = machine()
    link = Link(hub)
    challenge = await link.challenge(make_hello(info))
    proof = key_of(info.id).sign(
        Challenge(nonce=bytes(32)) if wrong == "nonce" else challenge,
        machine().id if wrong == "machine" else info.id,
        token_digest(""),
    )
    assert isinstance(await link.prove(proof[:-1] if wrong == "length" else proof), Refused)
    assert (await hub.machines.list(ME)).machines == []


async def test_a_challenge_relayed_by_a_hostile_hub_is_not_answered_usefully(hub: Hub) -> None:
    """The runner connects to a hostile hub, which connects to the real one and passes the challenge on."""
    info = machine()
    relay = Link(hub)
    challenge = await relay.challenge(make_hello(info))
    signed_for_the_hostile_hub = key_of(info.id).sign(
        challenge, info.id, token_digest("token of the hostile hub")
    )
    assert isinstance(await relay.prove(signed_for_the_hostile_hub), Refused)
    assert (await hub.machines.list(ME)).machines == []


async def test_a_runner_that_sends_no_proof_is_disconnected(home: Path) -> None:
    hub = await Hub.open(home, OWNER_TOKEN, idle_timeout=0.05)
    link = Link(hub)
    await link.challenge(make_hello(machine()))
    await link.wait_closed()
    assert (await hub.machines.list(ME)).machines == []
    await hub.close()


async def test_no_message_replaces_the_proof(hub: Hub, runner: ScriptedRunner, session_id: str) -> None:
    link = Link(hub)
    await link.challenge(make_hello(runner.info))
    entry = LogBuilder(session_id).add(ev.Notice(text="forged"))
    await link.end.send(Events(session=session_id, entries=[entry]))
    await link.wait_closed()
    assert json.loads(await hub.messages.list(ME, session_id))["messages"] == []
    await runner.ping()


async def test_a_machine_cannot_forge_the_log_of_another_machine(
    hub: Hub, runner: ScriptedRunner, session_id: str
) -> None:
    async with ScriptedRunner(hub, logs={session_id: LogBuilder(session_id)}) as other:
        await other.append(session_id, ev.Notice(text="forged"), ack=False)
        await other.ping()
        assert other.acked == {}
    assert json.loads(await hub.messages.list(ME, session_id))["messages"] == []
    await runner.append(session_id, ev.Notice(text="true"))


async def test_a_machine_of_another_namespace_is_told_nothing(
    hub: Hub, runner: ScriptedRunner, session_id: str
) -> None:
    taken = ScriptedRunner(hub, "team2", info=runner.info, key=THIEF)
    await taken.connect()
    own = ScriptedRunner(hub, info=runner.info, key=THIEF)
    await own.connect()
    assert taken.refused == own.refused
    with_its_key = ScriptedRunner(hub, "team2", info=runner.info)
    await with_its_key.connect()
    assert with_its_key.refused == own.refused
    assert (await hub.machines.list(caller("team2"))).machines == []
    await runner.ping()


async def test_a_machine_of_an_older_version_takes_its_first_key(home: Path) -> None:
    hub = await Hub.open(home, OWNER_TOKEN)
    async with ScriptedRunner(hub) as runner:
        session_id = await create(hub, runner)
    await hub.close()
    with sqlite3.connect(home / "hub.db") as db:
        db.execute("UPDATE machines SET key = NULL")
    db.close()
    hub = await Hub.open(home, OWNER_TOKEN)
    async with ScriptedRunner(hub, info=runner.info, logs=runner.logs) as again:
        assert again.welcome is not None
        assert session_id in again.welcome.acked
        thief = ScriptedRunner(hub, info=runner.info, key=THIEF)
        await thief.connect()
        assert thief.refused is not None
    await hub.close()


async def test_an_old_runner_is_told_to_update(hub: Hub) -> None:
    link = Link(hub)
    await link.end.send(Hello(machine=machine(), sessions={}))
    answer = await link.receive()
    assert isinstance(answer, Refused)
    assert "update farsteer on this machine" in answer.reason


def _oversized(info: MachineInfo) -> list[Hello]:
    hello = make_hello(info)
    return [
        replace(hello, machine=replace(info, name="n" * (server._MAX_MACHINE_BYTES + 1))),
        replace(hello, sessions={str(number): 1 for number in range(server._MAX_SESSIONS + 1)}),
    ]


async def test_an_oversized_hello_is_refused_before_it_is_stored(hub: Hub) -> None:
    for hello in _oversized(machine()):
        link = Link(hub)
        await link.end.send(hello)
        assert isinstance(await link.receive(), Refused)
    assert (await hub.machines.list(ME)).machines == []
