"""The stdio transport: bounded buffers, and nothing but protocol on stdout."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from contextlib import suppress

import pytest

from farsteer.jsonrpc.stdio import StdinReader, StdoutWriter
from tests.cli.command import finish


async def test_a_slow_reader_blocks_the_writer_in_bounded_memory() -> None:
    """Unread lines wait in a bounded buffer, and a full buffer blocks `write`."""
    out, into = os.pipe()
    writer = StdoutWriter(into)
    line, written = b"x" * 1000 + b"\n", 0
    with suppress(TimeoutError):
        while True:
            async with asyncio.timeout(0.5):
                await writer.write(line)
            written += 1
    assert written * len(line) < 4 * 1024 * 1024
    assert not await writer.flush(0.05)
    taken = 0
    while taken < written * len(line):
        taken += len(await asyncio.to_thread(os.read, out, 1024 * 1024))
    assert await writer.flush(5)
    os.close(out)
    await writer.write(line)
    async with asyncio.timeout(5):
        await writer.broken.wait()
    await writer.write(line)
    assert not await writer.flush(5)
    os.close(into)


@pytest.mark.slow
async def test_other_output_of_the_process_goes_to_stderr() -> None:
    script = (
        "import os, sys\n"
        "from farsteer.jsonrpc.stdio import claim_stdio\n"
        "print('before')\n"
        "source, target = claim_stdio()\n"
        "print('noise'); sys.stdout.flush(); os.system('echo louder noise')\n"
        "assert sys.stdin.read() == ''\n"
        "os.write(target, os.read(source, 100))\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    result = await finish(process, "a line")
    assert (result.out, result.err) == ("before\na line", "noise\nlouder noise\n")


async def test_the_last_line_is_read_without_a_newline() -> None:
    out, into = os.pipe()
    os.write(into, b"one\ntwo\n\nthr")
    os.write(into, b"ee")
    os.close(into)
    lines = [line async for batch in StdinReader(out).batches() for line in batch]
    os.close(out)
    assert lines == [b"one", b"two", b"three"]
