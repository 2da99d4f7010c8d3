"""The hub's side of the link, with a scripted runner."""

import asyncio
import json
from pathlib import Path

import msgspec
import pytest

from farsteer import __version__
from farsteer.core import events as ev
from farsteer.core.api import SendMessage
from farsteer.core.commands import Abort, Delete, Send, Stop
from farsteer.core.errors import ErrorCode, MachineOffline, Unavailable
from farsteer.core.events import Delta, DeltaKind, SessionStatus
from farsteer.core.ids import new_id
from farsteer.hub import Hub
from farsteer.hub.link import machine_links
from farsteer.hub.store.conformance.harness import LogBuilder
from farsteer.link.messages import (
    PROTOCOL,
    Call,
    Events,
    Ping,
    Pong,
    ToHub,
    ToRunner,
    UnknownMessage,
    Unsupported,
    Welcome,
)
from farsteer.link.transport import MemoryTransport, memory_pair
from tests.hub.conftest import OWNER_TOKEN, create
from tests.hub.scripted import FeedRecorder, ScriptedRunner, caller, machine, silent
from tests.support.eventually import eventually
from tests.support.handshake import make_hello, shake_hands

ME = caller()


async def test_a_machine_is_active_while_its_link_lives(hub: Hub) -> None:
    feed = FeedRecorder(hub)
    async with ScriptedRunner(hub) as runner:
        assert (await hub.machines.get(ME, runner.info.id)).active
        session_id = await create(hub, runner)
        assert hub.metrics.links == 1
    gone = await hub.machines.get(ME, runner.info.id)
    assert not gone.active
    assert [update["data"]["active"] for update in feed.of("machine-updated")] == [True, False]
    assert (await hub.sessions.get(ME, session_id)).status is SessionStatus.UNREACHABLE
    with pytest.raises(MachineOffline):
        await hub.sessions.abort(ME, session_id)
    async with ScriptedRunner(hub, info=runner.info, logs=runner.logs) as runner:
        assert (await hub.sessions.get(ME, session_id)).status is SessionStatus.IDLE
    statuses = [
        {key: update["data"][key] for key in ("partial", "status", "active", "thinking")}
        for update in feed.of("session-updated")
    ]
    offline = {"partial": True, "status": "unreachable", "active": False, "thinking": False}
    online = {"partial": True, "status": "idle", "active": True, "thinking": False}
    assert statuses == [offline, online, offline]


async def test_an_idle_link_is_closed(home: Path) -> None:
    hub = await Hub.open(home, OWNER_TOKEN, idle_timeout=0.05)
    runner = ScriptedRunner(hub)
    await runner.connect()
    await runner.wait_closed()
    assert not (await hub.machines.get(ME, runner.info.id)).active
    await hub.close()


async def test_pings_keep_a_link_alive(home: Path) -> None:
    hub = await Hub.open(home, OWNER_TOKEN, idle_timeout=0.8)
    async with ScriptedRunner(hub) as runner:
        loop = asyncio.get_running_loop()
        end = loop.time() + 1.2
        while loop.time() < end:
            await runner.ping()
            await asyncio.sleep(0.1)
        assert (await hub.machines.get(ME, runner.info.id)).active
    await hub.close()


async def test_a_runner_that_does_not_read_is_disconnected(home: Path) -> None:
    hub = await Hub.open(home, OWNER_TOKEN, idle_timeout=0.2)
    near, far = memory_pair(size=4)
    serving = asyncio.create_task(hub.link.serve(far, "default"))
    info = machine()
    assert isinstance(await shake_hands(near, make_hello(info)), Welcome)

    async def flood() -> None:
        while True:
            await near.send(Ping())

    flooding = asyncio.create_task(flood())
    async with asyncio.timeout(10):
        await serving
    flooding.cancel()
    await asyncio.wait([flooding])
    assert not (await hub.machines.get(ME, info.id)).active
    await hub.close()


async def test_events_are_acknowledged_when_they_are_stored(
    hub: Hub, runner: ScriptedRunner, session_id: str
) -> None:
    await runner.append(session_id, *[ev.AgentMessage(message_id=str(n), text="x") for n in range(500)])
    assert runner.acked[session_id] == 500
    page = json.loads(await hub.messages.list(ME, session_id, limit=1))
    assert page["messages"][0]["seq"] == 500
    assert hub.metrics.events_stored == 500


async def test_frames_are_received_while_earlier_ones_are_committed(
    hub: Hub, runner: ScriptedRunner, session_id: str
) -> None:
    for n in range(300):
        await runner.append(session_id, ev.AgentMessage(message_id=str(n), text="x"), ack=False)
    await runner.wait_until(lambda: runner.acked.get(session_id) == 300)
    page = json.loads(await hub.messages.list(ME, session_id, limit=200))
    assert [message["seq"] for message in page["messages"]] == list(range(101, 301))


async def test_a_gap_closes_the_link_and_the_next_one_continues(
    hub: Hub, runner: ScriptedRunner, session_id: str
) -> None:
    await runner.append(session_id, ev.AgentMessage(message_id="1", text="x"))
    log = runner.logs[session_id]
    log.add(ev.AgentMessage(message_id="2", text="lost on the way"))
    third = log.add(ev.AgentMessage(message_id="3", text="x"))
    await runner.send(Events(session=session_id, entries=[third]))
    await runner.wait_closed()
    async with ScriptedRunner(hub, info=runner.info, logs=runner.logs) as again:
        assert again.welcome is not None
        assert again.welcome.acked == {session_id: 1}
        await again.send(Events(session=session_id, entries=log.entries[1:], state=log.state))
        await again.wait_until(lambda: again.acked.get(session_id) == 3)


async def test_a_reconnecting_runner_is_told_which_sessions_were_deleted(hub: Hub) -> None:
    async with ScriptedRunner(hub) as runner:
        kept, deleted = await create(hub, runner), await create(hub, runner)
        await runner.append(kept, ev.Notice(text="one"))
    await hub.sessions.delete(ME, deleted)
    unknown = new_id()
    logs = {**runner.logs, unknown: LogBuilder(unknown)}
    async with ScriptedRunner(hub, info=runner.info, logs=logs) as again:
        assert again.welcome is not None
        assert again.welcome.acked == {kept: 1}
        assert again.welcome.deleted == [deleted]
        assert again.welcome.foreign == [unknown], "the hub deletes only what it knows"


async def test_events_of_a_deleted_session_are_answered_with_delete(
    hub: Hub, runner: ScriptedRunner, session_id: str
) -> None:
    await hub.store.delete_session("default", session_id)
    for text in ("late", "later"):
        await runner.append(session_id, ev.Notice(text=text), ack=False)
    await runner.wait_for(Delete)
    await runner.ping()
    assert len(runner.commands(Delete)) == 1
    assert session_id not in runner.acked


async def test_a_second_link_of_a_machine_replaces_the_first(hub: Hub) -> None:
    first = ScriptedRunner(hub)
    await first.connect()
    session_id = await create(hub, first)
    feed = FeedRecorder(hub)
    first.answers[Abort] = silent
    aborting = asyncio.create_task(hub.sessions.abort(ME, session_id))
    await first.wait_for(Abort)
    async with ScriptedRunner(hub, info=first.info, logs=first.logs) as second:
        await first.wait_closed()
        with pytest.raises(MachineOffline):
            await aborting
        assert (await hub.sessions.get(ME, session_id)).status is SessionStatus.IDLE
        await hub.sessions.stop(ME, session_id)
        assert second.commands(Stop)
        assert feed.of("session-updated") == []


async def test_a_machine_of_another_namespace_is_refused_and_does_no_harm(
    hub: Hub, runner: ScriptedRunner, session_id: str
) -> None:
    intruder = ScriptedRunner(hub, "team2", info=runner.info, logs={session_id: LogBuilder(session_id)})
    await intruder.connect()
    assert intruder.refused is not None
    await intruder.wait_closed()
    assert (await hub.machines.list(caller("team2"))).machines == []
    await hub.sessions.abort(ME, session_id)
    assert runner.commands(Abort)


async def test_a_runner_writes_only_its_own_sessions(
    hub: Hub, runner: ScriptedRunner, session_id: str
) -> None:
    delta = Delta(message_id="m", kind=DeltaKind.MESSAGE, text="x")
    for namespace in ("default", "team2"):
        feed = FeedRecorder(hub)
        log = LogBuilder(session_id)
        async with ScriptedRunner(hub, namespace, logs={session_id: log}) as other:
            assert other.welcome is not None
            assert other.welcome.foreign == [session_id]
            await other.send_deltas(session_id, delta)
            await other.append(session_id, ev.Notice(text="forged"), ack=False)
            await other.ping()
            assert other.commands(Delete) == []
            assert other.acked == {}
        assert feed.of("message-received") == feed.of("message-delta") == []
        feed.stop()
    assert json.loads(await hub.messages.list(ME, session_id))["messages"] == []


async def test_deltas_are_published_without_being_stored(
    hub: Hub, runner: ScriptedRunner, session_id: str
) -> None:
    feed = FeedRecorder(hub)
    await runner.send_deltas(session_id, Delta(message_id="m", kind=DeltaKind.MESSAGE, text="Hel"))
    await runner.ping()
    (delta,) = feed.events
    assert (delta.type, delta.cursor, delta.merge_key) == ("message-delta", None, f"{session_id}:m")
    assert json.loads(delta.data)["delta"] == {"messageId": "m", "kind": "agent_message", "text": "Hel"}


@pytest.mark.parametrize(
    ("protocol", "id", "reason"),
    [
        (99, "8f14e45f-ceea-467f-a8f5-000000000001", "update farsteer on the hub"),
        (PROTOCOL, "../../etc", "UUID"),
        (PROTOCOL, "", "UUID"),
    ],
)
async def test_an_incompatible_runner_is_refused_with_a_reason(
    hub: Hub, protocol: int, id: str, reason: str
) -> None:
    runner = ScriptedRunner(hub, info=msgspec.structs.replace(machine(), id=id), protocol=protocol)
    await runner.connect()
    assert reason in (runner.refused or "")
    if protocol == 99:
        versions = (
            f"the hub is farsteer {__version__} and speaks link protocols 2 to 3, this runner is farsteer 0"
        )
        assert f"{versions} and speaks 99" in (runner.refused or "")
    await runner.wait_closed()


async def test_an_unknown_message_is_answered(hub: Hub, runner: ScriptedRunner) -> None:
    near, far = memory_pair()
    serving = asyncio.create_task(hub.link.serve(far, "default"))
    assert isinstance(await shake_hands(near, make_hello(machine())), Welcome)
    await near.send(UnknownMessage("news"))
    assert await near.receive() == Unsupported(kind="news")
    await near.send(Unsupported(kind="ack"))
    await near.send(Ping())
    assert await near.receive() == Pong()
    await near.close()
    await serving
    async with ScriptedRunner(hub, protocol=2) as old:
        await old.send(UnknownMessage("news"))
        await old.ping()


async def test_a_link_that_does_not_begin_with_hello_is_closed(hub: Hub) -> None:
    near, far = memory_pair()
    await near.send(Ping())
    async with asyncio.timeout(10):
        await hub.link.serve(far, "default")
    assert hub.metrics.links == 0


async def test_a_call_without_an_answer_times_out(
    hub: Hub, runner: ScriptedRunner, session_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_links, "CALL_SECONDS", 0.05)
    runner.answers[Abort] = silent
    with pytest.raises(Unavailable) as error:
        await hub.sessions.abort(ME, session_id)
    assert error.value.code is ErrorCode.TIMEOUT


async def test_a_short_message_does_not_overtake_a_long_one_of_its_session(
    hub: Hub, runner: ScriptedRunner, session_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await create(hub, runner)
    send, send_soon = MemoryTransport[ToRunner, ToHub].send, MemoryTransport[ToRunner, ToHub].send_soon
    passed = asyncio.Event()
    arrived: list[str] = []

    def record(message: ToRunner) -> None:
        if isinstance(message, Call) and isinstance(message.command, Send):
            arrived.append(message.command.item.text.strip("."))
            if message.session == other:
                passed.set()

    async def send_slowly(self: MemoryTransport[ToRunner, ToHub], message: ToRunner) -> None:
        if isinstance(message, Call) and isinstance(message.command, Send):
            if message.command.item.text.startswith("long"):
                await passed.wait()
            record(message)
        await send(self, message)

    def send_at_once(self: MemoryTransport[ToRunner, ToHub], message: ToRunner) -> bool:
        record(message)
        return send_soon(self, message)

    monkeypatch.setattr(MemoryTransport, "send", send_slowly)
    monkeypatch.setattr(MemoryTransport, "send_soon", send_at_once)
    long = "long" + "." * 10_000
    for session, text in ((session_id, long), (session_id, "short"), (other, "other")):
        await hub.messages.send(ME, session, SendMessage(text=text))
    await eventually(lambda: len(arrived) == 3)
    assert arrived == ["other", "long", "short"]


async def test_a_message_that_is_not_answered_in_time_is_offered_again(
    hub: Hub, runner: ScriptedRunner, session_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_links, "CALL_SECONDS", 0.02)
    runner.answers[Send] = silent
    sent = await hub.messages.send(ME, session_id, SendMessage(text="one"))
    again = await runner.wait_for(Send, 2)
    assert [command.item.id for command in again] == [sent.id] * len(again)


async def test_a_call_does_not_time_out_while_its_reply_arrives(
    hub: Hub, runner: ScriptedRunner, session_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    arriving = [True, True, False]
    asked: list[int | None] = []

    def is_arriving(_: object, call_id: int | None, since: float) -> bool:
        asked.append(call_id)
        return arriving[len(asked) - 1]

    monkeypatch.setattr(machine_links, "CALL_SECONDS", 0.05)
    monkeypatch.setattr(MemoryTransport, "is_arriving", is_arriving)
    runner.answers[Abort] = silent
    with pytest.raises(Unavailable):
        await hub.sessions.abort(ME, session_id)
    assert len(asked) == 3
    assert len({*asked}) == 1
    assert None not in asked


async def test_cancelling_serve_disconnects_the_machine(hub: Hub) -> None:
    near, far = memory_pair()
    serving = asyncio.create_task(hub.link.serve(far, "default"))
    info = machine()
    assert isinstance(await shake_hands(near, make_hello(info)), Welcome)
    feed = FeedRecorder(hub)
    serving.cancel()
    await asyncio.wait([serving])
    await feed.wait_until(lambda: bool(feed.of("machine-updated")))
    assert not (await hub.machines.get(ME, info.id)).active


async def test_closing_the_hub_closes_links_and_fails_pending_calls(home: Path) -> None:
    hub = await Hub.open(home, OWNER_TOKEN)
    runner = ScriptedRunner(hub)
    await runner.connect()
    session_id = await create(hub, runner)
    runner.answers[Stop] = silent
    stopping = asyncio.create_task(hub.sessions.stop(ME, session_id))
    await runner.wait_for(Stop)
    await hub.close()
    with pytest.raises(MachineOffline):
        await stopping
    await runner.wait_closed()
