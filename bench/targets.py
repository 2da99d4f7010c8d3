"""The performance targets, and whether a run meets them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bench.acp.editors import Editors
from bench.agents.overhead import Overhead
from bench.messages import SESSIONS, Throughput
from bench.results import HAPI, OURS, STOCK, Results
from bench.sessions import Sessions

M = 50
PAGE_MS = 5.0
READY_SECONDS = 1.0
VERSION_SECONDS = 0.150
SESSION_MB = 1.0
WARM_MS = 20.0
COLD_MS = 100.0
OPEN_MS = 50.0
INITIALIZE_MS = 300.0
CHUNK_MS = 2.0
REPLAY = 5
MESSAGE_RATE = 2000
MESSAGE_US = 500.0
ACCEPT_MS = 20.0


@dataclass(frozen=True, slots=True)
class Target:
    claim: str
    ours: str
    other: str
    """The peer's figure or the bound."""
    ratio: float
    """How many times better than the peer or the bound."""
    needed: float

    @property
    def met(self) -> bool:
        return self.ratio >= self.needed


def targets(found: Results) -> Iterator[Target]:
    yield from _burst(found)
    yield from _paced(found)
    if found.history is not None:
        history = found.history
        yield _bound(
            f"a page of 100 of {history.messages:,} messages in under 5 ms at the server (p99)",
            history.hub.p99,
            PAGE_MS,
            "{:.2f} ms",
        )
    if found.sessions is not None:
        yield from _sessions(found.sessions)
    for name, overhead in found.agents.items():
        yield from _agent(name, overhead)
    if found.messages is not None:
        yield from _messages(found.messages)
    if found.editors is not None:
        yield from _editors(found.editors)
    if found.flood is not None:
        ours, sdk = found.flood.ours, found.flood.sdk
        claim = "Droid's events through the adapter: 5x droid-sdk's per CPU second"
        yield Target(claim, f"{ours:,.0f}/s", f"{sdk:,.0f}/s", ours / sdk, 5)
    if OURS in found.starts:
        start = found.starts[OURS]
        claim = "`farsteer up` ready in under 1 s"
        yield _bound(claim, start.ready, READY_SECONDS, "{:.2f} s")
        yield _bound(f"{claim}, in an empty home", start.first, READY_SECONDS, "{:.2f} s")
        if HAPI in found.starts:
            yield _less("idle memory under HAPI's", start.idle, found.starts[HAPI].idle, "{:.0f} MB")
    if found.idle_session is not None:
        claim = "an idle session costs under 1 MB besides its agent"
        yield _bound(claim, max(found.idle_session, 0.001), SESSION_MB, "{:.2f} MB")
    if found.version_seconds is not None:
        claim = "`farsteer --version` under 150 ms"
        yield _bound(claim, found.version_seconds * 1000, VERSION_SECONDS * 1000, "{:.0f} ms")


def _sessions(found: Sessions) -> Iterator[Target]:
    claim = "a prewarmed agent has the first message in under 20 ms from the request"
    yield _bound(claim, found.warm, WARM_MS, "{:.1f} ms")
    claim = "without one Farsteer adds under 100 ms to the agent's own start"
    yield _bound(claim, max(found.overhead, 0.1), COLD_MS, "{:.1f} ms")
    claim = f"opening a session of {found.long:,} messages in under 50 ms at the server (p99)"
    yield _bound(claim, found.opened.p99, OPEN_MS, "{:.2f} ms")
    claim = f"the hub's memory after opening {found.long:,} messages: at most a tenth over that after 1,000"
    yield _bound(claim, found.memory_long, found.memory_short * 1.1, "{:.0f} MB")


def _agent(name: str, found: Overhead) -> Iterator[Target]:
    ours, direct = found.ours, found.direct
    claim = f"{name}: Farsteer adds under 100 ms to the time from the start to the first text"
    yield _bound(claim, max(ours.first_text - direct.first_text, 0.1), COLD_MS, "{:.1f} ms")
    if ours.first_message is not None and direct.first_message is not None:
        claim = (
            f"{name}: a waiting process has its first message in under 20 ms (its confirmation, over direct)"
        )
        yield _bound(claim, max(ours.first_message - direct.first_message, 0.1), WARM_MS, "{:.1f} ms")
    if ours.words is not None and direct.words is not None:
        claim = f"{name}: Farsteer adds under 2 ms to a streamed word (p99)"
        yield _bound(claim, max(ours.words.p99 - direct.words.p99, 0.01), CHUNK_MS, "{:.2f} ms")
    if ours.session_mb is not None:
        claim = f"{name}: a session costs under 1 MB besides its agent"
        yield _bound(claim, max(ours.session_mb, 0.001), SESSION_MB, "{:.2f} MB")


def _messages(found: Throughput) -> Iterator[Target]:
    claim = (
        f"messages that queue are accepted and dispatched: {MESSAGE_RATE:,} a second over {SESSIONS} sessions"
    )
    rate = f"{found.dispatched:,.0f}/s"
    yield Target(claim, rate, f"> {MESSAGE_RATE:,}/s", found.dispatched / MESSAGE_RATE, 1.0)
    claim = f"their 202 comes in under {ACCEPT_MS:g} ms (p50)"
    yield _bound(claim, found.p50, ACCEPT_MS, "{:.1f} ms")
    claim = "as many a second as SQLite alone commits rows one by one on this disk"
    yield Target(claim, rate, f"{found.bare:,.0f}/s", found.dispatched / found.bare, 1.0)
    for where, used in (("hub", found.hub_us), ("runner", found.runner_us)):
        yield _bound(
            f"a message that queues costs the {where} under 500 µs of CPU", used, MESSAGE_US, "{:.0f} µs"
        )


def _editors(found: Editors) -> Iterator[Target]:
    claim = "`farsteer acp` answers `initialize` in under 300 ms from its start"
    yield _bound(claim, found.initialize_ms, INITIALIZE_MS, "{:.0f} ms")
    for how, ours in (("", found.replay), (", joined to a hub", found.joined)):
        claim = f"{found.updates:,} updates replayed to an editor: {REPLAY}x the official Python SDK{how}"
        yield Target(claim, f"{ours:,.0f}/s", f"{found.sdk:,.0f}/s", ours / found.sdk, REPLAY)
    claim = "a chunk takes under 2 ms from the agent's stdout to the editor (p99)"
    yield _bound(claim, found.chunks.p99, CHUNK_MS, "{:.2f} ms")


def _burst(found: Results) -> Iterator[Target]:
    ours = found.burst.get((OURS, M))
    for peer, factor in ((HAPI, 5), (STOCK, 10)):
        theirs = found.burst.get((peer, M))
        if ours is not None and theirs is not None:
            claim = f"CPU per delivery at M={M} in a burst: {factor}x less than {peer}"
            yield _less(claim, ours.cpu_us, theirs.cpu_us, "{:.2f} µs", factor)
    ours, theirs = found.burst.get((OURS, 1)), found.burst.get((HAPI, 1))
    if ours is not None and theirs is not None:
        yield Target(
            f"stored and acknowledged: 10x {HAPI}'s messages per CPU second (M=1)",
            f"{ours.ingest:,.0f}/s",
            f"{theirs.ingest:,.0f}/s",
            ours.ingest / theirs.ingest,
            10,
        )


def _paced(found: Results) -> Iterator[Target]:
    ours, theirs = found.paced.get((OURS, M)), found.paced.get((HAPI, M))
    if ours is not None and theirs is not None:
        yield _less(f"paced p50 at M={M} no worse than {HAPI}'s", ours.p50, theirs.p50, "{:.2f} ms")
        yield _less(f"paced p99 at M={M} no worse than {HAPI}'s", ours.p99, theirs.p99, "{:.2f} ms")


def _less(claim: str, ours: float, theirs: float, form: str, needed: float = 1.0) -> Target:
    return Target(claim, form.format(ours), form.format(theirs), theirs / ours, needed)


def _bound(claim: str, ours: float, bound: float, form: str) -> Target:
    return Target(claim, form.format(ours), "< " + form.format(bound), bound / ours, 1.0)
