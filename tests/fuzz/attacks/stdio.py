"""`farsteer acp` and `farsteer exec --input-format stream-jsonrpc`: mutated lines on standard input."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable
from contextlib import suppress

import psutil

from tests.fuzz.attack import Attack
from tests.fuzz.attacks.acp import json_rpc
from tests.fuzz.corpus import acp_messages, droid_messages
from tests.fuzz.target import environment

_SECONDS = 30.0
_PEAK_BYTES = 400 * 1024 * 1024
_HEAD = {"jsonrpc": "2.0", "factoryApiVersion": "1.0.0", "type": "request"}
_DROID = ("exec", "--input-format", "stream-jsonrpc", "--output-format", "stream-jsonrpc", "--agent", "demo")


async def play(attack: Attack) -> None:
    mutator, target = attack.mutator, attack.target
    acp = mutator.chance(0.5)
    messages = acp_messages(target, mutator.pick(target.sessions)) if acp else droid_messages(target)
    command = ("acp", "--agent", "demo") if acp else _DROID
    root = target.root / f"stdio-{attack.worker}"
    root.mkdir(exist_ok=True)
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "farsteer", *command, "--hub", target.url,
        env=environment(root, target.token), cwd=target.directory, stdin=PIPE, stdout=PIPE, stderr=PIPE,
        start_new_session=True, limit=256 * 1024 * 1024,
    )  # fmt: skip
    try:
        assert child.stdin is not None
        assert child.stderr is not None
        errors = asyncio.create_task(child.stderr.read())
        answers = asyncio.create_task(_until_last(child))
        lines = [json.dumps(messages[0]).encode()] if mutator.chance(0.7) else []
        lines += [json_rpc(mutator, messages).replace(b"\n", b" ") for _ in range(mutator.pick((5, 30, 100)))]
        if mutator.chance(0.2):
            lines.append(b"x" * mutator.pick((10_000, 5_000_000)))
        last = {**_HEAD, "id": "last", "method": "session/list" if acp else "droid.list_models", "params": {}}
        for line in [*lines, json.dumps(last).encode()]:
            attack.sent(line)
            with suppress(ConnectionError):
                child.stdin.write(line + b"\n")
                await child.stdin.drain()
        answered = await _bounded(attack, answers, "answer to the last request")
        peak = _peak_bytes(child)
        with suppress(ConnectionError):
            child.stdin.close()
            await child.stdin.wait_closed()
        code = await _bounded(attack, child.wait(), "end after its input ended")
        text = (await errors).decode(errors="replace")
        if not answered or code != 0 or "Traceback" in text:
            raise attack.fail(
                f"farsteer {command[0]}: answered {answered}, exit code {code}, stderr {text[-3000:]}"
            )
        if peak > _PEAK_BYTES:
            raise attack.fail(f"farsteer {command[0]} took {peak >> 20} MiB")
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()


async def _until_last(child: Process) -> bool:
    """Read everything. Returns whether the last request was answered."""
    assert child.stdout is not None
    answered = False
    while line := await child.stdout.readline():
        answered = answered or b'"id":"last"' in line or b'"id": "last"' in line
        if answered:
            break
    return answered


async def _bounded(attack: Attack, work: Awaitable[object], what: str) -> object:
    try:
        async with asyncio.timeout(_SECONDS):
            return await work
    except TimeoutError:
        raise attack.fail(f"no {what} of farsteer within {_SECONDS:g} s") from None


def _peak_bytes(child: Process) -> int:
    with suppress(psutil.Error):
        return psutil.Process(child.pid).memory_info().rss
    return 0
