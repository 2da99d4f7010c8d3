"""A link that receives nothing for too long is closed. Time spent handling a message does not count."""

import asyncio
import itertools

import pytest

from farsteer.link.transport import IdleTimeoutReceiver, LinkClosed, memory_pair

IDLE_TIMEOUT = 0.02


async def test_an_idle_link_ends_the_watch() -> None:
    here, _ = memory_pair()
    receiver = IdleTimeoutReceiver[object](here, IDLE_TIMEOUT)
    receiving = asyncio.create_task(receiver.receive())
    with pytest.raises(LinkClosed, match=r"received for 0\.02 s"):
        async with asyncio.timeout(5):
            await receiver.watch()
    receiving.cancel()


async def test_each_message_restarts_the_timeout() -> None:
    here, there = memory_pair()
    receiver = IdleTimeoutReceiver[object](here, 0.5)
    watching = asyncio.create_task(receiver.watch())
    loop = asyncio.get_running_loop()
    end = loop.time() + 1.0
    while loop.time() < end:
        receiving = asyncio.create_task(receiver.receive())
        loop.call_later(0.05, asyncio.ensure_future, there.send("still here"))
        assert await receiving == "still here"
    assert not watching.done()
    watching.cancel()


async def test_handling_a_message_does_not_count_as_idle() -> None:
    here, there = memory_pair()
    receiver = IdleTimeoutReceiver[object](here, IDLE_TIMEOUT)
    await there.send("heard")
    await receiver.receive()
    watching = asyncio.create_task(receiver.watch())
    done, _ = await asyncio.wait([watching], timeout=IDLE_TIMEOUT * 5)
    assert not done
    watching.cancel()


async def test_the_first_message_has_the_same_timeout() -> None:
    here, there = memory_pair()
    receiver = IdleTimeoutReceiver[object](here, IDLE_TIMEOUT)
    with pytest.raises(LinkClosed, match="nothing was received"):
        await receiver.receive_first()
    await there.send("hello")
    assert await receiver.receive_first() == "hello"


async def test_bytes_restart_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large message over a slow link is no idle link."""
    here, _ = memory_pair()
    counter = itertools.count()
    monkeypatch.setattr(type(here), "received_bytes", property(lambda _: next(counter)))
    receiver = IdleTimeoutReceiver[object](here, IDLE_TIMEOUT)
    receiving = asyncio.create_task(receiver.receive())
    watching = asyncio.create_task(receiver.watch())
    done, _ = await asyncio.wait([watching], timeout=IDLE_TIMEOUT * 10)
    assert not done
    for task in (receiving, watching):
        task.cancel()


async def test_a_peer_that_does_not_read_ends_the_watch() -> None:
    here, there = memory_pair(1)
    receiver = IdleTimeoutReceiver[object](here, IDLE_TIMEOUT)
    await here.send("unread")
    with pytest.raises(LinkClosed, match="read nothing"):
        async with asyncio.timeout(5):
            await receiver.watch()
    await there.receive()


async def test_work_of_the_handshake_is_watched() -> None:
    here, _ = memory_pair(1)
    receiver = IdleTimeoutReceiver[object](here, IDLE_TIMEOUT)
    await receiver.watched(here.send("first"))
    with pytest.raises(LinkClosed, match="read nothing"):
        await receiver.watched(here.send("second"))
