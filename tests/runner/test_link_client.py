"""The link loses nothing: what the hub has not confirmed is sent again in order, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from unittest.mock import AsyncMock

import pytest

from farsteer.core import commands
from farsteer.core import events as ev
from farsteer.core.capabilities import MachineInfo
from farsteer.core.errors import ErrorCode, TooLarge
from farsteer.core.events import DeltaKind, decode_entry, make_entry
from farsteer.core.session import SessionSpec, SessionState
from farsteer.core.wire import encode
from farsteer.link.identity import NONCE_BYTES, is_valid_proof
from farsteer.link.messages import (
    Ack,
    Call,
    Challenge,
    Deltas,
    Events,
    Goodbye,
    Hello,
    Proof,
    Refused,
    Reply,
    ToHub,
    ToRunner,
    UnknownCall,
    UnknownMessage,
    Unsupported,
    Welcome,
    encode_entry,
)
from farsteer.link.transport import LinkClosed, MemoryTransport, memory_pair
from farsteer.runner.journal import Journal
from farsteer.runner.link_client import LinkClient, LinkTransport, fill_gap
from farsteer.runner.outbox import Outbox
from farsteer.runner.session.log import SessionLog
from tests.runner.harness import SESSION
from tests.runner.scripted import SECONDS
from tests.support.eventually import eventually
from tests.support.handshake import key_of

MACHINE = MachineInfo(id="m", host="h", platform="linux", version="0")


class ScriptedHub:
    def __init__(self) -> None:
        self.links: asyncio.Queue[MemoryTransport[ToRunner, ToHub]] = asyncio.Queue()

    async def connect(self) -> LinkTransport:
        here, there = memory_pair()
        self.links.put_nowait(here)
        return there

    async def welcome(
        self,
        acked: dict[str, int] | None = None,
        deleted: list[str] | None = None,
        foreign: list[str] | None = None,
        lease: int = 0,
        protocol: int = 2,
    ) -> HubLink:
        async with asyncio.timeout(SECONDS):
            link = await self.links.get()
            hello = await link.receive()
        assert isinstance(hello, Hello)
        challenge = Challenge(nonce=b"n" * NONCE_BYTES, protocol=protocol)
        await link.send(challenge)
        async with asyncio.timeout(SECONDS):
            proof = await link.receive()
        assert isinstance(proof, Proof)
        assert is_valid_proof(hello.key, proof.signature, challenge, hello.machine.id, link.token_digest)
        await link.send(Welcome(acked=acked or {}, deleted=deleted or [], foreign=foreign or [], lease=lease))
        return HubLink(link, hello)

    async def refuse(self, refused: Refused) -> Hello:
        async with asyncio.timeout(SECONDS):
            link = await self.links.get()
            hello = await link.receive()
        assert isinstance(hello, Hello)
        await link.send(refused)
        return hello


class HubLink:
    """The hub's end of one link. Records what the runner sends."""

    def __init__(self, link: MemoryTransport[ToRunner, ToHub], hello: Hello) -> None:
        self.link = link
        self.hello = hello
        self.seqs: list[int] = []
        self.state: SessionState | None = None
        self.deltas: list[ev.Delta] = []
        self.replies: list[Reply] = []

    async def receive(self) -> ToHub:
        async with asyncio.timeout(SECONDS):
            message = await self.link.receive()
        if isinstance(message, Events):
            self.seqs += [item.seq for item in message.entries]
            self.state = message.state or self.state
        elif isinstance(message, Deltas):
            self.deltas += message.deltas
        elif isinstance(message, Reply):
            self.replies.append(message)
        return message

    async def until_state(self) -> None:
        while self.state is None:
            await self.receive()

    async def until_seq(self, seq: int) -> None:
        while not self.seqs or self.seqs[-1] < seq:
            await self.receive()

    async def ack(self, seq: int) -> None:
        await self.link.send(Ack(session=SESSION, seq=seq))


class LinkHarness:
    """A session's log with a link client that is connected to the scripted hub."""

    def __init__(self, journal: Journal, log: SessionLog, hub: ScriptedHub, outbox: Outbox) -> None:
        self.journal = journal
        self.log = log
        self.hub = hub
        self.deleted: list[str] = []
        self.client = LinkClient(journal, outbox, self)

    async def handle(self, call: Call) -> Reply:
        return Reply(id=call.id)

    async def handle_welcome(self, welcome: Welcome) -> None:
        self.deleted += welcome.deleted

    def models(self) -> dict[str, tuple[str, ...]]:
        return {}

    async def write(self, count: int, size: int = 10) -> None:
        for _ in range(count):
            self.log.add(ev.Notice(text="x" * size))
        await self.log.flush()

    async def unconfirmed(self) -> list[int]:
        return [item.seq for item in await self.journal.unconfirmed(SESSION, 0)]


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[LinkHarness]:
    journal = await Journal.open(tmp_path / "runner.db")
    state = SessionState(id=SESSION, agent="scripted", directory="/")
    await journal.create_session(SessionSpec(id=SESSION, machine_id="m", directory="/"), state)
    outbox = Outbox()
    log = SessionLog(state, journal, outbox)
    outbox.add_session(state, log)
    harness = LinkHarness(journal, log, ScriptedHub(), outbox)
    task = asyncio.create_task(harness.client.run(harness.hub.connect, MACHINE, key_of(MACHINE.id)))
    yield harness
    task.cancel()
    await asyncio.wait([task])
    await journal.close()


async def test_entries_are_sent_in_order_with_the_state_after_them(harness: LinkHarness) -> None:
    peer = await harness.hub.welcome()
    await harness.write(3)
    await harness.write(2)
    await peer.until_seq(5)
    assert peer.seqs == [1, 2, 3, 4, 5]


async def test_closing_the_journal_ends_the_link_and_not_the_client(
    harness: LinkHarness,
) -> None:
    peer = await harness.hub.welcome()
    await harness.write(1)
    await peer.until_seq(1)
    await harness.journal.close()
    await peer.ack(1)
    with pytest.raises(LinkClosed):
        await peer.until_seq(2)
    assert not harness.client.connected.is_set()


async def test_the_journal_deletes_only_what_the_hub_confirmed(harness: LinkHarness) -> None:
    peer = await harness.hub.welcome()
    await harness.write(5)
    await peer.until_seq(5)
    assert await harness.unconfirmed() == [1, 2, 3, 4, 5]
    await peer.ack(3)

    async def confirmed() -> bool:
        return await harness.unconfirmed() == [4, 5]

    await eventually(confirmed)


async def test_a_new_link_sends_everything_unconfirmed_again_and_what_was_written_meanwhile(
    harness: LinkHarness,
) -> None:
    first = await harness.hub.welcome()
    await harness.write(5)
    await first.until_seq(5)
    await first.link.close()
    await harness.write(2)
    second = await harness.hub.welcome(acked={SESSION: 3})
    assert second.hello.sessions == {SESSION: 7}
    await second.until_seq(7)
    assert second.seqs == [4, 5, 6, 7]


async def test_entries_that_do_not_fit_in_memory_are_read_from_the_journal(harness: LinkHarness) -> None:
    await harness.write(3000)
    await harness.write(12, size=1_000_000)
    peer = await harness.hub.welcome()
    await harness.write(3000)
    await peer.until_seq(6012)
    assert peer.seqs == list(range(1, 6013))


async def test_the_state_comes_with_the_last_entry_only(harness: LinkHarness) -> None:
    await harness.write(2500)
    harness.log.add(ev.TitleUpdate(title="named", by_user=True))
    await harness.log.flush()
    peer = await harness.hub.welcome()
    while peer.state is None:
        await peer.receive()
    assert peer.seqs[-1] == peer.state.seq == 2501
    assert peer.state.title == "named"


COMMANDS = (ev.SlashCommand("test", "Run the tests"),)


@pytest.mark.parametrize("protocol", [2, 3])
async def test_commands_are_sent_once_over_a_link_and_when_they_change(
    harness: LinkHarness, protocol: int
) -> None:
    def change(event: ev.SessionEvent) -> Awaitable[None]:
        harness.log.add(event)
        return harness.log.flush()

    async def next_state(peer: HubLink) -> tuple[str | None, tuple[ev.SlashCommand, ...], bool]:
        while not isinstance(message := await peer.receive(), Events) or message.state is None:
            pass
        return message.state.title, message.state.commands, message.keeps_commands

    def unchanged(title: str) -> object:
        """A hub of protocol 2 gets whole states."""
        return (title, (), True) if protocol == 3 else (title, COMMANDS, False)

    await change(ev.CommandsUpdate(commands=COMMANDS))
    peer = await harness.hub.welcome(protocol=protocol)
    assert await next_state(peer) == (None, COMMANDS, False)
    await change(ev.TitleUpdate(title="a"))
    assert await next_state(peer) == unchanged("a")
    await change(ev.CommandsUpdate(commands=()))
    assert await next_state(peer) == ("a", (), False)
    await change(ev.CommandsUpdate(commands=COMMANDS))
    assert await next_state(peer) == ("a", COMMANDS, False)
    await change(ev.TitleUpdate(title="b"))
    assert await next_state(peer) == unchanged("b")
    await peer.link.close()
    again = await harness.hub.welcome(acked={SESSION: 5}, protocol=protocol)
    assert await next_state(again) == ("b", COMMANDS, False)


async def test_deltas_are_not_stored_and_merge_while_the_link_is_busy(harness: LinkHarness) -> None:
    peer = await harness.hub.welcome()
    while peer.state is None:
        await peer.receive()
    for offset, letter in enumerate("abc"):
        harness.log.publish_deltas(
            [ev.Delta(message_id="m", kind=DeltaKind.MESSAGE, text=letter, offset=offset)]
        )
    while sum(len(delta.text) for delta in peer.deltas) < 3:
        await peer.receive()
    assert peer.deltas == [ev.Delta(message_id="m", kind=DeltaKind.MESSAGE, text="abc", offset=0)]


async def test_a_delta_that_replaces_text_is_not_merged(harness: LinkHarness) -> None:
    peer = await harness.hub.welcome()
    while peer.state is None:
        await peer.receive()
    deltas = [ev.Delta(message_id="m", kind=DeltaKind.MESSAGE, text=text, offset=0) for text in ("ab", "abc")]
    harness.log.publish_deltas(deltas)
    while len(peer.deltas) < 2:
        await peer.receive()
    assert peer.deltas == deltas


async def test_deltas_without_a_link_are_dropped(harness: LinkHarness) -> None:
    peer = await harness.hub.welcome()
    await peer.link.close()
    await eventually(lambda: not harness.client.connected.is_set())
    harness.log.publish_deltas([ev.Delta(message_id="m", kind=DeltaKind.MESSAGE, text="gone", offset=0)])
    again = await harness.hub.welcome()
    await harness.write(1)
    await again.until_seq(1)
    assert again.deltas == []


async def test_entries_that_both_sides_have_lost_are_replaced_by_notices(harness: LinkHarness) -> None:
    peer = await harness.hub.welcome({SESSION: 0})
    await harness.write(6)
    await peer.until_seq(6)
    await peer.ack(4)

    async def confirmed() -> bool:
        return await harness.unconfirmed() == [5, 6]

    await eventually(confirmed)
    await peer.link.close()
    peer = await harness.hub.welcome({SESSION: 2})
    await harness.write(1)
    received: list[tuple[int, str | None]] = []
    while not received or received[-1][0] < 7:
        message = await peer.receive()
        assert isinstance(message, Events)
        for item in message.entries:
            event = decode_entry(bytes(item.body)).content
            assert isinstance(event, ev.Notice)
            received.append((item.seq, event.code))
    assert received == [(3, "entry_lost"), (4, "entry_lost"), (5, None), (6, None), (7, None)]


async def test_deleted_sessions_of_the_welcome_are_passed_on(harness: LinkHarness) -> None:
    await harness.hub.welcome(deleted=[SESSION])
    await eventually(lambda: bool(harness.deleted))
    assert harness.deleted == [SESSION]


async def test_calls_are_answered_by_their_number(harness: LinkHarness) -> None:
    peer = await harness.hub.welcome()
    for number in (7, 8):
        await peer.link.send(Call(id=number, session=SESSION, command=commands.Abort()))
    while len(peer.replies) < 2:
        await peer.receive()
    assert [reply.id for reply in peer.replies] == [7, 8]


async def test_what_a_link_cannot_carry_is_replaced(
    harness: LinkHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = MemoryTransport[ToHub, ToRunner].send

    async def send_short(self: MemoryTransport[ToHub, ToRunner], message: ToHub) -> None:
        if len(encode(message)) > 5000:
            raise TooLarge("a link carries messages of at most 5000 bytes", limit=5000)
        await send(self, message)

    async def long_reply(call: Call) -> Reply:
        return Reply(id=call.id, result="x" * 6000, seq=3)

    monkeypatch.setattr(MemoryTransport, "send", send_short)
    monkeypatch.setattr(harness, "handle", long_reply)
    peer = await harness.hub.welcome()
    await peer.until_state()
    await harness.write(1, 6000)
    events = await peer.receive()
    assert isinstance(events, Events)
    notice = decode_entry(bytes(events.entries[0].body)).content
    assert isinstance(notice, ev.Notice)
    assert notice.code == "entry_too_large"
    await harness.write(1)
    await peer.until_seq(2)
    await peer.link.send(Call(id=7, session=SESSION, command=commands.Abort()))
    while not peer.replies:
        await peer.receive()
    assert peer.replies[0].error is not None
    assert (peer.replies[0].error.code, peer.replies[0].seq) == (ErrorCode.TOO_LARGE, 3)


async def test_a_long_backlog_is_sent_in_turns(harness: LinkHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal is read page by page while entries are added."""
    await harness.write(2500, 100)
    monkeypatch.setattr(MemoryTransport, "batch_bytes", 10_000)
    peer = await harness.hub.welcome()
    sizes: list[int] = []
    while not peer.seqs or peer.seqs[-1] < 2600:
        message = await peer.receive()
        if harness.log.state.seq < 2600:
            await harness.write(1, 100)
        assert isinstance(message, Events)
        sizes.append(sum(len(entry.body) for entry in message.entries))
    assert peer.seqs == list(range(1, 2601))
    assert max(sizes) <= 10_000
    assert len(sizes) < 150


async def test_an_entry_that_does_not_fit_in_memory_is_sent(harness: LinkHarness) -> None:
    peer = await harness.hub.welcome()
    await peer.until_state()
    await harness.write(1, 9 * 1024 * 1024)
    await harness.write(2, 10)
    await peer.until_seq(3)
    assert peer.seqs == [1, 2, 3]


async def test_the_state_follows_a_large_entry(harness: LinkHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    await harness.write(1, 20_000)
    await harness.write(2, 10)
    await harness.write(1, 20_000)
    monkeypatch.setattr(MemoryTransport, "batch_bytes", 10_000)
    peer = await harness.hub.welcome()
    received = [await peer.receive() for _ in range(4)]
    assert [[one.seq for one in message.entries] for message in received if isinstance(message, Events)] == [
        [1], [2, 3], [4], [],
    ]  # fmt: skip
    assert peer.state is not None


async def test_a_refusal_is_logged_with_what_to_do(
    harness: LinkHarness, caplog: pytest.LogCaptureFixture
) -> None:
    link = await harness.hub.links.get()
    await link.receive()
    await link.send(Refused(reason="remove it with DELETE /api/machines/m"))
    with pytest.raises(LinkClosed):
        async with asyncio.timeout(SECONDS):
            await link.receive()
    assert "refuses this machine: remove it with DELETE /api/machines/m" in caplog.text


async def test_a_hub_that_asks_for_no_proof_is_not_believed(harness: LinkHarness) -> None:
    link = await harness.hub.links.get()
    await link.receive()
    await link.send(Welcome(acked={}, deleted=[SESSION]))
    with pytest.raises(LinkClosed):
        async with asyncio.timeout(SECONDS):
            await link.receive()
    assert harness.deleted == []


async def test_a_memory_link_closes_both_ends() -> None:
    here, there = memory_pair(2)
    await here.send("one")
    await here.close()
    with pytest.raises(LinkClosed):
        await here.send("two")
    assert await there.receive() == "one"
    with pytest.raises(LinkClosed):
        await there.receive()


async def test_a_session_of_another_hub_is_kept_and_not_sent(harness: LinkHarness) -> None:
    await harness.write(2)
    peer = await harness.hub.welcome(foreign=[SESSION])
    await harness.client.connected.wait()
    await harness.write(1)
    await peer.link.send(Call(id=1, session="", command=commands.ListConversations(agent="demo")))
    assert isinstance(await peer.receive(), Reply), "nothing but the reply is sent"
    assert (peer.seqs, harness.deleted) == ([], [])
    await peer.link.close()
    peer = await harness.hub.welcome({SESSION: 0})
    await peer.until_seq(3)
    assert peer.seqs == [1, 2, 3]


async def test_a_failure_that_nobody_foresaw_ends_the_link_and_not_the_client(
    harness: LinkHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(harness, "handle_welcome", AsyncMock(side_effect=MemoryError))
        first = await harness.hub.welcome()
        with pytest.raises(LinkClosed):
            await first.receive()
    await harness.write(1)
    again = await harness.hub.welcome()
    await again.until_seq(1)
    assert "the link to the hub failed" in caplog.text


async def test_an_unknown_message_is_answered(harness: LinkHarness) -> None:
    peer = await harness.hub.welcome(protocol=3)
    await peer.link.send(UnknownMessage("news"))
    while not isinstance(answer := await peer.receive(), Unsupported):
        pass
    assert answer.kind == "news"
    await peer.link.send(Unsupported(kind="ping"))
    await harness.write(1)
    await peer.until_seq(1)


async def test_a_hub_of_protocol_2_gets_no_message_that_it_does_not_know(harness: LinkHarness) -> None:
    peer = await harness.hub.welcome()
    await peer.link.send(UnknownMessage("news"))
    await harness.write(1)
    await peer.until_seq(1)
    ending = asyncio.create_task(harness.client.end())
    with pytest.raises(LinkClosed):
        await peer.receive()
    await ending


async def test_an_unknown_command_is_answered(harness: LinkHarness) -> None:
    peer = await harness.hub.welcome()
    await peer.link.send(UnknownCall(id=9, reason="Invalid value 'teleport'"))
    while not peer.replies:
        await peer.receive()
    (reply,) = peer.replies
    assert reply.error is not None
    assert (reply.id, reply.error.code) == (9, "not_capable")
    assert "update farsteer there" in reply.error.message


async def test_a_runner_that_ends_sends_the_rest_and_says_goodbye(harness: LinkHarness) -> None:
    peer = await harness.hub.welcome(protocol=3)
    harness.client.begin_end()
    await peer.link.send(Call(id=1, session=SESSION, command=commands.Abort()))
    await harness.write(3)
    ending = asyncio.create_task(harness.client.end())
    while not isinstance(await peer.receive(), Goodbye):
        pass
    assert peer.seqs == [1, 2, 3]
    assert peer.replies == [], "the hub repeats the call over the next link"
    await peer.link.close()
    await ending


async def test_the_outbox_ends_after_a_large_message_that_is_on_its_way(harness: LinkHarness) -> None:
    outbox = Outbox()
    outbox.add_session(harness.log.state, harness.log)
    outbox.open({})
    session = await outbox.next()
    assert session is not None
    session.sending, session.state_due = True, False
    outbox.end()
    end = asyncio.create_task(outbox.next())
    await asyncio.sleep(0)
    assert not end.done()
    session.sending = False
    outbox.requeue(session)
    async with asyncio.timeout(SECONDS):
        assert await end is None


@pytest.mark.parametrize(
    ("sent", "last", "kept", "filled"),
    [
        (2, 5, [3, 4, 5], []),
        (2, 6, [5, 6], [3, 4]),
        (2, 9, [4, 6, 9], [3, 5, 7, 8]),
        (2, 5, [], [3, 4, 5]),
        (0, 5000, [3], [1, 2]),
        (0, 5000, [4000], [*range(1, 1002)]),
        (7, 7, [], []),
    ],
)
def test_every_entry_that_neither_end_has_is_replaced_by_a_notice(
    sent: int, last: int, kept: list[int], filled: list[int]
) -> None:
    entries = [encode_entry(make_entry("s", seq, ev.Notice(text="kept"), 1)) for seq in kept]
    sequence = fill_gap("s", sent, last, entries)
    assert [entry.seq for entry in sequence] == [*range(sent + 1, sent + 1 + len(sequence))]
    assert [entry.seq for entry in sequence if b"entry_lost" in bytes(entry.body)] == filled
