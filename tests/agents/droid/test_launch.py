"""A launch from its start to its end, with the test in Droid's place."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import msgspec
import pytest

from farsteer.agents.base import ApprovalAsked, Exited, Prompt, Registered
from farsteer.agents.droid.commands import McpServer
from farsteer.agents.droid.launch import DroidLaunch
from farsteer.agents.droid.lock import ConversationLock
from farsteer.core.errors import AgentError, BadRequest, Conflict, ErrorCode, NotCapable
from farsteer.core.events import AgentMessage, ModeUpdate, TurnEndReason, UsageUpdate, UserMessage
from farsteer.core.modes import PermissionMode
from farsteer.core.queue import Attachment
from tests.agents.droid.conftest import Open
from tests.agents.droid.peer import (
    OLD,
    SESSION,
    Peer,
    Recorder,
    Stage,
    completed,
    delta,
    message,
    note,
    opened,
    plan,
    text,
    tool,
)

OTHER = "99999999-9999-4999-8999-999999999999"


class Start:
    """A launch that is being started."""

    def __init__(self, peers: list[Peer], **fields: Any) -> None:
        self._peers = peers
        self.sink = Recorder()
        self.task = asyncio.create_task(DroidLaunch.start(("droid",), plan(**fields), self.sink))

    async def peer(self) -> Peer:
        while not self._peers:  # noqa: ASYNC110
            await asyncio.sleep(0)
        return self._peers[-1]


def conversation(*ids: str) -> dict[str, Any]:
    """A loaded session with these messages, a person's and the assistant's by turns."""
    roles = ("user", "assistant")
    messages = [
        {"id": id, "role": roles[index % 2], "content": [text(id)], "parentId": "root"} for index, id in enumerate(ids)
    ]  # fmt: skip
    reminders = {"id": "context", "role": "user", "content": [], "visibility": "llm_only"}
    return {**opened(), "session": {"messages": [reminders, *messages], "title": "A talk"}}


# -- starting


async def test_it_is_ready_and_registered_when_droid_has_named_the_session(stage: Stage) -> None:
    assert stage.launch.native_id == SESSION
    assert stage.sink.outputs == [Registered(native_id=SESSION)]
    assert stage.peer.environment["FACTORY_DROID_AUTO_UPDATE_ENABLED"] == "false"


async def test_a_session_is_resumed_in_a_new_process_and_its_past_costs_nothing(start: Open) -> None:
    answer = {**opened(), "tokenUsage": {"inputTokens": 400, "outputTokens": 28}}
    del answer["sessionId"]
    stage = await start(plan(SESSION), answer=answer)
    assert stage.peer.written[0]["method"] == "droid.load_session"
    assert stage.peer.written[0]["params"] == {"sessionId": SESSION}
    assert stage.launch.native_id == SESSION
    await stage.begin()
    tokens = {"inputTokens": 500, "outputTokens": 35}
    await stage.peer.notes(note("session_token_usage_changed", sessionId=SESSION, tokenUsage=tokens))
    assert [one.input_tokens for one in stage.sink.events(UsageUpdate)] == [100]


async def test_a_cli_that_wants_a_session_before_it_loads_one_gets_it(peers: list[Peer]) -> None:
    starting = Start(peers, resume=SESSION)
    peer = await starting.peer()
    first = await peer.request("load_session")
    await peer.fail(first["id"], -32603, "No active session. Call initialize_session or load_session first.")
    await peer.answer(await peer.request("initialize_session"), {**opened(), "sessionId": OTHER})
    await peer.answer(await peer.request("load_session"), opened())
    launch = await starting.task
    assert launch.native_id == SESSION
    await launch.stop(0)


async def test_a_conversation_that_is_gone_is_not_replaced_by_a_new_one(peers: list[Peer]) -> None:
    starting = Start(peers, resume=SESSION)
    peer = await starting.peer()
    await peer.fail((await peer.request("load_session"))["id"], -32004, "Session not found")
    with pytest.raises(AgentError, match="no conversation") as caught:
        await starting.task
    assert caught.value.code is ErrorCode.CONVERSATION_MISSING
    assert not peer.running


@pytest.mark.parametrize("answer", [{}, {"sessionId": 7}, {"sessionId": None, "session": "none"}])
async def test_a_start_that_is_not_understood_fails(peers: list[Peer], answer: dict[str, Any]) -> None:
    starting = Start(peers)
    peer = await starting.peer()
    await peer.answer(await peer.request("initialize_session"), answer)
    with pytest.raises(AgentError):
        await starting.task
    assert not peer.running
    assert starting.sink.of(Exited) == [], "a launch that never was has no end"


async def test_a_droid_that_dies_at_its_start_is_an_error(peers: list[Peer]) -> None:
    starting = Start(peers)
    peer = await starting.peer()
    await peer.request("initialize_session")
    await peer.exit(1)
    with pytest.raises(AgentError, match="ended"):
        await starting.task


async def test_a_droid_that_never_gets_ready_is_ended(peers: list[Peer]) -> None:
    sink = Recorder()
    impatient = msgspec.structs.replace(plan(), startup_timeout=0.02)
    with pytest.raises(AgentError, match="not ready"):
        await DroidLaunch.start(("droid",), impatient, sink)
    assert not peers[-1].running


async def test_a_start_that_is_called_off_leaves_nothing(peers: list[Peer], tmp_path: Path) -> None:
    starting = Start(peers, resume=SESSION, state_dir=str(tmp_path))
    peer = await starting.peer()
    await peer.request("load_session")
    starting.task.cancel()
    await asyncio.wait([starting.task])
    await peer.wait_reaped()
    (await ConversationLock.take(str(tmp_path), SESSION)).release()


async def test_what_droid_still_waits_for_is_asked_again(start: Open) -> None:
    request = "33333333-3333-4333-8333-333333333333"
    pending = {
        "requestId": request, "toolUses": [{"toolUse": tool(command="ls"), "confirmationType": "exec"}],
        "options": [{"value": "proceed_once", "label": "Yes"}, {"value": "cancel", "label": "No"}],
    }  # fmt: skip
    stage = await start(plan(SESSION), answer={**opened(), "pendingPermissions": [pending]})
    (asked,) = stage.sink.of(ApprovalAsked)
    assert asked.approval.title == "ls"


# -- rewind and fork


async def test_a_conversation_is_cut_after_the_anchor(peers: list[Peer]) -> None:
    starting = Start(peers, resume=SESSION, cut_at="a1")
    peer = await starting.peer()
    await peer.answer(await peer.request("load_session"), conversation("u1", "a1", "u2", "a2"))
    cut = await peer.request("execute_rewind")
    assert cut["params"] == {
        "sessionId": SESSION, "messageId": "u2", "filesToRestore": [], "filesToDelete": [], "forkTitle": "A talk",
    }  # fmt: skip
    await peer.answer(cut, {"newSessionId": OTHER})
    loaded = await peer.request("load_session")
    assert loaded["params"] == {"sessionId": OTHER}
    await peer.answer(loaded, conversation("u1", "a1"))
    launch = await starting.task
    assert launch.native_id == OTHER
    assert starting.sink.of(Registered) == [Registered(native_id=OTHER)]
    await launch.stop(0)


async def test_a_cut_after_the_last_message_cuts_nothing(start: Open) -> None:
    stage = await start(plan(SESSION, cut_at="a2"), answer=conversation("u1", "a1", "u2", "a2"))
    assert stage.launch.native_id == SESSION


async def test_a_cut_at_a_message_that_is_not_there_fails(peers: list[Peer]) -> None:
    starting = Start(peers, resume=SESSION, cut_at="nowhere")
    peer = await starting.peer()
    await peer.answer(await peer.request("load_session"), conversation("u1", "a1"))
    with pytest.raises(AgentError, match="nowhere"):
        await starting.task


async def test_a_cli_that_only_pretends_to_cut_is_found_out(peers: list[Peer]) -> None:
    """CLIs up to 0.117 answer with a copy that still has everything."""
    starting = Start(peers, resume=SESSION, cut_at="a1")
    peer = await starting.peer()
    whole = conversation("u1", "a1", "u2", "a2")
    await peer.answer(await peer.request("load_session"), whole)
    await peer.answer(await peer.request("execute_rewind"), {"newSessionId": OTHER})
    await peer.answer(await peer.request("load_session"), whole)
    with pytest.raises(NotCapable, match="does not cut"):
        await starting.task
    assert not peer.running


async def test_a_fork_is_a_copy_under_its_own_name(peers: list[Peer]) -> None:
    starting = Start(peers, fork_of=SESSION)
    peer = await starting.peer()
    await peer.answer(await peer.request("load_session"), conversation("u1", "a1"))
    await peer.answer(await peer.request("fork_session"), {"newSessionId": OTHER})
    await peer.answer(await peer.request("load_session"), conversation("u1", "a1"))
    launch = await starting.task
    assert launch.native_id == OTHER
    await launch.stop(0)


# -- one writer


async def test_one_conversation_has_one_launch(start: Open, tmp_path: Path) -> None:
    stage = await start(plan(SESSION, state_dir=str(tmp_path)))
    with pytest.raises(AgentError) as caught:
        await DroidLaunch.start(("droid",), plan(SESSION, state_dir=str(tmp_path)), Recorder())
    assert caught.value.code is ErrorCode.CONFLICT
    await stage.launch.stop(0)
    again = await start(plan(SESSION, state_dir=str(tmp_path)))
    assert again.launch.native_id == SESSION


async def test_a_new_conversation_is_locked_as_soon_as_it_has_a_name(start: Open, tmp_path: Path) -> None:
    await start(plan(state_dir=str(tmp_path)))
    with pytest.raises(AgentError):
        await ConversationLock.take(str(tmp_path), SESSION)


# -- talking


async def test_images_files_and_text_go_with_the_message(stage: Stage) -> None:
    def attached(name: str, mime: str, content: bytes) -> Attachment:
        return Attachment(name=name, mime_type=mime, data=base64.b64encode(content).decode())

    attachments = (
        attached("a.png", "image/png", b"png"), attached("b.pdf", "application/pdf", b"pdf"),
        attached("c.md", "text/markdown", b"# Title"),
    )  # fmt: skip
    prompt = Prompt(turn_id="turn-1", text="look", attachments=attachments, message_id="item-1")
    sending = asyncio.create_task(stage.launch.send(prompt))
    request = await stage.peer.request("add_user_message")
    await stage.peer.answer(request)
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
async def test_what_droid_cannot_take_is_refused_before_anything_is_sent(
    stage: Stage, attachment: Attachment
) -> None:
    with pytest.raises(BadRequest):
        await stage.launch.send(Prompt(turn_id="turn-1", text="look", attachments=(attachment,)))
    assert len(stage.peer.written) == 1
    await stage.begin()


async def test_an_interrupt_between_turns_asks_nothing(stage: Stage) -> None:
    await stage.launch.interrupt()
    assert len(stage.peer.written) == 1


async def test_a_message_whose_fate_is_unknown_ends_the_process(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("farsteer.agents.droid.launch._CONFIRM_TIMEOUT", 0.02)
    with pytest.raises(AgentError) as caught:
        await stage.launch.send(Prompt(turn_id="turn-1", text="hello"))
    assert caught.value.code is ErrorCode.TIMEOUT
    await stage.sink.until(lambda: bool(stage.sink.of(Exited)))
    assert stage.sink.ends == [], "a turn that never began has no end"


async def test_a_droid_that_stops_reading_fails_the_message(stage: Stage) -> None:
    stage.peer.deaf = True
    with pytest.raises(AgentError):
        await stage.launch.send(Prompt(turn_id="turn-1", text="hello"))
    await stage.sink.until(lambda: bool(stage.sink.of(Exited)))
    assert stage.sink.ends == []


# -- ending


async def test_a_crash_keeps_what_was_said_and_ends_the_turn_and_then_the_launch(stage: Stage) -> None:
    await stage.begin()
    await stage.peer.notes(delta("m1", "half"), message("assistant", tool(), id="m2"))
    await stage.peer.exit(-11)
    assert [event.text for event in stage.sink.events(AgentMessage)] == ["half"]
    assert stage.sink.ends[0].reason is TurnEndReason.CRASHED
    assert stage.sink.outputs[-2:] == [
        stage.sink.ends[0], Exited(exit_code=-11, reason="killed by SIGSEGV"),
    ]  # fmt: skip
    with pytest.raises(AgentError):
        await stage.launch.send(Prompt(turn_id="turn-2", text="hello?"))


async def test_a_crash_before_the_message_is_confirmed_is_a_failed_send_and_no_turn(stage: Stage) -> None:
    sending = asyncio.create_task(stage.launch.send(Prompt(turn_id="turn-1", text="hello")))
    await stage.peer.request("add_user_message")
    await stage.peer.exit(1)
    with pytest.raises(AgentError):
        await sending
    assert stage.sink.ends == []
    assert isinstance(stage.sink.outputs[-1], Exited)


async def test_a_crash_right_after_the_confirmation_is_a_crashed_turn(stage: Stage) -> None:
    sending = asyncio.create_task(stage.launch.send(Prompt(turn_id="turn-1", text="hello")))
    request = await stage.peer.request("add_user_message")
    await stage.peer.answer(request)
    await stage.peer.exit(1)
    await sending
    assert [end.reason for end in stage.sink.ends] == [TurnEndReason.CRASHED]


async def test_stop_asks_droid_to_close_before_anything_else(stage: Stage) -> None:
    await stage.begin()
    stopping = asyncio.create_task(stage.launch.stop())
    request = await stage.peer.request("close_session")
    assert request["params"] == {"reason": "other"}
    await stage.peer.notes(completed("cancelled"))
    await stage.peer.answer(request)
    await stage.peer.exit(0)
    await stopping
    assert [end.reason for end in stage.sink.ends] == [TurnEndReason.CANCELLED]
    assert stage.sink.outputs[-1] == Exited(exit_code=0, reason="stopped")
    await stage.launch.stop()


async def test_stop_of_an_older_droid_interrupts_so_that_nothing_is_left_to_drain(start: Open) -> None:
    stage = await start(protocol=OLD)
    await stage.begin()
    stopping = asyncio.create_task(stage.launch.stop())
    await stage.peer.request("close_session")
    await stage.peer.fail(None, -32600, "Invalid request format")
    await stage.peer.request("interrupt_session")
    await stopping
    assert [end.reason for end in stage.sink.ends] == [TurnEndReason.CANCELLED]
    assert stage.sink.outputs[-1] == Exited(exit_code=0, reason="stopped")


async def test_stop_does_not_wait_longer_than_its_grace(stage: Stage) -> None:
    await stage.begin()
    async with asyncio.timeout(2):
        await stage.launch.stop(0.05)
    assert isinstance(stage.sink.outputs[-1], Exited)


async def test_a_process_exit_that_we_asked_for_is_a_cancelled_turn(stage: Stage) -> None:
    await stage.begin()
    stopping = asyncio.create_task(stage.launch.stop(5))
    await stage.peer.request("close_session")
    await stage.peer.notes(completed("process_exit"))
    await stage.peer.exit(0)
    await stopping
    assert [end.reason for end in stage.sink.ends] == [TurnEndReason.CANCELLED]


# -- what else can be asked


async def ask(stage: Stage, call: Any, method: str, result: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    task = asyncio.create_task(call)
    request = await stage.peer.request(method)
    await stage.peer.answer(request, result)
    return await task, request["params"]


async def test_droids_own_commands(stage: Stage) -> None:
    do = stage.launch.commands
    models, _ = await ask(
        stage, do.models(), "list_models", {"models": [{"id": "m", "isCustom": True, "new": 1}]}
    )
    assert [(model.id, model.is_custom) for model in models] == [("m", True)]
    _, params = await ask(stage, do.rename("A name"), "rename_session", {"success": True})
    assert params == {"title": "A name"}
    fork, params = await ask(stage, do.fork("Copy"), "fork_session", {"newSessionId": OTHER})
    assert (fork, params, stage.launch.native_id) == (OTHER, {"title": "Copy"}, SESSION)
    stats, _ = await ask(stage, do.context(), "get_context_stats", {"used": 1, "remaining": 9, "limit": 10})
    assert stats.limit == 10
    server = McpServer(name="echo", command="python3", args=["echo.py"])
    _, params = await ask(stage, do.add_mcp_server(server), "add_mcp_server", {"success": True})
    assert params == {"name": "echo", "type": "stdio", "command": "python3", "args": ["echo.py"]}
    servers, _ = await ask(stage, do.mcp_servers(), "list_mcp_servers", {"servers": [{"name": "echo"}]})
    assert servers == [{"name": "echo"}]
    _, params = await ask(stage, do.toggle_mcp_server("echo", enabled=False), "toggle_mcp_server", {})
    assert params == {"serverName": "echo", "enabled": False, "settingsLevel": "user"}


async def test_the_past_can_be_read_without_what_only_the_model_sees(stage: Stage) -> None:
    told, params = await ask(stage, stage.launch.commands.history(), "load_session", conversation("u1", "a1"))
    assert params == {"sessionId": SESSION}
    assert [(type(event), event.text) for event in told] == [(UserMessage, "u1"), (AgentMessage, "a1")]


async def test_compaction_goes_on_under_the_new_name(stage: Stage) -> None:
    compacting = asyncio.create_task(stage.launch.commands.compact("keep the plan"))
    request = await stage.peer.request("compact_session")
    assert request["params"] == {"customInstructions": "keep the plan"}
    await stage.peer.answer(request, {"newSessionId": OTHER, "removedCount": 7})
    loaded = await stage.peer.request("load_session")
    assert loaded["params"] == {"sessionId": OTHER}
    await stage.peer.answer(loaded, opened())
    assert (await compacting).removed_count == 7
    assert stage.launch.native_id == OTHER
    assert stage.sink.of(Registered)[-1] == Registered(native_id=OTHER)


async def test_a_rewind_can_restore_files(stage: Stage) -> None:
    rewinding = asyncio.create_task(stage.launch.commands.rewind("u2", restore_files=True))
    info = await stage.peer.request("get_rewind_info")
    changed = {"filePath": "/w/a.txt", "contentHash": "abc", "size": 3}
    await stage.peer.answer(info, {"availableFiles": [changed], "createdFiles": [{"filePath": "/w/b.txt"}]})
    request = await stage.peer.request("execute_rewind")
    assert request["params"]["filesToRestore"] == [changed]
    assert request["params"]["filesToDelete"] == [{"filePath": "/w/b.txt"}]
    await stage.peer.answer(request, {"newSessionId": OTHER, "restoredCount": 1, "deletedCount": 1})
    await stage.peer.answer(await stage.peer.request("load_session"), opened(autonomyLevel="low"))
    assert (await rewinding).restored_count == 1
    assert stage.launch.native_id == OTHER
    assert stage.sink.events() == [ModeUpdate(permission_mode=PermissionMode.ACCEPT_EDITS)], "as it was then"


async def test_what_moves_the_conversation_waits_for_the_turn(stage: Stage) -> None:
    await stage.begin()
    with pytest.raises(Conflict):
        await stage.launch.commands.compact()
    with pytest.raises(Conflict):
        await stage.launch.commands.rewind("u2")


async def test_a_command_that_this_version_lacks_is_a_capability_error(start: Open) -> None:
    stage = await start(protocol=OLD)
    asking = asyncio.create_task(stage.launch.commands.models())
    await stage.peer.request("list_models")
    await stage.peer.fail(None, -32600, "Invalid request format")
    with pytest.raises(NotCapable):
        await asking
