"""What goes wrong at the start, on request: a launch's option `demo` names one of these.

Several, separated by commas, are for the first launch, the second and so on; the last one counts for all that follow.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from farsteer.agents.demo.commands import COMMANDS
from farsteer.agents.demo.out import Out
from farsteer.agents.demo.session import Session

_STUBBORN_SECONDS = 60
_MOMENT = 0.2

Before = Callable[[Out, dict[str, Any]], object]
After = Callable[[Session], object]


def _nothing(*_: object) -> None:
    """As an agent should be."""


class Start:
    """`before` it opens its conversation, and `after` it has said hello."""

    def __init__(self, summary: str, *, before: Before = _nothing, after: After = _nothing) -> None:
        self.summary = summary
        self.before = before
        self.after = after


def asked_for(opening: dict[str, Any]) -> Start:
    wishes = str(opening.get("behave") or "fine").split(",")
    generation = int(opening.get("generation", 1))
    wish = wishes[min(generation, len(wishes)) - 1].strip()
    if wish not in STARTS:
        _note(f"unknown option demo={wish}")
    return STARTS.get(wish, STARTS["fine"])


def _die(out: Out, opening: dict[str, Any]) -> None:
    _note("the demo agent dies at its start, as you asked")
    os._exit(3)


def _talk(out: Out, opening: dict[str, Any]) -> None:
    end = time.monotonic() + _STUBBORN_SECONDS
    while time.monotonic() < end:
        out.send("rate_limit", message="please wait")
        time.sleep(0.05)


def _refuse(reason: str, message: str) -> Before:
    def before(out: Out, opening: dict[str, Any]) -> None:
        out.send("failed", reason=reason, message=message)
        sys.exit(1)

    return before


def _die_soon(session: Session) -> None:
    def die() -> None:
        time.sleep(_MOMENT)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=die, daemon=True).start()


def _another_id(out: Out, opening: dict[str, Any]) -> None:
    opening["alias"] = _new_uuid()


def _own_id(out: Out, opening: dict[str, Any]) -> None:
    if opening["start"] == "create":
        opening["session"], opening["own"] = _new_uuid(), True


def _ignore_sigterm(session: Session) -> None:
    session.leaves_at_end = False
    signal.alarm(_STUBBORN_SECONDS)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _new_uuid() -> str:
    import uuid

    return str(uuid.uuid4())


def _note(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


STARTS = {
    "fine": Start("starts as it should"),
    "slow-start": Start("is ready after half a second", before=lambda *_: time.sleep(0.5)),
    "die-at-start": Start("dies before it is ready", before=_die),
    "die-when-ready": Start("is ready and dies a moment later", after=_die_soon),
    "hang-at-start": Start("says nothing and is never ready", before=lambda *_: time.sleep(_STUBBORN_SECONDS)),
    "talk-at-start": Start("says something again and again and is never ready", before=_talk),
    "garbage-at-start": Start(
        "greets in plain English first", before=lambda *_: os.write(1, b"Welcome to the demo agent!\n")
    ),
    "in-use": Start(
        "says that the conversation is in use", before=_refuse("already_in_use", "already in use, as you asked")
    ),
    "missing": Start("says that it has no such conversation", before=_refuse("not_found", "gone, as you asked")),
    "anchor-unknown": Start(
        "says that it cannot cut there", before=_refuse("unknown_anchor", "no such place, as you asked")
    ),
    "another-id": Start("opens another conversation than it was told", before=_another_id),
    "own-id": Start("names a new conversation itself", before=_own_id),
    "ignore-sigterm": Start("ignores the end of its input and SIGTERM for a minute", after=_ignore_sigterm),
}  # fmt: skip

COMMANDS.append(
    "At its start, for tests (`LaunchPlan.options`, `demo`; with commas one for each launch)",
    [(name, start.summary) for name, start in STARTS.items()],
)
