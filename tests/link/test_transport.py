"""The road in memory: bounded, in order, and its end is heard by both."""

import asyncio

import pytest

from farsteer.link.transport import LinkClosed, MemoryTransport, memory_pair


def pair(size: int = 2) -> tuple[MemoryTransport[int, int], MemoryTransport[int, int]]:
    return memory_pair(size)


async def test_messages_arrive_in_order() -> None:
    here, there = pair()
    await here.send(1)
    await here.send(2)
    assert [await there.receive(), await there.receive()] == [1, 2]


async def test_who_receives_first_waits() -> None:
    here, there = pair()
    waiting = asyncio.create_task(there.receive())
    await asyncio.sleep(0)
    await here.send(1)
    assert await waiting == 1


async def test_a_full_road_makes_the_sender_wait() -> None:
    here, there = pair(1)
    await here.send(1)
    sending = asyncio.create_task(here.send(2))
    await asyncio.sleep(0)
    assert not sending.done()
    assert await there.receive() == 1
    await sending
    assert await there.receive() == 2


@pytest.mark.parametrize("closer", [0, 1])
async def test_the_end_is_heard_by_both_after_what_was_sent_before(closer: int) -> None:
    ends = pair()
    await ends[0].send(1)
    await ends[closer].close()
    assert await ends[1].receive() == 1
    for end in ends:
        with pytest.raises(LinkClosed):
            await end.receive()
        with pytest.raises(LinkClosed):
            await end.send(3)


async def test_the_end_wakes_who_waits() -> None:
    here, there = pair(1)
    await here.send(1)
    sending, receiving = asyncio.create_task(here.send(2)), asyncio.create_task(here.receive())
    await asyncio.sleep(0)
    await there.close()
    for waiting in (sending, receiving):
        with pytest.raises(LinkClosed):
            await waiting
