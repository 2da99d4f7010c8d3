"""Start-up time and idle memory."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench import measure
from bench.peers.base import Peer, clean_environment
from bench.peers.farsteer import Farsteer
from bench.progress import say

IDLE_SECONDS = 3.0
WARM_SESSIONS = 5


@dataclass(frozen=True, slots=True)
class Start:
    ready: float
    """Seconds from the start of the process to its ready line, in a home it has seen before."""
    first: float
    """The same, in an empty home."""
    idle: float
    """Resident MB, some seconds later."""


def starts(peers: dict[str, Callable[[], Peer]], times: int) -> dict[str, Start]:
    """Start each peer in turn, several times."""
    firsts: dict[str, list[float]] = {name: [] for name in peers}
    readies: dict[str, list[float]] = {name: [] for name in peers}
    idles: dict[str, list[float]] = {name: [] for name in peers}
    for _ in range(times):
        for name, make in peers.items():
            with make() as peer:
                firsts[name].append(peer.start())
                peer.stop()
                readies[name].append(peer.start())
                time.sleep(IDLE_SECONDS)
                idles[name].append(measure.resident([*peer.servers(), *peer.agents()]))
    found = {
        name: Start(measure.median(readies[name]), measure.median(firsts[name]), measure.median(idles[name]))
        for name in peers
    }
    for name, start in found.items():
        say(f"start {name}: {start.ready:.2f} s, empty home {start.first:.2f} s, idle {start.idle:.0f} MB")
    return found


def version_seconds(times: int) -> float:
    """Run `farsteer --version` as a shell does."""
    program = str(Path(sys.executable).with_name("farsteer"))
    environment = clean_environment(Path.home())
    taken: list[float] = []
    for _ in range(times):
        begin = time.perf_counter()
        subprocess.run(
            [program, "--version"],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            timeout=30,
            start_new_session=True,
        )
        taken.append(time.perf_counter() - begin)
    found = measure.median(taken)
    say(f"farsteer --version: {found * 1000:.0f} ms")
    return found


def idle_session(sessions: int) -> float:
    """Return the MB that one more idle session costs the server, without the agent's process."""
    with Farsteer() as peer:
        peer.start()
        for _ in range(WARM_SESSIONS):
            peer.session()
        time.sleep(1.0)
        before = measure.resident(peer.servers())
        for _ in range(sessions):
            peer.session()
        time.sleep(1.0)
        found = (measure.resident(peer.servers()) - before) / sessions
    say(f"an idle session: {found:.3f} MB")
    return found
