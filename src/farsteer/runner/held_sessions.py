"""Describes sessions of this machine to a hub that does not know them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from farsteer.core.events import SessionStatus, decode_entry
from farsteer.core.foreign import HeldSession
from farsteer.core.session import SessionState
from farsteer.runner.journal import Journal
from farsteer.runner.outbox import Outbox
from farsteer.runner.session.actor import SessionActor

_MAX_DESCRIBED = 1000


async def describe(
    wanted: Sequence[str], actors: Mapping[str, SessionActor], outbox: Outbox, journal: Journal
) -> list[HeldSession]:
    """Describe those of the wanted sessions that this machine has."""
    ids = [id for id in wanted[:_MAX_DESCRIBED] if id in actors]
    last = await journal.last_entries(ids)
    return [
        HeldSession(
            spec=actors[id].spec.without_secrets,
            state=_small_state(actors[id]),
            confirmed=outbox.confirmed_seq(id),
            updated_at=_written_at(last.get(id)),
        )
        for id in ids
        if id in actors
    ]


def _small_state(actor: SessionActor) -> SessionState:
    state = replace(actor.state, queue=(), approvals=(), commands=(), left_behind=(), meta=None)
    # Nothing runs before a hub knows the session, whatever was going on when the previous runner ended.
    return (
        state
        if actor.is_running
        else replace(state, status=SessionStatus.STOPPED, turn_id=None, turn_item=None)
    )


def _written_at(body: bytes | None) -> int | None:
    try:
        return None if body is None else decode_entry(body).created_at
    except msgspec.ValidationError:
        return None
