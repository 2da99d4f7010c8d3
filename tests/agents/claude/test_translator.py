"""Claude Code's lines as events: one end of a turn, nested sub-agents, and nothing lost."""

from __future__ import annotations

import json
from typing import Any, TypeVar

import pytest

from farsteer.agents.base import DeltaEmitted, EventEmitted, Output, Registered, TurnEnded
from farsteer.agents.claude.arguments import HOOK_MARK
from farsteer.agents.claude.protocol import InvalidLine, UnknownLine, decode_line
from farsteer.agents.claude.settings import SettingsTracker
from farsteer.agents.claude.translator import SESSION_START, Translator
from farsteer.agents.claude.usage import UsageTracker
from farsteer.agents.turns import TurnOutput
from farsteer.core.events import (
    AgentMessage,
    AgentThought,
    Compacted,
    DeltaKind,
    ModeUpdate,
    Notice,
    Other,
    Plan,
    SessionEvent,
    ToolCall,
    ToolCallUpdate,
    ToolStatus,
    TurnEndReason,
    UsageUpdate,
)
from farsteer.core.ids import new_id
from farsteer.core.modes import PermissionMode

EventKind = TypeVar("EventKind", bound=SessionEvent)
MESSAGE = "0c9a5d11-9d39-4a5a-8a6a-111111111111"
STEERED = "0c9a5d11-9d39-4a5a-8a6a-222222222222"


class Stage:
    """A translator in a turn, which is fed with lines as Claude Code writes them."""

    def __init__(self, source: str = "") -> None:
        self.output = TurnOutput()
        self.settings = SettingsTracker(PermissionMode.DEFAULT, None, None)
        self.translator = Translator(
            self.output, self.settings, UsageTracker(), "conversation", "/project", source
        )
        self.taken: list[str] = []
        self.translator.on_taken = self.taken.append
        self.outputs: list[Output] = []

    def begin(self, uuid: str = MESSAGE) -> Stage:
        self.output.begin(f"turn of {uuid}")
        self.translator.begin_message(uuid)
        return self.feed({"type": "user", "uuid": uuid, "isReplay": True, "message": {"content": "hello"}})

    def feed(self, *lines: dict[str, Any]) -> Stage:
        for line in lines:
            match decode_line(json.dumps(line).encode()):
                case UnknownLine() as unknown:
                    self.translator.handle_unknown(unknown)
                case InvalidLine() as invalid:
                    pytest.fail(invalid.text)
                case known:
                    self.translator.handle(known)  # pyright: ignore[reportArgumentType]
        self.outputs += self.output.drain()
        return self

    def events(self, kind: type[EventKind]) -> list[EventKind]:
        found = [output.event for output in self.outputs if isinstance(output, EventEmitted)]
        return [event for event in found if isinstance(event, kind)]

    @property
    def ends(self) -> list[tuple[TurnEndReason, str | None]]:
        return [(one.reason, one.error) for one in self.outputs if isinstance(one, TurnEnded)]


def assistant(
    *blocks: dict[str, Any], uuid: str = "a1", parent: str | None = None, **more: Any
) -> dict[str, Any]:
    message = {"id": f"msg-{uuid}", "model": "opus", "content": [*blocks], "usage": {"input_tokens": 100}}
    return {"type": "assistant", "uuid": uuid, "message": message, "parent_tool_use_id": parent, **more}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def use(call: str, name: str, **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call, "name": name, "input": given}


def tool_result(call: str, content: Any = "done", parent: str | None = None, **more: Any) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": call, "content": content, **more.pop("block", {})}
    return {"type": "user", "message": {"content": [block]}, "parent_tool_use_id": parent, **more}


def result(**more: Any) -> dict[str, Any]:
    return {"type": "result", "subtype": "success", "is_error": False, "stop_reason": "end_turn", **more}


def system(subtype: str, **more: Any) -> dict[str, Any]:
    return {"type": "system", "subtype": subtype, **more}


def streamed(*words: str, message: str = "msg-a1") -> list[dict[str, Any]]:
    events = [
        {"type": "message_start", "message": {"id": message, "content": []}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}}
            for word in words
        ),
    ]
    return [{"type": "stream_event", "event": event, "parent_tool_use_id": None} for event in events]


# -- messages


def test_a_message_is_streamed_and_then_emitted_whole_with_its_anchor() -> None:
    stage = Stage().begin().feed(*streamed("Hello ", "there"), assistant(text("Hello there")), result())
    deltas = [one.delta for one in stage.outputs if isinstance(one, DeltaEmitted)]
    (message,) = stage.events(AgentMessage)
    assert "".join(delta.text for delta in deltas) == message.text == "Hello there"
    assert {delta.message_id for delta in deltas} == {message.message_id}
    assert message.anchor == "a1"
    assert stage.ends == [(TurnEndReason.END_TURN, None)]


def test_a_thought_is_no_anchor() -> None:
    stage = Stage().begin().feed(assistant({"type": "thinking", "thinking": "hm"}))
    assert [(event.text, event.anchor) for event in stage.events(AgentThought)] == [("hm", None)]


def test_text_of_a_request_that_is_repeated_is_streamed_anew() -> None:
    stage = Stage().begin().feed(*streamed("broken "), *streamed("whole", message="msg-a1"))
    stage.feed(assistant(text("whole")), result())
    assert [event.text for event in stage.events(AgentMessage)] == ["whole"]
    deltas = [one.delta for one in stage.outputs if isinstance(one, DeltaEmitted)]
    assert [(delta.text, delta.offset) for delta in deltas] == [("broken ", 0), ("whole", 0)]


def test_the_conversation_is_registered_with_its_first_message_and_once() -> None:
    stage = Stage().begin().feed(result()).begin(STEERED)
    assert [one.native_id for one in stage.outputs if isinstance(one, Registered)] == ["conversation"]
    assert stage.taken == [MESSAGE, STEERED]


def test_a_cleared_conversation_is_left_for_the_new_one() -> None:
    new, replay = (
        new_id(),
        {"type": "user", "uuid": STEERED, "isReplay": True, "message": {"content": "/clear"}},
    )
    stage = (
        Stage().begin().feed(system("init", session_id=new), replay, system("init", session_id=new), result())
    )
    registered = [one.native_id for one in stage.outputs if isinstance(one, Registered)]
    assert registered == ["conversation", new]
    assert stage.translator.native_id == new
    assert [notice.code for notice in stage.events(Notice)] == ["conversation_changed"]


# -- tools and sub-agents


def test_a_tool_call_has_kind_title_place_and_result() -> None:
    stage = Stage().begin().feed(
        assistant(use("c1", "Bash", command="make test")),
        assistant(use("c2", "Read", file_path="src/a.py", offset=7)),
        tool_result("c1", "failed", block={"is_error": True}),
        tool_result("c2", [{"type": "text", "text": "one"}, {"type": "image"}]),
    )  # fmt: skip
    command, read = stage.events(ToolCall)
    assert (command.title, command.tool_kind.value) == ("make test", "execute")
    assert [(place.path, place.line) for place in read.locations] == [("/project/src/a.py", 7)]
    assert [(one.tool_call_id, one.status) for one in stage.events(ToolCallUpdate)] == [
        ("c1", ToolStatus.FAILED),
        ("c2", ToolStatus.COMPLETED),
    ]


def test_a_result_of_an_unknown_call_is_kept() -> None:
    stage = Stage().begin().feed(tool_result("lost"))
    assert [call.tool_call_id for call in stage.events(ToolCall)] == ["lost"]


def test_what_a_sub_agent_does_names_its_call_and_is_not_streamed_as_ours() -> None:
    nested = [{**line, "parent_tool_use_id": "task"} for line in streamed("sub", message="msg-s1")]
    stage = Stage().begin().feed(
        assistant(use("task", "Task", description="look", prompt="look")),
        *nested,
        assistant(text("sub speaks"), uuid="s1", parent="task"),
        assistant(use("inner", "Bash", command="ls"), uuid="s2", parent="task"),
        tool_result("inner", parent="task"),
        tool_result("task"),
        assistant(text("main speaks"), uuid="a2"),
        result(),
    )  # fmt: skip
    said = {event.text: (event.parent_tool_call_id, event.anchor) for event in stage.events(AgentMessage)}
    assert said == {"sub speaks": ("task", None), "main speaks": (None, "a2")}
    assert {call.tool_call_id: call.parent_tool_call_id for call in stage.events(ToolCall)} == {
        "task": None,
        "inner": "task",
    }
    assert not any(isinstance(one, DeltaEmitted) for one in stage.outputs)
    assert len(stage.ends) == 1


def test_a_sub_agent_in_the_background_keeps_the_turn_open() -> None:
    agent = {"task_id": "t1", "task_type": "local_agent"}
    stage = Stage().begin().feed(system("background_tasks_changed", tasks=[agent]), result())
    assert stage.ends == []
    stage.feed(
        assistant(text("it is done"), uuid="a2"), system("background_tasks_changed", tasks=[]), result()
    )
    assert stage.ends == [(TurnEndReason.END_TURN, None)]


def test_a_command_in_the_background_does_not_keep_the_turn_open() -> None:
    command = {"task_id": "t1", "task_type": "local_bash"}
    assert Stage().begin().feed(system("background_tasks_changed", tasks=[command]), result()).ends


def test_a_todo_list_is_a_plan_but_not_that_of_a_sub_agent_or_of_a_failed_call() -> None:
    todos = [{"content": "first", "status": "in_progress"}]
    stage = Stage().begin().feed(
        assistant(use("c1", "TodoWrite", todos=todos), uuid="s1", parent="task"), tool_result("c1", parent="task"),
        assistant(use("c2", "TodoWrite", todos=todos)), tool_result("c2", block={"is_error": True}),
    )  # fmt: skip
    assert stage.events(Plan) == []
    stage.feed(assistant(use("c3", "TodoWrite", todos=todos), uuid="a3"), tool_result("c3"))
    (plan,) = stage.events(Plan)
    assert [(entry.content, entry.status) for entry in plan.entries] == [("first", "in_progress")]


# -- the end of a turn


def test_is_error_counts_and_not_the_subtype() -> None:
    failed = result(is_error=True, result="API Error: 500 overloaded", api_error_status=500)
    assert Stage().begin().feed(failed).ends == [(TurnEndReason.FAILED, "API Error: 500 overloaded")]


def test_the_errors_of_a_result_are_its_reason() -> None:
    failed = result(subtype="error_during_execution", is_error=True, errors=["one", "two"])
    assert Stage().begin().feed(failed).ends == [(TurnEndReason.FAILED, "one; two")]


@pytest.mark.parametrize(
    "fields",
    [
        {"result": "API Error: 401", "api_error_status": 401},
        {"result": "Invalid API key · Please run /login"},
        {"result": "OAuth token has expired"},
    ],
)
def test_a_missing_login_says_how_to_log_in(fields: dict[str, Any]) -> None:
    ((_, error),) = Stage().begin().feed(result(is_error=True, **fields)).ends
    assert "ANTHROPIC_API_KEY" in (error or "")
    assert "/login" in (error or "")


def test_an_interrupt_is_not_a_failure() -> None:
    stage = Stage().begin()
    stage.translator.interrupt()
    stage.feed(result(subtype="error_during_execution", is_error=True, terminal_reason="aborted_streaming"))
    assert stage.ends == [(TurnEndReason.CANCELLED, None)]


def test_a_turn_that_claude_code_aborts_is_cancelled() -> None:
    aborted = result(subtype="error_during_execution", is_error=True, terminal_reason="aborted_tools")
    assert Stage().begin().feed(aborted).ends == [(TurnEndReason.CANCELLED, None)]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"stop_reason": "max_tokens"}, TurnEndReason.MAX_TOKENS),
        ({"stop_reason": "refusal"}, TurnEndReason.REFUSAL),
        ({"subtype": "error_max_turns", "is_error": True}, TurnEndReason.MAX_TURN_REQUESTS),
        ({"stop_reason": "something_new"}, TurnEndReason.END_TURN),
    ],
)
def test_the_reason_of_the_end(fields: dict[str, Any], reason: TurnEndReason) -> None:
    assert Stage().begin().feed(result(**fields)).ends == [(reason, None)]


def test_a_message_sent_into_the_turn_keeps_it_open_until_it_is_answered() -> None:
    stage = Stage().begin()
    stage.translator.begin_message(STEERED)
    stage.feed({"type": "command_lifecycle", "command_uuid": STEERED, "state": "queued"}, result())
    assert stage.ends == []
    stage.feed({"type": "command_lifecycle", "command_uuid": STEERED, "state": "started"}, result())
    assert stage.ends == [(TurnEndReason.END_TURN, None)]


def test_a_second_result_does_not_end_the_next_turn() -> None:
    stage = Stage().begin().feed(result())
    stage.output.begin("next")
    stage.translator.begin_message(STEERED)
    stage.feed(result())
    assert len(stage.ends) == 1


def test_an_error_between_turns_is_a_notice() -> None:
    stage = Stage().begin().feed(result(), result(is_error=True, result="the sub-agent failed"))
    assert [notice.text for notice in stage.events(Notice)] == ["the sub-agent failed"]
    assert len(stage.ends) == 1


def test_tokens_and_cost_come_before_the_end() -> None:
    totals = {"opus": {"inputTokens": 100, "outputTokens": 10, "costUSD": 0.5, "contextWindow": 1000}}
    stage = Stage().begin().feed(assistant(text("hi")), result(modelUsage=totals))
    (usage,) = stage.events(UsageUpdate)
    assert (usage.model, usage.input_tokens, usage.cost_usd, usage.context_used) == ("opus", 100, 0.5, 100)
    assert isinstance(stage.outputs[-1], TurnEnded)


# -- reports


def test_a_compaction_is_an_event() -> None:
    metadata = {"trigger": "auto", "pre_tokens": 150_000, "post_tokens": 3_000}
    stage = Stage().begin().feed(system("compact_boundary", compact_metadata=metadata))
    assert stage.events(Compacted) == [Compacted(automatic=True, tokens_before=150_000, tokens_after=3_000)]


def test_a_retry_is_a_notice() -> None:
    stage = (
        Stage()
        .begin()
        .feed(
            system(
                "api_retry",
                attempt=2,
                max_retries=10,
                retry_delay_ms=500.5,
                error_status=529,
                error="overloaded",
            )
        )
    )
    (notice,) = stage.events(Notice)
    assert (notice.code, notice.level) == ("retry", "warning")
    assert "529" in notice.text
    assert notice.meta == {"attempt": 2, "maxRetries": 10, "delayMs": 500.5}


def test_a_rate_limit_is_a_notice_unless_there_is_none() -> None:
    stage = (
        Stage()
        .begin()
        .feed(
            {"type": "rate_limit_event", "rate_limit_info": {"status": "allowed"}},
            {"type": "rate_limit_event", "rate_limit_info": {"status": "allowed_warning"}},
        )
    )
    assert [notice.code for notice in stage.events(Notice)] == ["rate_limit"]


def test_a_mode_that_claude_code_changed_is_reported() -> None:
    stage = (
        Stage().begin().feed(system("status", permissionMode="plan"), system("status", status="requesting"))
    )
    assert [event.permission_mode for event in stage.events(ModeUpdate)] == [PermissionMode.PLAN]


def test_what_is_unknown_is_kept_and_ends_nothing() -> None:
    stage = Stage().begin().feed(
        {"type": "new_line", "thing": 1}, system("new_report", thing=2), assistant({"type": "new_block"}),
        {"type": "assistant", "message": "no object"}, {"type": "keep_alive"}, system("session_state_changed"),
    )  # fmt: skip
    assert [event.native_kind for event in stage.events(Other)] == [
        "new_line", "system:new_report", "assistant:new_block", "assistant",
    ]  # fmt: skip
    assert stage.ends == []


@pytest.mark.parametrize("line", [b"", b"not JSON", b"[]", b"null", b"\xff", b'{"type": 5}', b"{" * 5000])
def test_what_is_no_line_of_the_protocol_is_told_apart(line: bytes) -> None:
    assert isinstance(decode_line(line), InvalidLine)


# -- the hook of the source


def hook(payload: dict[str, Any], mark: str = HOOK_MARK, event: str = "SessionStart") -> dict[str, Any]:
    return system(
        "hook_response",
        hook_event=event,
        hook_name=event,
        outcome="success",
        stderr=mark + json.dumps(payload),
    )


def test_the_payload_of_our_hook_has_the_source() -> None:
    stage = Stage("external-api").feed(hook({"hook_event_name": "SessionStart", "source": "resume"}))
    (event,) = stage.events(Other)
    assert event.native_kind == SESSION_START
    assert (event.data["source"], event.data["hapi_source"]) == ("resume", "external-api")


def test_source_is_added_only_if_claude_code_gives_none() -> None:
    (event,) = Stage("external-api").feed(hook({"hook_event_name": "SessionStart"})).events(Other)
    assert (event.data["source"], event.data["hapi_source"]) == ("external-api", "external-api")


def test_other_hooks_are_not_taken_for_ours_and_their_failure_is_told() -> None:
    payload = {"hook_event_name": "SessionStart"}
    stage = Stage("external-api").feed(
        hook(payload, mark=""), hook(payload, mark=f"x {HOOK_MARK}"), hook(payload, event="Stop"),
        system("hook_response", hook_event="Stop", hook_name="Stop", outcome="error", stderr="no such file"),
    )  # fmt: skip
    assert stage.events(Other) == []
    assert [notice.code for notice in stage.events(Notice)] == ["hook_failed"]


def test_streamed_tool_input_belongs_to_the_call() -> None:
    events = [
        {"type": "message_start", "message": {"id": "m", "content": []}},
        {"type": "content_block_start", "index": 0, "content_block": use("c1", "Write")},
        {"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": '{"a":'}},
    ]
    stage = Stage().begin().feed(*({"type": "stream_event", "event": event} for event in events))
    (delta,) = [one.delta for one in stage.outputs if isinstance(one, DeltaEmitted)]
    assert (delta.kind, delta.message_id, delta.text) == (DeltaKind.TOOL_INPUT, "c1", '{"a":')
