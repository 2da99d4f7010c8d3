from __future__ import annotations

import json

import pytest

from farsteer.agents.acp import protocol
from farsteer.agents.acp.protocol import decode_line
from farsteer.agents.rpc import Response


def update(**fields: object) -> bytes:
    return json.dumps({"method": "session/update", "params": {"sessionId": "s", "update": fields}}).encode()


def test_a_chunk_is_decoded_with_its_meta() -> None:
    line = update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": "hi"}, _meta={"a": 1})
    decoded = decode_line(line)
    assert isinstance(decoded, protocol.SessionUpdate)
    chunk = decoded.update
    assert isinstance(chunk, protocol.MessageChunk)
    assert (chunk.content, chunk.meta, chunk.message_id) == ({"type": "text", "text": "hi"}, {"a": 1}, None)


@pytest.mark.parametrize(
    "fields", [{"sessionUpdate": "notice", "x": 1}, {"sessionUpdate": "plan", "entries": 5}]
)
def test_an_update_of_an_unknown_kind_or_shape_is_kept(fields: dict[str, object]) -> None:
    decoded = decode_line(update(**fields))
    assert isinstance(decoded, protocol.SessionUpdate)
    assert decoded.update == protocol.UnknownUpdate(str(fields["sessionUpdate"]), fields)


@pytest.mark.parametrize(
    "line",
    [
        b"Welcome!", b"{", b"[]", b"null", b"5", b"\xff", b"{}", b'{"id": 1}', b'{"id": true, "result": 1}',
        b'{"id": 1.5, "method": "x"}', b'{"id": [], "method": "x"}', b'{"method": "session/update", "params": []}',
        b'{"method": "session/update", "params": {"sessionId": 1, "update": {}}}', b'{"a":' * 5000,
    ],
)  # fmt: skip
def test_what_is_no_message_is_invalid(line: bytes) -> None:
    assert isinstance(decode_line(line), protocol.InvalidLine)


def test_errors_of_any_shape_are_responses() -> None:
    for error in ("text", {"code": "x"}, {"code": -32000, "message": "login", "data": {"a": 1}}, 5):
        decoded = decode_line(json.dumps({"id": "1", "error": error}).encode())
        assert isinstance(decoded, Response)
        assert decoded.error is not None


def test_requests_and_notifications_are_told_apart() -> None:
    assert isinstance(decode_line(b'{"id": "a", "method": "m", "params": {}}'), protocol.Request)
    assert decode_line(b'{"method": "m", "params": [1]}') == protocol.OtherNotification("m", [1])
