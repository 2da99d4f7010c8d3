"""Messages of any size share a link: short ones overtake, large ones go on over the next link, all arrive whole."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256

import msgspec
import pytest

from farsteer.core.commands import Send
from farsteer.core.errors import TooLarge
from farsteer.core.queue import QueueItem
from farsteer.link import channel, transfers
from farsteer.link.channel import Channel
from farsteer.link.frames import decode_at_hub, decode_at_runner
from farsteer.link.messages import Ack, Call, EncodedEntry, Events, Ping, Pong, Reply, ToHub, ToRunner
from farsteer.link.transfers import (
    Announcement,
    FrameKind,
    UnfinishedTransfers,
    pack_announcement,
    pack_number,
    pack_part,
    pack_value,
)
from farsteer.link.transport import LinkClosed

SECONDS = 20.0


class FrameQueue:
    def __init__(self) -> None:
        self.frames: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.sent: list[bytes] = []
        self.written = asyncio.Event()

    def write(self, frame: bytes) -> None:
        self.sent.append(frame)
        self.frames.put_nowait(frame)
        self.written.set()

    async def until_part_bytes(self, size: int) -> None:
        async with asyncio.timeout(SECONDS):
            while self.part_bytes < size:
                self.written.clear()
                await self.written.wait()

    @property
    def part_bytes(self) -> int:
        return sum(len(frame) - 5 for frame in self.sent if frame[0] == FrameKind.PART)


class RunnerEnd(Channel[ToHub, ToRunner]):
    def __init__(self, outgoing: FrameQueue, incoming: FrameQueue) -> None:
        super().__init__(b"")
        self._outgoing = outgoing
        self._queue = incoming

    @property
    def received_bytes(self) -> int:
        return 0

    async def _write(self, frame: bytes) -> None:
        self._outgoing.write(frame)
        await asyncio.sleep(0)

    async def _read(self) -> bytes:
        frame = await self._queue.frames.get()
        if frame is None:
            self._queue.frames.put_nowait(None)
            raise LinkClosed
        return frame

    async def _decode(self, frame: bytes) -> ToRunner:
        return decode_at_runner(frame)

    async def _close(self) -> None:
        self._outgoing.frames.put_nowait(None)
        self._queue.frames.put_nowait(None)

    def _unsent_bytes(self) -> int:
        return 0


class HubEnd(RunnerEnd):
    async def send(self, message: ToRunner) -> None:
        await super().send(message)  # pyright: ignore[reportArgumentType]

    async def _decode(self, frame: bytes) -> ToHub:
        return decode_at_hub(frame)


class Link:
    """A link whose hub end receives by itself."""

    def __init__(self) -> None:
        self.up, self.down = FrameQueue(), FrameQueue()
        self.runner = RunnerEnd(self.up, self.down)
        self.hub = HubEnd(self.down, self.up)
        self.at_hub: list[ToHub] = []
        self.at_runner: list[ToRunner] = []
        self.changed = asyncio.Event()

    async def receive_at_hub(self) -> None:
        while True:
            self.at_hub.append(await self.hub.receive())  # pyright: ignore[reportArgumentType]
            self.changed.set()

    async def receive_at_runner(self) -> None:
        while True:
            self.at_runner.append(await self.runner.receive())
            self.changed.set()

    async def arrived(self, count: int) -> None:
        async with asyncio.timeout(SECONDS):
            while len(self.at_hub) + len(self.at_runner) < count:
                self.changed.clear()
                await self.changed.wait()


@asynccontextmanager
async def linked(
    kept_at_hub: UnfinishedTransfers | None = None, kept_at_runner: UnfinishedTransfers | None = None
) -> AsyncIterator[Link]:
    link = Link()
    await link.runner.start_transfers(kept_at_runner or UnfinishedTransfers(), "hub")
    await link.hub.start_transfers(kept_at_hub or UnfinishedTransfers(), "machine")
    tasks = [asyncio.create_task(link.receive_at_hub()), asyncio.create_task(link.receive_at_runner())]
    try:
        yield link
    finally:
        await link.runner.close()
        await link.hub.close()
        await asyncio.gather(*tasks, return_exceptions=True)


def call(id: int, size: int, name: str = "i") -> Call:
    return Call(id=id, session="s", command=Send(item=QueueItem(id=name, text="x" * size, created_at=1)))


def events(session: str, size: int) -> Events:
    return Events(session=session, entries=[EncodedEntry(1, "notice", msgspec.Raw(b'"%b"' % (b"y" * size)))])


@pytest.mark.parametrize("size", [10, 5_000, 30_000, 3_000_000])
async def test_messages_of_all_sizes_arrive_whole(size: int) -> None:
    async with linked() as link:
        await link.runner.send(events("s", size))
        await link.hub.send(call(7, size))
        await link.runner.send(Reply(id=9, result="z" * size))
        await link.arrived(3)
    assert sorted(link.at_hub, key=str) == sorted(
        [events("s", size), Reply(id=9, result="z" * size)], key=str
    )
    assert link.at_runner == [call(7, size)]


def messages_of(frames: FrameQueue) -> list[int]:
    """How many messages each frame of JSON has."""
    return [frame.count(channel._SEPARATOR) + 1 for frame in frames.sent if frame[0] > max(FrameKind)]


async def test_short_messages_that_are_sent_together_share_a_frame_in_their_order() -> None:
    sent = [
        Ack(session="s", seq=1),
        call(1, 10, "a"),
        call(2, 10, "b"),
        call(3, 5_000, "c"),
        call(4, 10, "d"),
    ]
    async with linked() as link:
        await asyncio.gather(*(link.hub.send(message) for message in sent))
        await link.arrived(len(sent))
        await link.hub.send(Pong())
        await link.arrived(len(sent) + 1)
    assert link.at_runner == [*sent, Pong()]
    assert messages_of(link.down) == [3, 1, 1, 1]


async def test_the_events_of_many_sessions_share_frames_of_bounded_size() -> None:
    sent = [events(str(number), 1_000) for number in range(200)]
    async with linked() as link:
        for message in sent:
            await link.runner.send(message)
        await link.arrived(len(sent))
    assert link.at_hub == sent
    assert 1 < len(messages_of(link.up)) < 20


async def test_a_sender_that_is_cancelled_takes_no_message_of_others_with_it() -> None:
    async with linked() as link:
        tasks = [asyncio.create_task(link.hub.send(Ack(session="s", seq=seq))) for seq in range(1, 4)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await link.arrived(3)
    assert link.at_runner == [Ack(session="s", seq=seq) for seq in range(1, 4)]


async def test_a_peer_of_protocol_2_gets_a_frame_for_each_message() -> None:
    link = Link()
    for seq in (1, 2):
        await link.hub.send(Ack(session="s", seq=seq))
    assert messages_of(link.down) == [1, 1]


@pytest.mark.parametrize("others", [b"\x1e" * 20_000, b"\x1e{", b"\x1e"])
async def test_a_frame_of_too_many_or_invalid_messages_ends_the_link(others: bytes) -> None:
    link = Link()
    await link.runner.start_transfers(UnfinishedTransfers(), "hub")
    link.down.frames.put_nowait(b'{"t":"ack","session":"s","seq":1}' + others)
    with pytest.raises(LinkClosed):
        await link.receive_at_runner()
    with pytest.raises(LinkClosed):
        await link.runner.send(Ping())


@pytest.mark.parametrize("error", [LinkClosed("gone"), MemoryError()])
async def test_what_cannot_be_written_ends_the_link(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async def fail(frame: bytes) -> None:
        raise error

    async with linked() as link:
        monkeypatch.setattr(link.hub, "_write", fail)
        await link.hub.send(Pong())
        await asyncio.sleep(0)
        with pytest.raises(LinkClosed, match=r"gone|MemoryError"):
            await link.hub.send(Pong())


async def test_short_messages_overtake_and_large_ones_share() -> None:
    async with linked() as link:
        sending = [
            asyncio.create_task(link.runner.send(events(session, size)))
            for session, size in (("large", 3_000_000), ("middle", 300_000), ("small", 100))
        ]
        await asyncio.sleep(0)
        await link.runner.send(Ping())
        await asyncio.gather(*sending)
        await link.arrived(4)
    arrived = [getattr(message, "session", "ping") for message in link.at_hub]
    assert sorted(arrived[:2]) == ["ping", "small"]
    assert arrived[2:] == ["middle", "large"]


async def test_a_peer_of_protocol_2_gets_everything_whole() -> None:
    link = Link()
    await link.runner.send(events("s", 1_000_000))
    assert len(link.up.sent) == 1
    assert await link.hub.receive() == events("s", 1_000_000)


@pytest.mark.parametrize("direction", ["up", "down"])
async def test_an_interrupted_message_goes_on_over_the_next_link(direction: str) -> None:
    size, kept_at_hub, kept_at_runner = 1_000_000, UnfinishedTransfers(), UnfinishedTransfers()
    async with linked(kept_at_hub, kept_at_runner) as link:
        way = link.up if direction == "up" else link.down
        message = link.runner.send(events("s", size)) if direction == "up" else link.hub.send(call(3, size))
        sending = asyncio.create_task(message)
        await way.until_part_bytes(size // 2)
        await link.runner.close()
        with pytest.raises(LinkClosed):
            await sending
    first = way.part_bytes
    async with linked(kept_at_hub, kept_at_runner) as link:
        way = link.up if direction == "up" else link.down
        if direction == "up":
            await link.runner.send(events("s", size))
        else:
            await link.hub.send(call(99, size))
        await link.arrived(1)
        assert size // 2 <= first + way.part_bytes < size + 200_000
        assert [*link.at_hub, *link.at_runner] == [events("s", size) if direction == "up" else call(99, size)]


async def test_a_message_that_the_link_cannot_carry_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "MAX_FRAME", 500_000)
    async with linked() as link:
        with pytest.raises(TooLarge, match="at most 500000 bytes"):
            await link.hub.send(call(1, 600_000))
        await link.hub.send(call(2, 400_000))
        await link.arrived(1)
        assert link.at_runner == [call(2, 400_000)]


async def test_a_message_that_the_receiver_refuses_fails_alone() -> None:
    async with linked() as link:
        incoming = link.runner._incoming
        assert incoming is not None
        incoming.max_size = 500_000
        with pytest.raises(TooLarge, match="at most 500000 bytes"):
            await link.hub.send(call(1, 600_000))
        await link.hub.send(call(2, 400_000))
        await link.arrived(1)


async def test_what_is_accepted_at_a_time_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfers, "_MAX_ACTIVE_BYTES", 1_000_000)
    async with linked() as link:
        sending = [asyncio.create_task(link.runner.send(events(str(n), 600_000))) for n in range(5)]
        await link.arrived(5)
        await asyncio.gather(*sending)
    accepted = [index for index, frame in enumerate(link.down.sent) if frame[0] == FrameKind.ACCEPT]
    assert len(accepted) == 5
    assert [getattr(message, "session", "") for message in link.at_hub] == ["0", "1", "2", "3", "4"]


async def test_a_cancelled_message_leaves_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfers, "_MAX_ACTIVE_BYTES", 1_000_000)
    async with linked() as link:
        first = asyncio.create_task(link.runner.send(events("first", 900_000)))
        await link.up.until_part_bytes(1)
        second = asyncio.create_task(link.runner.send(events("second", 900_000)))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.gather(second)
        await link.arrived(1)
        assert link.at_hub == [events("second", 900_000)]


async def test_the_end_of_a_link_wakes_whoever_sends() -> None:
    link = Link()
    await link.runner.start_transfers(UnfinishedTransfers(), "hub")
    sending = [
        asyncio.create_task(link.runner.send(events("s", size))) for size in (100_000, 15_000, 15_000, 15_000)
    ]
    for _ in range(10):
        await asyncio.sleep(0)
    assert not all(task.done() for task in sending)
    await link.runner.close()
    async with asyncio.timeout(SECONDS):
        results = await asyncio.gather(*sending, return_exceptions=True)
    assert any(isinstance(result, LinkClosed) for result in results)
    with pytest.raises(LinkClosed):
        await link.runner.send(Ping())


# -- a hostile peer


DATA = b'{"t":"pong"}' + b" " * 100
GOOD = Announcement(1, len(DATA), sha256(DATA).digest())


def part(number: int, data: bytes) -> bytes:
    return pack_number(FrameKind.PART, number) + data


@pytest.mark.parametrize(
    "frames",
    [
        [b"\1"],
        [b"\1\0\0\0\1\0"],
        [pack_number(FrameKind.MARK_READ, 5)],
        [b"\3" + b"\0" * 10],
        [part(1, b"x")],
        [pack_announcement(GOOD), part(1, b"")],
        [pack_announcement(GOOD), part(1, DATA + b"x")],
        [pack_announcement(GOOD), part(1, b"x" * len(DATA))],
        [pack_announcement(GOOD), pack_announcement(GOOD)],
        [pack_announcement(Announcement(n, 10, b"d" * 32)) for n in range(300)],
        [pack_announcement(GOOD), pack_number(FrameKind.CANCEL, 1), part(1, DATA)],
        [b"\0"],
        [b"\x06"],
    ],
    ids=["short mark", "long mark", "mark", "announcement", "unknown", "empty", "long", "digest", "twice", "many",
         "cancelled", "kind", "part"],
)  # fmt: skip
async def test_frames_out_of_order_end_the_link(frames: list[bytes]) -> None:
    link = Link()
    await link.runner.start_transfers(UnfinishedTransfers(), "hub")
    for frame in frames:
        link.down.frames.put_nowait(frame)
    with pytest.raises(LinkClosed):
        async with asyncio.timeout(SECONDS):
            await link.runner.receive()


async def test_a_message_in_parts_is_checked_like_a_whole_one() -> None:
    link = Link()
    await link.runner.start_transfers(UnfinishedTransfers(), "hub")
    garbage = b"no json at all"
    link.down.frames.put_nowait(pack_announcement(Announcement(1, len(garbage), sha256(garbage).digest())))
    link.down.frames.put_nowait(part(1, garbage))
    with pytest.raises(LinkClosed, match="invalid link message"):
        await link.runner.receive()


async def test_a_good_transfer_by_hand() -> None:
    link = Link()
    await link.runner.start_transfers(UnfinishedTransfers(), "hub")
    for frame in (pack_announcement(GOOD), part(1, DATA[:20]), part(1, DATA[20:])):
        link.down.frames.put_nowait(frame)
    assert await link.runner.receive() == Pong()


def test_the_frames_of_protocol_3() -> None:
    """These bytes are spoken by every release since: they do not change."""
    announcement = Announcement(number=7, size=300_000, digest=bytes(range(32)), call_id=9)
    assert {
        "mark": pack_number(FrameKind.MARK, 258).hex(),
        "mark read": pack_number(FrameKind.MARK_READ, 258).hex(),
        "announce": pack_announcement(announcement).hex(),
        "accept": pack_value(FrameKind.ACCEPT, 7, 1000).hex(),
        "refuse": pack_value(FrameKind.REFUSE, 7, 67_108_864).hex(),
        "part": pack_part(7, memoryview(b"data")).hex(),
        "cancel": pack_number(FrameKind.CANCEL, 7).hex(),
    } == {
        "mark": "0100000102",
        "mark read": "0200000102",
        "announce": "030000000700000000000493e00000000000000009" + bytes(range(32)).hex(),
        "accept": "040000000700000000000003e8",
        "refuse": "05000000070000000004000000",
        "part": "0600000007" + b"data".hex(),
        "cancel": "0700000007",
    }


# -- what is kept


async def test_what_is_kept_is_bounded() -> None:
    kept = UnfinishedTransfers(max_bytes=1000, max_bytes_of_sender=500)
    for sender in "abc":
        for number in range(10):
            kept.keep(sender, bytes([number]), payload(100))
    left = {(sender, n): len(kept.take(sender, bytes([n])).data) for sender in "abc" for n in range(10)}
    assert sum(left.values()) == 1000
    assert left["c", 9] == left["b", 9] == 100
    assert left["a", 9] == 0


async def test_what_is_kept_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfers, "_KEPT_SECONDS", 0.01)
    kept = UnfinishedTransfers()
    kept.keep("a", b"1", payload(100))
    await asyncio.sleep(0.05)
    assert not kept.take("a", b"1").data


async def test_only_the_sender_goes_on_with_a_transfer() -> None:
    kept = UnfinishedTransfers()
    kept.keep("a", b"1", payload(100))
    assert not kept.take("b", b"1").data
    assert len(kept.take("a", b"1").data) == 100


def payload(size: int) -> transfers.Payload:
    one = transfers.Payload()
    one.add(memoryview(b"x" * size))
    return one


async def test_a_peer_that_sends_no_marks_back_is_noticed() -> None:
    link = Link()
    await link.runner.start_transfers(UnfinishedTransfers(), "hub")
    assert link.runner.unread is not None
    await asyncio.sleep(0)
    link.down.frames.put_nowait(link.up.sent[0].replace(b"\1", b"\2", 1))
    link.down.frames.put_nowait(b'{"t":"ack","session":"s","seq":1}')
    assert await link.runner.receive() == Ack(session="s", seq=1)
    assert link.runner.unread is None
