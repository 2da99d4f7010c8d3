"""The worker's lines."""

from __future__ import annotations

import json

import pytest

from farsteer.agents.aider import protocol
from farsteer.core.events import ToolStatus, TurnEndReason
from farsteer.core.modes import ToolKind


def test_lines_are_decoded() -> None:
    line = b'{"type":"tool_update","call":"c","status":"completed","diff":{"path":"/a","new":"x","old":null}}'
    diff = protocol.Diff(path="/a", new="x")
    assert protocol.decode_line(line) == protocol.ToolUpdate(call="c", status=ToolStatus.COMPLETED, diff=diff)
    assert protocol.decode_line(b'{"type":"end","anchor":"a","reason":"cancelled"}') == protocol.End(
        anchor="a", reason=TurnEndReason.CANCELLED
    )
    ask = protocol.decode_line(
        b'{"type":"ask","ask":"q","kind":"execute","tool":"shell","title":"ls","more":1}'
    )
    assert ask == protocol.Ask(ask="q", kind=ToolKind.EXECUTE, tool="shell", title="ls")


def test_an_unknown_kind_is_kept_whole() -> None:
    assert protocol.decode_line(b'{"type":"weather","sky":"blue"}') == protocol.Unknown(
        "weather", {"type": "weather", "sky": "blue"}
    )


@pytest.mark.parametrize("line", [b"x", b"[]", b'{"type":5}', b'{"type":"end"}', b"\xff", b"{}"])
def test_anything_else_is_garbage(line: bytes) -> None:
    assert isinstance(protocol.decode_line(line), protocol.Garbage)


def test_a_request_is_a_line() -> None:
    line = protocol.encode_request(3, "set", {"settings": {"readOnly": True}})
    assert line.endswith(b"\n")
    assert json.loads(line) == {"do": "set", "id": 3, "settings": {"readOnly": True}}
