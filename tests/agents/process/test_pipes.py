"""`ReadPipe` reads only what its receiver asks for."""

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


async def test_each_write_is_read_as_one_chunk(pipe: tuple[ReadPipe, IO[bytes]]) -> None:
    reader, writer = pipe
    chunks: list[bytes | None] = []
    for text in (b"one", b"two", b"three"):
        waiting = asyncio.create_task(reader.read())
        await asyncio.sleep(0)
        writer.write(text)
        chunks.append(await waiting)
    assert chunks == [b"one", b"two", b"three"]


async def test_the_loop_does_not_spin_and_loses_nothing_while_nobody_reads(
    pipe: tuple[ReadPipe, IO[bytes]],
) -> None:
    reader, writer = pipe
    waiting = asyncio.create_task(reader.read())
    await asyncio.sleep(0)
    writer.write(b"first")
    assert await waiting == b"first"
    writer.write(b"second")
    # A watched descriptor that nobody reads would be reported in every iteration of the loop.
    await eventually(lambda: not reader._watched)
    assert await reader.read() == b"second"
    waiting = asyncio.create_task(reader.read())
    writer.write(b"third")
    assert await waiting == b"third"


async def test_a_chunk_is_bounded(pipe: tuple[ReadPipe, IO[bytes]]) -> None:
    reader, writer = pipe
    sent = writer.write(b"x" * (64 * 1024))
    received = 0
    while received < sent:
        chunk = await reader.read()
        assert chunk
        assert len(chunk) <= CHUNK
        received += len(chunk)
    assert received == sent


async def test_wake_ends_a_read_with_none_and_the_end_of_the_stream_is_empty(
    pipe: tuple[ReadPipe, IO[bytes]],
) -> None:
    reader, writer = pipe
    waiting = asyncio.create_task(reader.read())
    await asyncio.sleep(0)
    reader.wake()
    assert await waiting is None
    writer.close()
    assert await reader.read() == b""
