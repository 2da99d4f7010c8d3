"""Turns: what is said arrives, in order, once, and each prompt has its one answer after all of it."""

from __future__ import annotations

import asyncio

import pytest

from tests.faces.acp.conftest import Editors
from tests.support.acp_client import Editor, choosing, forever
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
    assert editor.told("user_message_chunk") == []
    assert editor.told("session_info_update")[0]["title"] == "think"


async def test_the_answer_to_new_comes_before_any_update(editor: Editor, stack: Stack) -> None:
    await editor.new(stack.directory())
    commands = await editor.until_update("available_commands_update")
    assert editor.log[:3] == ["answer 1", "answer 2", "available_commands_update"]
    known = {command["name"]: command for command in commands["availableCommands"]}
    assert known["run"]["input"] == {"hint": "<command>"}
    assert known["slow"]["input"] == {"hint": "[words]"}
    assert "input" not in known["help"]
    session = editor.updates[0][0]
    await editor.prompt(session, "/say as an editor writes it")
    assert editor.text() == "as an editor writes it"


async def test_text_streams_in_fragments_of_one_message(editor: Editor, stack: Stack) -> None:
    session = (await editor.new(stack.directory()))["sessionId"]
    await editor.prompt(session, "slow 8")
    chunks = editor.told("agent_message_chunk")
    assert len(chunks) > 3
    assert len({chunk["messageId"] for chunk in chunks}) == 1
    assert editor.text() == " ".join(f"word{n}" for n in range(1, 9))


async def test_tools_are_told_with_kind_places_diffs_and_output(editor: Editor, stack: Stack) -> None:
    session = (await editor.new(stack.directory()))["sessionId"]
    await editor.call("session/set_mode", sessionId=session, modeId="yolo")
    await editor.prompt(
        session, "write a.txt one\nedit a.txt one -> two\nrun echo some; echo output\nread a.txt"
    )
    calls = {call["title"]: call for call in editor.told("tool_call")}
    (edit,) = [call for call in calls.values() if "Edit" in call["title"]]
    assert edit["kind"] == "edit"
    assert edit["locations"][0]["path"].endswith("a.txt")
    (diff,) = [block for block in edit["content"] if block["type"] == "diff"]
    assert (diff["oldText"], diff["newText"]) == ("one\n", "two\n")
    (run,) = [call for call in calls.values() if call["kind"] == "execute"]
    told = editor.told("tool_call_update", toolCallId=run["toolCallId"])
    assert told[-1]["status"] == "completed"
    assert "output" in str(told)
    assert run["rawInput"] == {"command": "echo some; echo output"}


async def test_plans_modes_options_and_titles_are_told(editor: Editor, stack: Stack) -> None:
    session = (await editor.new(stack.directory()))["sessionId"]
    await editor.prompt(session, "todo\ntitle A better name")
    plan = editor.told("plan")[-1]["entries"]
    assert [entry["status"] for entry in plan] == ["completed"] * 3
    assert editor.told("session_info_update")[-1]["title"] == "A better name"
    await editor.call("session/set_mode", sessionId=session, modeId="plan")
    await editor.until_update("current_mode_update", currentModeId="plan")
    update = await editor.until_update("config_option_update")
    assert {one["id"]: one["currentValue"] for one in update["configOptions"]}["mode"] == "plan"


@pytest.mark.parametrize("command", ["crash", "crash mid", "exit 3", "fail it broke"])
async def test_a_turn_that_fails_is_answered_with_an_error_and_the_session_goes_on(
    editor: Editor, stack: Stack, command: str
) -> None:
    session = (await editor.new(stack.directory()))["sessionId"]
    blocks = [{"type": "text", "text": command}]
    error = await editor.refused("session/prompt", sessionId=session, prompt=blocks)
    assert error.code == -32603
    assert error.data["reason"] in ("crashed", "failed")
    assert await editor.prompt(session, "say still here") == "end_turn"
    assert editor.text().endswith("still here")


async def test_cancel_gives_cancelled_whenever_it_comes(editor: Editor, stack: Stack) -> None:
    session = (await editor.new(stack.directory()))["sessionId"]
    # Right behind the prompt, before anybody has it.
    at_once = editor.start(session, "hang")
    await asyncio.sleep(0)
    editor.cancel(session)
    assert await at_once == "cancelled"
    # In the middle, with one waiting behind it.
    running = editor.start(session, "slow 200")
    waiting = editor.start(session, "say never")
    await editor.until_update("agent_message_chunk")
    editor.cancel(session)
    assert await asyncio.gather(running, waiting) == ["cancelled", "cancelled"]
    assert "never" not in editor.text()
    # With nothing running.
    editor.cancel(session)
    assert await editor.prompt(session, "say on") == "end_turn"


async def test_cancel_while_a_person_is_asked_gives_cancelled(editors: Editors, stack: Stack) -> None:
    async with editors(answer=forever) as editor:
        session = (await editor.new(stack.directory()))["sessionId"]
        running = editor.start(session, "write a.txt x")
        await editor.until_asked()
        editor.cancel(session)
        assert await running == "cancelled"
        await editor.until(lambda: editor.cancelled)


async def test_a_cancelled_request_ends_its_turn_and_is_answered_after_it(
    editor: Editor, stack: Stack
) -> None:
    session = (await editor.new(stack.directory()))["sessionId"]
    blocks = [{"type": "text", "text": "slow 200"}]
    answer = editor.peer.request(
        "session/prompt", {"sessionId": session, "prompt": blocks}, session_id=session
    )
    running = asyncio.ensure_future(answer)
    await editor.until_update("agent_message_chunk")
    (mine,) = [id for asked, id in editor.wire.open if asked]
    editor.peer.notify("$/cancel_request", {"requestId": mine})
    assert (await running)["stopReason"] == "cancelled"
    assert editor.log[-1].startswith("answer")


async def test_two_prompts_wait_for_each_other_and_each_has_its_answer(editor: Editor, stack: Stack) -> None:
    session = (await editor.new(stack.directory()))["sessionId"]
    first, second = editor.start(session, "slow 5"), editor.start(session, "say second")
    assert await asyncio.gather(first, second) == ["end_turn", "end_turn"]
    assert editor.text() == "word1 word2 word3 word4 word5second"


async def test_what_an_agent_says_after_its_turn_is_told_too(editor: Editor, stack: Stack) -> None:
    session = (await editor.new(stack.directory()))["sessionId"]
    assert await editor.prompt(session, "background 2") == "end_turn"
    await editor.until(lambda: "1 more from your helper." in editor.text())


async def test_what_was_said_just_before_the_end_is_answered(editors: Editors, stack: Stack) -> None:
    """`editor_here` checks that every request has its one answer, also those that were running."""
    async with editors(answer=choosing("allow_once")) as editor:
        session = (await editor.new(stack.directory()))["sessionId"]
        running = editor.start(session, "slow 1000")
        await editor.until_update("agent_message_chunk")
    with pytest.raises(Exception, match=r"cancelled|closed"):
        await running
    account = await stack.sign_in()
    assert (await account.session(session))["status"] == "working"
