"""The event queue of InProcessClient: one session, bounded, with a gap after an overflow."""

from __future__ import annotations

import pytest

from farsteer.client.live_events import Gap
from farsteer.faces import in_process_client
from farsteer.faces.in_process_client import _SessionEvents
from farsteer.hub.feed import SyncEvent


def event(subject: str, cursor: int | None) -> SyncEvent:
    return SyncEvent("default", "session-updated", subject, b'{"type":"session-updated"}', cursor)


async def test_a_reader_that_falls_behind_gets_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_process_client, "_MAX_QUEUED_EVENTS", 2)
    events = _SessionEvents("a")
    events.put([event("a", 1), event("b", 2), event("a", 3), event("a", None)])
    assert [(await anext(events)).type for _ in range(2)] == ["session-updated"] * 2
    events.put([event("a", 4), event("a", 5), event("a", 6), event("a", 7)])
    assert isinstance(await anext(events), Gap)
    assert (await anext(events)).type == "session-updated"
