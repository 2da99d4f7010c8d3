"""Lines of the app-server: no line raises, and nothing of a newer version is lost."""

from __future__ import annotations

import json
from typing import Any

import pytest

from farsteer.agents.codex import protocol
from farsteer.agents.rpc import Response


def decode(**message: Any) -> protocol.AnyLine:
    return protocol.decode_line(json.dumps(message).encode())


def test_requests_responses_and_notifications_are_told_apart() -> None:
    assert isinstance(decode(id=1, method="x", params={}), protocol.Request)
    assert isinstance(decode(id=1, result={}), Response)
    assert isinstance(decode(method="turn/started", params={"turn": {"id": "t"}}), protocol.TurnStarted)


def test_a_result_of_null_is_a_response() -> None:
    assert isinstance(decode(id=1, result=None), Response)


@pytest.mark.parametrize("error", [{"code": -1, "message": "no"}, {"code": "x"}, "text", {"message": 5}, [1]])
def test_an_error_of_any_shape_is_a_response(error: Any) -> None:
    message = decode(id=1, error=error)
    assert isinstance(message, Response)
    assert message.error is not None


@pytest.mark.parametrize(
    "line", [b"", b"{", b"[]", b"null", b"5", b"\xff\xfe", b'{"id":1}', b'{"method":5}', b'{"id":{},"method":"x"}']
)  # fmt: skip
def test_what_is_no_message_is_an_invalid_line(line: bytes) -> None:
    assert isinstance(protocol.decode_line(line), protocol.InvalidLine)


def test_a_long_invalid_line_is_shown_in_part() -> None:
    message = protocol.decode_line(b"x" * 10_000)
    assert isinstance(message, protocol.InvalidLine)
    assert len(message.text) <= 200


def test_an_unknown_notification_keeps_its_content() -> None:
    message = decode(method="new/thing", params={"a": [1]})
    assert message == protocol.UnknownNotification(method="new/thing", params={"a": [1]})


def test_a_known_notification_may_have_more_fields_and_another_shape() -> None:
    assert isinstance(
        decode(method="turn/started", params={"turn": {"id": "t", "new": 1}, "more": 2}), protocol.TurnStarted
    )
    assert isinstance(decode(method="turn/started", params={"turn": 5}), protocol.UnknownNotification)
    assert isinstance(decode(method="turn/started"), protocol.UnknownNotification)


def test_lines_to_codex_end_with_a_line_feed_and_have_no_version() -> None:
    line = protocol.encode_request(7, "turn/start", {"threadId": "t"})
    assert line.endswith(b"\n")
    assert json.loads(line) == {"id": 7, "method": "turn/start", "params": {"threadId": "t"}}
    assert json.loads(protocol.encode_notification("initialized")) == {"method": "initialized"}
    assert json.loads(protocol.encode_result("a", {})) == {"id": "a", "result": {}}
    assert json.loads(protocol.encode_error(0, -32601, "no"))["error"] == {"code": -32601, "message": "no"}
