"""What one can ask of the real Droid besides talking to it; the old version says what it cannot do."""

from __future__ import annotations

import json
import sys
from base64 import b64encode
from pathlib import Path

import pytest

from farsteer.agents.base import Prompt, Registered
from farsteer.agents.conformance.stage import Scene, Stage
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


def commands(scene: Scene) -> Commands:
    assert isinstance(scene.launch, DroidLaunch)
    return scene.launch.commands


async def history(scene: Scene) -> list[list[str]]:
    await scene.turn("[[history]]")
    return json.loads(scene.events(AgentMessage)[-1].text)["history"]


@only_new
async def test_what_there_is_can_be_listed(stage: Stage) -> None:
    scene = await stage.launch()
    models = {model.id: model for model in await commands(scene).models()}
    assert models[FAKE].is_custom
    assert "high" in models[SONNET].supported_reasoning_efforts
    assert "Execute" in [tool.get("llmId") for tool in await commands(scene).tools()]
    assert await commands(scene).skills()
    await commands(scene).slash_commands()
    await scene.turn("something")
    assert (await commands(scene).context()).limit > 0


@only_old
async def test_the_old_version_says_what_it_cannot_do(stage: Stage) -> None:
    scene = await stage.launch()
    for refused in (commands(scene).models, commands(scene).tools, commands(scene).context):
        with pytest.raises(NotCapable):
            await refused()
    assert (await scene.turn("still there?")).reason is TurnEndReason.END_TURN


@only_new
async def test_a_session_is_renamed(stage: Stage) -> None:
    scene = await stage.launch()
    await scene.turn("hello")
    await commands(scene).rename("A name of my own")
    await scene.until(lambda: scene.events(TitleUpdate)[-1].title == "A name of my own")


@only_new
async def test_a_rewind_takes_back_words_and_files(stage: Stage) -> None:
    scene = await stage.launch(stage.plan(mode=PermissionMode.YOLO))
    await scene.turn("apricot")
    before = scene.launch.native_id
    path = stage.directory / "made.txt"
    await scene.turn(f"[[write:{path}:walnut]]")
    assert path.exists()
    await commands(scene).rewind(_message_id(scene, "walnut"), restore_files=True)
    assert not path.exists()
    assert scene.launch.native_id != before
    assert [head for _, head in await history(scene)] == ["apricot", "echo: apricot", "[[history]]"]


@only_new
async def test_files_go_back_twice_though_a_rewind_forgets_its_copies(stage: Stage) -> None:
    """As the runner does it: files first, then a launch that cuts."""
    path, other = stage.directory / "file.txt", stage.directory / "other.txt"
    other.write_text("before")
    scene = await stage.launch(stage.plan(mode=PermissionMode.YOLO))
    anchors: list[str | None] = [None]
    edit = f'{{"file_path":"{other}","old_str":"before","new_str":"after"}}'
    for text in ("apricot", f"[[write:{path}:1]]", "walnut", f"[[tool:Edit:{edit}]]", f"[[write:{path}:2]]"):
        await scene.turn(text)
        anchors.append(scene.events(AgentMessage)[-1].anchor)
    found = await scene.launch.restore_files(scene.messages[4], anchors[4])
    assert (found.status, found.restored) == (FileRestore.FULL, (str(path),))
    assert (path.read_text().strip(), other.read_text()) == ("1", "after")
    await scene.launch.stop()
    plan = stage.plan(resume=scene.launch.native_id, cut_at=anchors[4], mode=PermissionMode.YOLO)
    again = await stage.launch(plan)
    assert again.launch.native_id != scene.launch.native_id
    # The message itself changed nothing; what came after it goes back.
    found = await again.launch.restore_files(scene.messages[2], anchors[2])
    assert (found.status, found.restored) == (FileRestore.FULL, (str(other),))
    assert (path.read_text().strip(), other.read_text()) == ("1", "before")
    await again.launch.restore_files(scene.messages[0], None)
    assert not path.exists()
    await again.launch.stop()
    last = await stage.launch(stage.plan(resume=again.launch.native_id, cut_at=anchors[1]))
    assert [head for _, head in await history(last)] == ["apricot", "echo: apricot", "[[history]]"]


@only_new
async def test_a_compacted_conversation_goes_on_with_a_summary(stage: Stage, model: ScriptedModel) -> None:
    scene = await stage.launch()
    for word in ("apricot", "walnut", "cherry"):
        await scene.turn(word)
    compaction = await commands(scene).compact()
    assert scene.launch.native_id == compaction.new_session_id
    told = await history(scene)
    assert told[0] != ["user", "apricot"]
    assert told[-1] == ["user", "[[history]]"]
    assert SIDE in json.dumps(model.log.turns[-1].body["messages"][:3]), "the summary the model had made"


async def test_a_tool_of_an_mcp_server_is_asked_for_and_used(stage: Stage) -> None:
    scene = await stage.launch()
    await commands(scene).add_mcp_server(ECHO)
    await scene.until(
        lambda: any("echo connected" in one.text for one in scene.events(Notice) if one.code == "mcp_status")
    )
    assert "shout" in str(await commands(scene).mcp_tools())
    turn_id = await scene.begin('[[tool:echo___shout:{"text":"hooray"}]]')
    (approval,) = await scene.asked()
    await scene.answer(approval, Outcome.APPROVED)
    await scene.end(turn_id)
    assert "HOORAY" in scene.words()
    await commands(scene).remove_mcp_server("echo")
    assert "echo" not in str(await commands(scene).mcp_servers())


@only_new
async def test_a_plan_may_be_carried_out_in_a_new_session(stage: Stage) -> None:
    scene = await stage.launch(stage.plan(mode=PermissionMode.PLAN))
    before = scene.launch.native_id
    turn_id = await scene.begin("[[plan:# The plan to build]]")
    (plan,) = await scene.asked()
    answer = Answer(outcome=Outcome.APPROVED, option_id="proceed_new_session")
    await scene.launch.answer(plan, check_answer(plan, answer))
    assert (await scene.end(turn_id)).reason is TurnEndReason.END_TURN
    assert scene.launch.native_id != before
    assert [one.native_id for one in scene.of(Registered)][-1] == scene.launch.native_id
    assert "The plan to build" in (await history(scene))[0][1]
    again = await stage.again(scene)
    assert "The plan to build" in (await history(again))[0][1]


async def test_a_text_file_reaches_the_model(stage: Stage, model: ScriptedModel) -> None:
    scene = await stage.launch()
    turn_id = new_id()
    file = Attachment(name="notes.txt", mime_type="text/plain", data=b64encode(b"dolphins are fine").decode())
    await scene.launch.send(Prompt(turn_id=turn_id, text="[[say:read it]]", attachments=(file,)))
    scene.sent.append(turn_id)
    await scene.end(turn_id)
    assert "dolphins are fine" in json.dumps(model.log.turns[-1].body)


def _message_id(scene: Scene, word: str) -> str:
    """Droid's own id of the person's message with this word in it, as it is on its disk."""
    (path,) = Path.home().glob(f".factory/sessions/**/{scene.launch.native_id}.jsonl")
    for line in path.read_text().splitlines():
        record = json.loads(line)
        if record["type"] == "message" and record["message"]["role"] == "user" and word in line:
            return record["id"]
    raise AssertionError(f"no message with {word}")
