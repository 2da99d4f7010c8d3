"""The decision whether a launch creates or resumes a conversation, made by one pure function."""

from __future__ import annotations

from enum import StrEnum

from farsteer.core.ids import is_uuid
from farsteer.core.wire import WireStruct


class LaunchMode(StrEnum):
    CREATE = "create"
    RESUME = "resume"
    REFUSE = "refuse"
    """The conversation belongs to another agent and cannot be launched."""


class LaunchRow(WireStruct):
    """The stored identity of a session's conversation."""

    session_id: str
    agent: str
    native_id: str | None = None
    registered: bool = False
    """True after the agent confirmed the native id. Prewarming, timeouts, retries and settings never set it."""


class LaunchDecision(WireStruct):
    start: LaunchMode
    native_id: str | None = None
    """The conversation to resume, or the id to create it with. None: the agent chooses the id."""


def decide_launch(
    row: LaunchRow, *, agent: str, caller_chosen_id: bool, transcript_found: bool = False, spare_id: str
) -> LaunchDecision:
    """Decide how to launch, for every state that `row` can be in.

    Args:
        row: the stored identity.
        agent: the agent that is about to be launched.
        caller_chosen_id: whether the agent accepts an id that we choose.
        transcript_found: whether the agent's own store already holds a message under the id that would be used to
            create the conversation. It proves a registration that was not recorded.
        spare_id: a new UUID, used if the stored id is not a UUID.
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
