"""A page of 100 messages from the middle of a very long session."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import msgspec

from bench import measure, wire
from bench.peers.farsteer import TOKEN, Farsteer
from bench.progress import say
from farsteer.core.api import AuthRequest
from farsteer.core.events import AgentMessage, Entry, Role, SessionStatus
from farsteer.core.ids import DEFAULT_NAMESPACE
from farsteer.core.session import SessionSpec, SessionState
from farsteer.core.wire import encode
from farsteer.hub import Hub
from farsteer.hub.feed import Feed
from farsteer.hub.store.sqlite.store import SqliteStore
from farsteer.link.messages import EncodedEntry
from farsteer.storage.home import prepare_home

BATCH = 1000
PAGE = 100
SAMPLES = 300


@dataclass(frozen=True, slots=True)
class Timing:
    """Milliseconds."""

    p50: float
    p99: float


@dataclass(frozen=True, slots=True)
class History:
    messages: int
    stored_per_second: float
    """While the session was made: batches of 1000, committed one after the other."""
    hub: Timing
    """From the hub's being asked to the encoded page."""
    http: Timing
    """From the request to the last byte of the answer, by a client on loopback."""


def measure_history(messages: int) -> History:
    with Farsteer() as peer:
        session, rate = asyncio.run(fill(peer.farsteer_home, messages))
        say(f"history: {messages:,} messages stored, {rate:,.0f}/s")
        inside = asyncio.run(_inside(peer.farsteer_home, session, messages))
        say(f"history: in the hub p50 {inside.p50:.2f} ms, p99 {inside.p99:.2f} ms")
        peer.start()
        http = _outside(peer, session, messages)
        say(f"history: over HTTP p50 {http.p50:.2f} ms, p99 {http.p99:.2f} ms")
    return History(messages, rate, inside, http)


async def fill(home: Path, messages: int) -> tuple[str, float]:
    """Create a session with this many messages through the store."""
    store = await SqliteStore.open(prepare_home(home) / "hub.db", Feed())
    try:
        spec = SessionSpec(id=str(uuid4()), machine_id=str(uuid4()), directory="/", agent="demo")
        state = SessionState(id=spec.id, agent="demo", directory="/", status=SessionStatus.IDLE)
        await store.begin_session(DEFAULT_NAMESPACE, spec)
        await store.finish_session(spec.id, state)
        begin = time.perf_counter()
        for first in range(1, messages + 1, BATCH):
            last = min(first + BATCH, messages + 1) - 1
            items = [_item(seq) for seq in range(first, last + 1)]
            after = msgspec.structs.replace(state, seq=last)
            added = await store.append_entries(
                DEFAULT_NAMESPACE, spec.machine_id, spec.id, items, after, link_id=1
            )
            assert (await added).last_seq == last
        return spec.id, messages / (time.perf_counter() - begin)
    finally:
        await store.close()


def _item(seq: int) -> EncodedEntry:
    content = AgentMessage(message_id=f"m1.{seq}", text=wire.text(seq))
    entry = Entry(id=str(uuid4()), seq=seq, role=Role.AGENT, created_at=1_794_796_202_376, content=content)
    return EncodedEntry(seq, "agent_message", msgspec.Raw(encode(entry)))


async def _inside(home: Path, session: str, messages: int) -> Timing:
    hub = await Hub.open(home, TOKEN)
    try:
        caller = hub.tokens.verify((await hub.tokens.exchange(AuthRequest(TOKEN))).token)
        times: list[float] = []
        for before in _places(messages):
            begin = time.perf_counter()
            answer = await hub.messages.list(caller, session, limit=PAGE, before_seq=before, after_seq=None)
            times.append((time.perf_counter() - begin) * 1000)
            _check(answer)
        return timing(times)
    finally:
        await hub.close()


def _outside(peer: Farsteer, session: str, messages: int) -> Timing:
    client = peer.client()
    times: list[float] = []
    for before in _places(messages):
        path = f"/api/sessions/{session}/messages?limit={PAGE}&beforeSeq={before}"
        begin = time.perf_counter()
        answer = client.get(path)
        times.append((time.perf_counter() - begin) * 1000)
        _check(answer)
    client.close()
    return timing(times)


def _places(messages: int) -> list[int]:
    """Return where pages end: at the newest message and at random places, the same in every run."""
    chance = random.Random(1)
    return [messages + 1, *(chance.randint(PAGE + 1, messages) for _ in range(SAMPLES))]


def _check(answer: bytes) -> None:
    count = answer.count(b'"agent_message"')
    if count != PAGE:
        raise RuntimeError(f"a page of {PAGE} has {count} messages: {answer[:300]!r}")


def timing(times: list[float]) -> Timing:
    return Timing(measure.percentile(times, 0.5), measure.percentile(times, 0.99))
