"""A turn ends exactly once, after its last event: never early, never twice, never by a timer on its whole."""

from __future__ import annotations

import asyncio

import pytest

from farsteer.agents.base import EventEmitted, Prompt, Registered, TurnEnded
from farsteer.agents.droid import ending
from farsteer.agents.droid.ending import Ending
from farsteer.core.approvals import Answer, Outcome
from farsteer.core.events import AgentMessage, Notice, TurnEndReason
from tests.agents.droid.conftest import Open
from tests.agents.droid.peer import (
    NEW,
    OLD,
    SESSION,
    Stage,
    completed,
    delta,
    message,
    note,
    note_line,
    state,
    text,
    tool,
)

IDLE, STREAMING = state("idle"), state("streaming_assistant_message")


async def test_agent_turn_completed_ends_the_turn(stage: Stage) -> None:
    turn = await stage.begin()
    await stage.peer.notes(message("assistant", text("hi"), id="m1"))
    assert stage.sink.ends == []
    await stage.peer.notes(completed(), IDLE)
    assert stage.sink.ends == [TurnEnded(turn_id=turn, reason=TurnEndReason.END_TURN)]
    assert isinstance(stage.sink.outputs[-1], TurnEnded)


async def test_a_premature_idle_is_no_end_where_droid_names_the_end(stage: Stage) -> None:
    await stage.begin()
    await stage.peer.notes(delta("m1", "wor"), IDLE, delta("m1", "ld"))
    assert stage.sink.ends == []
    await stage.peer.notes(message("assistant", text("world"), id="m1"), completed(), IDLE)
    assert len(stage.sink.ends) == 1
    assert [event.text for event in stage.sink.events(AgentMessage)] == ["world"]


async def test_an_older_droid_ends_with_idle(start: Open) -> None:
    stage = await start(protocol=OLD)
    await stage.begin()
    await stage.peer.notes(delta("m1", "hi"), message("assistant", text("hi"), id="m1"), session=None)
    assert stage.sink.ends == []
    await stage.peer.notes(IDLE, session=None)
    assert [end.reason for end in stage.sink.ends] == [TurnEndReason.END_TURN]


async def test_a_premature_idle_waits_for_the_message_it_overtook(start: Open) -> None:
    stage = await start(protocol=OLD)
    await stage.begin()
    await stage.peer.notes(IDLE, session=None)
    assert stage.sink.ends == []
    await stage.peer.notes(message("assistant", text("the answer"), id="m1"), session=None)
    assert [type(output) for output in stage.sink.outputs[-2:]] == [EventEmitted, TurnEnded]


async def test_a_premature_idle_waits_for_the_result_of_a_tool(start: Open) -> None:
    stage = await start(protocol=OLD)
    await stage.begin()
    await stage.peer.notes(message("assistant", tool(), id="m1"), state("executing_tool"), IDLE, session=None)
    assert stage.sink.ends == []
    await stage.peer.notes(note("tool_result", toolUseId="call-1", content="done"), session=None)
    assert len(stage.sink.ends) == 1


async def test_a_message_that_never_comes_does_not_keep_the_turn_open(
    start: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ending, "MESSAGE_PATIENCE", 0.02)
    stage = await start(protocol=OLD)
    await stage.begin()
    await stage.peer.notes(delta("m1", "half a wo"), IDLE, session=None)
    await stage.sink.until(lambda: bool(stage.sink.ends))
    (said,) = stage.sink.events(AgentMessage)
    assert (said.text, said.partial) == ("half a wo", True)
    assert stage.sink.outputs[-1] == stage.sink.ends[0]


async def test_silence_ends_a_turn_only_while_droid_is_idle(
    start: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ending, "SILENCE_PATIENCE", 0.02)
    stage = await start(protocol=NEW)
    await stage.begin()
    await asyncio.sleep(0.1)  # silence is what is tested
    assert stage.sink.ends == [], "a model may think as long as it likes"
    await stage.peer.notes(IDLE)
    await stage.sink.until(lambda: bool(stage.sink.ends))


async def test_no_timer_runs_while_a_person_is_asked(start: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "SILENCE_PATIENCE", 0.02)
    stage = await start(protocol=NEW)
    await stage.begin()
    await stage.ask(tool(), id="33333333-3333-4333-8333-333333333333")
    await stage.peer.notes(IDLE)
    await asyncio.sleep(0.1)  # silence is what is tested
    assert stage.sink.ends == []


async def test_a_late_idle_of_the_turn_before_ends_nothing(start: Open) -> None:
    stage = await start(protocol=OLD)
    await stage.begin()
    await stage.peer.notes(message("assistant", text("one"), id="m1"), IDLE, session=None)
    sending = asyncio.create_task(stage.launch.send(Prompt(turn_id="turn-2", text="again")))
    request = await stage.peer.request("add_user_message")
    await stage.peer.notes(IDLE, IDLE, session=None)
    await stage.peer.answer(request)
    await sending
    assert len(stage.sink.ends) == 1, "duplicates of idle belong to the turn they end"
    await stage.peer.notes(STREAMING, message("assistant", text("two"), id="m2"), IDLE, session=None)
    assert [end.turn_id for end in stage.sink.ends] == ["turn-1", "turn-2"]


async def test_a_turn_that_ends_before_its_own_message_is_shown_ends(stage: Stage) -> None:
    """The real CLI with a fast model: completed, idle, and only then the message that began the turn."""
    sending = asyncio.create_task(stage.launch.send(Prompt(turn_id="turn-1", text="hello")))
    request = await stage.peer.request("add_user_message")
    await stage.peer.answer(request)
    await sending
    await stage.peer.notes(STREAMING, message("assistant", text("hi"), id="m1"), completed(turn="u1"), IDLE)
    assert stage.sink.ends == []
    await stage.peer.notes({**message("user", text("hello"), id="u1"), "requestId": request["id"]})
    assert stage.sink.ends == [TurnEnded(turn_id="turn-1", reason=TurnEndReason.END_TURN)]


async def test_a_completion_of_another_turn_ends_nothing(stage: Stage) -> None:
    await stage.begin()
    await stage.peer.notes(completed(turn="somebody-else"))
    assert stage.sink.ends == []
    await stage.peer.notes(completed(), completed(), IDLE, IDLE)
    assert len(stage.sink.ends) == 1, "a second completion is none"


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
        ("a_reason_of_tomorrow", TurnEndReason.FAILED),
    ],
)
async def test_each_reason_has_its_meaning_and_an_unknown_one_is_a_failure(
    stage: Stage, reason: str, end: TurnEndReason
) -> None:
    await stage.begin()
    await stage.peer.notes(completed(reason))
    assert stage.sink.ends[0].reason is end
    if end is TurnEndReason.FAILED:
        assert reason in str(stage.sink.ends[0].error)


async def test_a_failed_turn_says_why(stage: Stage) -> None:
    await stage.begin()
    await stage.peer.notes(note("error", message="401 Incorrect API key", errorType="Error"))
    await stage.peer.notes(completed("model_authentication_failed"))
    assert stage.sink.ends[0].error == "model_authentication_failed: 401 Incorrect API key"
    (notice,) = stage.sink.events(Notice)
    assert (notice.level, notice.code) == ("error", "agent_error")


async def test_an_error_an_older_droid_reports_fails_its_turn(start: Open) -> None:
    stage = await start(protocol=OLD)
    await stage.begin()
    await stage.peer.notes(note("error", message="Connection error."), IDLE, session=None)
    assert (stage.sink.ends[0].reason, stage.sink.ends[0].error) == (
        TurnEndReason.FAILED,
        "Connection error.",
    )


async def test_an_interrupt_of_an_older_droid_ends_at_idle_with_the_partial_text(start: Open) -> None:
    stage = await start(protocol=OLD)
    await stage.begin()
    await stage.peer.notes(delta("m1", "half"), session=None)
    await stage.launch.interrupt()
    request = await stage.peer.request("interrupt_session")
    await stage.peer.answer(request)
    await stage.peer.notes(IDLE, session=None)
    assert stage.sink.ends[0].reason is TurnEndReason.CANCELLED
    assert [event.partial for event in stage.sink.events(AgentMessage)] == [True]


async def test_a_plan_carried_out_in_a_new_session_ends_once_and_moves_the_conversation(stage: Stage) -> None:
    other = "99999999-9999-4999-8999-999999999999"
    await stage.begin()
    approval = await stage.ask(
        tool(name="ExitSpecMode", plan="# Plan"), id="33333333-3333-4333-8333-333333333333", kind="exit_spec_mode",
        options=[("proceed_once", "Go"), ("proceed_new_session_low", "New session"), ("cancel", "No")],
    )  # fmt: skip
    await stage.launch.answer(approval, Answer(outcome=Outcome.APPROVED, option_id="proceed_new_session_low"))
    await stage.peer.notes(note("tool_result", toolUseId="call-1", content="approved", isError=False))
    await stage.peer.notes(
        STREAMING, message("user", text("Implement the plan"), id="user-9"),
        message("assistant", text("Implemented."), id="m9"), completed(turn="user-9"), IDLE, session=other,
    )  # fmt: skip
    assert stage.sink.ends == [], "the turn that began it has not said its end yet"
    await stage.peer.notes(completed("spec_handoff", "user-1"), session=SESSION)
    assert [end.reason for end in stage.sink.ends] == [TurnEndReason.END_TURN]
    assert [output.native_id for output in stage.sink.of(Registered)] == [SESSION, other]
    assert stage.launch.native_id == other
    await stage.begin()
    await stage.peer.notes(
        message("assistant", text("on"), id="m10"), completed(turn="user-2"), session=other
    )
    assert len(stage.sink.ends) == 2


async def test_a_handoff_that_fails_elsewhere_fails_the_turn(stage: Stage) -> None:
    watch = Ending()
    watch.begin()
    watch.begun("user-1")
    watch.completed("spec_handoff", "user-1")
    assert watch.verdict(working=False, asking=False, streaming=False) is None, (
        "the other session is still at it"
    )
    watch.completed("model_provider_unavailable", "user-9", elsewhere=True)
    verdict = watch.verdict(working=False, asking=False, streaming=False)
    assert verdict is not None
    assert verdict.reason is TurnEndReason.FAILED


async def test_a_subagents_session_is_never_followed(stage: Stage) -> None:
    await stage.begin()
    approval = await stage.ask(
        tool(name="ExitSpecMode", plan="# Plan"), id="33333333-3333-4333-8333-333333333333", kind="exit_spec_mode",
        options=[("proceed_new_session", "New session"), ("cancel", "No")],
    )  # fmt: skip
    await stage.launch.answer(approval, Answer(outcome=Outcome.APPROVED, option_id="proceed_new_session"))
    await stage.peer.notes(note("child_session_available", childSessionId="a-child", timestamp=1))
    await stage.peer.notes(STREAMING, session="a-child")
    assert stage.launch.native_id == SESSION
    await stage.peer.notes(STREAMING, session="the-new-one")
    assert stage.launch.native_id == "the-new-one"


async def test_a_session_that_nobody_expects_is_passed_on_and_changes_nothing(stage: Stage) -> None:
    await stage.begin()
    await stage.peer.hear(
        *(
            note_line(payload, "a-subagent")
            for payload in (
                delta("c1", "child"),
                message("assistant", text("child"), id="c1"),
                completed(),
                IDLE,
            )
        )
    )
    assert stage.launch.native_id == SESSION
    assert stage.sink.ends == []
    assert [event.native_kind for event in stage.sink.events() if hasattr(event, "native_kind")] == [
        "create_message", "agent_turn_completed",
    ]  # fmt: skip
