"""Measures messages per second of the client's own processor time, received and sent.

Usage: `python -m bench.acp_client [--updates N] [--messages N]`. The agent is a process of its own and does not count.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import acp

from farsteer.agents.acp.launch import AcpLaunch
from farsteer.agents.acp.protocol import encode_notification
from farsteer.agents.base import DeltaEmitted, LaunchPlan, Output, Prompt, TurnEnded
from farsteer.agents.catalog.definition import AgentDefinition
from farsteer.core.launch import LaunchDecision, LaunchMode

ROOT = Path(__file__).parents[2]
ARGV = (sys.executable, "-m", "bench.acp_client.agent")
ROUNDS = 3

Turn = Callable[[int], Awaitable[None]]
"""Sends a prompt that asks for a number of updates, and returns when the turn has ended."""


class CountingSink:
    """Counts what a launch puts, and tells the end of a turn."""

    def __init__(self) -> None:
        self.chars = 0
        self.ended = asyncio.Event()

    async def put(self, outputs: Sequence[Output]) -> None:
        for output in outputs:
            if isinstance(output, DeltaEmitted):
                self.chars += len(output.delta.text)
            elif isinstance(output, TurnEnded):
                self.ended.set()


class CountingClient:
    """A client of the official SDK that counts updates."""

    def __init__(self) -> None:
        self.updates = 0

    def on_connect(self, conn: Any) -> None:
        return

    async def session_update(self, session_id: str, update: Any, **extra: Any) -> None:
        self.updates += 1


async def measure_ours(directory: str, updates: int, messages: int) -> tuple[float, float]:
    plan = LaunchPlan(
        session_id="s", directory=directory, generation=1, decision=LaunchDecision(start=LaunchMode.CREATE),
        environment={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    sink = CountingSink()
    definition = AgentDefinition(title="Bench", command=("bench",))
    launch = await AcpLaunch.start(ARGV, definition, plan, sink)

    async def cancel() -> None:
        await launch._write(encode_notification("session/cancel", {"sessionId": launch.native_id}))

    async def turn(count: int) -> None:
        sink.ended.clear()
        await launch.send(Prompt(turn_id="t", text=str(count)))
        await sink.ended.wait()

    try:
        found = await rates(turn, cancel, updates, messages)
    finally:
        await launch.stop()
    if not sink.chars:
        raise RuntimeError("no text arrived")
    return found


async def measure_sdk(directory: str, updates: int, messages: int) -> tuple[float, float]:
    client = CountingClient()
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    spawned = acp.spawn_agent_process(cast("acp.Client", client), *ARGV, env=environment, cwd=directory)
    async with spawned as (connection, _):
        await connection.initialize(protocol_version=1)
        session = await connection.new_session(cwd=directory, mcp_servers=[])

        async def cancel() -> None:
            await connection.cancel(session_id=session.session_id)

        async def turn(count: int) -> None:
            block = acp.text_block(str(count))
            before = client.updates
            await connection.prompt(session_id=session.session_id, prompt=[block])
            if client.updates - before != count:
                raise RuntimeError(f"{client.updates - before} of {count} updates arrived")

        return await rates(turn, cancel, updates, messages)


async def rates(
    turn: Turn, cancel: Callable[[], Awaitable[None]], updates: int, messages: int
) -> tuple[float, float]:
    """Return updates received, and notifications sent, per second of processor time."""
    await turn(100)
    begun = time.process_time()
    await turn(updates)
    received = updates / (time.process_time() - begun)
    begun = time.process_time()
    for _ in range(messages):
        await cancel()
    sent = messages / (time.process_time() - begun)
    await turn(0)
    return received, sent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=20_000)
    parser.add_argument("--messages", type=int, default=20_000)
    arguments = parser.parse_args()
    best: dict[str, tuple[float, float]] = {}
    with TemporaryDirectory() as directory:
        for _ in range(ROUNDS):
            for name, measure in (("Farsteer", measure_ours), ("SDK", measure_sdk)):
                found = asyncio.run(measure(directory, arguments.updates, arguments.messages))
                known = best.get(name, (0.0, 0.0))
                best[name] = (max(found[0], known[0]), max(found[1], known[1]))
    for name, (received, sent) in best.items():
        print(f"{name:<10}{received:>10,.0f} updates received/CPU s {sent:>10,.0f} notifications sent/CPU s")
    ours, sdk = best["Farsteer"], best["SDK"]
    print(f"ratio     {ours[0] / sdk[0]:>10.1f}                        {ours[1] / sdk[1]:>10.1f}")


if __name__ == "__main__":
    main()
