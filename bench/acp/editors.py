"""Measures what an editor waits for."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import measure, wire
from bench.acp.client import Client
from bench.history import Timing, fill, timing
from bench.peers.base import clean_environment
from bench.peers.farsteer import TOKEN, Farsteer
from bench.progress import say

ROOT = Path(__file__).parents[2]
RATE = 200.0
"""Chunks per second: more than models stream."""


@dataclass(frozen=True, slots=True)
class Editors:
    initialize_ms: float
    """From the start of the process to the response to `initialize`."""
    updates: int
    replay: float
    """Updates per second that `session/load` sends, with a hub in the same process."""
    joined: float
    """The same, connected to a running hub."""
    sdk: float
    """The same, for an agent built on the official Python SDK that has the history in memory."""
    sdk_version: str
    chunks: Timing
    """From the agent writing a chunk to Farsteer having written it."""


def measure_editors(times: int, updates: int, rounds: int, seconds: float) -> Editors:
    initialize_ms = _measure_initialize(times)
    say(f"acp: initialize answered {initialize_ms:.0f} ms after the start of the process")
    replay, joined, sdk = _measure_replays(updates, rounds)
    say(f"acp: {updates:,} updates replayed at {replay:,.0f}/s, joined {joined:,.0f}/s, SDK {sdk:,.0f}/s")
    chunks = _measure_chunks(int(seconds * RATE))
    say(f"acp: a chunk passes in {chunks.p50:.2f} ms, p99 {chunks.p99:.2f} ms")
    return Editors(initialize_ms, updates, replay, joined, sdk, _sdk_version(), chunks)


def _program() -> str:
    return str(Path(sys.executable).with_name("farsteer"))


def _initialize(client: Client) -> None:
    client.call("initialize", {"protocolVersion": 1, "clientCapabilities": {}})


def _measure_initialize(times: int) -> float:
    taken: list[float] = []
    with Farsteer() as peer:
        for _ in range(times):
            with Client([_program(), "acp"], clean_environment(peer.home), peer.home) as client:
                _initialize(client)
                taken.append((time.perf_counter() - client.started) * 1000)
    return measure.median(taken)


def _measure_replays(updates: int, rounds: int) -> tuple[float, float, float]:
    found: dict[str, list[float]] = {"alone": [], "joined": [], "sdk": []}
    with Farsteer() as peer:
        session, _ = asyncio.run(fill(peer.farsteer_home, updates))
        texts = peer.home / "texts.jsonl"
        texts.write_text("".join(json.dumps(wire.text(seq)) + "\n" for seq in range(1, updates + 1)))
        ours = [_program(), "acp", "--home", str(peer.farsteer_home)]
        theirs = [sys.executable, "-m", "bench.acp.peer", str(texts)]
        for _ in range(rounds):
            found["alone"].append(_replay(ours, peer.home, session, updates))
            found["sdk"].append(_replay(theirs, peer.home, session, updates))
        peer.start()
        for _ in range(rounds):
            found["joined"].append(_replay(ours, peer.home, session, updates))
    return measure.median(found["alone"]), measure.median(found["joined"]), measure.median(found["sdk"])


def _replay(argv: list[str], home: Path, session: str, updates: int) -> float:
    environment = {**clean_environment(home), "PYTHONPATH": str(ROOT), "CLI_API_TOKEN": TOKEN}
    with Client(argv, environment, home) as client:
        _initialize(client)
        if argv[1] == "acp":
            client.call("session/list", {})  # opens the hub, as an editor does before a session is chosen
        begin = time.perf_counter()
        client.call("session/load", {"sessionId": session, "cwd": "/", "mcpServers": []})
        took = time.perf_counter() - begin
        if client.updates != updates:
            raise RuntimeError(f"{client.updates} of {updates} updates were replayed")
        return updates / took


def _measure_chunks(count: int) -> Timing:
    """The agent writes the time into each chunk. Both processes read the same clock."""
    taken: list[float] = []

    def record(line: bytes) -> None:
        now = time.monotonic_ns()
        update: dict[str, Any] = json.loads(line)["params"]["update"]
        if update["sessionUpdate"] == "agent_message_chunk":
            taken.extend((now - int(sent_at)) / 1e6 for sent_at in update["content"]["text"].split())

    with Farsteer() as peer:
        environment = {**peer.environment(), "FARSTEER_HOME": str(peer.farsteer_home)}
        with Client([_program(), "acp", "--agent", "bench"], environment, peer.home) as client:
            _initialize(client)
            new = client.call("session/new", {"cwd": str(peer.work), "mcpServers": []})
            for number in (20, count):
                taken.clear()
                prompt = [{"type": "text", "text": f"chunks {number} {RATE}"}]
                client.call("session/prompt", {"sessionId": new["sessionId"], "prompt": prompt}, record)
    if len(taken) != count:
        raise RuntimeError(f"{len(taken)} of {count} chunks arrived")
    return timing(taken)


def _sdk_version() -> str:
    from importlib.metadata import version

    return version("agent-client-protocol")
