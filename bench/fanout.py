"""One session, 300-byte messages, M subscribers: CPU cost and latency of a delivery."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from bench import measure, scale
from bench.peers.base import Peer
from bench.progress import say
from bench.reader import Job
from bench.scale import Scale
from bench.subscribers import joined

SETTLE = 0.3
"""Seconds after the last delivery that still count, for acknowledgements and garbage collection."""


@dataclass(frozen=True, slots=True)
class Run:
    messages: int
    subscribers: int
    server_cpu: float
    agent_cpu: float
    seconds: float
    p50: float
    p99: float
    missing: int
    wrong: int

    @property
    def deliveries(self) -> int:
        return self.messages * self.subscribers


@dataclass(slots=True)
class Series:
    """The runs of one peer with one number of subscribers. Figures are medians."""

    runs: list[Run] = field(default_factory=list)

    @property
    def cpu_us(self) -> float:
        """CPU microseconds of the server per delivery."""
        return measure.median([run.server_cpu * 1e6 / run.deliveries for run in self.runs])

    @property
    def agent_us(self) -> float:
        return measure.median([run.agent_cpu * 1e6 / run.deliveries for run in self.runs])

    @property
    def per_second(self) -> float:
        return measure.median([run.deliveries / run.seconds for run in self.runs])

    @property
    def ingest(self) -> float:
        """Messages stored per CPU second of the server."""
        return measure.median([run.messages / run.server_cpu for run in self.runs])

    @property
    def p50(self) -> float:
        return measure.median([run.p50 for run in self.runs])

    @property
    def p99(self) -> float:
        return measure.median([run.p99 for run in self.runs])

    @property
    def missing(self) -> int:
        return sum(run.missing for run in self.runs)

    @property
    def wrong(self) -> int:
        return sum(run.wrong for run in self.runs)


Table = dict[tuple[str, int], Series]
"""By peer and number of subscribers."""


def run(peer: Peer, subscribers: int, messages: int, rate: float | None = None) -> Run:
    session = peer.session()
    try:
        job = Job(
            session.port, session.steps, subscribers, messages, scale.RUN_SECONDS, latencies=rate is not None
        )
        with joined(job) as readers:
            servers, agents = peer.servers(), peer.agents()
            server, agent = measure.cpu_seconds(servers), measure.cpu_seconds(agents)
            begin = time.time_ns()
            session.emit(messages, rate)
            tally = readers.tally()
            time.sleep(SETTLE)
            server = measure.cpu_seconds(servers) - server
            agent = measure.cpu_seconds(agents) - agent
    finally:
        session.close()
    return Run(
        messages=messages,
        subscribers=subscribers,
        server_cpu=server,
        agent_cpu=agent,
        seconds=(tally.last - begin) / 1e9,
        p50=tally.p50,
        p99=tally.p99,
        missing=subscribers * messages - tally.delivered,
        wrong=tally.wrong,
    )


def warm_up(peers: Sequence[Peer]) -> None:
    for peer in peers:
        run(peer, 1, scale.WARM_UP)


def burst(peers: Sequence[Peer], size: Scale) -> Table:
    """Run as fast as possible. The peers take turns, so that a busy moment of the machine affects all of them."""
    table: Table = {}
    for number in range(size.rounds):
        for subscribers, messages in size.burst.items():
            for peer in _turn(peers, number):
                done = run(peer, subscribers, messages)
                table.setdefault((peer.name, subscribers), Series()).runs.append(done)
                _tell("burst", peer, done)
    return table


def paced(peers: Sequence[Peer], size: Scale) -> Table:
    """Run at `RATE` messages a second."""
    table: Table = {}
    for number in range(size.paced_rounds):
        for subscribers in size.burst:
            for peer in _turn(peers, number):
                done = run(peer, subscribers, int(scale.RATE * size.paced_seconds), scale.RATE)
                table.setdefault((peer.name, subscribers), Series()).runs.append(done)
                _tell("paced", peer, done)
    return table


def _turn(peers: Sequence[Peer], number: int) -> list[Peer]:
    first = number % len(peers)
    return [*peers[first:], *peers[:first]]


def _tell(kind: str, peer: Peer, run: Run) -> None:
    cpu = run.server_cpu * 1e6 / run.deliveries
    line = f"{kind} {peer.name:<15} M={run.subscribers:<3} {cpu:7.1f} us/delivery"
    line += f" {run.deliveries / run.seconds:9,.0f}/s"
    if run.p50:
        line += f"  p50 {run.p50:.1f} ms  p99 {run.p99:.1f} ms"
    if run.missing or run.wrong:
        line += f"  MISSING {run.missing}, WRONG ORDER {run.wrong}"
    say(line)
