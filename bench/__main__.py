"""`python -m bench`: measures, prints the report and writes it to bench/results.md."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from bench import fanout, measure, report, startup
from bench.acp.editors import measure_editors
from bench.agents.overhead import measure_overhead
from bench.droid.flood import measure_flood
from bench.history import measure_history
from bench.machine import Neighbours
from bench.messages import measure_messages
from bench.peers.base import Peer, Unavailable
from bench.peers.farsteer import Farsteer
from bench.peers.hapi import Hapi
from bench.peers.stock import Stock
from bench.progress import say
from bench.results import HAPI, OURS, SDK, STOCK, Results
from bench.scale import FULL, QUICK, Scale
from bench.sessions import measure_sessions
from bench.targets import targets

PARTS = (
    "burst",
    "paced",
    "history",
    "startup",
    "memory",
    "version",
    "droid",
    "sessions",
    "agents",
    "acp",
    "messages",
)
VERSION_TIMES = 15


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="fewer rounds, a shorter history: under 2 minutes"
    )
    parser.add_argument(
        "--only", metavar="PART", choices=PARTS, action="append", help=f"one of {', '.join(PARTS)}"
    )
    parser.add_argument("--without", metavar="PEER", choices=(HAPI, STOCK), action="append", default=[])
    arguments = parser.parse_args(argv)
    size = QUICK if arguments.quick else FULL
    neighbours = Neighbours()
    found = run(size, arguments.only or PARTS, arguments.without)
    whole = size is FULL and not arguments.only and not arguments.without
    page = report.render(found, size, "make bench" if whole else "python -m bench", neighbours.share())
    print(page)
    if whole:
        report.PAGE.write_text(page)
        say(f"written to {report.PAGE.relative_to(report.PAGE.parents[1])}")
    missed = [target for target in targets(found) if not target.met]
    for target in missed:
        say(f"NOT met: {target.claim}: {target.ours} against {target.other}")
    return 0


def run(size: Scale, parts: Sequence[str], without: Sequence[str]) -> Results:
    found = Results()
    makers: dict[str, Callable[[], Peer]] = {OURS: Farsteer, HAPI: Hapi, STOCK: Stock}
    for name in without:
        del makers[name]
    for name, make in [*makers.items()]:
        try:
            with make() as peer:
                found.versions[name] = peer.version
        except Unavailable as error:
            say(f"skipping {name}: {error}")
            found.skipped[name] = str(error)
            del makers[name]
    if "version" in parts:
        found.version_seconds = startup.version_seconds(VERSION_TIMES)
    if "startup" in parts:
        started = {name: makers[name] for name in (OURS, HAPI) if name in makers}
        found.starts = startup.starts(started, size.starts)
    if "memory" in parts:
        found.idle_session = startup.idle_session(size.sessions)
    if "history" in parts:
        found.history = measure_history(size.history)
    if "sessions" in parts:
        found.sessions = measure_sessions(size.first_messages, size.opened, size.live)
    if "agents" in parts:
        try:
            found.agents = measure_overhead(size, with_hapi=HAPI in makers)
        except Unavailable as error:
            say(f"skipping the real agents: {error}")
            found.skipped["real agents"] = str(error)
    if "acp" in parts:
        found.editors = measure_editors(size.initializations, size.replayed, size.rounds, size.chunk_seconds)
    if "messages" in parts:
        found.messages = measure_messages(size.rounds)
    if "droid" in parts:
        try:
            found.flood = measure_flood(size.flood, size.rounds)
        except Unavailable as error:
            say(f"skipping {SDK}: {error}")
            found.skipped[SDK] = str(error)
    if "burst" in parts or "paced" in parts:
        _fan_out(found, size, parts, list(makers.values()))
    return found


def _fan_out(found: Results, size: Scale, parts: Sequence[str], makers: Sequence[Callable[[], Peer]]) -> None:
    with ExitStack() as running:
        peers = [running.enter_context(make()) for make in makers]
        for peer in peers:
            peer.start()
        fanout.warm_up(peers)
        if "burst" in parts:
            found.burst = fanout.burst(peers, size)
        if "paced" in parts:
            found.paced = fanout.paced(peers, size)
        found.loaded = {peer.name: measure.resident(peer.servers()) for peer in peers}


if __name__ == "__main__":
    sys.exit(main())
