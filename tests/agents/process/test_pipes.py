"""Reading at the pace of who listens."""

import asyncio
import os
from collections.abc import AsyncIterator
from typing import IO

import pytest

from farsteer.agents.process.pipes import CHUNK, ReadPipe
from tests.support.eventually import eventually


@pytest.fixture
async def pipe() -> AsyncIterator[tuple[ReadPipe, IO[bytes]]]:
    reading, writing = os.pipe()
    reader = ReadPipe(os.fdopen(reading, "rb", buffering=0))
    with os.fdopen(writing, "wb", buffering=0) as writer:
        yield reader, writer
    reader.close()


async def test_what_is_written_is_read_and_two_chunks_are_apart(pipe: tuple[ReadPipe, IO[bytes]]) -> None:
    reader, writer = pipe
    chunks: list[bytes | None] = []
    for text in (b"one", b"two", b"three"):
        waiting = asyncio.create_task(reader.read())
        await asyncio.sleep(0)
        writer.write(text)
        chunks.append(await waiting)
    assert chunks == [b"one", b"two", b"three"]


async def test_while_nobody_listens_the_loop_rests_and_nothing_is_lost(
    pipe: tuple[ReadPipe, IO[bytes]],
) -> None:
    reader, writer = pipe
    waiting = asyncio.create_task(reader.read())
    await asyncio.sleep(0)
    writer.write(b"first")
    assert await waiting == b"first"
    writer.write(b"second")
    # A watched descriptor that nobody reads would be reported in every turn of the loop.
    await eventually(lambda: not reader._watched)
    assert await reader.read() == b"second"
    waiting = asyncio.create_task(reader.read())
    writer.write(b"third")
    assert await waiting == b"third"


async def test_a_chunk_is_bounded(pipe: tuple[ReadPipe, IO[bytes]]) -> None:
    reader, writer = pipe
    sent = writer.write(b"x" * (64 * 1024))
    heard = 0
    while heard < sent:
        chunk = await reader.read()
        assert chunk
        assert len(chunk) <= CHUNK
        heard += len(chunk)
    assert heard == sent


async def test_a_wake_ends_the_waiting_and_the_end_of_the_stream_is_told(
    pipe: tuple[ReadPipe, IO[bytes]],
) -> None:
    reader, writer = pipe
    waiting = asyncio.create_task(reader.read())
    await asyncio.sleep(0)
    reader.wake()
    assert await waiting is None
    writer.close()
    assert await reader.read() == b""
