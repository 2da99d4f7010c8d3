"""The adapter and its worker with the simulated aider: what the conformance suite does not ask for."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from farsteer.agents.aider.adapter import AiderAdapter
from farsteer.agents.base import ApprovalAsked, Prompt
from farsteer.agents.conformance.harness import Harness, Prompts, RecordedLaunch
from farsteer.core.approvals import Outcome
from farsteer.core.errors import AgentError, BadRequest, ErrorCode, NotCapable
from farsteer.core.events import (
    AgentMessage,
    CommandsUpdate,
    DiffBlock,
    ModeUpdate,
    Notice,
    ToolCall,
    ToolCallUpdate,
    ToolStatus,
    TurnEndReason,
    UsageUpdate,
)
from farsteer.core.ids import new_id
from farsteer.core.modes import PermissionMode, ReasoningEffort
from farsteer.core.queue import Attachment
from tests.support.aider_simulator import install

pytestmark = pytest.mark.slow

PROMPTS = Prompts(answer="hello", long="work")


@pytest.fixture
async def harness(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Harness]:
    monkeypatch.setenv("AIDER_MODEL", "sim")
    harness = Harness(AiderAdapter(install(tmp_path)), PROMPTS, tmp_path, 10.0)
    yield harness
    await harness.close()


async def say(agent: RecordedLaunch, text: str) -> str:
    """Run a turn and return its last message."""
    await agent.run_turn(text)
    return agent.events_of(AgentMessage)[-1].text


async def send(agent: RecordedLaunch, *attachments: Attachment) -> None:
    turn_id = new_id()
    await agent.launch.send(Prompt(turn_id=turn_id, text="files", attachments=attachments))
    agent.turn_ids.append(turn_id)
    await agent.wait_for_end(turn_id)


async def test_it_says_its_model_and_commands(harness: Harness) -> None:
    agent = await harness.launch()
    assert agent.events_of(ModeUpdate)[0].model == "sim"
    assert "add" in [command.name for command in agent.events_of(CommandsUpdate)[0].commands]
    await agent.run_turn("hello")
    (usage,) = agent.events_of(UsageUpdate)
    assert (usage.input_tokens, usage.output_tokens, usage.cost_usd, usage.context_size) == (
        100,
        10,
        0.5,
        1000,
    )


async def test_a_model_without_a_name_or_a_key_is_refused(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = harness.plan(machine={"PATH": "/usr/bin:/bin", "HOME": str(Path.home())})
    with pytest.raises(AgentError, match="no model is named") as caught:
        await harness.launch(plan)
    assert caught.value.code is ErrorCode.AGENT_START_FAILED
    with pytest.raises(AgentError, match="there is no model no-such"):
        await harness.launch(msgspec.structs.replace(plan, model="no-such"))
    agent = await harness.launch(msgspec.structs.replace(plan, model="keyless"))
    assert "keyless needs SIM_API_KEY" in [notice.text for notice in agent.events_of(Notice)]


async def test_model_and_effort_change_for_the_next_message(harness: Harness) -> None:
    agent = await harness.launch()
    with pytest.raises(BadRequest) as refused:
        await agent.launch.set_effort(ReasoningEffort.HIGH)
    assert refused.value.code is ErrorCode.EFFORT_UNKNOWN
    with pytest.raises(BadRequest) as refused:
        await agent.launch.set_model("no-such")
    assert refused.value.code is ErrorCode.MODEL_UNKNOWN
    assert await say(agent, "settings") == "diff sim None"
    await agent.launch.set_model("thinking")
    await agent.launch.set_effort(ReasoningEffort.HIGH)
    assert await say(agent, "settings") == "diff thinking high"
    assert "settings" in await say(agent, "recall")
    await agent.launch.set_model("sim")
    assert await say(agent, "settings") == "diff sim None"
    assert "sim takes no reasoning effort" in [notice.text for notice in agent.events_of(Notice)]
    await agent.launch.set_permission_mode(PermissionMode.PLAN)
    assert await say(agent, "settings") == "ask sim None"
    await agent.launch.set_permission_mode(PermissionMode.YOLO)
    assert await say(agent, "settings") == "diff sim None"


async def test_an_edit_shows_its_diff_before_and_after(harness: Harness) -> None:
    path = harness.directory / "made.txt"
    path.write_text("one two\n")
    agent = await harness.launch()
    turn_id = await agent.send("replace made.txt two three")
    (approval,) = await agent.wait_for_approvals()
    block = DiffBlock(path=str(path), old_text="one two\n", new_text="one three\n")
    assert agent.events_of(ToolCall)[-1].content == (block,)
    assert approval.arguments == {"path": str(path), "oldText": "one two\n", "newText": "one three\n"}
    assert path.read_text() == "one two\n", "trying an edit writes nothing"
    await agent.answer(approval, Outcome.APPROVED)
    await agent.wait_for_end(turn_id)
    assert agent.events_of(ToolCallUpdate)[-1].content == (block,)
    assert path.read_text() == "one three\n"


async def test_an_edit_that_cannot_be_applied_leaves_no_file_and_goes_back_to_the_model(
    harness: Harness,
) -> None:
    agent = await harness.launch(harness.plan(mode=PermissionMode.YOLO))
    await agent.run_turn("replace made.txt two three")
    assert not (harness.directory / "made.txt").exists()
    assert agent.events_of(ToolCallUpdate)[-1].status is ToolStatus.FAILED
    assert "cannot find 'two' in made.txt" in agent.text()


async def test_files_that_are_named_are_added_shown_and_kept(harness: Harness) -> None:
    (harness.directory / "animal.txt").write_text("walrus")
    (harness.directory / ".hidden").write_text("secret")
    (harness.directory / "and").write_text("a name that is a word")
    agent = await harness.launch()
    await agent.run_turn("look at animal.txt and .hidden")
    assert "walrus" in agent.text()
    assert await say(agent, "files") == "animal.txt"
    assert await say(await harness.relaunch(agent), "files") == "animal.txt"


async def test_only_some_commands_of_aider_are_run(harness: Harness) -> None:
    (harness.directory / "animal.txt").write_text("walrus")
    agent = await harness.launch()
    assert await say(agent, "/add animal.txt") == "Added animal.txt to the chat"
    assert "walrus" in agent.text()
    ended = await agent.run_turn("/run ls")
    assert ended.reason is TurnEndReason.FAILED
    assert "/add" in (ended.error or "")
    await agent.run_turn("apricot")
    assert await say(agent, "/clear") == "All chat history cleared."
    assert await say(agent, "recall") == "nothing"
    assert await say(agent, "/unknown path") == "echo: /unknown path", "it is not a command"


async def test_errors_end_the_turn_as_failed_without_a_trace(harness: Harness) -> None:
    agent = await harness.launch()
    ended = await agent.run_turn("refuse too much")
    assert (ended.reason, ended.error) == (TurnEndReason.FAILED, "The provider refuses. too much")
    assert agent.events_of(AgentMessage)[-1].partial
    ended = await agent.run_turn("defect")
    assert (ended.reason, ended.error) == (TurnEndReason.FAILED, "a defect of aider")
    assert not [notice for notice in agent.events_of(Notice) if "Traceback" in notice.text]
    assert (await agent.run_turn("exhaust")).reason is TurnEndReason.MAX_TOKENS
    assert (await agent.run_turn("hello")).reason is TurnEndReason.END_TURN


async def test_attachments_are_files_for_reference_and_survive_a_restart(harness: Harness) -> None:
    note = Attachment(name="../note.txt", mime_type="text/plain", data=base64.b64encode(b"hi").decode())
    image = Attachment(name="dot.png", mime_type="image/png", data=base64.b64encode(b"\x89PNG\xff").decode())
    agent = await harness.launch()
    await send(agent, note, image)
    assert agent.events_of(AgentMessage)[-1].text == "dot.png note.txt"
    resumed = await harness.relaunch(agent)
    assert await say(resumed, "files") == "dot.png note.txt"
    assert [*harness.directory.iterdir()] == []
    for kind, name in (("sim-blind", "image/png"), ("sim", "application/zip")):
        await resumed.launch.set_model(kind)
        with pytest.raises(NotCapable):
            await send(resumed, Attachment(name="x", mime_type=name, data=image.data))
    with pytest.raises(BadRequest):
        await send(resumed, Attachment(name="x"))
    assert (await resumed.run_turn("hello")).reason is TurnEndReason.END_TURN


async def test_an_unsupported_version_says_what_it_lacks(
    harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = tmp_path / "older"
    older.mkdir()
    program = install(older, "0.99.0")
    site = older / "aider-environment" / "lib" / "python3.11" / "site-packages"
    python = older / "aider-environment" / "bin" / "python"
    (site / "aider").mkdir()
    (site / "aider" / "__init__.py").write_text("")
    (site / "aider" / "coders.py").write_text("class Coder:\n    pass\n")
    python.write_text(python.read_text().replace(" -I ", " -I -B ").replace("/packages", "/nowhere"))
    with pytest.raises(AgentError, match=r"aider 0\.99\.0 is not supported: its Coder has no send_message"):
        await AiderAdapter(program).start(harness.plan(), _Nowhere())


class _Nowhere:
    async def put(self, outputs: object) -> None:
        return


async def test_a_damaged_conversation_is_not_overwritten(harness: Harness) -> None:
    agent = await harness.launch()
    await agent.run_turn("hello")
    await agent.launch.stop()
    path = Path(harness.state_dir) / f"{agent.launch.native_id}.jsonl"
    path.write_text("damaged\n")
    with pytest.raises(AgentError, match="is damaged"):
        await harness.relaunch(agent)
    assert path.read_text() == "damaged\n"


async def test_an_interrupt_in_an_approval_leaves_an_answer_to_every_question(harness: Harness) -> None:
    agent = await harness.launch()
    turn_id = await agent.send("write made.txt hello")
    await agent.wait_for_approvals()
    await agent.launch.interrupt()
    assert (await agent.wait_for_end(turn_id)).reason is TurnEndReason.CANCELLED
    assert "write made.txt hello" in await say(agent, "recall")
    assert len(agent.outputs_of(ApprovalAsked)) == 1


async def test_an_interrupt_before_aider_has_the_message_keeps_it_for_the_model(harness: Harness) -> None:
    agent = await harness.launch()
    turn_id = await agent.send("slow mention of animal.txt")
    await agent.wait_until(lambda: "a slow repository" in [notice.text for notice in agent.events_of(Notice)])
    await agent.launch.interrupt()
    assert (await agent.wait_for_end(turn_id)).reason is TurnEndReason.CANCELLED
    assert await say(agent, "recall") == "slow mention of animal.txt"
