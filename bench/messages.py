"""Messages that queue: how many per second a hub accepts and passes on to its runner, and what they cost.

Hub and runner are processes of their own (`farsteer hub` and `farsteer runner`), as on two machines, and share the
cores of this one with their client. Each session is in a turn that does not end, so that messages are accepted, stored,
sent to the runner, queued and confirmed, and start nothing.

The client is lean, so that it is not what is measured: it writes requests that were made before to connections that
stay open, and looks only for the status and the end of each answer. What it costs is in the report.
"""

from __future__ import annotations

import json
import selectors
import shutil
import socket
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from bench import measure, wire
from bench.child import Child
from bench.peers.base import clean_environment, free_port
from bench.peers.farsteer import TOKEN, Client
from bench.progress import say

SESSIONS = 20
EACH = 95
"""Messages of a round to each session: a queue has room for 100."""
ALONE = 60
DEADLINE = 60.0
TEXT = "12345678"
_ROW = b"x" * 300
_BARE_SECONDS = 1.0
_SETTLE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Throughput:
    messages: int
    """Of one round."""
    accepted: float
    """Answered with 202, per second."""
    dispatched: float
    """Confirmed by the runner, per second."""
    p50: float
    """Milliseconds until the 202, with all sessions busy."""
    p99: float
    alone_p50: float
    """The same with one request at a time."""
    hub_us: float
    """CPU time per message."""
    runner_us: float
    client_us: float
    bare: float
    """Commits per second of one row each, by SQLite alone on the same disk."""
    disk: float
    """Bytes by which both databases grow per message of 8 bytes."""


class Deployment:
    """A hub, a runner, and sessions that are busy."""

    def __init__(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="farsteer-bench-"))
        self.port = free_port()
        work = self.home / "work"
        work.mkdir()
        environment = {**clean_environment(self.home), "CLI_API_TOKEN": TOKEN}
        program = str(Path(sys.executable).with_name("farsteer"))
        hub = [program, "hub", "--home", str(self.home / "hub"), "--port", str(self.port)]
        url = f"http://{wire.HOST}:{self.port}"
        runner = [program, "runner", "--home", str(self.home / "runner"), "--hub", url]
        self.hub = Child(hub, environment, self.home, "http://")
        self.hub.ready()
        self.runner = Child(runner, environment, self.home, "is connected")
        self.runner.ready()
        self.client = Client(self.port)
        machine = json.loads(self.client.get("/api/machines"))["machines"][0]["id"]
        asked = {"machineId": machine, "directory": str(work), "agent": "demo"}
        self.sessions: list[str] = [
            self.client.post("/api/sessions", asked)["sessionId"] for _ in range(SESSIONS)
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.client.close()
            self.runner.stop()
            self.hub.stop()
        finally:
            shutil.rmtree(self.home, ignore_errors=True)

    def occupy(self) -> None:
        """Empty the queues and begin a turn in each session that does not end."""
        for session in self.sessions:
            self.client.post(f"/api/sessions/{session}/stop", {})
            self.client.post(f"/api/sessions/{session}/messages", {"text": "hang"})
        _until(lambda: not self.waiting("accepted", "queued", "handed_over"))

    def waiting(self, *states: str) -> int:
        """Return how many messages have one of these states, without asking the hub."""
        marks = ", ".join("?" * len(states))
        with closing(_open(self.home / "hub" / "hub.db")) as db:
            return db.execute(f"SELECT count(*) FROM items WHERE state IN ({marks})", states).fetchone()[0]  # noqa: S608

    def database_bytes(self) -> int:
        """Return the size of both databases, with everything written back."""
        size = 0
        for path in (self.home / "hub" / "hub.db", self.home / "runner" / "runner.db"):
            with closing(_open(path)) as db:
                pages, free, page_size = (
                    db.execute(f"PRAGMA {name}").fetchone()[0]
                    for name in ("page_count", "freelist_count", "page_size")
                )
            size += (pages - free) * page_size
        return size


def measure_messages(rounds: int) -> Throughput:
    found: list[Throughput] = []
    with Deployment() as deployment:
        for _ in range(rounds):
            deployment.occupy()
            found.append(_round(deployment))
            one = found[-1]
            say(
                f"messages: {one.accepted:,.0f}/s accepted, {one.dispatched:,.0f}/s dispatched,"
                f" 202 in {one.p50:.0f} ms; CPU: hub {one.hub_us:.0f} us, runner {one.runner_us:.0f} us,"
                f" client {one.client_us:.0f} us"
            )
    return sorted(found, key=lambda one: one.dispatched)[len(found) // 2]


def _round(deployment: Deployment) -> Throughput:
    size = deployment.database_bytes()
    alone = [taken for session in deployment.sessions[:1] for taken in _send(deployment, [session], ALONE)]
    deployment.occupy()
    time.sleep(_SETTLE_SECONDS)
    size = deployment.database_bytes()
    cpu = [measure.cpu_seconds([child.pid]) for child in (deployment.hub, deployment.runner)]
    begin, client = time.perf_counter(), time.process_time()
    times = _send(deployment, deployment.sessions, EACH)
    accepted, client = time.perf_counter() - begin, time.process_time() - client
    _until(lambda: not deployment.waiting("accepted"))
    dispatched = time.perf_counter() - begin
    used = [
        measure.cpu_seconds([child.pid]) - before
        for child, before in zip((deployment.hub, deployment.runner), cpu, strict=True)
    ]
    # The runner deletes what was confirmed a little later.
    time.sleep(_SETTLE_SECONDS)
    count = len(times)
    return Throughput(
        messages=count,
        accepted=count / accepted,
        dispatched=count / dispatched,
        p50=measure.percentile(times, 0.5) * 1000,
        p99=measure.percentile(times, 0.99) * 1000,
        alone_p50=measure.percentile(alone, 0.5) * 1000,
        hub_us=used[0] / count * 1e6,
        runner_us=used[1] / count * 1e6,
        client_us=client / count * 1e6,
        bare=_bare_commits(deployment.home),
        disk=max(deployment.database_bytes() - size, 0) / count,
    )


class _Sender:
    """Sends messages to one session, one after the other, on one connection."""

    def __init__(self, deployment: Deployment, session: str, count: int) -> None:
        body = json.dumps({"text": TEXT}).encode()
        self._request = (
            f"POST /api/sessions/{session}/messages HTTP/1.1\r\nHost: {wire.HOST}:{deployment.port}\r\n"
            f"Authorization: Bearer {deployment.client.jwt}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        ).encode() + body
        self.socket = socket.create_connection((wire.HOST, deployment.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._left = count
        self._begin = 0.0
        self._received = b""

    def send(self) -> bool:
        """Send the next message. Returns False if there is none."""
        if not self._left:
            return False
        self._left -= 1
        self._begin = time.perf_counter()
        self.socket.sendall(self._request)
        return True

    def receive(self) -> float | None:
        """Read what has arrived. Returns the seconds that the answer took, if it is complete."""
        self._received += self.socket.recv(65536)
        head, found, body = self._received.partition(b"\r\n\r\n")
        if not found or not body.endswith(b"}"):
            return None
        if not head.startswith(b"HTTP/1.1 202"):
            raise RuntimeError(f"a message was answered with {self._received[:500]!r}")
        self._received = b""
        return time.perf_counter() - self._begin


def _send(deployment: Deployment, sessions: Sequence[str], count: int) -> list[float]:
    """Send `count` messages to each session, on a connection of its own. Returns how long each answer took."""
    times: list[float] = []
    with selectors.DefaultSelector() as selector:
        for session in sessions:
            sender = _Sender(deployment, session, count)
            selector.register(sender.socket, selectors.EVENT_READ, sender)
            sender.send()
        while selector.get_map():
            for sender in _ready(selector):
                taken = sender.receive()
                if taken is None:
                    continue
                times.append(taken)
                if not sender.send():
                    selector.unregister(sender.socket)
                    sender.socket.close()
    return times


def _ready(selector: selectors.BaseSelector) -> Iterator[_Sender]:
    ready = selector.select(DEADLINE)
    if not ready:
        raise RuntimeError("the hub does not answer")
    for key, _ in ready:
        yield key.data


def _bare_commits(home: Path) -> float:
    """Return how many rows per second SQLite stores here, each in a synchronous commit of its own."""
    count = 0
    with closing(sqlite3.connect(home / "bare.db", isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("CREATE TABLE IF NOT EXISTS t (n INTEGER PRIMARY KEY, body BLOB)")
        begin = time.perf_counter()
        while time.perf_counter() - begin < _BARE_SECONDS:
            db.execute("INSERT INTO t (body) VALUES (?)", (_ROW,))
            count += 1
        return count / (time.perf_counter() - begin)


def _open(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError("messages were not dispatched")
        time.sleep(0.005)
