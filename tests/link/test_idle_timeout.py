"""A link on which nothing is heard is dead; one that we do not listen to is not."""

import asyncio

import pytest

from farsteer.link.transport import IdleTimeoutReceiver, LinkClosed, memory_pair

PATIENCE = 0.02


async def test_a_silent_link_ends_the_watch() -> None:
    here, _ = memory_pair()
    ear = IdleTimeoutReceiver[object](here, PATIENCE)
    receiving = asyncio.create_task(ear.receive())
    with pytest.raises(LinkClosed, match=r"silent for 0\.02 s"):
        async with asyncio.timeout(5):
            await ear.watch()
    receiving.cancel()


async def test_each_message_begins_the_patience_anew() -> None:
    here, there = memory_pair()
    ear = IdleTimeoutReceiver[object](here, 0.5)
    watching = asyncio.create_task(ear.watch())
    loop = asyncio.get_running_loop()
    end = loop.time() + 1.0
    while loop.time() < end:
        receiving = asyncio.create_task(ear.receive())
        loop.call_later(0.05, asyncio.ensure_future, there.send("still here"))
        assert await receiving == "still here"
    assert not watching.done()
    watching.cancel()


async def test_while_we_are_busy_with_what_we_heard_nobody_is_silent() -> None:
    here, there = memory_pair()
    ear = IdleTimeoutReceiver[object](here, PATIENCE)
    await there.send("heard")
    await ear.receive()
    watching = asyncio.create_task(ear.watch())
    done, _ = await asyncio.wait([watching], timeout=PATIENCE * 5)
    assert not done
    watching.cancel()


async def test_the_first_message_has_its_own_patience() -> None:
    here, there = memory_pair()
    ear = IdleTimeoutReceiver[object](here, PATIENCE)
    with pytest.raises(LinkClosed, match="silent"):
        await ear.first()
    await there.send("hello")
    assert await ear.first() == "hello"
