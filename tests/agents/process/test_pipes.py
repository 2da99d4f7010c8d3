"""`ReadPipe` reads only what its receiver asks for. `WritePipe` knows what nobody has read."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from typing import IO

import pytest

from farsteer.agents.process.pipes import CHUNK, ReadPipe, WritePipe
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


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell what is left in a pipe")
@pytest.mark.parametrize("reader_left", [True, False])
async def test_what_is_left_in_a_pipe_is_unread_only_if_nobody_can_read_it(reader_left: bool) -> None:
    reader, writer = os.pipe()
    pipe = WritePipe(os.fdopen(writer, "wb", buffering=0))
    await pipe.write(b"one\n", 1)
    assert os.read(reader, 4) == b"one\n"
    await pipe.write(b"two\n", 1)
    assert (pipe.written, pipe.possibly_read) == (8, 8)
    if not reader_left:
        os.close(reader)
    pipe.close()
    assert pipe.possibly_read == (8 if reader_left else 4)
    if reader_left:
        os.close(reader)
