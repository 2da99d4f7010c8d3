"""A launch from its start to its end. The test plays Droid."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import msgspec
import pytest

from farsteer.agents.base import ApprovalAsked, Exited, Prompt, Registered
from farsteer.agents.droid.launch import DroidLaunch
from farsteer.agents.droid.lock import ConversationLock
from farsteer.core.errors import AgentError, BadRequest, ErrorCode, NotCapable
from farsteer.core.events import AgentMessage, TurnEndReason, UsageUpdate
from farsteer.core.queue import Attachment
from tests.agents.droid.conftest import StartLaunch
from tests.agents.droid.fake_droid import (
    OLD,
    SESSION,
    FakeDroid,
    LaunchHarness,
    OutputRecorder,
    StartingLaunch,
    completed,
    delta,
    message,
    notification,
    opened_session,
    plan,
    text,
    tool,
)

OTHER = "99999999-9999-4999-8999-999999999999"


def conversation(*ids: str) -> dict[str, Any]:
    """Return the result of `load_session` with messages of these ids, by the user and the assistant in turn."""
    roles = ("user", "assistant")
    messages = [
        {"id": id, "role": roles[index % 2], "content": [text(id)], "parentId": "root"} for index, id in enumerate(ids)
    ]  # fmt: skip
    reminders = {"id": "context", "role": "user", "content": [], "visibility": "llm_only"}
    return {**opened_session(), "session": {"messages": [reminders, *messages], "title": "A talk"}}


# -- starting


async def test_a_launch_is_ready_and_registered_when_droid_has_named_the_session(
    harness: LaunchHarness,
) -> None:
    assert harness.launch.native_id == SESSION
    assert harness.sink.outputs == [Registered(native_id=SESSION)]
    assert harness.droid.environment["FACTORY_DROID_AUTO_UPDATE_ENABLED"] == "false"


async def test_a_resumed_session_does_not_count_earlier_token_usage_again(start: StartLaunch) -> None:
    answer = {**opened_session(), "tokenUsage": {"inputTokens": 400, "outputTokens": 28}}
    del answer["sessionId"]
    harness = await start(plan(SESSION), answer=answer)
    assert harness.droid.written[0]["method"] == "droid.load_session"
    assert harness.droid.written[0]["params"] == {"sessionId": SESSION}
    assert harness.launch.native_id == SESSION
    await harness.begin_turn()
    tokens = {"inputTokens": 500, "outputTokens": 35}
    await harness.droid.notify(
        notification("session_token_usage_changed", sessionId=SESSION, tokenUsage=tokens)
    )
    assert [one.input_tokens for one in harness.sink.events_of(UsageUpdate)] == [100]


async def test_a_cli_that_needs_an_open_session_to_load_another_gets_one(droids: list[FakeDroid]) -> None:
    starting = StartingLaunch(droids, resume=SESSION)
    droid = await starting.droid()
    first = await droid.next_request("load_session")
    await droid.respond_error(
        first["id"], -32603, "No active session. Call initialize_session or load_session first."
    )
    await droid.respond(
        await droid.next_request("initialize_session"), {**opened_session(), "sessionId": OTHER}
    )
    await droid.respond(await droid.next_request("load_session"), opened_session())
    launch = await starting.task
    assert launch.native_id == SESSION
    await launch.stop(0)


async def test_a_conversation_that_is_gone_is_not_replaced_by_a_new_one(droids: list[FakeDroid]) -> None:
    starting = StartingLaunch(droids, resume=SESSION)
    droid = await starting.droid()
    await droid.respond_error((await droid.next_request("load_session"))["id"], -32004, "Session not found")
    with pytest.raises(AgentError, match="no conversation") as caught:
        await starting.task
    assert caught.value.code is ErrorCode.CONVERSATION_MISSING
    assert not droid.running


@pytest.mark.parametrize("answer", [{}, {"sessionId": 7}, {"sessionId": None, "session": "none"}])
async def test_a_malformed_answer_to_the_start_fails_it(
    droids: list[FakeDroid], answer: dict[str, Any]
) -> None:
    starting = StartingLaunch(droids)
    droid = await starting.droid()
    await droid.respond(await droid.next_request("initialize_session"), answer)
    with pytest.raises(AgentError):
        await starting.task
    assert not droid.running
    assert starting.sink.outputs_of(Exited) == [], "a failed start emits no Exited"


async def test_a_droid_that_dies_at_its_start_is_an_error(droids: list[FakeDroid]) -> None:
    starting = StartingLaunch(droids)
    droid = await starting.droid()
    await droid.next_request("initialize_session")
    await droid.exit(1)
    with pytest.raises(AgentError, match="ended"):
        await starting.task


async def test_a_droid_that_does_not_get_ready_in_time_is_killed(droids: list[FakeDroid]) -> None:
    sink = OutputRecorder()
    short = msgspec.structs.replace(plan(), startup_timeout=0.02)
    with pytest.raises(AgentError, match="not ready"):
        await DroidLaunch.start(("droid",), short, sink)
    assert not droids[-1].running


async def test_a_cancelled_start_leaves_no_process_and_no_lock(
    droids: list[FakeDroid], tmp_path: Path
) -> None:
    starting = StartingLaunch(droids, resume=SESSION, state_dir=str(tmp_path))
    droid = await starting.droid()
    await droid.next_request("load_session")
    starting.task.cancel()
    await asyncio.wait([starting.task])
    await droid.wait_reaped()
    (await ConversationLock.acquire(str(tmp_path), SESSION)).release()


async def test_pending_permissions_of_a_resumed_session_are_asked_again(start: StartLaunch) -> None:
    request = "33333333-3333-4333-8333-333333333333"
    pending = {
        "requestId": request, "toolUses": [{"toolUse": tool(command="ls"), "confirmationType": "exec"}],
        "options": [{"value": "proceed_once", "label": "Yes"}, {"value": "cancel", "label": "No"}],
    }  # fmt: skip
    harness = await start(plan(SESSION), answer={**opened_session(), "pendingPermissions": [pending]})
    (asked,) = harness.sink.outputs_of(ApprovalAsked)
    assert asked.approval.title == "ls"


# -- rewind and fork


async def test_a_conversation_is_cut_after_the_anchor(droids: list[FakeDroid]) -> None:
    starting = StartingLaunch(droids, resume=SESSION, cut_at="a1")
    droid = await starting.droid()
    await droid.respond(await droid.next_request("load_session"), conversation("u1", "a1", "u2", "a2"))
    cut = await droid.next_request("execute_rewind")
    assert cut["params"] == {
        "sessionId": SESSION, "messageId": "u2", "filesToRestore": [], "filesToDelete": [], "forkTitle": "A talk",
    }  # fmt: skip
    await droid.respond(cut, {"newSessionId": OTHER})
    loaded = await droid.next_request("load_session")
    assert loaded["params"] == {"sessionId": OTHER}
    await droid.respond(loaded, conversation("u1", "a1"))
    launch = await starting.task
    assert launch.native_id == OTHER
    assert starting.sink.outputs_of(Registered) == [Registered(native_id=OTHER)]
    await launch.stop(0)


async def test_a_cut_after_the_last_message_cuts_nothing(start: StartLaunch) -> None:
    harness = await start(plan(SESSION, cut_at="a2"), answer=conversation("u1", "a1", "u2", "a2"))
    assert harness.launch.native_id == SESSION


async def test_a_cut_at_an_unknown_message_fails(droids: list[FakeDroid]) -> None:
    starting = StartingLaunch(droids, resume=SESSION, cut_at="nowhere")
    droid = await starting.droid()
    await droid.respond(await droid.next_request("load_session"), conversation("u1", "a1"))
    with pytest.raises(AgentError, match="nowhere"):
        await starting.task


async def test_a_cli_that_copies_instead_of_cutting_is_detected(droids: list[FakeDroid]) -> None:
    """CLIs up to 0.117 answer a rewind with a copy of the whole conversation."""
    starting = StartingLaunch(droids, resume=SESSION, cut_at="a1")
    droid = await starting.droid()
    whole = conversation("u1", "a1", "u2", "a2")
    await droid.respond(await droid.next_request("load_session"), whole)
    await droid.respond(await droid.next_request("execute_rewind"), {"newSessionId": OTHER})
    await droid.respond(await droid.next_request("load_session"), whole)
    with pytest.raises(NotCapable, match="does not cut"):
        await starting.task
    assert not droid.running


async def test_a_fork_is_a_copy_with_its_own_id(droids: list[FakeDroid]) -> None:
    starting = StartingLaunch(droids, fork_of=SESSION)
    droid = await starting.droid()
    await droid.respond(await droid.next_request("load_session"), conversation("u1", "a1"))
    await droid.respond(await droid.next_request("fork_session"), {"newSessionId": OTHER})
    await droid.respond(await droid.next_request("load_session"), conversation("u1", "a1"))
    launch = await starting.task
    assert launch.native_id == OTHER
    await launch.stop(0)


# -- one launch for each conversation


async def test_a_conversation_in_use_cannot_be_launched_again(start: StartLaunch, tmp_path: Path) -> None:
    harness = await start(plan(SESSION, state_dir=str(tmp_path)))
    with pytest.raises(AgentError) as caught:
        await DroidLaunch.start(("droid",), plan(SESSION, state_dir=str(tmp_path)), OutputRecorder())
    assert caught.value.code is ErrorCode.CONFLICT
    await harness.launch.stop(0)
    again = await start(plan(SESSION, state_dir=str(tmp_path)))
    assert again.launch.native_id == SESSION


async def test_a_new_conversation_is_locked_as_soon_as_it_has_an_id(
    start: StartLaunch, tmp_path: Path
) -> None:
    await start(plan(state_dir=str(tmp_path)))
    with pytest.raises(AgentError):
        await ConversationLock.acquire(str(tmp_path), SESSION)


# -- messages


async def test_images_files_and_text_go_with_the_message(harness: LaunchHarness) -> None:
    def attached(name: str, mime: str, content: bytes) -> Attachment:
        return Attachment(name=name, mime_type=mime, data=base64.b64encode(content).decode())

    attachments = (
        attached("a.png", "image/png", b"png"), attached("b.pdf", "application/pdf", b"pdf"),
        attached("c.md", "text/markdown", b"# Title"),
    )  # fmt: skip
    prompt = Prompt(turn_id="turn-1", text="look", attachments=attachments, message_id="item-1")
    sending = asyncio.create_task(harness.launch.send(prompt))
    request = await harness.droid.next_request("add_user_message")
    await harness.droid.respond(request)
    await sending
    assert request["params"] == {
        "text": "look",
        "messageId": "item-1",
        "images": [{"type": "base64", "data": "cG5n", "mediaType": "image/png"}],
        "files": [
            {"type": "base64", "mediaType": "application/pdf", "data": "cGRm", "name": "b.pdf"},
            {"type": "text", "mediaType": "text/plain", "data": "# Title", "name": "c.md"},
        ],
    }


@pytest.mark.parametrize(
    "attachment",
    [
        Attachment(
            name="x.zip", mime_type="application/zip", data=base64.b64encode(b"\xff\xfe\x00").decode()
        ),
        Attachment(name="x.txt", mime_type="text/plain", data="no base64!"),
        Attachment(name="x.txt", mime_type="text/plain"),
    ],
)
async def test_an_attachment_that_droid_does_not_accept_is_refused_before_anything_is_sent(
    harness: LaunchHarness, attachment: Attachment
) -> None:
    with pytest.raises(BadRequest):
        await harness.launch.send(Prompt(turn_id="turn-1", text="look", attachments=(attachment,)))
    assert len(harness.droid.written) == 1
    await harness.begin_turn()


async def test_an_interrupt_between_turns_sends_nothing(harness: LaunchHarness) -> None:
    await harness.launch.interrupt()
    assert len(harness.droid.written) == 1


async def test_an_unconfirmed_message_kills_the_process(
    harness: LaunchHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("farsteer.agents.droid.launch._CONFIRM_TIMEOUT", 0.02)
    with pytest.raises(AgentError) as caught:
        await harness.launch.send(Prompt(turn_id="turn-1", text="hello"))
    assert caught.value.code is ErrorCode.TIMEOUT
    await harness.sink.wait_until(lambda: bool(harness.sink.outputs_of(Exited)))
    assert harness.sink.turn_ends == [], "an abandoned turn emits no TurnEnded"


async def test_a_droid_that_stops_reading_fails_the_message(harness: LaunchHarness) -> None:
    harness.droid.blocks_writes = True
    with pytest.raises(AgentError):
        await harness.launch.send(Prompt(turn_id="turn-1", text="hello"))
    await harness.sink.wait_until(lambda: bool(harness.sink.outputs_of(Exited)))
    assert harness.sink.turn_ends == []


# -- the end


async def test_a_crash_keeps_partial_output_and_ends_the_turn_and_then_the_launch(
    harness: LaunchHarness,
) -> None:
    await harness.begin_turn()
    await harness.droid.notify(delta("m1", "half"), message("assistant", tool(), id="m2"))
    await harness.droid.exit(-11)
    assert [event.text for event in harness.sink.events_of(AgentMessage)] == ["half"]
    assert harness.sink.turn_ends[0].reason is TurnEndReason.CRASHED
    assert harness.sink.outputs[-2:] == [
        harness.sink.turn_ends[0], Exited(exit_code=-11, reason="killed by SIGSEGV"),
    ]  # fmt: skip
    with pytest.raises(AgentError):
        await harness.launch.send(Prompt(turn_id="turn-2", text="hello?"))


async def test_a_crash_before_the_message_is_confirmed_fails_send_and_starts_no_turn(
    harness: LaunchHarness,
) -> None:
    sending = asyncio.create_task(harness.launch.send(Prompt(turn_id="turn-1", text="hello")))
    await harness.droid.next_request("add_user_message")
    await harness.droid.exit(1)
    with pytest.raises(AgentError):
        await sending
    assert harness.sink.turn_ends == []
    assert isinstance(harness.sink.outputs[-1], Exited)


async def test_a_crash_right_after_the_confirmation_is_a_crashed_turn(harness: LaunchHarness) -> None:
    sending = asyncio.create_task(harness.launch.send(Prompt(turn_id="turn-1", text="hello")))
    request = await harness.droid.next_request("add_user_message")
    await harness.droid.respond(request)
    await harness.droid.exit(1)
    await sending
    assert [end.reason for end in harness.sink.turn_ends] == [TurnEndReason.CRASHED]


async def test_stop_asks_droid_to_close_before_anything_else(harness: LaunchHarness) -> None:
    await harness.begin_turn()
    stopping = asyncio.create_task(harness.launch.stop())
    request = await harness.droid.next_request("close_session")
    assert request["params"] == {"reason": "other"}
    await harness.droid.notify(completed("cancelled"))
    await harness.droid.respond(request)
    await harness.droid.exit(0)
    await stopping
    assert [end.reason for end in harness.sink.turn_ends] == [TurnEndReason.CANCELLED]
    assert harness.sink.outputs[-1] == Exited(exit_code=0, reason="stopped")
    await harness.launch.stop()


async def test_stop_interrupts_an_older_droid_that_cannot_close_a_session(start: StartLaunch) -> None:
    harness = await start(protocol=OLD)
    await harness.begin_turn()
    stopping = asyncio.create_task(harness.launch.stop())
    await harness.droid.next_request("close_session")
    await harness.droid.respond_error(None, -32600, "Invalid request format")
    await harness.droid.next_request("interrupt_session")
    await stopping
    assert [end.reason for end in harness.sink.turn_ends] == [TurnEndReason.CANCELLED]
    assert harness.sink.outputs[-1] == Exited(exit_code=0, reason="stopped")


async def test_stop_does_not_wait_longer_than_its_grace(harness: LaunchHarness) -> None:
    await harness.begin_turn()
    async with asyncio.timeout(2):
        await harness.launch.stop(0.05)
    assert isinstance(harness.sink.outputs[-1], Exited)


async def test_a_turn_that_stop_cuts_short_is_cancelled(harness: LaunchHarness) -> None:
    await harness.begin_turn()
    stopping = asyncio.create_task(harness.launch.stop(5))
    await harness.droid.next_request("close_session")
    await harness.droid.notify(completed("process_exit"))
    await harness.droid.exit(0)
    await stopping
    assert [end.reason for end in harness.sink.turn_ends] == [TurnEndReason.CANCELLED]
