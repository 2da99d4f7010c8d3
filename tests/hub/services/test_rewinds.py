"""Rewinds: the hub finds the place in the log and the runner cuts there. A refused rewind changes nothing."""

import asyncio

import pytest
from msgspec.structs import replace

from farsteer.core import events as ev
from farsteer.core.api import RewindSession, SendMessage
from farsteer.core.capabilities import AgentInfo, Capabilities
from farsteer.core.commands import Rewind, Send
from farsteer.core.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    MachineOffline,
    NotCapable,
    NotFound,
)
from farsteer.core.events import FileRestore, FilesRestored
from farsteer.core.queue import Attachment, Delivery
from farsteer.core.wire import to_builtins
from farsteer.hub import Hub, Scope
from farsteer.link.messages import Call, Reply
from tests.hub.conftest import create
from tests.hub.scripted import ScriptedRunner, caller, machine, refuse, silent

ME = caller(email="me@example.com")


def turn(text: str, anchor: str | None = None) -> list[ev.SessionEvent]:
    picture = Attachment(name="a.png", mime_type="image/png", size=7)
    return [
        ev.TurnStart(turn_id=text, item_id=text),
        ev.UserMessage(item_id=text, text=text, attachments=(picture,)),
        ev.AgentMessage(message_id="m", text=f"to {text}", anchor=anchor),
        ev.TurnEnd(turn_id=text, reason=ev.TurnEndReason.END_TURN),
    ]


def rewinds(runner: ScriptedRunner) -> None:
    """Let the runner log a rewind, as a real one does."""

    async def later(call: Call, command: Rewind) -> None:
        restored = FilesRestored(status=FileRestore.PARTIAL, restored=("a",), skipped=("b",))
        event = ev.Rewound(first_seq=command.first_seq, files=restored, cut_at=command.cut_at, by=command.by)
        await runner.append(call.session, event, ack=False)
        seq = runner.logs[call.session].state.seq
        await runner.send(Reply(id=call.id, seq=seq, result=to_builtins(event)))

    def answer(call: Call) -> None:
        assert isinstance(call.command, Rewind)
        tasks.append(asyncio.create_task(later(call, call.command)))

    tasks: list[asyncio.Task[None]] = []
    runner.answers[Rewind] = answer


async def test_the_runner_is_told_where_to_cut_and_the_text_comes_back(
    hub: Hub, runner: ScriptedRunner, session_id: str
) -> None:
    rewinds(runner)
    await runner.append(session_id, *turn("one", "a"), *turn("two", "b"))
    done = await hub.rewinds.rewind(ME, session_id, RewindSession(seq=6))
    assert runner.commands(Rewind) == [
        Rewind(first_seq=5, cut_at="a", files_at="two", by="me@example.com", identity=ME.identity)
    ]
    assert (done.seq, done.first_seq, done.text, done.attachments) == (9, 5, "two", ["a.png"])
    assert (done.files.status, done.files.skipped) == (FileRestore.PARTIAL, ("b",))
    assert (await hub.sessions.get(ME, session_id)).last_message == "to one"
    await hub.rewinds.rewind(ME, session_id, RewindSession(seq=2, restore_files=False))
    assert runner.commands(Rewind)[1] == Rewind(
        first_seq=1, cut_at=None, by="me@example.com", identity=ME.identity
    )


async def test_an_agent_without_anchors_keeps_its_answers(
    hub: Hub, runner: ScriptedRunner, session_id: str
) -> None:
    rewinds(runner)
    log = runner.logs[session_id]
    log.state = replace(log.state, native_id="native", registered=True)
    half = ev.AgentMessage(message_id="m", text="ha", partial=True)
    await runner.append(session_id, *turn("one"), *turn("two"))
    await hub.rewinds.rewind(ME, session_id, RewindSession(seq=6, restore_files=False))
    await hub.rewinds.rewind(ME, session_id, RewindSession(seq=2, restore_files=False))
    await runner.append(session_id, half, *turn("three"))
    message = runner.logs[session_id].state.seq - 2
    await hub.rewinds.rewind(ME, session_id, RewindSession(seq=message, restore_files=False))
    assert [(command.cut_at, command.keeps) for command in runner.commands(Rewind)] == [
        (None, True), (None, False), (None, False),
    ]  # fmt: skip


async def test_entries_that_are_not_messages_are_refused_without_calling_the_runner(
    hub: Hub, runner: ScriptedRunner, session_id: str
) -> None:
    await runner.append(session_id, *turn("one"))
    for seq, error, why in ((3, BadRequest, "agent_message"), (5, NotFound, "no entry 5")):
        with pytest.raises(error, match=why):
            await hub.rewinds.rewind(ME, session_id, RewindSession(seq=seq))
    with pytest.raises(Forbidden):
        await hub.rewinds.rewind(caller("default", Scope.READ), session_id, RewindSession(seq=2))
    assert runner.commands(Rewind) == []


async def test_an_agent_without_the_capability_is_not_called(hub: Hub) -> None:
    plain_agent = AgentInfo(name="demo", title="Demo", available=True, capabilities=Capabilities())
    async with ScriptedRunner(hub, info=machine(agents=(plain_agent,))) as runner:
        session_id = await create(hub, runner)
        await runner.append(session_id, *turn("one"))
        with pytest.raises(NotCapable):
            await hub.rewinds.rewind(ME, session_id, RewindSession(seq=2))
        with pytest.raises(NotCapable):
            await hub.messages.send(ME, session_id, SendMessage(text="x", delivery=Delivery.STEER))
        assert (await hub.messages.queue(ME, session_id)).items == []
        await runner.ping()
        assert runner.commands(Rewind) == runner.commands(Send) == []
    # The capability is known while the machine is offline.
    with pytest.raises(NotCapable):
        await hub.rewinds.rewind(ME, session_id, RewindSession(seq=2))


async def test_an_offline_machine_cannot_rewind(hub: Hub) -> None:
    async with ScriptedRunner(hub) as runner:
        session_id = await create(hub, runner)
        await runner.append(session_id, *turn("one"))
    with pytest.raises(MachineOffline):
        await hub.rewinds.rewind(ME, session_id, RewindSession(seq=2))


async def test_one_rewind_at_a_time_and_a_failed_one_can_be_repeated(
    hub: Hub, runner: ScriptedRunner, session_id: str
) -> None:
    await runner.append(session_id, *turn("one"))
    runner.answers[Rewind] = silent
    first = asyncio.create_task(hub.rewinds.rewind(ME, session_id, RewindSession(seq=2)))
    await runner.wait_for(Rewind)
    with pytest.raises(Conflict, match="already"):
        await hub.rewinds.rewind(ME, session_id, RewindSession(seq=2))
    first.cancel()
    await asyncio.wait([first])
    runner.answers[Rewind] = refuse(Conflict("not now"))
    with pytest.raises(Conflict, match="not now"):
        await hub.rewinds.rewind(ME, session_id, RewindSession(seq=2))
    rewinds(runner)
    assert (await hub.rewinds.rewind(ME, session_id, RewindSession(seq=2))).seq == 5
