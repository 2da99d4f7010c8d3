"""Turns: updates arrive in order and once, and each prompt is answered after all updates of its turn."""

from __future__ import annotations

import asyncio

import pytest

from tests.faces.acp.conftest import Editors
from tests.support.acp_client import Editor, choose_option, never_answer
from tests.support.stack import Stack


async def test_a_prompt_is_answered_after_everything_that_belongs_to_its_turn(
    editor: Editor, stack: Stack
) -> None:
    session = (await editor.new(stack.directory()))["sessionId"]
    assert await editor.prompt(session, "think\nsay done") == "end_turn"
    assert editor.text("agent_thought_chunk").startswith("What would a careful agent do")
    assert "I have thought about it." in editor.text()
    assert editor.text().endswith("done")
    answered = editor.log.index(editor.log[-1])
    assert editor.log[-1].startswith("answer ")
    assert "usage_update" in editor.log[:answered]
    assert editor.updates_of("user_message_chunk") == []
    assert editor.updates_of("session_info_update")[0]["title"] == "think"


async def test_the_response_to_new_comes_before_any_update(editor: Editor, stack: Stack) -> None:
    await editor.new(stack.directory())
    commands = await editor.wait_for_update("available_commands_update")
    assert editor.log[:3] == ["answer 1", "answer 2", "available_commands_update"]
    known = {command["name"]: command for command in commands["availableCommands"]}
    assert known["run"]["input"] == {"hint": "<command>"}
    assert known["slow"]["input"] == {"hint": "[words]"}
    assert "input" not in known["help"]
    session = editor.updates[0][0]
    await editor.prompt(session, "/say as an editor writes it")
    assert editor.text() == "as an editor writes it"


async def test_text_streams_in_chunks_of_one_message(editor: Editor, stack: Stack) -> None:
    session = (await editor.new(stack.directory()))["sessionId"]
    await editor.prompt(session, "slow 8")
    chunks = editor.updates_of("agent_message_chunk")
    assert len(chunks) > 3
    assert len({chunk["messageId"] for chunk in chunks}) == 1
    assert editor.text() == " ".join(f"word{n}" for n in range(1, 9))


async def test_tool_calls_have_kind_locations_diffs_and_output(editor: Editor, stack: Stack) -> None:
    session = (await editor.new(stack.directory()))["sessionId"]
    await editor.call("session/set_mode", sessionId=session, modeId="yolo")
    await editor.prompt(
        session, "write a.txt one\nedit a.txt one -> two\nrun echo some; echo output\nread a.txt"
    )
    calls = {call["title"]: call for call in editor.updates_of("tool_call")}
    (edit,) = [call for call in calls.values() if "Edit" in call["title"]]
    assert edit["kind"] == "edit"
    assert edit["locations"][0]["path"].endswith("a.txt")
    (diff,) = [block for block in edit["content"] if block["type"] == "diff"]
    assert (diff["oldText"], diff["newText"]) == ("one\n", "two\n")
    (run,) = [call for call in calls.values() if call["kind"] == "execute"]
    updates = editor.updates_of("tool_call_update", toolCallId=run["toolCallId"])
    assert updates[-1]["status"] == "completed"
    assert "output" in str(updates)
    assert run["rawInput"] == {"command": "echo some; echo output"}


async def test_plans_modes_options_and_titles_are_sent(editor: Editor, stack: Stack) -> None:
    session = (await editor.new(stack.directory()))["sessionId"]
    await editor.prompt(session, "todo\ntitle A better name")
    plan = editor.updates_of("plan")[-1]["entries"]
    assert [entry["status"] for entry in plan] == ["completed"] * 3
    assert editor.updates_of("session_info_update")[-1]["title"] == "A better name"
    await editor.call("session/set_mode", sessionId=session, modeId="plan")
    await editor.wait_for_update("current_mode_update", currentModeId="plan")
    update = await editor.wait_for_update("config_option_update")
    assert {one["id"]: one["currentValue"] for one in update["configOptions"]}["mode"] == "plan"


@pytest.mark.parametrize("command", ["crash", "crash mid", "exit 3", "fail it broke"])
async def test_a_turn_that_fails_is_answered_with_an_error_and_the_session_goes_on(
    editor: Editor, stack: Stack, command: str
) -> None:
    session = (await editor.new(stack.directory()))["sessionId"]
    blocks = [{"type": "text", "text": command}]
    error = await editor.expect_error("session/prompt", sessionId=session, prompt=blocks)
    assert error.code == -32603
    assert error.data["reason"] in ("crashed", "failed")
    assert await editor.prompt(session, "say still here") == "end_turn"
    assert editor.text().endswith("still here")


async def test_cancel_ends_a_prompt_as_cancelled_whenever_it_comes(editor: Editor, stack: Stack) -> None:
    session = (await editor.new(stack.directory()))["sessionId"]
    # Immediately after the prompt, before the hub has accepted it.
    at_once = editor.start_prompt(session, "hang")
    await asyncio.sleep(0)
    editor.cancel(session)
    assert await at_once == "cancelled"
    # During a turn, with a second prompt in the queue.
    running = editor.start_prompt(session, "slow 200")
    waiting = editor.start_prompt(session, "say never")
    await editor.wait_for_update("agent_message_chunk")
    editor.cancel(session)
    assert await asyncio.gather(running, waiting) == ["cancelled", "cancelled"]
    assert "never" not in editor.text()
    # Without a running turn.
    editor.cancel(session)
    assert await editor.prompt(session, "say on") == "end_turn"


async def test_cancel_during_an_approval_ends_the_prompt_as_cancelled(editors: Editors, stack: Stack) -> None:
    async with editors(answer=never_answer) as editor:
        session = (await editor.new(stack.directory()))["sessionId"]
        running = editor.start_prompt(session, "write a.txt x")
        await editor.wait_for_requests()
        editor.cancel(session)
        assert await running == "cancelled"
        await editor.wait_until(lambda: editor.cancelled_requests)


async def test_cancelling_the_request_ends_the_turn_and_is_answered_after_it(
    editor: Editor, stack: Stack
) -> None:
    session = (await editor.new(stack.directory()))["sessionId"]
    blocks = [{"type": "text", "text": "slow 200"}]
    answer = editor.peer.request(
        "session/prompt", {"sessionId": session, "prompt": blocks}, session_id=session
    )
    running = asyncio.ensure_future(answer)
    await editor.wait_for_update("agent_message_chunk")
    (mine,) = [id for asked, id in editor.wire.open_requests if asked]
    editor.peer.notify("$/cancel_request", {"requestId": mine})
    assert (await running)["stopReason"] == "cancelled"
    assert editor.log[-1].startswith("answer")


async def test_two_prompts_run_one_after_the_other_and_both_are_answered(
    editor: Editor, stack: Stack
) -> None:
    session = (await editor.new(stack.directory()))["sessionId"]
    first, second = editor.start_prompt(session, "slow 5"), editor.start_prompt(session, "say second")
    assert await asyncio.gather(first, second) == ["end_turn", "end_turn"]
    assert editor.text() == "word1 word2 word3 word4 word5second"


async def test_output_after_the_end_of_a_turn_is_sent(editor: Editor, stack: Stack) -> None:
    session = (await editor.new(stack.directory()))["sessionId"]
    assert await editor.prompt(session, "background 2") == "end_turn"
    await editor.wait_until(lambda: "1 more from your helper." in editor.text())


async def test_disconnecting_answers_the_open_prompt_and_does_not_stop_the_turn(
    editors: Editors, stack: Stack
) -> None:
    """`in_process_editor` checks that every request got exactly one response."""
    async with editors(answer=choose_option("allow_once")) as editor:
        session = (await editor.new(stack.directory()))["sessionId"]
        running = editor.start_prompt(session, "slow 1000")
        await editor.wait_for_update("agent_message_chunk")
    with pytest.raises(Exception, match=r"cancelled|closed"):
        await running
    account = await stack.sign_in()
    assert (await account.session(session))["status"] == "working"
