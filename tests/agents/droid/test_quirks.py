"""What Droid does that a client must absorb, each by its own name."""

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
from tests.agents.droid.conftest import Open
from tests.agents.droid.peer import OLD, SETTINGS, Stage, completed, delta, message, note, state, text, tool

REQUEST = "33333333-3333-4333-8333-333333333333"
IDLE = state("idle")


def result(call: str, content: str, *, error: bool = False) -> dict[str, object]:
    return note("tool_result", toolUseId=call, messageId="r1", content=content, isError=error)


async def test_duplicate_notifications_are_told_once(stage: Stage) -> None:
    await stage.begin()
    said = message("assistant", text("hi"), tool(command="ls"), id="m1")
    call = note("tool_call", toolUse=tool(command="ls"))
    settings = note("settings_updated", settings=SETTINGS)
    title = note("session_title_updated", title="A title")
    error = message("system", text("Something broke"), id="s1", visibility="user_only")
    for one in (settings, settings, title, title, call, call, said, said, call, error, error):
        await stage.peer.notes(one)
    await stage.peer.notes(result("call-1", "x"), result("call-1", "x"), completed(), completed(), IDLE, IDLE)
    kinds = [type(event) for event in stage.sink.events()]
    assert kinds == [TitleUpdate, AgentMessage, ToolCall, Notice, ToolCallUpdate]
    assert len(stage.sink.ends) == 1


async def test_llm_retry_streams_the_same_text_again_and_it_is_not_doubled(stage: Stage) -> None:
    await stage.begin()
    await stage.peer.notes(delta("m1", "one "), delta("m1", "two "))
    await stage.peer.notes(note("llm_retry", attempt=1, reason="timeout"))
    await stage.peer.notes(delta("m1", "one "), delta("m1", "two "), delta("m1", "three"))
    fragments = [fragment.delta for fragment in stage.sink.of(DeltaEmitted)]
    assert [(one.offset, one.text) for one in fragments] == [(0, "one two "), (0, "one two three")]
    await stage.peer.notes(message("assistant", text("one two three"), id="m1"), completed())
    assert [event.text for event in stage.sink.events(AgentMessage)] == ["one two three"]


async def test_llm_retry_leaves_no_half_message_when_the_turn_fails(stage: Stage) -> None:
    await stage.begin()
    await stage.peer.notes(delta("m1", "one "), note("llm_retry", attempt=4, reason="timeout"))
    await stage.peer.notes(completed("model_provider_unavailable"))
    assert stage.sink.events(AgentMessage) == []


async def test_a_model_that_is_retried_for_minutes_is_visible_and_can_be_interrupted(stage: Stage) -> None:
    await stage.begin()
    for attempt in range(1, 9):
        await stage.peer.notes(note("llm_retry", attempt=attempt, reason="overloaded"))
    notices = stage.sink.events(Notice)
    assert [notice.meta["attempt"] for notice in notices] == [*range(1, 9)]
    assert {notice.code for notice in notices} == {"model_retry"}
    assert stage.sink.ends == [], "no timer of ours ends it"
    await stage.launch.interrupt()
    await stage.peer.request("interrupt_session")
    await stage.peer.notes(completed("cancelled"), IDLE)
    assert [end.reason for end in stage.sink.ends] == [TurnEndReason.CANCELLED]


async def test_assistant_message_retracted_takes_back_what_was_streamed(stage: Stage) -> None:
    await stage.begin()
    await stage.peer.notes(
        delta("m1", "word word word "), note("assistant_message_retracted", messageId="m1")
    )
    await stage.peer.notes(
        delta("m2", "better"), message("assistant", text("better"), id="m2"), completed(), IDLE
    )
    assert [event.text for event in stage.sink.events(AgentMessage)] == ["better"]
    (notice,) = stage.sink.events(Notice)
    assert (notice.code, notice.meta["messageIds"]) == ("message_retracted", ["m1:0"])


async def test_partial_text_after_an_interrupt_is_kept_and_marked(stage: Stage) -> None:
    await stage.begin()
    await stage.peer.notes(note("thinking_text_delta", messageId="m1", blockIndex=0, textDelta="hm"))
    await stage.peer.notes(delta("m1", "half an ans", 1))
    await stage.launch.interrupt()
    await stage.peer.notes(
        message("system", text("Request cancelled by user"), id="s1", visibility="llm_only"),
        completed("cancelled"), IDLE,
    )  # fmt: skip
    (said,) = stage.sink.events(AgentMessage)
    (thought,) = stage.sink.events(AgentThought)
    assert (said.text, said.partial, thought.text, thought.partial) == ("half an ans", True, "hm", True)
    assert isinstance(stage.sink.outputs[-1], TurnEnded)
    assert stage.sink.events(Notice) == [], "what only the model is to see is not shown"


async def test_a_double_tool_result_counts_once_and_the_first_wins(stage: Stage) -> None:
    await stage.begin()
    await stage.peer.notes(message("assistant", tool(), id="m1"))
    await stage.peer.notes(result("call-1", "Error: Tool execution cancelled by user", error=True))
    await stage.peer.notes(result("call-1", "Error: Tool execution cancelled: Batch cancelled", error=True))
    (update,) = stage.sink.events(ToolCallUpdate)
    assert update.status is ToolStatus.FAILED
    assert update.content[0].text == "Error: Tool execution cancelled by user"


async def test_proceed_always_is_shown_as_what_it_is_and_its_effect_is_told(stage: Stage) -> None:
    await stage.begin()
    approval = await stage.ask(tool(command="touch x"), id=REQUEST, details={"impactLevel": "medium"})
    always = approval.options[1]
    assert always.kind is OptionKind.ALLOW_ALWAYS
    assert "raises the autonomy of the whole session to medium" in always.name
    await stage.launch.answer(approval, Answer(outcome=Outcome.APPROVED, option_id="proceed_always"))
    await stage.peer.notes(note("settings_updated", settings={**SETTINGS, "autonomyLevel": "medium"}))
    assert stage.sink.events(ModeUpdate) == [ModeUpdate(permission_mode=PermissionMode.SAFE_YOLO)]


async def test_reminders_to_the_model_are_hidden_in_both_places(stage: Stage) -> None:
    reminder = text("<system-reminder>\nToday is Monday.\n</system-reminder>")
    await stage.begin()
    await stage.peer.notes(
        message("user", reminder, id="context-user-1", visibility="llm_only"),
        message("user", reminder, text("And now this"), id="user-7"),
        message("system", reminder, text("Low on credit"), id="s1", visibility="user_only"),
    )
    assert [notice.text for notice in stage.sink.events(Notice)] == [
        "Droid tells itself: And now this", "Low on credit",
    ]  # fmt: skip


async def test_a_line_of_several_megabytes_is_read(stage: Stage) -> None:
    await stage.begin()
    long = "x" * (6 * 1024 * 1024)
    await stage.peer.notes(message("assistant", text(long), id="m1"), completed())
    assert len(stage.sink.events(AgentMessage)[0].text) == len(long)


async def test_an_interrupt_while_a_person_is_asked_takes_the_question_back(stage: Stage) -> None:
    await stage.begin()
    approval = await stage.ask(tool(), id=REQUEST)
    await stage.launch.interrupt()
    await stage.peer.notes(
        note("permission_resolved", requestId=REQUEST, toolUseIds=[], selectedOption="cancel"),
        result("call-1", "Error: cancelled", error=True), completed("cancelled"), IDLE,
    )  # fmt: skip
    assert [output.approval_id for output in stage.sink.of(ApprovalWithdrawn)] == [approval.id]
    assert len(stage.sink.ends) == 1


async def test_permission_resolved_after_our_own_answer_takes_nothing_back(stage: Stage) -> None:
    await stage.begin()
    approval = await stage.ask(tool(), id=REQUEST)
    await stage.launch.answer(approval, Answer(outcome=Outcome.APPROVED, option_id="proceed_once"))
    await stage.peer.notes(note("permission_resolved", requestId=REQUEST, selectedOption="proceed_once"))
    assert stage.sink.of(ApprovalWithdrawn) == []
    assert len(stage.sink.of(ApprovalAsked)) == 1


async def test_a_draining_droid_ends_the_turn_with_its_exit(stage: Stage) -> None:
    """At the end of its input it says idle at once and works on."""
    await stage.begin()
    await stage.peer.notes(delta("m1", "still "), IDLE, delta("m1", "working"), IDLE)
    assert stage.sink.ends == []
    await stage.peer.exit(0)
    assert [end.reason for end in stage.sink.ends] == [TurnEndReason.CRASHED]
    assert [event.partial for event in stage.sink.events(AgentMessage)] == [True]


async def test_the_whole_output_that_droid_repeats_goes_out_once(stage: Stage) -> None:
    await stage.begin()

    def progress(output: str) -> dict[str, object]:
        update = {"type": "status", "text": output[-5:], "fullOutput": output}
        return note("tool_progress_update", toolUseId="call-1", toolName="Execute", update=update)

    await stage.peer.notes(message("assistant", tool(), id="m1"))
    for output in ("tick 1\n", "tick 1\ntick 2\n", "cleared\n"):
        await stage.peer.notes(progress(output))
    deltas = [fragment.delta for fragment in stage.sink.of(DeltaEmitted)]
    assert {one.kind for one in deltas} == {DeltaKind.TOOL_OUTPUT}
    assert [(one.offset, one.text) for one in deltas] == [(0, "tick 1\n"), (7, "tick 2\n"), (0, "cleared\n")]


async def test_totals_of_tokens_become_what_was_added(stage: Stage) -> None:
    def used(total: int) -> dict[str, object]:
        tokens = {"inputTokens": total, "outputTokens": total // 10}
        return note("session_token_usage_changed", tokenUsage=tokens, lastCallTokenUsage={"inputTokens": 90})

    await stage.begin()
    await stage.peer.notes(used(100), used(100), used(250))
    end = {**completed(), "cumulativeTokenUsage": {"inputTokens": 300, "outputTokens": 30}}
    await stage.peer.notes(end, IDLE, used(300))
    updates = stage.sink.events(UsageUpdate)
    assert [(one.input_tokens, one.output_tokens) for one in updates] == [(100, 10), (150, 15), (50, 5)]
    assert updates[0].context_used == 90
    assert isinstance(stage.sink.outputs[-1], TurnEnded)


async def test_a_todo_list_is_a_plan_in_either_shape(stage: Stage) -> None:
    lines = tool(
        "call-1", "TodoWrite", todos="1. [completed] first\n2. [in_progress] second\n3. [pending] third"
    )
    entries = tool("call-2", "TodoWrite", todos=[{"content": "only", "status": "in_progress"}])
    broken = tool("call-3", "TodoWrite", todos=7)
    await stage.begin()
    await stage.peer.notes(message("assistant", lines, entries, broken, id="m1"))
    await stage.peer.notes(*(result(f"call-{number}", "ok") for number in (1, 2, 3)))
    plans = [[(one.content, one.status) for one in plan.entries] for plan in stage.sink.events(Plan)]
    assert plans == [
        [("first", "completed"), ("second", "in_progress"), ("third", "pending")], [("only", "in_progress")],
    ]  # fmt: skip


async def test_a_failure_that_an_old_droid_marks_by_its_text_only_is_one(start: Open) -> None:
    stage = await start(protocol=OLD)
    await stage.begin()
    await stage.peer.notes(message("assistant", tool(), id="m1"), session=None)
    await stage.peer.notes(
        note("tool_result", toolUseId="call-1", content="Error: no such file"), session=None
    )
    assert stage.sink.events(ToolCallUpdate)[-1].status is ToolStatus.FAILED


async def test_mcp_status_and_the_need_to_authenticate_reach_the_clients(stage: Stage) -> None:
    server = {"name": "tracker", "status": "failed", "serverType": "http"}
    nobody = note("mcp_status_changed", servers=[], summary={"total": 0})
    failed = note("mcp_status_changed", servers=[server], summary={"total": 1, "failed": 1})
    address = "https://tracker.example/authorize?state=1"
    required = note("mcp_auth_required", serverName="tracker", authUrl=address, message="Please sign in")
    await stage.peer.notes(nobody, nobody, failed, failed, required, session=None)
    status, auth = stage.sink.events(Notice)
    assert (status.code, status.level, status.meta["servers"]) == ("mcp_status", "warning", [server])
    assert (auth.code, auth.meta["authUrl"]) == ("mcp_auth_required", address)
    assert address in auth.text


async def test_nothing_runs_on_when_the_launch_is_over(stage: Stage) -> None:
    await stage.begin()
    await stage.peer.notes(delta("m1", "x"), IDLE)
    await stage.launch.stop(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}
