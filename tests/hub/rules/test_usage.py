"""What one update adds to the sums."""

from typing import Any

import pytest

from farsteer.core.events import AgentMessage, Entry, Role, UsageUpdate
from farsteer.core.session import SessionState
from farsteer.hub.rules.usage import UsageRecord, usage_record

STATE = SessionState(id="s", agent="demo", directory="/", model="opus")
NOON = 1_772_366_400_000
"""2026-03-01T12:00:00Z"""


def record(at: int = NOON, now: int = NOON, **update: Any) -> UsageRecord | None:
    entry = Entry(id="s:1", seq=1, role=Role.AGENT, created_at=at, content=UsageUpdate(**update))
    return usage_record(entry, STATE, now)


def test_what_was_used_is_counted_by_day_turn_and_model() -> None:
    update = {"input_tokens": 1, "output_tokens": 2, "cache_read_tokens": 3, "cache_write_tokens": 4}
    assert record(turn_id="t", model="sonnet", cost_usd=0.5, **update) == UsageRecord(
        day="2026-03-01", agent="demo", turn_id="t", model="sonnet", cost_usd=0.5, **update
    )


def test_an_update_without_a_model_or_turn() -> None:
    found = record(output_tokens=1)
    assert found is not None
    assert (found.turn_id, found.model, found.cost_usd) == ("", "opus", 0.0)


@pytest.mark.parametrize("update", [{}, {"context_used": 5}, {"output_tokens": -5}, {"cost_usd": -1.0}])
def test_nothing_used_is_not_counted(update: dict[str, Any]) -> None:
    assert record(turn_id="t", **update) is None


def test_absurd_numbers_are_bounded() -> None:
    found = record(output_tokens=2**63, cost_usd=1e300, model="m" * 1000, turn_id="t" * 1000)
    assert found is not None
    assert (found.output_tokens, found.cost_usd) == (2**40, 0.0)
    assert (len(found.model), len(found.turn_id)) == (200, 200)


@pytest.mark.parametrize(
    ("at", "day"), [(2**62, "2026-03-01"), (-(2**62), "1970-01-01"), (NOON - 43_200_001, "2026-02-28")]
)
def test_nothing_is_used_in_the_future(at: int, day: str) -> None:
    found = record(at=at, output_tokens=1)
    assert found is not None
    assert found.day == day


def test_other_entries_use_nothing() -> None:
    content = AgentMessage(message_id="m", text="hello")
    entry = Entry(id="s:1", seq=1, role=Role.AGENT, created_at=NOON, content=content)
    assert usage_record(entry, STATE, NOON) is None
