"""Every line that Droid may write is decoded: known, unknown, partly known or invalid."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farsteer.agents.droid import protocol
from farsteer.agents.droid.dispatcher import LineDispatcher
from farsteer.agents.droid.rpc import RpcClient
from farsteer.agents.droid.settings import SettingsTracker
from farsteer.agents.droid.usage import UsageStore, UsageTracker
from farsteer.agents.turns import TurnOutput
from farsteer.core.errors import ErrorCode
from farsteer.core.events import AgentMessage, Notice, Other, TitleUpdate
from farsteer.core.lines import Oversized
from farsteer.core.modes import PermissionMode
from farsteer.core.wire import encode
from tests.agents.droid.fake_droid import (
    SESSION,
    LaunchHarness,
    completed,
    delta,
    message,
    notification,
    notification_line,
    text,
)


def line(payload: Any, **envelope: Any) -> bytes:
    return json.dumps({**notification_line(payload), **envelope}).encode()


def test_a_known_notification_is_typed() -> None:
    decoded = protocol.decode_line(
        line(delta("m1", "hi"), factoryProtocolVersion="1.206.0", _meta={"traceparent": "x"})
    )
    assert isinstance(decoded, protocol.NotificationLine)
    assert decoded.params.notification == protocol.TextDelta(message_id="m1", block_index=0, text_delta="hi")
    assert (decoded.params.session_id, decoded.factory_protocol_version) == (SESSION, "1.206.0")


def test_an_unknown_field_is_kept() -> None:
    decoded = protocol.decode_line(
        line({**notification("session_title_updated", title="T"), "mood": "sunny"})
    )
    assert isinstance(decoded, protocol.NotificationLine)
    assert decoded.params.notification == protocol.TitleUpdated(title="T", extra={"mood": "sunny"})


@pytest.mark.parametrize(
    "payload",
    [
        notification("mission_heartbeat", timestamp="now"),
        notification("hook_execution_started", hookId="1"),
        {**delta("m1", "hi"), "blockIndex": "first"},
        {"type": "create_message"},
    ],
)
def test_an_unknown_or_malformed_notification_is_kept_whole(payload: dict[str, Any]) -> None:
    assert protocol.decode_line(line(payload)) == protocol.UnknownNotification(
        payload["type"], payload, SESSION
    )


def test_a_notification_of_an_unknown_method_is_kept() -> None:
    decoded = protocol.decode_line(b'{"type":"notification","method":"droid.weather","params":{"rain":true}}')
    assert decoded == protocol.UnknownNotification("droid.weather", {"rain": True}, None)


def test_a_response_without_its_type_or_with_an_error_string_is_decoded() -> None:
    assert protocol.decode_line(b'{"id":7,"result":{"a":1}}') == protocol.Response(
        id=7, result=msgspec.Raw(b'{"a":1}')
    )
    decoded = protocol.decode_line(b'{"type":"response","id":null,"error":"broken"}')
    assert isinstance(decoded, protocol.Response)
    assert decoded.error == protocol.Failure(message="broken")


def test_a_request_is_recognised_without_its_type() -> None:
    decoded = protocol.decode_line(b'{"id":"1","method":"droid.ask_user","params":{"questions":[]}}')
    assert isinstance(decoded, protocol.Request)
    assert decoded.method == "droid.ask_user"


@pytest.mark.parametrize(
    "invalid",
    [
        b"hello", b'{"jsonrpc": "2.0", nope', b"[]", b"7", b'"text"', b"\xff\xfe", b"{}",
        b'{"type":"response","id":[]}', b'{"type":"request","method":"droid.ask_user"}',
        b'{"method":7}', b'{"a":1}{"b":2}',
    ],
)  # fmt: skip
def test_an_invalid_line_is_recognised(invalid: bytes) -> None:
    assert isinstance(protocol.decode_line(invalid), protocol.InvalidLine)


def test_an_error_response_has_only_code_and_message() -> None:
    written = json.loads(protocol.encode_error("1", -32601, "no"))
    assert written["error"] == {"code": -32601, "message": "no"}
    assert written.keys() == {"jsonrpc", "factoryApiVersion", "type", "id", "error"}


# -- in a session


async def test_invalid_lines_become_notices_and_the_session_goes_on(harness: LaunchHarness) -> None:
    await harness.begin_turn()
    await harness.droid.send_raw(
        b"Segmentation fault (not really)", b'{"type":"notif', Oversized(33_000_000, b'{"ty')
    )
    await harness.droid.notify(message("assistant", text("still here"), id="m1"), completed())
    notices = harness.sink.events_of(Notice)
    assert [notice.code for notice in notices] == [
        ErrorCode.AGENT_PROTOCOL, ErrorCode.AGENT_PROTOCOL, ErrorCode.TOO_LARGE,
    ]  # fmt: skip
    assert "33000000 bytes" in notices[2].text
    assert [event.text for event in harness.sink.events_of(AgentMessage)] == ["still here"]
    assert len(harness.sink.turn_ends) == 1


async def test_unknown_notifications_fields_and_blocks_become_events(harness: LaunchHarness) -> None:
    await harness.begin_turn()
    await harness.droid.notify(
        notification("mission_heartbeat", timestamp="now"),
        {**notification("session_title_updated", title="T"), "mood": "sunny"},
        message("assistant", {"type": "hologram", "data": "…"}, id="m1"),
        {**message("assistant", text("hi"), id="m2"), "confidence": 0.5},
        notification("structured_output", messageId="m2", structuredOutput={"a": 1}),
        notification("queued_messages_discarded", text="second", requestId="9"),
        notification("session_compacted", summaryId="s", removedCount=7, visibleBoundaryMessageId=None),
        notification(
            "tool_progress_update", toolUseId="c", toolName="Task", update={"type": "subagent", "step": 1}
        ),
    )
    others = [(event.native_kind, event.data) for event in harness.sink.events_of(Other)]
    assert [kind for kind, _ in others] == [
        "mission_heartbeat", "content:hologram", "structured_output", "tool_progress_update",
    ]  # fmt: skip
    assert others[2][1] == {"messageId": "m2", "structuredOutput": {"a": 1}}
    assert harness.sink.events_of(TitleUpdate)[0].meta == {"mood": "sunny"}
    assert harness.sink.events_of(AgentMessage)[0].meta == {"confidence": 0.5}
    assert [notice.code for notice in harness.sink.events_of(Notice)] == [
        "queued_message_discarded",
        "compacted",
    ]


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_names = sorted(
    {name for kind in protocol.AnyNotification.__args__ for name in kind.__struct_encode_fields__}
)
_kinds = sorted(str(kind.__struct_config__.tag) for kind in protocol.AnyNotification.__args__)
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
_notifications = st.builds(
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
    st.binary(max_size=20), _values.map(encode), _notifications.map(line), _requests.map(encode),
    st.fixed_dictionaries({"type": st.just("response"), "id": _values, "error": _values}).map(encode),
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(_lines, max_size=12))
def test_no_line_is_fatal(lines: list[bytes]) -> None:
    async def write(_: bytes) -> None:
        raise AssertionError("no request is expected")

    written: list[bytes] = []
    dispatcher = LineDispatcher(
        TurnOutput(),
        RpcClient(write),
        SettingsTracker(PermissionMode.DEFAULT),
        UsageTracker(UsageStore("")),
        written.append,
    )
    dispatcher.translator.session_id = SESSION
    dispatcher.start_turn("turn-1", "1")
    dispatcher.handle_lines(lines)
    dispatcher.end_turn(dispatcher.completion.result_after_timeout())
    for output in dispatcher.output.drain():
        encode(output)
