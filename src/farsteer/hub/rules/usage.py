"""What a `usage_update` adds to the sums of a namespace."""

from __future__ import annotations

from datetime import UTC, datetime

from msgspec import Struct

from farsteer.core.events import Entry, UsageUpdate
from farsteer.core.session import SessionState

_MAX_TOKENS = 2**40
_MAX_COST_USD = 1e6
"""In one update. More is an agent's mistake, and must neither stop its log nor make every sum useless."""
_MAX_NAME = 200


class UsageRecord(Struct, frozen=True):
    day: str
    """As YYYY-MM-DD, in UTC."""
    agent: str
    turn_id: str
    """Empty if the update names none, as is `model`."""
    model: str
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    cost_usd: float


def usage_record(entry: Entry, state: SessionState, now: int) -> UsageRecord | None:
    """Return what an entry used, or None if that is nothing. An update without a model is of the session's model."""
    update = entry.content
    if not isinstance(update, UsageUpdate):
        return None
    tokens = [
        min(max(count, 0), _MAX_TOKENS)
        for count in (
            update.input_tokens,
            update.output_tokens,
            update.cache_read_tokens,
            update.cache_write_tokens,
        )
    ]
    cost = update.cost_usd or 0.0
    if not 0 <= cost <= _MAX_COST_USD:
        cost = 0.0
    if not any(tokens) and not cost:
        return None  # it only reports how full the context is
    # The clock of a machine may be wrong, but nothing is used in the future.
    time = min(max(entry.created_at, 0), now)
    return UsageRecord(
        datetime.fromtimestamp(time / 1000, UTC).date().isoformat(),
        state.agent,
        (update.turn_id or "")[:_MAX_NAME],
        (update.model or state.model or "")[:_MAX_NAME],
        *tokens,
        cost_usd=cost,
    )
