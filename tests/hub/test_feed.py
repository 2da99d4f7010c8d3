"""SyncEvents, their cursors, and how the feed passes them on."""

import json

import msgspec
import pytest

from farsteer.hub.feed import Feed, SyncEvent, cursor_text, message_events, parse_cursor, sync_event


@pytest.mark.parametrize(
    ("type", "subject", "payload", "expected"),
    [
        ("session-added", "s", b'{"id":"s"}', {"sessionId": "s", "data": {"id": "s"}}),
        ("session-removed", "s", None, {"sessionId": "s"}),
        ("message-received", "s", b"{}", {"sessionId": "s", "message": {}}),
        ("message-delta", "s", b"{}", {"sessionId": "s", "delta": {}}),
        ("machine-updated", "m", b"{}", {"machineId": "m", "data": {}}),
        ("typing-changed", "s", b"{}", {"sessionId": "s", "typing": {}}),
        ("online-users-changed", None, b"[]", {"users": []}),
    ],
)
def test_events_have_their_documented_shape(
    type: str, subject: str | None, payload: bytes | None, expected: dict[str, object]
) -> None:
    event = sync_event('a "name"', type, subject, payload)
    assert json.loads(event.data) == {"type": type, "namespace": 'a "name"', **expected}
    stored = sync_event('a "name"', type, subject, payload, epoch="e1", cursor=7)
    assert json.loads(stored.data) == {
        "type": type,
        "namespace": 'a "name"',
        "cursor": "e1-7",
        **expected,
    }


def test_many_messages_are_built_as_one_is() -> None:
    rows = [(5, b'{"seq":1}'), (6, msgspec.Raw(b'{"seq":2}'))]
    assert message_events("n", "s", "e", rows) == [
        sync_event("n", "message-received", "s", bytes(body), epoch="e", cursor=cursor)
        for cursor, body in rows
    ]


def test_a_cursor_is_good_for_its_own_store_only() -> None:
    assert parse_cursor("abc", cursor_text("abc", 42)) == 42
    for wrong in ("xyz-42", "abc-", "abc--1", "abc-4x", "42", "", "abc-" + "9" * 19, "abc-٣", "-42"):
        assert parse_cursor("abc", wrong) is None


def test_a_listener_that_fails_does_not_affect_the_others(caplog: pytest.LogCaptureFixture) -> None:
    feed, heard = Feed(), list[SyncEvent]()

    def broken(events: list[SyncEvent]) -> None:
        raise RuntimeError("broken")

    feed.listen(broken)
    stop = feed.listen(heard.extend)
    event = sync_event("n", "session-removed", "s", None)
    feed.publish([event])
    assert heard == [event]
    assert "feed listener failed" in caplog.text
    stop()
    feed.publish([event])
    assert heard == [event]


def test_the_feed_knows_the_last_cursor_of_each_namespace() -> None:
    feed = Feed()
    assert feed.head("n") == 0
    feed.start_at(7)
    assert feed.head("n") == feed.head("other") == 7
    feed.publish([sync_event("n", "session-removed", "s", None, cursor=cursor) for cursor in (8, 9)])
    feed.publish([sync_event("n", "message-delta", "s", b"{}")])
    assert (feed.head("n"), feed.head("other")) == (9, 7)
