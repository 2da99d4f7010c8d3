"""Sessions: time until the agent has a message, time to open a long session, cost of idle sessions."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from bench import measure
from bench.adapter.adapter import ARGV
from bench.history import Timing, fill, timing
from bench.peers.base import clean_environment
from bench.peers.farsteer import TOKEN, Client, Farsteer
from bench.progress import say
from farsteer.core.api import AuthRequest
from farsteer.hub import Hub

PAGE = 50
OPENS = 200
SHORT = 1_000
IDLE_SECONDS = 10.0
DEADLINE = 20.0


@dataclass(frozen=True, slots=True)
class Sessions:
    warm: float
    """Milliseconds from the request to the agent's reading the message, by a process that was there already."""
    cold: float
    """The same, when the process has to be started for it."""
    agent_start: float
    """Milliseconds the agent needs by itself, from its process' start to its being ready."""
    long: int
    """Messages of the long session."""
    opened: Timing
    """A long session's snapshot and last page, inside the hub."""
    memory_short: float
    """MB of the server after a session of 1,000 messages was opened often."""
    memory_long: float
    live: int
    """Sessions that live and rest."""
    session_mb: float
    agent_mb: float
    session_cpu: float
    """Microseconds of the server's CPU that one of them costs in a second."""

    @property
    def overhead(self) -> float:
        """Milliseconds that Farsteer adds to the start of an agent."""
        return max(self.cold - self.agent_start, 0.0)


def measure_sessions(times: int, long: int, live: int) -> Sessions:
    agent_start = _agent_start(times)
    say(f"sessions: the agent alone is ready in {agent_start:.0f} ms")
    with Farsteer() as peer:
        peer.start()
        warm, cold = _first_messages(peer, times)
    say(f"sessions: first message with a warm process {warm:.1f} ms, with none {cold:.0f} ms")
    opened, memory_short, memory_long = _opening(long)
    say(f"sessions: {long:,} messages opened in {opened.p50:.2f} ms, p99 {opened.p99:.2f} ms")
    session_mb, agent_mb, session_cpu = _many(live)
    say(f"sessions: {live} idle ones, each {session_mb:.2f} MB and {session_cpu:.0f} us/s")
    return Sessions(
        warm,
        cold,
        agent_start,
        long,
        opened,
        memory_short,
        memory_long,
        live,
        session_mb,
        agent_mb,
        session_cpu,
    )


def _agent_start(times: int) -> float:
    """Start the agent directly and wait for its first line."""
    taken: list[float] = []
    with Farsteer() as peer:
        opening = {
            "do": "open",
            "session": "bench",
            "state": str(peer.home),
            "start": "create",
            "generation": 1,
        }
        for _ in range(times):
            begin = time.perf_counter()
            process = subprocess.Popen(
                ARGV, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                env=clean_environment(peer.home), cwd=peer.home, start_new_session=True,
            )  # fmt: skip
            assert process.stdin is not None
            assert process.stdout is not None
            with process:
                process.stdin.write(json.dumps({**opening, "mode": "default"}).encode() + b"\n")
                process.stdin.flush()
                if b'"hello"' not in process.stdout.readline():
                    raise RuntimeError("the benchmark agent did not say hello")
                taken.append((time.perf_counter() - begin) * 1000)
                process.stdin.close()
    return measure.median(taken)


def _first_messages(peer: Farsteer, times: int) -> tuple[float, float]:
    client = peer.client()
    session = peer.new_session(client)
    warm: list[float] = []
    cold: list[float] = []
    _arrival(client, session)
    for _ in range(times):
        gone = set(peer.agents())
        for pid in gone:
            psutil.Process(pid).kill()
        _until(lambda gone=gone: set(peer.agents()) - gone)
        # The process is there; give it the time to be ready, which nobody is told.
        time.sleep(1.0)
        warm.append(_arrival(client, session))
        client.post(f"/api/sessions/{session}/stop", {})
        cold.append(_arrival(client, session))
    client.close()
    return measure.median(warm), measure.median(cold)


def _arrival(client: Client, session: str) -> float:
    """Return the milliseconds from the request until the agent has the message."""
    begin = time.monotonic_ns()
    item = client.post(f"/api/sessions/{session}/messages", {"text": "arrived"})["id"]
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline:
        entries: list[dict[str, Any]] = json.loads(client.get(f"/api/sessions/{session}/messages?limit=20"))[
            "messages"
        ]
        contents = [entry["content"] for entry in entries]
        mine = [n for n, content in enumerate(contents) if content.get("itemId") == item]
        ends = [n for n, content in enumerate(contents) if content["kind"] == "turn_end"]
        if mine and ends and ends[-1] > mine[0]:
            told = [c["text"] for c in contents[mine[0] :] if c["kind"] == "agent_message"]
            return (int(told[0]) - begin) / 1e6
        time.sleep(0.005)
    raise RuntimeError("the agent did not answer")


def _opening(long: int) -> tuple[Timing, float, float]:
    memory: dict[int, float] = {}
    taken = Timing(0, 0)
    for messages in (SHORT, long):
        with Farsteer() as peer:
            session, _ = asyncio.run(fill(peer.farsteer_home, messages))
            taken = asyncio.run(_opened(peer.farsteer_home, session))
            peer.start()
            client = peer.client()
            for _ in range(OPENS):
                client.get(f"/api/sessions/{session}")
                client.get(f"/api/sessions/{session}/messages?limit={PAGE}")
            client.close()
            memory[messages] = measure.resident(peer.servers())
    return taken, memory[SHORT], memory[long]


async def _opened(home: Path, session: str) -> Timing:
    hub = await Hub.open(home, TOKEN)
    try:
        caller = hub.tokens.verify((await hub.tokens.exchange(AuthRequest(TOKEN))).token)
        times: list[float] = []
        for _ in range(OPENS):
            begin = time.perf_counter()
            await hub.sessions.get(caller, session)
            await hub.messages.list(caller, session, limit=PAGE)
            times.append((time.perf_counter() - begin) * 1000)
        return timing(times)
    finally:
        await hub.close()


def _many(live: int) -> tuple[float, float, float]:
    with Farsteer() as peer:
        peer.start()
        client = peer.client()
        peer.new_session(client)
        time.sleep(1.0)
        before = measure.resident(peer.servers())
        for _ in range(live):
            peer.new_session(client)
        time.sleep(2.0)
        session_mb = (measure.resident(peer.servers()) - before) / live
        agent_mb = sum(map(_own_memory, peer.agents())) / (live + 1)
        used = measure.cpu_seconds(peer.servers())
        time.sleep(IDLE_SECONDS)
        cpu = (measure.cpu_seconds(peer.servers()) - used) / IDLE_SECONDS / live * 1e6
        client.close()
    return session_mb, agent_mb, cpu


def _own_memory(pid: int) -> float:
    """Return the MB that are not shared with other agents."""
    return psutil.Process(pid).memory_full_info().uss / 1e6


def _until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError("it never happened")
        time.sleep(0.01)
