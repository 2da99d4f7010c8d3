"""Records of a transcript as events."""

from __future__ import annotations

import json
from typing import Any

import pytest

from farsteer.agents.claude.records import RecordTranslator, decode_record, is_prompt, prompt_text
from farsteer.core.events import (
    AgentMessage,
    AgentThought,
    Compacted,
    Notice,
    Plan,
    SessionEvent,
    ToolCall,
    ToolCallUpdate,
    ToolStatus,
    UserMessage,
)


def record(kind: str, content: Any = None, **more: Any) -> bytes:
    message = (
        {} if content is None else {"message": {"role": kind, "content": content, **more.pop("message", {})}}
    )
    return json.dumps({"type": kind, "uuid": "r1", "parentUuid": None, **message, **more}).encode()


def events(*lines: bytes) -> list[SessionEvent]:
    translator = RecordTranslator("/project")
    found: list[SessionEvent] = []
    for line in lines:
        decoded = decode_record(line)
        assert decoded is not None
        found += translator.translate(decoded)
    return [*found, *translator.finish()]


def text(line: bytes) -> str:
    decoded = decode_record(line)
    assert decoded is not None
    return prompt_text(decoded)


def test_a_prompt_is_the_text_without_what_claude_code_adds() -> None:
    reminder = {"type": "text", "text": "<system-reminder>\nToday is Monday.\n</system-reminder>\nHello"}
    (message,) = events(record("user", [reminder, {"type": "text", "text": "there"}]))
    assert message == UserMessage(item_id="r1", text="Hello\nthere", anchor="r1")


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ("<command-name>/compact</command-name>\n<command-args>keep it</command-args>", "/compact keep it"),
        ("<command-name>/clear</command-name><command-args></command-args>", "/clear"),
        ("<local-command-stdout>done</local-command-stdout>", ""),
        ("<local-command-caveat>Caveat: x</local-command-caveat>", ""),
        ("[Request interrupted by user for tool use]", ""),
        ([{"type": "image", "source": {}}], "[image]"),
        ([{"type": "document", "source": {}}, {"type": "text", "text": "Read it"}], "Read it\n[document]"),
    ],
)
def test_commands_and_attachments_are_shown_as_a_person_gave_them(content: Any, shown: str) -> None:
    assert text(record("user", content)) == shown


@pytest.mark.parametrize("flag", ["isMeta", "isSidechain", "isCompactSummary", "isVisibleInTranscriptOnly"])
def test_what_no_person_wrote_is_no_prompt(flag: str) -> None:
    decoded = decode_record(record("user", "hello", **{flag: True}))
    assert decoded is not None
    assert not is_prompt(decoded)


def test_thoughts_messages_and_tool_calls_are_read_in_order() -> None:
    found = events(
        record("assistant", [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "I look."}]),
        record("assistant", [{"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "ls"}}]),
        record("user", [{"type": "tool_result", "tool_use_id": "c1", "content": "README"}], toolUseResult={}),
    )
    assert [type(event) for event in found] == [AgentThought, AgentMessage, ToolCall, ToolCallUpdate]
    assert isinstance(found[1], AgentMessage)
    assert found[1].anchor == "r1"


def test_a_call_without_a_result_has_failed() -> None:
    *_, last = events(record("assistant", [{"type": "tool_use", "id": "c1", "name": "Bash", "input": {}}]))
    assert last == ToolCallUpdate(tool_call_id="c1", status=ToolStatus.FAILED)


def test_an_error_of_the_model_is_a_notice_and_a_filler_is_nothing() -> None:
    synthetic = {"model": "<synthetic>"}
    failed = record(
        "assistant", [{"type": "text", "text": "API Error"}], message=synthetic, isApiErrorMessage=True
    )
    filler = record("assistant", [{"type": "text", "text": "No response requested."}], message=synthetic)
    output = record("assistant", [{"type": "text", "text": "Context: 5 %"}], message=synthetic)
    notice, message = events(failed, filler, output)
    assert isinstance(notice, Notice)
    assert (notice.level, notice.text) == ("error", "API Error")
    assert isinstance(message, AgentMessage)


def test_a_todo_list_is_a_plan() -> None:
    found = events(
        record("assistant", [{"type": "tool_use", "id": "c1", "name": "TaskCreate", "input": {"subject": "first"}}]),
        record(
            "user", [{"type": "tool_result", "tool_use_id": "c1", "content": "ok"}],
            toolUseResult={"task": {"id": "1", "subject": "first"}},
        ),
    )  # fmt: skip
    (plan,) = [event for event in found if isinstance(event, Plan)]
    assert [entry.content for entry in plan.entries] == ["first"]


def test_a_compaction_is_read() -> None:
    metadata = {"trigger": "manual", "preTokens": 1000, "postTokens": 10}
    line = record("system", subtype="compact_boundary", compactMetadata=metadata)
    assert events(line) == [Compacted(automatic=False, tokens_before=1000, tokens_after=10)]


def test_records_of_other_kinds_and_of_sub_agents_say_nothing() -> None:
    assert (
        events(record("progress"), record("system", subtype="new"), record("user", "x", isSidechain=True))
        == []
    )


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b"\x00" * 100, b'{"type": 1}', b"\xff", b'{"a":' * 5000])
def test_what_is_no_record_is_skipped(line: bytes) -> None:
    assert decode_record(line) is None
