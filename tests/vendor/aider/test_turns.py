"""Turns of the real aider: text, edits, settings, attachments, files, and what it leaves on the machine."""

from __future__ import annotations

import asyncio
import base64
import subprocess
from pathlib import Path

import pytest

from farsteer.agents.base import DeltaEmitted, Prompt
from farsteer.agents.conformance.harness import Harness
from farsteer.core.errors import BadRequest, ErrorCode, NotCapable
from farsteer.core.events import (
    AgentMessage,
    AgentThought,
    DiffBlock,
    ToolCall,
    ToolCallUpdate,
    ToolStatus,
    TurnEndReason,
    UsageUpdate,
)
from farsteer.core.ids import new_id
from farsteer.core.modes import PermissionMode, ReasoningEffort, ToolKind
from farsteer.core.queue import Attachment
from tests.support.model import ScriptedModel
from tests.vendor.aider.conftest import EFFORT_MODEL, MODEL, edit, model_history, model_info

pytestmark = [pytest.mark.vendor, pytest.mark.timeout(180)]

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


async def test_an_answer_is_streamed_and_its_tokens_are_counted(harness: Harness) -> None:
    agent = await harness.launch()
    await agent.run_turn("[[think:let me see]][[slow:5:0.01]]")
    (message,) = agent.events_of(AgentMessage)
    deltas = [
        out.delta.text for out in agent.outputs_of(DeltaEmitted) if out.delta.message_id == message.message_id
    ]
    assert len(deltas) > 1
    assert "".join(deltas) == message.text == "word1 word2 word3 word4 word5 "
    assert agent.events_of(AgentThought)[0].text.strip() == "let me see"
    (usage,) = agent.events_of(UsageUpdate)
    assert (usage.input_tokens, usage.output_tokens, usage.model) == (100, 10, MODEL)


async def test_an_edit_is_shown_with_what_was_before_and_nothing_is_committed(harness: Harness) -> None:
    git = ["git", "-C", str(harness.directory), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    path = harness.directory / "greeting.txt"
    path.write_text("hello\nworld\n")
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        await asyncio.to_thread(subprocess.run, [*git, *command], check=True)
    agent = await harness.launch(harness.plan(mode=PermissionMode.ACCEPT_EDITS))
    await agent.run_turn(edit("greeting.txt", "hello\n", "good bye"))
    assert path.read_text() == "good bye\nworld\n"
    (call,) = [one for one in agent.events_of(ToolCall) if one.tool_kind is ToolKind.EDIT]
    (done,) = [one for one in agent.events_of(ToolCallUpdate) if one.tool_call_id == call.tool_call_id]
    block = DiffBlock(path=str(path), old_text="hello\nworld\n", new_text="good bye\nworld\n")
    assert call.content == (block,), "the change is shown before it is made"
    assert (done.status, done.content) == (ToolStatus.COMPLETED, (block,))
    status = await asyncio.to_thread(
        subprocess.run, [*git, "status", "--porcelain"], check=True, capture_output=True, text=True
    )
    assert status.stdout.splitlines() == [" M greeting.txt"], "no commit, nothing staged, no file of aider's"


async def test_an_edit_that_does_not_fit_is_reported_to_the_model_and_changes_nothing(
    harness: Harness,
) -> None:
    path = harness.directory / "greeting.txt"
    path.write_text("hello\n")
    agent = await harness.launch(harness.plan(mode=PermissionMode.ACCEPT_EDITS))
    ended = await agent.run_turn(edit("greeting.txt", "something else\n", "good bye"))
    assert ended.reason is TurnEndReason.END_TURN
    assert path.read_text() == "hello\n"
    failed = [one.status for one in agent.events_of(ToolCallUpdate)]
    assert failed
    assert set(failed) <= {ToolStatus.FAILED, ToolStatus.COMPLETED}
    assert ToolStatus.FAILED in failed


async def test_model_and_effort_change_while_it_runs(harness: Harness) -> None:
    agent = await harness.launch()
    assert (await model_info(agent))["model"] == MODEL.partition("/")[2]
    with pytest.raises(BadRequest) as refused:
        await agent.launch.set_effort(ReasoningEffort.HIGH)
    assert refused.value.code is ErrorCode.EFFORT_UNKNOWN
    await agent.launch.set_model(EFFORT_MODEL)
    await agent.launch.set_effort(ReasoningEffort.HIGH)
    info = await model_info(agent)
    assert (info["model"], info["effort"]) == (EFFORT_MODEL.partition("/")[2], "high")
    assert "[[info]]" in [text for _, text in await model_history(agent)], "the conversation goes on"


async def test_a_text_file_is_attached_and_an_image_only_for_a_model_that_takes_it(
    harness: Harness, model: ScriptedModel
) -> None:
    agent = await harness.launch()
    text = Attachment(name="note.txt", mime_type="text/plain", data=base64.b64encode(b"the walrus").decode())
    turn_id = new_id()
    await agent.launch.send(Prompt(turn_id=turn_id, text="[[history]]", attachments=(text,)))
    agent.turn_ids.append(turn_id)
    await agent.wait_for_end(turn_id)
    assert "use these files as references" in agent.text(), (
        "aider gives it to the model as a file for reference"
    )
    image = Attachment(name="dot.png", mime_type="image/png", data=PIXEL)
    with pytest.raises(NotCapable):
        await agent.launch.send(Prompt(turn_id=new_id(), text="[[info]]", attachments=(image,)))
    assert (await agent.run_turn("[[say:still here]]")).reason is TurnEndReason.END_TURN


async def test_a_file_that_is_named_is_added_to_the_chat_and_shown_to_the_model(harness: Harness) -> None:
    (harness.directory / "animal.txt").write_text("walrus\n")
    agent = await harness.launch()
    history = await model_history(agent)
    assert not any("*added" in text for _, text in history)
    await agent.run_turn("[[say:I saw]] animal.txt")
    assert "walrus" in agent.text()
    assert any("*added" in text for _, text in await model_history(agent))
    resumed = await harness.relaunch(agent)
    assert any("*added" in text for _, text in await model_history(resumed)), "also after a restart"


async def test_commands_of_aider_that_need_nobody_work_and_others_do_nothing(harness: Harness) -> None:
    agent = await harness.launch(harness.plan(mode=PermissionMode.YOLO))
    await agent.run_turn("[[say:apricot]]")
    assert (await agent.run_turn("/run touch made.txt")).reason is TurnEndReason.FAILED
    assert not (harness.directory / "made.txt").exists()
    assert (await agent.run_turn("/clear")).reason is TurnEndReason.END_TURN
    assert "[[say:apricot]]" not in [text for _, text in await model_history(agent)]
    assert not any("apricot" in text for _, text in await model_history(await harness.relaunch(agent)))


async def test_nothing_is_left_in_the_home_or_the_directory_and_no_key_is_an_argument(
    harness: Harness, aider: Path, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-very-secret-key")
    (harness.directory / ".env").write_text("OPENAI_API_BASE=http://127.0.0.1:9/stolen\nAIDER_MODEL=other\n")
    (harness.directory / "litellm.py").write_text("raise SystemExit('imported')\n")
    before = sorted(harness.directory.rglob("*"))
    agent = await harness.launch()
    command = await asyncio.to_thread(Path(f"/proc/{agent.launch.pid}/cmdline").read_bytes)
    assert b"secret" not in command
    await agent.run_turn("[[say:hello]]")
    assert agent.events_of(AgentMessage)[-1].text == "hello"
    assert sorted(harness.directory.rglob("*")) == before
    assert not (Path.home() / ".aider").exists()


async def test_nothing_but_the_model_is_reached(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    reached: list[bytes] = []

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.append(await reader.readline())
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as proxy:
        port = proxy.sockets[0].getsockname()[1]
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{port}")
        agent = await harness.launch()
        await agent.run_turn("[[say:look at]] https://example.org/page")
        await agent.run_turn("[[error:401]]")
        await agent.launch.set_model("openrouter/nobody/knows")
        await agent.launch.stop()
    assert reached == []
    assert agent.events_of(AgentMessage)[0].text == "look at"
