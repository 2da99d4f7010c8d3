"""A turn ends exactly once, after its last event, and has no time limit."""

from __future__ import annotations

import asyncio

import pytest

from farsteer.agents.base import DeltaEmitted, EventEmitted, Prompt, Registered, TurnBegun, TurnEnded
from farsteer.agents.droid import turn_completion
from farsteer.agents.droid.turn_completion import Outstanding, TurnCompletionDetector
from farsteer.core.approvals import Answer, Outcome
from farsteer.core.events import AgentMessage, Notice, TurnEndReason
from tests.agents.droid.conftest import StartLaunch
from tests.agents.droid.fake_droid import (
    NEW,
    OLD,
    SESSION,
    LaunchHarness,
    completed,
    delta,
    message,
    notification,
    notification_line,
    state,
    text,
    tool,
)

IDLE, STREAMING = state("idle"), state("streaming_assistant_message")


async def test_agent_turn_completed_ends_the_turn(harness: LaunchHarness) -> None:
    turn = await harness.begin_turn()
    await harness.droid.notify(message("assistant", text("hi"), id="m1"))
    assert harness.sink.turn_ends == []
    await harness.droid.notify(completed(), IDLE)
    assert harness.sink.turn_ends == [TurnEnded(turn_id=turn, reason=TurnEndReason.END_TURN)]
    assert isinstance(harness.sink.outputs[-1], TurnEnded)


async def test_idle_does_not_end_the_turn_of_a_newer_droid(harness: LaunchHarness) -> None:
    await harness.begin_turn()
    await harness.droid.notify(delta("m1", "wor"), IDLE, delta("m1", "ld"))
    assert harness.sink.turn_ends == []
    await harness.droid.notify(message("assistant", text("world"), id="m1"), completed(), IDLE)
    assert len(harness.sink.turn_ends) == 1
    assert [event.text for event in harness.sink.events_of(AgentMessage)] == ["world"]


async def test_idle_ends_the_turn_of_an_older_droid(start: StartLaunch) -> None:
    harness = await start(protocol=OLD)
    await harness.begin_turn()
    await harness.droid.notify(delta("m1", "hi"), message("assistant", text("hi"), id="m1"), session=None)
    assert harness.sink.turn_ends == []
    await harness.droid.notify(IDLE, session=None)
    assert [end.reason for end in harness.sink.turn_ends] == [TurnEndReason.END_TURN]


async def test_an_idle_before_the_last_message_waits_for_it(start: StartLaunch) -> None:
    harness = await start(protocol=OLD)
    await harness.begin_turn()
    await harness.droid.notify(IDLE, session=None)
    assert harness.sink.turn_ends == []
    await harness.droid.notify(message("assistant", text("the answer"), id="m1"), session=None)
    assert [type(output) for output in harness.sink.outputs[-2:]] == [EventEmitted, TurnEnded]


async def test_an_idle_before_a_tool_result_waits_for_it(start: StartLaunch) -> None:
    harness = await start(protocol=OLD)
    await harness.begin_turn()
    await harness.droid.notify(
        message("assistant", tool(), id="m1"), state("executing_tool"), IDLE, session=None
    )
    assert harness.sink.turn_ends == []
    await harness.droid.notify(notification("tool_result", toolUseId="call-1", content="done"), session=None)
    assert len(harness.sink.turn_ends) == 1


async def test_a_message_that_never_comes_does_not_keep_the_turn_open(
    start: StartLaunch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_completion, "SILENCE_TIMEOUT", 0.02)
    harness = await start(protocol=OLD)
    await harness.begin_turn()
    await harness.droid.notify(delta("m1", "half a wo"), IDLE, session=None)
    await harness.sink.wait_until(lambda: bool(harness.sink.turn_ends))
    (said,) = harness.sink.events_of(AgentMessage)
    assert (said.text, said.partial) == ("half a wo", True)
    assert harness.sink.outputs[-1] == harness.sink.turn_ends[0]


async def test_silence_ends_a_turn_only_while_droid_is_idle(
    start: StartLaunch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_completion, "SILENCE_TIMEOUT", 0.02)
    harness = await start(protocol=NEW)
    await harness.begin_turn()
    await asyncio.sleep(0.1)  # the silence is the test
    assert harness.sink.turn_ends == [], "a silent turn that is not idle has no time limit"
    await harness.droid.notify(IDLE)
    await harness.sink.wait_until(lambda: bool(harness.sink.turn_ends))


async def test_no_timeout_applies_while_an_approval_is_open(
    start: StartLaunch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_completion, "SILENCE_TIMEOUT", 0.02)
    harness = await start(protocol=NEW)
    await harness.begin_turn()
    await harness.request_permission(tool(), id="33333333-3333-4333-8333-333333333333")
    await harness.droid.notify(IDLE)
    await asyncio.sleep(0.1)  # the silence is the test
    assert harness.sink.turn_ends == []


async def test_a_late_idle_of_the_previous_turn_ends_nothing(start: StartLaunch) -> None:
    harness = await start(protocol=OLD)
    await harness.begin_turn()
    await harness.droid.notify(message("assistant", text("one"), id="m1"), IDLE, session=None)
    sending = asyncio.create_task(harness.launch.send(Prompt(turn_id="turn-2", text="again")))
    request = await harness.droid.next_request("add_user_message")
    await harness.droid.notify(IDLE, IDLE, session=None)
    await harness.droid.respond(request)
    await sending
    assert len(harness.sink.turn_ends) == 1, "repeated idle belongs to the turn that has ended"
    await harness.droid.notify(STREAMING, message("assistant", text("two"), id="m2"), IDLE, session=None)
    assert [end.turn_id for end in harness.sink.turn_ends] == ["turn-1", "turn-2"]


async def test_a_turn_that_completes_before_its_prompt_is_shown_ends(harness: LaunchHarness) -> None:
    """The real CLI with a fast model: completed, idle, and only then the message that began the turn."""
    sending = asyncio.create_task(harness.launch.send(Prompt(turn_id="turn-1", text="hello")))
    request = await harness.droid.next_request("add_user_message")
    await harness.droid.respond(request)
    await sending
    await harness.droid.notify(
        STREAMING, message("assistant", text("hi"), id="m1"), completed(turn="u1"), IDLE
    )
    assert harness.sink.turn_ends == []
    await harness.droid.notify({**message("user", text("hello"), id="u1"), "requestId": request["id"]})
    assert harness.sink.turn_ends == [TurnEnded(turn_id="turn-1", reason=TurnEndReason.END_TURN)]


async def test_a_completion_of_another_turn_ends_nothing(harness: LaunchHarness) -> None:
    await harness.begin_turn()
    await harness.droid.notify(completed(turn="somebody-else"))
    assert harness.sink.turn_ends == []
    await harness.droid.notify(completed(), completed(), IDLE, IDLE)
    assert len(harness.sink.turn_ends) == 1, "a second completion is none"


@pytest.mark.parametrize(
    ("reason", "end"),
    [
        ("completed", TurnEndReason.END_TURN),
        ("cancelled", TurnEndReason.CANCELLED),
        ("permission_rejected", TurnEndReason.CANCELLED),
        ("prompt_rejected", TurnEndReason.REFUSAL),
        ("process_exit", TurnEndReason.CRASHED),
        ("model_authentication_failed", TurnEndReason.FAILED),
        ("model_usage_exhausted", TurnEndReason.FAILED),
        ("no_approver_available", TurnEndReason.FAILED),
        ("a_future_reason", TurnEndReason.FAILED),
    ],
)
async def test_each_reason_is_mapped_and_an_unknown_one_is_a_failure(
    harness: LaunchHarness, reason: str, end: TurnEndReason
) -> None:
    await harness.begin_turn()
    await harness.droid.notify(completed(reason))
    assert harness.sink.turn_ends[0].reason is end
    if end is TurnEndReason.FAILED:
        assert reason in str(harness.sink.turn_ends[0].error)


async def test_a_failed_turn_has_the_reported_error(harness: LaunchHarness) -> None:
    await harness.begin_turn()
    await harness.droid.notify(notification("error", message="401 Incorrect API key", errorType="Error"))
    await harness.droid.notify(completed("model_authentication_failed"))
    assert harness.sink.turn_ends[0].error == "model_authentication_failed: 401 Incorrect API key"
    (notice,) = harness.sink.events_of(Notice)
    assert (notice.level, notice.code) == ("error", "agent_error")


async def test_an_error_of_an_older_droid_fails_the_turn(start: StartLaunch) -> None:
    harness = await start(protocol=OLD)
    await harness.begin_turn()
    await harness.droid.notify(notification("error", message="Connection error."), IDLE, session=None)
    assert (harness.sink.turn_ends[0].reason, harness.sink.turn_ends[0].error) == (
        TurnEndReason.FAILED,
        "Connection error.",
    )


async def test_an_interrupt_of_an_older_droid_ends_at_idle_with_the_partial_text(start: StartLaunch) -> None:
    harness = await start(protocol=OLD)
    await harness.begin_turn()
    await harness.droid.notify(delta("m1", "half"), session=None)
    await harness.launch.interrupt()
    request = await harness.droid.next_request("interrupt_session")
    await harness.droid.respond(request)
    await harness.droid.notify(IDLE, session=None)
    assert harness.sink.turn_ends[0].reason is TurnEndReason.CANCELLED
    assert [event.partial for event in harness.sink.events_of(AgentMessage)] == [True]


async def test_a_plan_in_a_new_session_ends_once_and_changes_the_native_id(
    harness: LaunchHarness,
) -> None:
    other = "99999999-9999-4999-8999-999999999999"
    await harness.begin_turn()
    approval = await harness.request_permission(
        tool(name="ExitSpecMode", plan="# Plan"), id="33333333-3333-4333-8333-333333333333", kind="exit_spec_mode",
        options=[("proceed_once", "Go"), ("proceed_new_session_low", "New session"), ("cancel", "No")],
    )  # fmt: skip
    await harness.launch.answer(
        approval, Answer(outcome=Outcome.APPROVED, option_id="proceed_new_session_low")
    )
    await harness.droid.notify(
        notification("tool_result", toolUseId="call-1", content="approved", isError=False)
    )
    await harness.droid.notify(
        STREAMING, message("user", text("Implement the plan"), id="user-9"),
        message("assistant", text("Implemented."), id="m9"), completed(turn="user-9"), IDLE, session=other,
    )  # fmt: skip
    assert harness.sink.turn_ends == [], "the end of the original turn is still missing"
    await harness.droid.notify(completed("spec_handoff", "user-1"), session=SESSION)
    assert [end.reason for end in harness.sink.turn_ends] == [TurnEndReason.END_TURN]
    assert [output.native_id for output in harness.sink.outputs_of(Registered)] == [SESSION, other]
    assert harness.launch.native_id == other
    await harness.begin_turn()
    await harness.droid.notify(
        message("assistant", text("on"), id="m10"), completed(turn="user-2"), session=other
    )
    assert len(harness.sink.turn_ends) == 2


def test_a_handoff_that_fails_in_the_other_session_fails_the_turn() -> None:
    nothing = Outstanding(tool=False, approval=False, message=False)
    detector = TurnCompletionDetector()
    detector.start_turn()
    detector.prompt_received("user-1")
    detector.turn_completed("spec_handoff", "user-1")
    assert detector.result(nothing) is None, "the other session is still working"
    detector.turn_completed("model_provider_unavailable", "user-9", in_handoff=True)
    result = detector.result(nothing)
    assert result is not None
    assert result.reason is TurnEndReason.FAILED


async def test_a_subagents_session_is_never_followed(harness: LaunchHarness) -> None:
    await harness.begin_turn()
    approval = await harness.request_permission(
        tool(name="ExitSpecMode", plan="# Plan"), id="33333333-3333-4333-8333-333333333333", kind="exit_spec_mode",
        options=[("proceed_new_session", "New session"), ("cancel", "No")],
    )  # fmt: skip
    await harness.launch.answer(approval, Answer(outcome=Outcome.APPROVED, option_id="proceed_new_session"))
    await harness.droid.notify(notification("child_session_available", childSessionId="a-child", timestamp=1))
    await harness.droid.notify(STREAMING, session="a-child")
    assert harness.launch.native_id == SESSION
    await harness.droid.notify(STREAMING, session="the-new-one")
    assert harness.launch.native_id == "the-new-one"


async def test_notifications_of_another_session_are_passed_on_and_change_nothing(
    harness: LaunchHarness,
) -> None:
    await harness.begin_turn()
    await harness.droid.send(
        *(
            notification_line(payload, "a-subagent")
            for payload in (
                delta("c1", "child"),
                message("assistant", text("child"), id="c1"),
                completed(),
                IDLE,
            )
        )
    )
    assert harness.launch.native_id == SESSION
    assert harness.sink.turn_ends == []
    assert [event.native_kind for event in harness.sink.events_of() if hasattr(event, "native_kind")] == [
        "create_message", "agent_turn_completed",
    ]  # fmt: skip


async def test_an_early_idle_waits_half_a_minute_for_its_message(start: StartLaunch) -> None:
    """However slow the machine is, and although no text of the message was streamed."""
    harness = await start(protocol=OLD)
    await harness.begin_turn()
    await harness.droid.notify(STREAMING, IDLE, session=None)
    assert harness.launch._dispatcher.silence_timeout == turn_completion.SILENCE_TIMEOUT == 30.0
    await harness.droid.notify(message("assistant", text("the answer"), id="m1"), session=None)
    assert [type(output) for output in harness.sink.outputs[-2:]] == [EventEmitted, TurnEnded]


async def test_after_a_denial_no_message_is_waited_for(start: StartLaunch) -> None:
    harness = await start(protocol=OLD)
    await harness.begin_turn()
    await harness.droid.notify(message("assistant", tool(), id="m1"), session=None)
    approval = await harness.request_permission(tool(), id="33333333-3333-4333-8333-333333333333")
    await harness.launch.answer(approval, Answer(outcome=Outcome.DENIED))
    result = notification(
        "tool_result", toolUseId="call-1", content="Error: Tool execution cancelled by user"
    )
    await harness.droid.notify(result, STREAMING, IDLE, session=None)
    assert len(harness.sink.turn_ends) == 1


async def test_a_turn_that_droid_begins_by_itself_has_a_start_and_an_end(harness: LaunchHarness) -> None:
    await harness.begin_turn()
    await harness.droid.notify(message("assistant", text("hi"), id="m1"), completed(), IDLE)
    await harness.droid.notify(
        STREAMING,
        message("user", text("<system-notification>"), id="u2", visibility="llm_only"),
        message("assistant", text("The build is done."), id="m2"),
        completed(turn="u2"),
        IDLE,
        IDLE,
    )
    (begun,) = harness.sink.outputs_of(TurnBegun)
    assert begun.message is None
    assert [end.turn_id for end in harness.sink.turn_ends] == ["turn-1", begun.turn_id]
    first = harness.sink.outputs.index(begun)
    assert [type(output) for output in harness.sink.outputs[first:]] == [TurnBegun, EventEmitted, TurnEnded]


async def test_a_message_takes_over_a_turn_that_droid_began(harness: LaunchHarness) -> None:
    await harness.droid.notify(STREAMING, delta("m1", "The bui"))
    (begun,) = harness.sink.outputs_of(TurnBegun)
    turn = await harness.begin_turn(user="u2")
    await harness.droid.notify(completed(turn="u1"), IDLE)
    assert [end.turn_id for end in harness.sink.turn_ends] == [begun.turn_id]
    await harness.droid.notify(message("assistant", text("hi"), id="m2"), completed(turn="u2"), IDLE)
    assert [end.turn_id for end in harness.sink.turn_ends] == [begun.turn_id, turn]


async def test_a_message_that_droid_was_writing_goes_on_in_the_turn_that_takes_over(
    harness: LaunchHarness,
) -> None:
    await harness.droid.notify(STREAMING, delta("m1", "The bui"))
    await harness.begin_turn(user="u2")
    await harness.droid.notify(
        delta("m1", "ld is done."), message("assistant", text("The build is done."), id="m1")
    )
    streamed = [output.delta.text for output in harness.sink.outputs_of(DeltaEmitted)]
    assert streamed == ["The bui", "ld is done."]
    (whole,) = harness.sink.events_of(AgentMessage)
    assert whole.text == "The build is done."
    assert not whole.partial
