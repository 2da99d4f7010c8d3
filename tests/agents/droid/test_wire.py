"""Whatever Droid writes is read: known, unknown, half known, or no line at all."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farsteer.agents.droid import notes, wire
from farsteer.agents.droid.hearing import Hearing
from farsteer.agents.droid.rpc import Rpc
from farsteer.agents.droid.settings import Dial
from farsteer.agents.droid.usage import Ledger, Meter
from farsteer.core.errors import ErrorCode
from farsteer.core.events import AgentMessage, Notice, Other, TitleUpdate
from farsteer.core.lines import Oversized
from farsteer.core.modes import PermissionMode
from farsteer.core.wire import encode
from tests.agents.droid.peer import SESSION, Stage, completed, delta, message, note, note_line, text


def line(payload: Any, **envelope: Any) -> bytes:
    return json.dumps({**note_line(payload), **envelope}).encode()


def test_a_known_notification_is_typed() -> None:
    heard = wire.decode(line(delta("m1", "hi"), factoryProtocolVersion="1.206.0", _meta={"traceparent": "x"}))
    assert isinstance(heard, wire.Notification)
    assert heard.params.notification == notes.TextDelta(message_id="m1", block_index=0, text_delta="hi")
    assert (heard.params.session_id, heard.factory_protocol_version) == (SESSION, "1.206.0")


def test_an_unknown_field_is_kept() -> None:
    heard = wire.decode(line({**note("session_title_updated", title="T"), "mood": "sunny"}))
    assert isinstance(heard, wire.Notification)
    assert heard.params.notification == notes.TitleUpdated(title="T", extra={"mood": "sunny"})


@pytest.mark.parametrize(
    "payload",
    [
        note("mission_heartbeat", timestamp="now"),
        note("hook_execution_started", hookId="1"),
        {**delta("m1", "hi"), "blockIndex": "first"},
        {"type": "create_message"},
    ],
)
def test_what_we_have_no_word_for_is_kept_whole(payload: dict[str, Any]) -> None:
    assert wire.decode(line(payload)) == wire.Unknown(payload["type"], payload, SESSION)


def test_a_notification_of_another_method_is_kept() -> None:
    heard = wire.decode(b'{"type":"notification","method":"droid.weather","params":{"rain":true}}')
    assert heard == wire.Unknown("droid.weather", {"rain": True}, None)


def test_an_answer_without_its_type_or_with_an_odd_error_is_one() -> None:
    assert wire.decode(b'{"id":7,"result":{"a":1}}') == wire.Response(
        id=7, result=wire.msgspec.Raw(b'{"a":1}')
    )
    heard = wire.decode(b'{"type":"response","id":null,"error":"broken"}')
    assert isinstance(heard, wire.Response)
    assert heard.error == wire.Failure(message="broken")


def test_a_request_is_recognised_without_its_type() -> None:
    heard = wire.decode(b'{"id":"1","method":"droid.ask_user","params":{"questions":[]}}')
    assert isinstance(heard, wire.Request)
    assert heard.method == "droid.ask_user"


@pytest.mark.parametrize(
    "garbage",
    [
        b"hello", b'{"jsonrpc": "2.0", nope', b"[]", b"7", b'"text"', b"\xff\xfe", b"{}",
        b'{"type":"response","id":[]}', b'{"type":"request","method":"droid.ask_user"}',
        b'{"method":7}', b'{"a":1}{"b":2}',
    ],
)  # fmt: skip
def test_garbage_is_garbage(garbage: bytes) -> None:
    assert isinstance(wire.decode(garbage), wire.Garbage)


def test_only_codes_that_droid_takes_are_written() -> None:
    written = json.loads(wire.refusal("1", -32601, "no"))
    assert written["error"] == {"code": -32601, "message": "no"}
    assert written.keys() == {"jsonrpc", "factoryApiVersion", "type", "id", "error"}


# -- in a session


async def test_garbage_is_told_and_the_session_survives(stage: Stage) -> None:
    await stage.begin()
    await stage.peer.hear_raw(
        b"Segmentation fault (not really)", b'{"type":"notif', Oversized(33_000_000, b'{"ty')
    )
    await stage.peer.notes(message("assistant", text("still here"), id="m1"), completed())
    notices = stage.sink.events(Notice)
    assert [notice.code for notice in notices] == [
        ErrorCode.AGENT_PROTOCOL, ErrorCode.AGENT_PROTOCOL, ErrorCode.TOO_LARGE,
    ]  # fmt: skip
    assert "33000000 bytes" in notices[2].text
    assert [event.text for event in stage.sink.events(AgentMessage)] == ["still here"]
    assert len(stage.sink.ends) == 1


async def test_unknown_notifications_fields_and_blocks_reach_the_log(stage: Stage) -> None:
    await stage.begin()
    await stage.peer.notes(
        note("mission_heartbeat", timestamp="now"),
        {**note("session_title_updated", title="T"), "mood": "sunny"},
        message("assistant", {"type": "hologram", "data": "…"}, id="m1"),
        {**message("assistant", text("hi"), id="m2"), "confidence": 0.5},
        note("structured_output", messageId="m2", structuredOutput={"a": 1}),
        note("queued_messages_discarded", text="second", requestId="9"),
        note("session_compacted", summaryId="s", removedCount=7, visibleBoundaryMessageId=None),
        note("tool_progress_update", toolUseId="c", toolName="Task", update={"type": "subagent", "step": 1}),
    )
    others = [(event.native_kind, event.data) for event in stage.sink.events(Other)]
    assert [kind for kind, _ in others] == [
        "mission_heartbeat", "content:hologram", "structured_output", "tool_progress_update",
    ]  # fmt: skip
    assert others[2][1] == {"messageId": "m2", "structuredOutput": {"a": 1}}
    assert stage.sink.events(TitleUpdate)[0].meta == {"mood": "sunny"}
    assert stage.sink.events(AgentMessage)[0].meta == {"confidence": 0.5}
    assert [notice.code for notice in stage.sink.events(Notice)] == ["queued_message_discarded", "compacted"]


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_names = sorted({name for kind in notes.Known.__args__ for name in kind.__struct_encode_fields__})
_kinds = sorted(str(kind.__struct_config__.tag) for kind in notes.Known.__args__)
_blocks = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "thinking", "tool_use", "tool_result", "other"])},
    optional={
        name: _values | st.text(max_size=3) for name in ("text", "thinking", "id", "name", "input", "content")
    },
)
_messages = st.fixed_dictionaries(
    {
        "id": st.sampled_from(["m1", "m2"]), "role": st.sampled_from(["user", "assistant", "system", "tool", "?"]),
        "content": st.lists(_blocks, max_size=3),
    }
)  # fmt: skip
_fields = st.dictionaries(
    st.sampled_from(_names), _values | st.sampled_from(["m1", "c1", "idle", "status"]), max_size=6
)
_notes = st.builds(
    lambda kind, fields, body: {**fields, "type": kind, **({"message": body} if kind == "create_message" else {})},
    st.sampled_from(_kinds), _fields, _messages,
)  # fmt: skip
_tools = st.fixed_dictionaries(
    {
        "toolUse": st.fixed_dictionaries({"id": st.just("c1"), "name": st.sampled_from(["Execute", "ExitSpecMode"])}),
        "confirmationType": st.sampled_from(["exec", "exit_spec_mode", "?"]),
        "details": _values,
    }
)  # fmt: skip
_requests = st.fixed_dictionaries(
    {
        "type": st.just("request"), "id": _values,
        "method": st.sampled_from(["droid.request_permission", "droid.ask_user"]),
        "params": _values | st.fixed_dictionaries({"toolUses": st.lists(_tools, max_size=2), "options": st.just([])}),
    }
)  # fmt: skip
_lines = st.one_of(
    st.binary(max_size=20), _values.map(encode), _notes.map(line), _requests.map(encode),
    st.fixed_dictionaries({"type": st.just("response"), "id": _values, "error": _values}).map(encode),
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(_lines, max_size=12))
def test_no_line_is_fatal(lines: list[bytes]) -> None:
    async def write(_: bytes) -> None:
        raise AssertionError("nothing waits for it")

    written: list[bytes] = []
    hearing = Hearing(Rpc(write), Dial(PermissionMode.DEFAULT), Meter(Ledger("")), written.append)
    hearing.translator.session_id = SESSION
    hearing.begin("turn-1", "1")
    hearing.hear(lines)
    hearing.end(hearing.ending.overdue())
    for output in hearing.turns.drain():
        encode(output)
