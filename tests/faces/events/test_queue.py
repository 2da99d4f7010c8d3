"""When the queue says idle, everything that was taken from it has been dealt with."""

import asyncio

import pytest
from engineio.packet import MESSAGE, Packet

from farsteer.faces.events.queue import POLLED_PACKETS, PacketQueue


def packet(text: str = "x") -> Packet:
    return Packet(MESSAGE, text)


async def test_idle_only_while_the_reader_waits_for_more() -> None:
    queue = PacketQueue(soft=1000)
    assert not queue.idle
    reading = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    assert queue.idle
    queue.put_nowait(packet())
    assert not queue.idle
    await reading
    assert queue.empty()
    assert not queue.idle, "taken, but who knows whether written"
    reading = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    assert queue.idle
    reading.cancel()


async def test_a_reader_that_finds_something_does_not_make_it_idle() -> None:
    queue = PacketQueue(soft=1000)
    queue.put_nowait(packet())
    await queue.get()
    assert not queue.idle


async def test_one_poll_takes_only_so_many() -> None:
    queue = PacketQueue(soft=1000)
    for _ in range(40):
        queue.put_nowait(packet())
    for expected in (POLLED_PACKETS, POLLED_PACKETS, 40 - 2 * POLLED_PACKETS):
        await queue.get()
        for _ in range(expected - 1):
            queue.get_nowait()
        with pytest.raises(asyncio.QueueEmpty):
            queue.get_nowait()


async def test_it_knows_how_much_waits_and_says_when_it_is_no_longer_behind() -> None:
    queue = PacketQueue(soft=100)
    told: list[int] = []
    queue.on_writable = lambda: told.append(queue.size)
    for _ in range(5):
        queue.put_nowait(packet("x" * 40))
    queue.put_nowait(None)
    assert (queue.size, queue.behind) == (200, True)
    for _ in range(3):
        await queue.get()
    assert (queue.size, queue.behind) == (80, False)
    await asyncio.sleep(0)
    assert told == [80], "once"
    for _ in range(3):
        await queue.get()
    assert queue.size == 0
