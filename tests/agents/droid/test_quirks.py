"""Peculiarities of Droid that the adapter must handle."""

from __future__ import annotations

import asyncio

from farsteer.agents.base import ApprovalAsked, ApprovalWithdrawn, DeltaEmitted, TurnEnded
from farsteer.core.approvals import Answer, OptionKind, Outcome
from farsteer.core.events import (
    AgentMessage,
    AgentThought,
    DeltaKind,
    ModeUpdate,
    Notice,
    Plan,
    TitleUpdate,
    ToolCall,
    ToolCallUpdate,
    ToolStatus,
    TurnEndReason,
    UsageUpdate,
)
from farsteer.core.modes import PermissionMode
from tests.agents.droid.conftest import StartLaunch
from tests.agents.droid.fake_droid import (
    OLD,
    SETTINGS,
    LaunchHarness,
    completed,
    delta,
    message,
    notification,
    state,
    text,
    tool,
)

REQUEST = "33333333-3333-4333-8333-333333333333"
IDLE = state("idle")


def result(call: str, content: str, *, error: bool = False) -> dict[str, object]:
    return notification("tool_result", toolUseId=call, messageId="r1", content=content, isError=error)


async def test_duplicate_notifications_are_emitted_once(harness: LaunchHarness) -> None:
    await harness.begin_turn()
    said = message("assistant", text("hi"), tool(command="ls"), id="m1")
    call = notification("tool_call", toolUse=tool(command="ls"))
    settings = notification("settings_updated", settings=SETTINGS)
    title = notification("session_title_updated", title="A title")
    error = message("system", text("Something broke"), id="s1", visibility="user_only")
    for one in (settings, settings, title, title, call, call, said, said, call, error, error):
        await harness.droid.notify(one)
    await harness.droid.notify(
        result("call-1", "x"), result("call-1", "x"), completed(), completed(), IDLE, IDLE
    )
    kinds = [type(event) for event in harness.sink.events_of()]
    assert kinds == [TitleUpdate, AgentMessage, ToolCall, Notice, ToolCallUpdate]
    assert len(harness.sink.turn_ends) == 1


async def test_text_that_is_streamed_again_after_a_retry_is_not_doubled(harness: LaunchHarness) -> None:
    await harness.begin_turn()
    await harness.droid.notify(delta("m1", "one "), delta("m1", "two "))
    await harness.droid.notify(notification("llm_retry", attempt=1, reason="timeout"))
    await harness.droid.notify(delta("m1", "one "), delta("m1", "two "), delta("m1", "three"))
    fragments = [fragment.delta for fragment in harness.sink.outputs_of(DeltaEmitted)]
    assert [(one.offset, one.text) for one in fragments] == [(0, "one two "), (0, "one two three")]
    await harness.droid.notify(message("assistant", text("one two three"), id="m1"), completed())
    assert [event.text for event in harness.sink.events_of(AgentMessage)] == ["one two three"]


async def test_text_streamed_before_a_failed_retry_stays_as_partial(harness: LaunchHarness) -> None:
    await harness.begin_turn()
    retry = notification("llm_retry", attempt=1, reason="timeout")
    await harness.droid.notify(delta("m1", "one two "), retry, delta("m1", "one "), retry)
    assert harness.sink.events_of(AgentMessage) == []
    await harness.droid.notify(completed("model_provider_unavailable"))
    (said,) = harness.sink.events_of(AgentMessage)
    assert (said.text, said.partial) == ("one two ", True)
    assert harness.sink.outputs[-1] == harness.sink.turn_ends[0]


async def test_the_output_of_an_interrupted_tool_stays_as_partial(harness: LaunchHarness) -> None:
    await harness.begin_turn()
    update = {"type": "status", "text": "", "fullOutput": "tick 1\n"}
    await harness.droid.notify(
        message("assistant", tool(), id="m1"),
        notification("tool_progress_update", toolUseId="call-1", toolName="Execute", update=update),
    )
    await harness.launch.interrupt()
    result = notification(
        "tool_result", toolUseId="call-1", content="Error: Tool execution cancelled by user"
    )
    await harness.droid.notify(
        {**result, "isError": True}, {**result, "isError": True}, completed("cancelled")
    )
    last = harness.sink.events_of(ToolCallUpdate)[-1]
    assert (last.status, last.partial) == (ToolStatus.FAILED, True)
    assert [block.text for block in last.content] == ["tick 1\n", "Error: Tool execution cancelled by user"]


async def test_long_retries_are_visible_and_can_be_interrupted(
    harness: LaunchHarness,
) -> None:
    await harness.begin_turn()
    for attempt in range(1, 9):
        await harness.droid.notify(notification("llm_retry", attempt=attempt, reason="overloaded"))
    notices = harness.sink.events_of(Notice)
    assert [notice.meta["attempt"] for notice in notices] == [*range(1, 9)]
    assert {notice.code for notice in notices} == {"model_retry"}
    assert harness.sink.turn_ends == [], "no timeout ends it"
    await harness.launch.interrupt()
    await harness.droid.next_request("interrupt_session")
    await harness.droid.notify(completed("cancelled"), IDLE)
    assert [end.reason for end in harness.sink.turn_ends] == [TurnEndReason.CANCELLED]


async def test_a_retracted_message_is_not_emitted(harness: LaunchHarness) -> None:
    await harness.begin_turn()
    await harness.droid.notify(
        delta("m1", "word word word "), notification("assistant_message_retracted", messageId="m1")
    )
    await harness.droid.notify(
        delta("m2", "better"), message("assistant", text("better"), id="m2"), completed(), IDLE
    )
    assert [event.text for event in harness.sink.events_of(AgentMessage)] == ["better"]
    (notice,) = harness.sink.events_of(Notice)
    assert (notice.code, notice.meta["messageIds"]) == ("message_retracted", ["m1:0"])


async def test_partial_text_after_an_interrupt_is_kept_and_marked(harness: LaunchHarness) -> None:
    await harness.begin_turn()
    await harness.droid.notify(
        notification("thinking_text_delta", messageId="m1", blockIndex=0, textDelta="hm")
    )
    await harness.droid.notify(delta("m1", "half an ans", 1))
    await harness.launch.interrupt()
    await harness.droid.notify(
        message("system", text("Request cancelled by user"), id="s1", visibility="llm_only"),
        completed("cancelled"), IDLE,
    )  # fmt: skip
    (said,) = harness.sink.events_of(AgentMessage)
    (thought,) = harness.sink.events_of(AgentThought)
    assert (said.text, said.partial, thought.text, thought.partial) == ("half an ans", True, "hm", True)
    assert isinstance(harness.sink.outputs[-1], TurnEnded)
    assert harness.sink.events_of(Notice) == [], "a message that only the model sees is not shown"


async def test_the_first_of_two_tool_results_counts(harness: LaunchHarness) -> None:
    await harness.begin_turn()
    await harness.droid.notify(message("assistant", tool(), id="m1"))
    await harness.droid.notify(result("call-1", "Error: Tool execution cancelled by user", error=True))
    await harness.droid.notify(
        result("call-1", "Error: Tool execution cancelled: Batch cancelled", error=True)
    )
    (update,) = harness.sink.events_of(ToolCallUpdate)
    assert update.status is ToolStatus.FAILED
    assert update.content[0].text == "Error: Tool execution cancelled by user"


async def test_proceed_always_names_its_effect_and_the_effect_is_emitted(harness: LaunchHarness) -> None:
    await harness.begin_turn()
    approval = await harness.request_permission(
        tool(command="touch x"), id=REQUEST, details={"impactLevel": "medium"}
    )
    always = approval.options[1]
    assert always.kind is OptionKind.ALLOW_ALWAYS
    assert "raises the autonomy of the whole session to medium" in always.name
    await harness.launch.answer(approval, Answer(outcome=Outcome.APPROVED, option_id="proceed_always"))
    await harness.droid.notify(
        notification("settings_updated", settings={**SETTINGS, "autonomyLevel": "medium"})
    )
    assert harness.sink.events_of(ModeUpdate) == [ModeUpdate(permission_mode=PermissionMode.SAFE_YOLO)]


async def test_reminders_to_the_model_are_hidden_in_both_places(harness: LaunchHarness) -> None:
    reminder = text("<system-reminder>\nToday is Monday.\n</system-reminder>")
    await harness.begin_turn()
    await harness.droid.notify(
        message("user", reminder, id="context-user-1", visibility="llm_only"),
        message("user", reminder, text("And now this"), id="user-7"),
        message("system", reminder, text("Low on credit"), id="s1", visibility="user_only"),
    )
    assert [notice.text for notice in harness.sink.events_of(Notice)] == [
        "Droid sent itself a message: And now this", "Low on credit",
    ]  # fmt: skip


async def test_a_line_of_several_megabytes_is_read(harness: LaunchHarness) -> None:
    await harness.begin_turn()
    long = "x" * (6 * 1024 * 1024)
    await harness.droid.notify(message("assistant", text(long), id="m1"), completed())
    assert len(harness.sink.events_of(AgentMessage)[0].text) == len(long)


async def test_an_interrupt_withdraws_an_open_approval(harness: LaunchHarness) -> None:
    await harness.begin_turn()
    approval = await harness.request_permission(tool(), id=REQUEST)
    await harness.launch.interrupt()
    await harness.droid.notify(
        notification("permission_resolved", requestId=REQUEST, toolUseIds=[], selectedOption="cancel"),
        result("call-1", "Error: cancelled", error=True), completed("cancelled"), IDLE,
    )  # fmt: skip
    assert [output.approval_id for output in harness.sink.outputs_of(ApprovalWithdrawn)] == [approval.id]
    assert len(harness.sink.turn_ends) == 1


async def test_permission_resolved_after_our_own_answer_withdraws_nothing(harness: LaunchHarness) -> None:
    await harness.begin_turn()
    approval = await harness.request_permission(tool(), id=REQUEST)
    await harness.launch.answer(approval, Answer(outcome=Outcome.APPROVED, option_id="proceed_once"))
    await harness.droid.notify(
        notification("permission_resolved", requestId=REQUEST, selectedOption="proceed_once")
    )
    assert harness.sink.outputs_of(ApprovalWithdrawn) == []
    assert len(harness.sink.outputs_of(ApprovalAsked)) == 1


async def test_the_exit_ends_the_turn_of_a_draining_droid(harness: LaunchHarness) -> None:
    """At the end of its input Droid reports idle at once and works on."""
    await harness.begin_turn()
    await harness.droid.notify(delta("m1", "still "), IDLE, delta("m1", "working"), IDLE)
    assert harness.sink.turn_ends == []
    await harness.droid.exit(0)
    assert [end.reason for end in harness.sink.turn_ends] == [TurnEndReason.CRASHED]
    assert [event.partial for event in harness.sink.events_of(AgentMessage)] == [True]


async def test_repeated_tool_output_is_emitted_once(harness: LaunchHarness) -> None:
    await harness.begin_turn()

    def progress(output: str) -> dict[str, object]:
        update = {"type": "status", "text": output[-5:], "fullOutput": output}
        return notification("tool_progress_update", toolUseId="call-1", toolName="Execute", update=update)

    await harness.droid.notify(message("assistant", tool(), id="m1"))
    for output in ("tick 1\n", "tick 1\ntick 2\n", "cleared\n"):
        await harness.droid.notify(progress(output))
    deltas = [fragment.delta for fragment in harness.sink.outputs_of(DeltaEmitted)]
    assert {one.kind for one in deltas} == {DeltaKind.TOOL_OUTPUT}
    assert [(one.offset, one.text) for one in deltas] == [(0, "tick 1\n"), (7, "tick 2\n"), (0, "cleared\n")]


async def test_token_totals_become_increments(harness: LaunchHarness) -> None:
    def used(total: int) -> dict[str, object]:
        tokens = {"inputTokens": total, "outputTokens": total // 10}
        return notification(
            "session_token_usage_changed", tokenUsage=tokens, lastCallTokenUsage={"inputTokens": 90}
        )

    await harness.begin_turn()
    await harness.droid.notify(used(100), used(100), used(250))
    end = {**completed(), "cumulativeTokenUsage": {"inputTokens": 300, "outputTokens": 30}}
    await harness.droid.notify(end, IDLE, used(300))
    updates = harness.sink.events_of(UsageUpdate)
    assert [(one.input_tokens, one.output_tokens) for one in updates] == [(100, 10), (150, 15), (50, 5)]
    assert updates[0].context_used == 90
    assert isinstance(harness.sink.outputs[-1], TurnEnded)


async def test_a_todo_list_in_either_form_is_a_plan(harness: LaunchHarness) -> None:
    lines = tool(
        "call-1", "TodoWrite", todos="1. [completed] first\n2. [in_progress] second\n3. [pending] third"
    )
    entries = tool("call-2", "TodoWrite", todos=[{"content": "only", "status": "in_progress"}])
    broken = tool("call-3", "TodoWrite", todos=7)
    await harness.begin_turn()
    await harness.droid.notify(message("assistant", lines, entries, broken, id="m1"))
    await harness.droid.notify(*(result(f"call-{number}", "ok") for number in (1, 2, 3)))
    plans = [[(one.content, one.status) for one in plan.entries] for plan in harness.sink.events_of(Plan)]
    assert plans == [
        [("first", "completed"), ("second", "in_progress"), ("third", "pending")], [("only", "in_progress")],
    ]  # fmt: skip


async def test_an_older_droid_marks_a_failure_only_by_its_text(start: StartLaunch) -> None:
    harness = await start(protocol=OLD)
    await harness.begin_turn()
    await harness.droid.notify(message("assistant", tool(), id="m1"), session=None)
    await harness.droid.notify(
        notification("tool_result", toolUseId="call-1", content="Error: no such file"), session=None
    )
    assert harness.sink.events_of(ToolCallUpdate)[-1].status is ToolStatus.FAILED


async def test_mcp_status_and_required_authentication_are_emitted(harness: LaunchHarness) -> None:
    server = {"name": "tracker", "status": "failed", "serverType": "http"}
    nobody = notification("mcp_status_changed", servers=[], summary={"total": 0})
    failed = notification("mcp_status_changed", servers=[server], summary={"total": 1, "failed": 1})
    address = "https://tracker.example/authorize?state=1"
    required = notification(
        "mcp_auth_required", serverName="tracker", authUrl=address, message="Please sign in"
    )
    await harness.droid.notify(nobody, nobody, failed, failed, required, session=None)
    status, auth = harness.sink.events_of(Notice)
    assert (status.code, status.level, status.meta["servers"]) == ("mcp_status", "warning", [server])
    assert (auth.code, auth.meta["authUrl"]) == ("mcp_auth_required", address)
    assert address in auth.text


async def test_no_task_is_left_after_stop(harness: LaunchHarness) -> None:
    await harness.begin_turn()
    await harness.droid.notify(delta("m1", "x"), IDLE)
    await harness.launch.stop(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}
