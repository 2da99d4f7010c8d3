"""The results as a page of Markdown."""

from __future__ import annotations

import datetime as dt
import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from bench.agents.overhead import Figures
from bench.fanout import Series, Table
from bench.history import Timing
from bench.machine import describe
from bench.messages import SESSIONS
from bench.results import HAPI, OURS, STOCK, Results
from bench.scale import Scale
from bench.targets import targets

PAGE = Path(__file__).with_name("results.md")
_PEERS = (OURS, HAPI, STOCK)
_BUSY = 0.1
_READING = """\
- All subscribers are one process that does the same few operations for every peer, checks the order of every delivery
  and is not counted. Farsteer and python-socketio are read over websockets, HAPI over its SSE.
- Farsteer's figure is hub *and* runner in one process: reading the agent, the hub's store with a commit to the disk
  (synchronous=FULL) before anybody hears of a message, the acknowledgement, the runner's journal and the events of the
  turn around the messages. HAPI's is its hub alone, fed by a stand-in for its wrapper process; it stores with
  synchronous=NORMAL, which waits for no disk, and acknowledges nothing. python-socketio only broadcasts.
- A burst is where coalescing pays: many events leave in one write per client. At 100 messages a second every event is
  a write of its own to each client for everybody, and the ratios are smaller.
- Client, agent and server share the machine's cores, so delivered/s is a floor. Memory is resident memory."""

_AGENTS = """\
The real CLIs on the scripted model. In each round every way takes its turn, each in a home of its own. The start is
the request that creates a session, or the start of the process. HAPI takes the prompt in a second request, and starts
Claude Code only for it. `directly` is a client of a few lines with the flags that every driver needs; Farsteer's own
flags, such as the hook that passes a session's source on, cost the CLI itself some time, which the last column shows.
A confirmation is the CLI's own, and Farsteer's client hears of it after it is stored. A later message goes to an agent
that has answered before. HAPI's text comes in whole blocks. Memory: what Farsteer's server
grows by; what HAPI's processes for the session do not share with others, without its hub and runner."""


def render(found: Results, size: Scale, command: str, others: float) -> str:
    return "\n".join(_lines(found, size, command, others)) + "\n"


def _lines(found: Results, size: Scale, command: str, others: float) -> Iterator[str]:
    yield "# Speed, measured side by side"
    yield ""
    yield f"Made by `{command}`. Do not edit: the next run replaces it."
    yield ""
    yield f"- when: {dt.datetime.now(dt.UTC):%Y-%m-%d %H:%M} UTC"
    yield f"- machine: {describe()}; other programs took {others:.0%} of it during the run"
    if others > _BUSY:
        yield "- **The machine was busy**: latencies and delivered/s are worse than on a quiet one, for everybody."
    versions = ", ".join(f"{name} {version}" for name, version in found.versions.items())
    yield f"- versions: {versions}, Python {platform.python_version()}"
    for peer, reason in found.skipped.items():
        yield f"- **{peer} was not measured**: {reason}"
    yield ""
    yield from _targets(found)
    yield from _burst(found)
    yield from _paced(found)
    yield from _rest(found)
    yield from _sessions(found)
    yield from _agents(found)
    yield from _messages(found)
    yield from _editors(found)
    yield from _flood(found)
    yield from _reading(found, size)


def _targets(found: Results) -> Iterator[str]:
    yield "## Targets"
    yield ""
    rows = [
        (
            target.claim,
            target.ours,
            target.other,
            f"{target.ratio:.1f}x",
            "met" if target.met else "**NOT met**",
        )
        for target in targets(found)
    ]
    yield from _table(("target", "Farsteer", "peer or bound", "better by", ""), rows)


def _burst(found: Results) -> Iterator[str]:
    if not found.burst:
        return
    yield "## Burst"
    yield ""
    yield "One session, messages with a text of 300 bytes, as fast as it goes, every message stored (python-socketio"
    yield "stores nothing). CPU is the server's user and system time for one delivery to one subscriber."
    yield ""
    rows: list[Sequence[str]] = []
    for subscribers in _subscribers(found.burst):
        row = [str(subscribers)]
        ours = found.burst.get((OURS, subscribers))
        for peer in _present(found.burst):
            theirs = found.burst[peer, subscribers]
            ratio = "" if ours is None or peer == OURS else f" ({theirs.cpu_us / ours.cpu_us:.1f}x)"
            row.append(f"{_number(theirs.cpu_us)}{ratio}")
            row.append(f"{theirs.per_second:,.0f}{_lost(theirs)}")
        rows.append(row)
    head = [text for peer in _present(found.burst) for text in (f"{peer}: CPU µs", "delivered/s")]
    yield from _table(("M", *head), rows)
    one = {peer: found.burst[peer, 1] for peer in _present(found.burst) if (peer, 1) in found.burst}
    if one:
        yield "The same at M=1, seen as messages taken in:"
        yield ""
        rows = [
            (
                peer,
                f"{series.ingest:,.0f}",
                f"{1e6 / series.ingest:.0f}",
                "no" if peer == STOCK else "yes, SQLite FULL" if peer == OURS else "yes, SQLite NORMAL",
                "yes, after the commit" if peer == OURS else "no",
            )
            for peer, series in one.items()
        ]
        head = ("", "messages per CPU second", "CPU µs per message", "stored", "acknowledged")
        yield from _table(head, rows)
        if OURS in one:
            yield f"The agent's own process, not counted above, used {one[OURS].agent_us:.0f} µs per message."
            yield ""


def _paced(found: Results) -> Iterator[str]:
    if not found.paced:
        return
    yield "## Paced: 100 messages a second"
    yield ""
    rows: list[Sequence[str]] = []
    for subscribers in _subscribers(found.paced):
        row = [str(subscribers)]
        for peer in _present(found.paced):
            series = found.paced[peer, subscribers]
            row += [_number(series.cpu_us), f"{series.p50:.1f} / {series.p99:.1f}{_lost(series)}"]
        rows.append(row)
    head = [text for peer in _present(found.paced) for text in (f"{peer}: CPU µs", "p50 / p99 ms")]
    yield from _table(("M", *head), rows)
    yield "From the moment the agent (or its stand-in) should write to the subscriber's reading."
    yield ""


def _editors(found: Results) -> Iterator[str]:
    editors = found.editors
    if editors is None:
        return
    yield "## Editors"
    yield ""
    rows = [
        ("`farsteer acp`, from its start to the answer to `initialize`", f"{editors.initialize_ms:.0f} ms"),
        ("updates replayed by `session/load`, with a hub of its own", f"{editors.replay:,.0f}/s"),
        ("the same, joined to a hub over HTTP", f"{editors.joined:,.0f}/s"),
        (
            f"the same by an agent on the Python SDK {editors.sdk_version}, from memory",
            f"{editors.sdk:,.0f}/s",
        ),
        ("a chunk, from the agent's stdout to ours, p50", f"{editors.chunks.p50:.2f} ms"),
        ("the same, p99", f"{editors.chunks.p99:.2f} ms"),
    ]
    yield from _table(("", ""), rows)


def _sessions(found: Results) -> Iterator[str]:
    sessions = found.sessions
    if sessions is None:
        return
    yield "## Sessions"
    yield ""
    rows = [
        ("first message, to a process that was started in advance", f"{sessions.warm:.1f} ms"),
        ("first message, with the start of a process", f"{sessions.cold:.0f} ms"),
        ("that agent's start by itself", f"{sessions.agent_start:.0f} ms"),
        (f"opening {sessions.long:,} messages, p50", f"{sessions.opened.p50:.2f} ms"),
        ("the server after that", f"{sessions.memory_long:.0f} MB"),
        ("the server after opening 1,000 messages as often", f"{sessions.memory_short:.0f} MB"),
        (f"each of {sessions.live} idle sessions, in the server", f"{sessions.session_mb:.2f} MB"),
        ("each of their agents", f"{sessions.agent_mb:.1f} MB"),
        ("CPU that each costs the server in a second", f"{sessions.session_cpu:.0f} µs"),
    ]
    yield from _table(("", ""), rows)


def _messages(found: Results) -> Iterator[str]:
    messages = found.messages
    if messages is None:
        return
    yield "## Messages that queue"
    yield ""
    rows = [
        ("accepted (202)", f"{messages.accepted:,.0f}/s"),
        ("accepted, sent to the runner, queued and confirmed", f"{messages.dispatched:,.0f}/s"),
        ("202, p50 and p99", f"{messages.p50:.1f} ms, {messages.p99:.1f} ms"),
        ("202, one request at a time, p50", f"{messages.alone_p50:.1f} ms"),
        ("CPU of the hub per message", f"{messages.hub_us:.0f} µs"),
        ("CPU of the runner per message", f"{messages.runner_us:.0f} µs"),
        ("CPU of the client per message", f"{messages.client_us:.0f} µs"),
        ("both databases grow by", f"{messages.disk:,.0f} bytes per message"),
        ("SQLite alone, one row per synchronous commit", f"{messages.bare:,.0f}/s"),
    ]
    yield from _table(("", ""), rows)
    yield "Hub and runner are two processes."
    yield f"{messages.messages:,} messages of 8 bytes per round, over {SESSIONS} sessions in a turn that does not end,"
    yield f"one request at a time on each of {SESSIONS} connections. Median of the rounds."
    yield ""


def _agents(found: Results) -> Iterator[str]:
    for name, one in found.agents.items():
        yield f"## {name} {one.version}"
        yield ""
        ways = {"Farsteer": one.ours, HAPI: one.hapi, "directly": one.direct}
        ways["directly, with Farsteer's flags"] = one.same_flags
        there = {way: figures for way, figures in ways.items() if figures is not None}
        yield from _table(("", *there), [_agent_row(row, list(there.values())) for row in _AGENT_ROWS])
        if one.hapi_failure:
            yield f"**HAPI: not run**: {one.hapi_failure}"
            yield ""
    if found.agents:
        yield _AGENTS
        yield ""


def _agent_row(row: tuple[str, Callable[[Figures], str | None]], there: Sequence[Figures]) -> list[str]:
    label, cell = row
    return [label, *(cell(figures) or "-" for figures in there)]


def _ms(value: float | None, form: str = "{:.1f} ms") -> str | None:
    return None if value is None else form.format(value)


def _word(figures: Figures, share: Callable[[Timing], float]) -> str | None:
    if figures.words is None:
        return None if figures.pieces is None else "not streamed"
    return f"{share(figures.words):.2f} ms"


_AGENT_ROWS: tuple[tuple[str, Callable[[Figures], str | None]], ...] = (
    ("start with a prompt, to the first text", lambda one: _ms(one.first_text, "{:.0f} ms")),
    ("first message to a waiting agent, to its confirmation", lambda one: _ms(one.first_message)),
    ("later message, to the first text", lambda one: _ms(one.warm_text)),
    ("age of a streamed word, p50", lambda one: _word(one, lambda words: words.p50)),
    ("age of a streamed word, p99", lambda one: _word(one, lambda words: words.p99)),
    ("a session besides its agent", lambda one: _ms(one.session_mb, "{:.2f} MB")),
)


def _flood(found: Results) -> Iterator[str]:
    if found.flood is None:
        return
    yield "## A flooding Droid"
    yield ""
    rows = [
        ("Farsteer's adapter, to core events", f"{found.flood.ours:,.0f}"),
        (f"droid-sdk {found.flood.version}, to its stream messages", f"{found.flood.sdk:,.0f}"),
    ]
    yield from _table(("", "events per CPU second of the reader"), rows)
    yield "The same simulated Droid for both, in turn; each reader is a process of its own and counts every fragment."
    yield ""


def _rest(found: Results) -> Iterator[str]:
    if found.starts:
        yield "## Start and memory"
        yield ""
        rows = [
            (
                name,
                f"{start.ready:.2f}",
                f"{start.first:.2f}",
                f"{start.idle:.0f}",
                f"{found.loaded[name]:.0f}" if name in found.loaded else "",
            )
            for name, start in found.starts.items()
        ]
        head = ("", "ready s", "in an empty home s", "idle MB", "after the runs above MB")
        yield from _table(head, rows)
    if found.history is not None:
        history = found.history
        yield "## A long session"
        yield ""
        yield f"{history.messages:,} messages in one session; pages of 100 from anywhere in it."
        yield ""
        rows = [
            ("inside the hub", f"{history.hub.p50:.2f}", f"{history.hub.p99:.2f}"),
            ("over HTTP, as a client sees it", f"{history.http.p50:.2f}", f"{history.http.p99:.2f}"),
        ]
        yield from _table(("", "p50 ms", "p99 ms"), rows)


def _reading(found: Results, size: Scale) -> Iterator[str]:
    yield "## How to read this"
    yield ""
    if not found.burst and not found.paced:
        yield "Only a part was measured: see the whole in bench/results.md."
        return
    yield (
        f"- Medians of {size.rounds} round(s), {size.paced_rounds} of the paced runs, in which the peers take turns. "
        "Trust ratios over 1.3, not less."
    )
    yield _READING
    if found.wrong or found.missing:
        yield f"- **{found.missing:,} deliveries were missing and {found.wrong:,} out of order.**"
    else:
        yield "- No delivery was missing, doubled or out of order."


def _subscribers(table: Table) -> list[int]:
    return sorted({subscribers for _, subscribers in table})


def _present(table: Table) -> list[str]:
    there = {peer for peer, _ in table}
    return [peer for peer in _PEERS if peer in there]


def _number(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


def _lost(series: Series) -> str:
    return f", {series.missing:,} missing" if series.missing else ""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""
