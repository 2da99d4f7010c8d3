"""Two recordings of the same exchange have the same names."""

from __future__ import annotations

from uuid import uuid4

from tests.support.wire.names import StableNames, numbered_uuid


def test_an_id_has_the_same_name_everywhere() -> None:
    names, first, second = StableNames({}), str(uuid4()), str(uuid4())
    assert names.apply({"a": first, "b": [f"{second} {first}"]}) == {
        "a": numbered_uuid(1),
        "b": [f"{numbered_uuid(2)} {numbered_uuid(1)}"],
    }


def test_ids_of_the_model_are_counted_by_their_prefix() -> None:
    given = ["call_0a1b2c3d4e5f", "msg_0a1b2c3d4e5f", "call_ffffffff0000", "call_0a1b2c3d4e5f"]
    assert StableNames({}).apply(given) == ["call_1", "msg_1", "call_2", "call_1"]


def test_words_that_look_like_ids_stay() -> None:
    words = ["msg_notification", "task_notification", "item/started", "2026"]
    assert StableNames({}).apply(words) == words


def test_times_have_no_value() -> None:
    given = {
        "createdAt": 5,
        "durationMs": 1.5,
        "duration_ms": 7,
        "timestamp": "2026-11-18T13:00:00.123Z",
        "n": 5,
    }
    assert StableNames({}).apply(given) == {
        "createdAt": 0, "durationMs": 0, "duration_ms": 0, "timestamp": "2026-01-01T00:00:00Z", "n": 5,
    }  # fmt: skip


def test_the_longest_place_is_replaced_first_also_in_keys() -> None:
    names = StableNames({"/tmp/x": "/top", "/tmp/x/home": "/user"})
    assert names.apply({"/tmp/x/a": "/tmp/x/home/.codex"}) == {"/top/a": "/user/.codex"}


def test_fields_about_the_machine_are_dropped() -> None:
    assert StableNames({}, frozenset({"pid"})).apply({"a": {"pid": 5, "b": 1}}) == {"a": {"b": 1}}
