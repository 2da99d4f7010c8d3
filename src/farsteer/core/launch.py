"""The launch decision: create or resume, never both, by one pure function over the stored row."""

from __future__ import annotations

from enum import StrEnum

from farsteer.core.ids import is_uuid
from farsteer.core.wire import WireStruct


class LaunchMode(StrEnum):
    CREATE = "create"
    RESUME = "resume"
    REFUSE = "refuse"
    """The conversation belongs to another agent: show it, do not run it."""


class LaunchRow(WireStruct):
    """What is stored about a session's identity."""

    session_id: str
    agent: str
    native_id: str | None = None
    registered: bool = False
    """Set only by a real handshake; never by pre-warm, a timeout, a retry or a change of configuration."""


class LaunchDecision(WireStruct):
    start: LaunchMode
    native_id: str | None = None
    """Resume: whom. Create: the id to hand to the agent; None: the agent names the conversation itself."""


def decide_launch(
    row: LaunchRow, *, agent: str, caller_chosen_id: bool, transcript_found: bool = False, spare_id: str
) -> LaunchDecision:
    """Who is launched how, for every state a row can be in.

    `transcript_found`: the agent's own store holds at least one message under the id it would be created with, which
    proves a registration that we failed to record. `spare_id`: a new UUID, for a session whose own id no agent takes.
    """
    if row.agent != agent:
        return LaunchDecision(start=LaunchMode.REFUSE)
    if row.registered and row.native_id is not None:
        return LaunchDecision(start=LaunchMode.RESUME, native_id=row.native_id)
    chosen = row.native_id or row.session_id
    if not is_uuid(chosen):
        return LaunchDecision(start=LaunchMode.CREATE, native_id=spare_id if caller_chosen_id else None)
    if transcript_found:
        return LaunchDecision(start=LaunchMode.RESUME, native_id=chosen)
    return LaunchDecision(start=LaunchMode.CREATE, native_id=chosen if caller_chosen_id else None)
