"""What one can ask of the real Droid besides talking to it; the old version says what it cannot do."""

from __future__ import annotations

import json
import sys
from base64 import b64encode
from pathlib import Path

import pytest

from farsteer.agents.base import Prompt, Registered
from farsteer.agents.conformance.harness import Harness, RecordedLaunch
from farsteer.agents.droid.commands import Commands, McpServer
from farsteer.agents.droid.launch import DroidLaunch
from farsteer.core.approvals import Answer, Outcome, check_answer
from farsteer.core.errors import NotCapable
from farsteer.core.events import AgentMessage, FileRestore, Notice, TitleUpdate, TurnEndReason
from farsteer.core.ids import new_id
from farsteer.core.modes import PermissionMode
from farsteer.core.queue import Attachment
from tests.support.model import SIDE, ScriptedModel
from tests.vendor.droid.conftest import FAKE, SONNET, only_new, only_old

pytestmark = [pytest.mark.vendor, pytest.mark.timeout(180)]

ECHO = McpServer(name="echo", command=sys.executable, args=[str(Path(__file__).with_name("echo_server.py"))])


def commands(agent: RecordedLaunch) -> Commands:
    assert isinstance(agent.launch, DroidLaunch)
    return agent.launch.commands


async def history(agent: RecordedLaunch) -> list[list[str]]:
    await agent.run_turn("[[history]]")
    return json.loads(agent.events_of(AgentMessage)[-1].text)["history"]


@only_new
async def test_what_there_is_can_be_listed(harness: Harness) -> None:
    agent = await harness.launch()
    models = {model.id: model for model in await commands(agent).models()}
    assert models[FAKE].is_custom
    assert "high" in models[SONNET].supported_reasoning_efforts
    assert "Execute" in [tool.get("llmId") for tool in await commands(agent).tools()]
    assert await commands(agent).skills()
    await commands(agent).slash_commands()
    await agent.run_turn("something")
    assert (await commands(agent).context()).limit > 0


@only_old
async def test_the_old_version_says_what_it_cannot_do(harness: Harness) -> None:
    agent = await harness.launch()
    for refused in (commands(agent).models, commands(agent).tools, commands(agent).context):
        with pytest.raises(NotCapable):
            await refused()
    assert (await agent.run_turn("still there?")).reason is TurnEndReason.END_TURN


@only_new
async def test_a_session_is_renamed(harness: Harness) -> None:
    agent = await harness.launch()
    await agent.run_turn("hello")
    await commands(agent).rename("A name of my own")
    await agent.wait_until(lambda: agent.events_of(TitleUpdate)[-1].title == "A name of my own")


@only_new
async def test_a_rewind_takes_back_words_and_files(harness: Harness) -> None:
    agent = await harness.launch(harness.plan(mode=PermissionMode.YOLO))
    await agent.run_turn("apricot")
    before = agent.launch.native_id
    path = harness.directory / "made.txt"
    await agent.run_turn(f"[[write:{path}:walnut]]")
    assert path.exists()
    await commands(agent).rewind(_message_id(agent, "walnut"), restore_files=True)
    assert not path.exists()
    assert agent.launch.native_id != before
    assert [head for _, head in await history(agent)] == ["apricot", "echo: apricot", "[[history]]"]


@only_new
async def test_files_go_back_twice_though_a_rewind_forgets_its_copies(harness: Harness) -> None:
    """As the runner does it: files first, then a launch that cuts."""
    path, other = harness.directory / "file.txt", harness.directory / "other.txt"
    other.write_text("before")
    agent = await harness.launch(harness.plan(mode=PermissionMode.YOLO))
    anchors: list[str | None] = [None]
    edit = f'{{"file_path":"{other}","old_str":"before","new_str":"after"}}'
    for text in ("apricot", f"[[write:{path}:1]]", "walnut", f"[[tool:Edit:{edit}]]", f"[[write:{path}:2]]"):
        await agent.run_turn(text)
        anchors.append(agent.events_of(AgentMessage)[-1].anchor)
    found = await agent.launch.restore_files(agent.message_ids[4], anchors[4])
    assert (found.status, found.restored) == (FileRestore.FULL, (str(path),))
    assert (path.read_text().strip(), other.read_text()) == ("1", "after")
    await agent.launch.stop()
    plan = harness.plan(resume=agent.launch.native_id, cut_at=anchors[4], mode=PermissionMode.YOLO)
    again = await harness.launch(plan)
    assert again.launch.native_id != agent.launch.native_id
    # The message itself changed nothing; what came after it goes back.
    found = await again.launch.restore_files(agent.message_ids[2], anchors[2])
    assert (found.status, found.restored) == (FileRestore.FULL, (str(other),))
    assert (path.read_text().strip(), other.read_text()) == ("1", "before")
    await again.launch.restore_files(agent.message_ids[0], None)
    assert not path.exists()
    await again.launch.stop()
    last = await harness.launch(harness.plan(resume=again.launch.native_id, cut_at=anchors[1]))
    assert [head for _, head in await history(last)] == ["apricot", "echo: apricot", "[[history]]"]


@only_new
async def test_a_compacted_conversation_goes_on_with_a_summary(
    harness: Harness, model: ScriptedModel
) -> None:
    agent = await harness.launch()
    for word in ("apricot", "walnut", "cherry"):
        await agent.run_turn(word)
    compaction = await commands(agent).compact()
    assert agent.launch.native_id == compaction.new_session_id
    told = await history(agent)
    assert told[0] != ["user", "apricot"]
    assert told[-1] == ["user", "[[history]]"]
    assert SIDE in json.dumps(model.log.turns[-1].body["messages"][:3]), "the summary the model had made"


async def test_a_tool_of_an_mcp_server_is_asked_for_and_used(harness: Harness) -> None:
    agent = await harness.launch()
    await commands(agent).add_mcp_server(ECHO)
    await agent.wait_until(
        lambda: any(
            "echo connected" in one.text for one in agent.events_of(Notice) if one.code == "mcp_status"
        )
    )
    assert "shout" in str(await commands(agent).mcp_tools())
    turn_id = await agent.send('[[tool:echo___shout:{"text":"hooray"}]]')
    (approval,) = await agent.wait_for_approvals()
    await agent.answer(approval, Outcome.APPROVED)
    await agent.wait_for_end(turn_id)
    assert "HOORAY" in agent.text()
    await commands(agent).remove_mcp_server("echo")
    assert "echo" not in str(await commands(agent).mcp_servers())


@only_new
async def test_a_plan_may_be_carried_out_in_a_new_session(harness: Harness) -> None:
    agent = await harness.launch(harness.plan(mode=PermissionMode.PLAN))
    before = agent.launch.native_id
    turn_id = await agent.send("[[plan:# The plan to build]]")
    (plan,) = await agent.wait_for_approvals()
    answer = Answer(outcome=Outcome.APPROVED, option_id="proceed_new_session")
    await agent.launch.answer(plan, check_answer(plan, answer))
    assert (await agent.wait_for_end(turn_id)).reason is TurnEndReason.END_TURN
    assert agent.launch.native_id != before
    assert [one.native_id for one in agent.outputs_of(Registered)][-1] == agent.launch.native_id
    assert "The plan to build" in (await history(agent))[0][1]
    again = await harness.relaunch(agent)
    assert "The plan to build" in (await history(again))[0][1]


async def test_a_text_file_reaches_the_model(harness: Harness, model: ScriptedModel) -> None:
    agent = await harness.launch()
    turn_id = new_id()
    file = Attachment(name="notes.txt", mime_type="text/plain", data=b64encode(b"dolphins are fine").decode())
    await agent.launch.send(Prompt(turn_id=turn_id, text="[[say:read it]]", attachments=(file,)))
    agent.turn_ids.append(turn_id)
    await agent.wait_for_end(turn_id)
    assert "dolphins are fine" in json.dumps(model.log.turns[-1].body)


def _message_id(agent: RecordedLaunch, word: str) -> str:
    """Droid's own id of the person's message with this word in it, as it is on its disk."""
    (path,) = Path.home().glob(f".factory/sessions/**/{agent.launch.native_id}.jsonl")
    for line in path.read_text().splitlines():
        record = json.loads(line)
        if record["type"] == "message" and record["message"]["role"] == "user" and word in line:
            return record["id"]
    raise AssertionError(f"no message with {word}")
