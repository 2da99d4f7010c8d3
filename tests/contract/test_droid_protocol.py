"""The protocol of docs/droid.md, with the demo agent."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from farsteer.cli.daemon.in_process import in_process_hub
from farsteer.core.ids import is_uuid
from farsteer.faces.droid.sessions import ServerOptions
from tests.support.droid_client import (
    DroidClient,
    Line,
    droid,
    droid_here,
    kinds,
    note_of,
    of,
    request,
    text_of,
)

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parent / "droid" / "resume.sh"
ENVELOPE = {"jsonrpc": "2.0", "factoryApiVersion": "1.0.0"}
PLAN_OPTIONS = [
    "proceed_once",
    "proceed_auto_run_low",
    "proceed_auto_run_medium",
    "proceed_auto_run_high",
    "cancel",
]


@pytest.fixture
def project(home: Path) -> Path:
    path = home.parent / "project"
    path.mkdir()
    return path


@pytest.fixture
async def client(home: Path) -> AsyncIterator[DroidClient]:
    async with droid_here(partial(in_process_hub, home), ServerOptions(agent="demo")) as client:
        yield client


# -- the envelope and the methods


async def test_initialize_returns_the_requested_settings(client: DroidClient, project: Path) -> None:
    (project / ".git").mkdir()
    answer = await client.call(
        "initialize_session",
        {"machineId": "machine-probe", "cwd": str(project), "sessionId": "probe-1", "modelId": "gpt-5.1",
         "autonomyLevel": "auto-low", "reasoningEffort": "none"},
    )  # fmt: skip
    assert {key: answer[key] for key in ("jsonrpc", "factoryApiVersion", "type", "id")} == {
        **ENVELOPE,
        "type": "response",
        "id": "1",
    }
    result = answer["result"]
    assert (result["sessionId"], result["session"]) == ("probe-1", {"messages": []})
    wanted = {
        "modelId": "gpt-5.1",
        "reasoningEffort": "none",
        "autonomyLevel": "auto-low",
        "specModeReasoningEffort": "none",
    }
    assert wanted.items() <= result["settings"].items()
    assert result["gitRepo"] == {"repoName": "project"}
    assert [model["id"] for model in result["availableModels"]] == ["demo-1", "demo-1-mini"]


async def test_the_server_chooses_a_uuid(client: DroidClient, project: Path) -> None:
    assert is_uuid((await client.initialize(project))["sessionId"])


async def test_a_message_is_acknowledged_before_anything_of_its_turn(
    client: DroidClient, project: Path
) -> None:
    await client.initialize(project)
    start = len(client.lines)
    await client.send("add_user_message", {"text": "Just reply OK."})
    notes = await client.until_idle()
    assert client.lines[start] == {**ENVELOPE, "type": "response", "id": "2", "result": {}}
    assert text_of(notes) == "OK"
    assert kinds(notes) == [
        "streaming_assistant_message", "create_message", "session_title_updated", "assistant_text_delta",
        "assistant_text_complete", "create_message", "session_token_usage_changed", "agent_turn_completed", "idle",
    ]  # fmt: skip


async def test_changed_settings_are_notified(client: DroidClient, project: Path) -> None:
    await client.initialize(project, modelId="demo-1")
    start = len(client.lines)
    assert await client.ask("update_session_settings", {"reasoningEffort": "xhigh"}) == {}
    (updated,) = [note for line in client.lines[start:] if (note := note_of(line))]
    assert (updated["type"], updated["settings"]["reasoningEffort"]) == ("settings_updated", "xhigh")
    await client.ask("update_session_settings", {"modelId": "demo-1-mini"})
    assert text_of(await client.turn("model")) == "model demo-1-mini, effort xhigh, permission mode default"


@pytest.mark.parametrize(
    ("asked", "word", "mode"),
    [
        ({"autonomyLevel": "spec"}, "spec", "plan"),
        ({"autonomyLevel": "auto-low"}, "auto-low", "acceptEdits"),
        ({"autonomyLevel": "auto-medium"}, "auto-medium", "safe-yolo"),
        ({"autonomyLevel": "auto-high"}, "auto-high", "yolo"),
        ({"autonomyLevel": "normal"}, "normal", "default"),
        ({"autonomyMode": "auto-high"}, "high", "yolo"),
        ({"autonomyLevel": "low"}, "low", "acceptEdits"),
        ({"autonomyLevel": "high"}, "high", "yolo"),
        ({"interactionMode": "spec"}, "off", "plan"),
        ({"interactionMode": "auto", "autonomyLevel": "medium"}, "medium", "safe-yolo"),
    ],
)
async def test_autonomy_with_older_and_current_names(
    client: DroidClient, project: Path, asked: Line, word: str, mode: str
) -> None:
    settings = (await client.initialize(project, **asked))["settings"]
    assert settings["autonomyLevel"] == word
    assert (settings["interactionMode"] == "spec") is (mode == "plan")
    assert text_of(await client.turn("model")).endswith(f"permission mode {mode}")


async def test_a_turn_is_interrupted(client: DroidClient, project: Path) -> None:
    await client.initialize(project)
    await client.ask("add_user_message", {"text": "work 1000 0.05"})
    await client.until_note("assistant_text_delta")
    id = await client.send("interrupt_session")
    completed = await client.until_note("agent_turn_completed")
    assert completed["reason"] == "cancelled"
    await client.until_note("droid_working_state_changed", newState="idle")
    if not any(line.get("id") == id for line in client.lines):
        await client.until(lambda line: line.get("id") == id)
    (answer,) = [line for line in client.lines if line.get("id") == id]
    assert answer["result"] == {}
    assert text_of(await client.turn("say still here")) == "still here"


# -- permissions, questions and plans


async def test_a_permission_for_a_command(client: DroidClient, project: Path) -> None:
    await client.initialize(project)
    await client.ask("add_user_message", {"text": "run echo hello > made.txt && cat made.txt"})
    asked = await client.until_request("request_permission")
    (use,) = asked["params"]["toolUses"]
    assert (use["toolUse"]["type"], use["toolUse"]["name"]) == ("tool_use", "Execute")
    assert use["toolUse"]["input"]["command"] == "echo hello > made.txt && cat made.txt"
    assert use["confirmationType"] == use["details"]["type"] == "exec"
    assert use["details"]["fullCommand"] == use["toolUse"]["input"]["command"]
    assert use["details"]["extractedCommands"] == ["echo", "cat"]
    assert [option["value"] for option in asked["params"]["options"]] == [
        "proceed_once",
        "proceed_always",
        "cancel",
    ]
    assert note_of(client.lines[-2])["newState"] == "waiting_for_tool_confirmation"
    assert not (project / "made.txt").exists()
    await client.select(asked, "proceed_once")
    resolved = await client.until_note("permission_resolved")
    call = use["toolUse"]["id"]
    assert resolved == {
        "type": "permission_resolved", "requestId": asked["id"], "toolUseIds": [call], "selectedOption": "proceed_once",
    }  # fmt: skip
    progress = await client.until_note("tool_progress_update")
    assert (progress["toolUseId"], progress["toolName"], progress["update"]["type"]) == (
        call,
        "Execute",
        "status",
    )
    result = await client.until_note("tool_result", toolUseId=call)
    assert result["content"] == "hello\n\n[Process exited with code 0]"
    assert is_uuid(result["messageId"])
    await client.until_idle()


async def test_a_denied_permission_runs_nothing(client: DroidClient, project: Path) -> None:
    await client.initialize(project)
    await client.ask("add_user_message", {"text": "run touch made.txt"})
    asked = await client.until_request("request_permission")
    await client.select(asked, "cancel")
    resolved = await client.until_note("permission_resolved")
    assert (resolved["selectedOption"], resolved["toolUseIds"]) == ("cancel", [])
    assert (await client.until_note("tool_result"))["content"].startswith("Error:")
    await client.until_idle()
    assert not (project / "made.txt").exists()


async def test_after_always_there_is_no_further_request(client: DroidClient, project: Path) -> None:
    await client.initialize(project)
    await client.ask("add_user_message", {"text": "run touch a\nrun touch b"})
    await client.select(await client.until_request("request_permission"), "proceed_always")
    await client.until_idle()
    assert [line["type"] for line in client.lines].count("request") == 1
    assert (project / "a").exists()
    assert (project / "b").exists()


async def test_permissions_to_create_and_to_edit(client: DroidClient, project: Path) -> None:
    await client.initialize(project)
    await client.ask("add_user_message", {"text": "write a.txt one\nedit a.txt one -> two"})
    create = await client.until_request("request_permission")
    (use,) = create["params"]["toolUses"]
    path = str(project / "a.txt")
    assert use["details"] == {"type": "create", "filePath": path, "fileName": "a.txt", "content": "one\n"}
    assert (use["toolUse"]["name"], use["toolUse"]["input"]["file_path"]) == ("Create", path)
    await client.select(create, "proceed_once")
    edit = await client.until_request("request_permission")
    (use,) = edit["params"]["toolUses"]
    assert use["details"] == {
        "type": "edit", "filePath": path, "fileName": "a.txt", "oldContent": "one\n", "newContent": "two\n",
    }  # fmt: skip
    await client.select(edit, "proceed_once")
    await client.until_idle()
    assert (project / "a.txt").read_text() == "two\n"


async def test_a_questionnaire(client: DroidClient, project: Path) -> None:
    await client.initialize(project)
    await client.ask("add_user_message", {"text": "ask all"})
    asked = await client.until_request("ask_user")
    assert asked["params"]["questions"] == [
        {"index": 1, "topic": "colour", "question": "Which colour?", "options": ["red", "green", "blue"]},
        {"index": 2, "topic": "toppings", "question": "Which toppings?", "options": ["cheese", "olives", "basil"],
         "multiSelect": True},
        {"index": 3, "topic": "name", "question": "What shall it be called?", "options": []},
    ]  # fmt: skip
    answers = [
        {"index": 1, "question": "Which colour?", "answer": "red"},
        {"index": 2, "question": "Which toppings?", "answer": "cheese, basil"},
        {"index": 3, "question": "What shall it be called?", "answer": "Marge, rita"},
    ]
    await client.reply(asked, {"cancelled": False, "answers": answers})
    result = await client.until_note("tool_result")
    assert result["toolUseId"] == asked["params"]["toolCallId"]
    assert result["content"].startswith("1. [question] Which colour?\n[answer] red\n\n2. ")
    notes = await client.until_idle()
    assert text_of(notes) == "You chose colour: red; toppings: cheese, basil; name: Marge, rita."
    assert of(notes, "permission_resolved") == []


async def test_answers_that_are_not_objects_are_ignored(client: DroidClient, project: Path) -> None:
    await client.initialize(project)
    await client.ask("add_user_message", {"text": "ask"})
    asked = await client.until_request("ask_user")
    await client.reply(asked, {"cancelled": False, "answers": ["red"]})
    # Still waiting: nothing was sent after the malformed answer.
    start = len(client.lines)
    await client.ask("list_models")
    assert len(client.lines) == start + 1
    await client.reply(
        asked, {"cancelled": False, "answers": [{"index": 1, "question": "", "answer": "red"}]}
    )
    assert text_of(await client.until_idle()) == "You chose colour: red."


async def test_a_cancelled_questionnaire(client: DroidClient, project: Path) -> None:
    await client.initialize(project)
    await client.ask("add_user_message", {"text": "ask"})
    await client.reply(await client.until_request("ask_user"), {"cancelled": True, "answers": []})
    notes = await client.until_idle()
    assert of(notes, "tool_result")[0]["content"] == "Error: AskUser cancelled"
    assert text_of(notes) == "Then I do not know."


@pytest.mark.parametrize(
    ("selected", "level", "mode"),
    [
        ("proceed_once", "normal", "default"),
        ("proceed_auto_run_low", "auto-low", "acceptEdits"),
        ("proceed_auto_run_medium", "auto-medium", "safe-yolo"),
        ("proceed_auto_run_high", "auto-high", "yolo"),
    ],
)
async def test_leaving_spec_mode(
    client: DroidClient, project: Path, selected: str, level: str, mode: str
) -> None:
    await client.initialize(project, autonomyLevel="spec")
    await client.ask("add_user_message", {"text": "plan\nmodel"})
    asked = await client.until_request("request_permission")
    (use,) = asked["params"]["toolUses"]
    assert use["toolUse"]["name"] == "ExitSpecMode"
    assert set(use["toolUse"]["input"]) == {"plan"}
    assert use["confirmationType"] == "exit_spec_mode"
    assert use["details"] == {"type": "exit_spec_mode", "plan": use["toolUse"]["input"]["plan"]}
    assert [option["value"] for option in asked["params"]["options"]] == PLAN_OPTIONS
    assert all(option["selectedColor"] for option in asked["params"]["options"])
    start = len(client.lines)
    await client.select(asked, selected)
    await client.until_idle()
    told = [note for line in client.lines[start:] if (note := note_of(line))]
    order = [
        note["type"]
        for note in told
        if note["type"] in ("settings_updated", "permission_resolved", "tool_result")
    ]
    assert order[:3] == ["settings_updated", "permission_resolved", "tool_result"]
    assert of(told, "settings_updated")[0]["settings"]["autonomyLevel"] == level
    assert len(of(told, "settings_updated")) == 1
    assert of(told, "tool_result")[0]["toolUseId"] == use["toolUse"]["id"]
    assert text_of(told).endswith(f"permission mode {mode}")


async def test_a_denied_plan(client: DroidClient, project: Path) -> None:
    await client.initialize(project, autonomyLevel="spec")
    await client.ask("add_user_message", {"text": "plan\nmodel"})
    await client.select(await client.until_request("request_permission"), "cancel", comment="too big")
    notes = await client.until_idle()
    assert of(notes, "settings_updated") == []
    assert text_of(notes).startswith("I drop the plan: too big")
    assert text_of(notes).endswith("permission mode plan")


async def test_one_of_several_plans(client: DroidClient, project: Path) -> None:
    await client.initialize(project, autonomyLevel="spec")
    await client.ask("add_user_message", {"text": "plan many"})
    asked = await client.until_request("request_permission")
    (use,) = asked["params"]["toolUses"]
    names = ["Plan A: the small change", "Plan B: the big change"]
    assert use["toolUse"]["input"]["optionNames"] == use["details"]["optionNames"] == names
    assert [option["value"] for option in asked["params"]["options"]] == PLAN_OPTIONS
    await client.select(asked, "proceed_once", comment=names[1])
    assert text_of(await client.until_idle()).endswith(f"It was {names[1]}.")


# -- notifications


async def test_every_message_is_sent_whole_and_names_its_parent(client: DroidClient, project: Path) -> None:
    session = (await client.initialize(project, autonomyLevel="auto-high"))["sessionId"]
    notes = await client.turn("think\nrun pwd\nsay done")
    messages = [note["message"] for note in of(notes, "create_message")]
    user, thought, use, *said = messages
    assert user["content"] == [{"type": "text", "text": "think\nrun pwd\nsay done"}]
    assert user["parentId"] == "root"
    assert thought["role"] == "assistant"
    assert [block["type"] for block in thought["content"]] == ["thinking", "text"]
    assert [(block["type"], block["name"]) for block in use["content"]] == [("tool_use", "Execute")]
    result = of(notes, "tool_result")[0]
    parents = [
        user["id"],
        thought["id"],
        use["id"],
        result["messageId"],
        *(message["id"] for message in said),
    ]
    assert [message["parentId"] for message in (thought, use, *said)] == [
        parents[0],
        parents[1],
        *parents[3:-1],
    ]
    for delta in of(notes, "assistant_text_delta"):
        assert delta["messageId"] in {message["id"] for message in messages}
    assert {delta["blockIndex"] for delta in of(notes, "thinking_text_delta")} == {0}
    (usage,) = of(notes, "session_token_usage_changed")
    assert usage["sessionId"] == session
    assert set(usage["tokenUsage"]) == {
        "inputTokens", "outputTokens", "cacheCreationTokens", "cacheReadTokens", "thinkingTokens",
    }  # fmt: skip
    (completed,) = of(notes, "agent_turn_completed")
    assert (completed["reason"], completed["turnId"]) == ("completed", user["id"])
    assert completed["tokenUsage"] == usage["tokenUsage"]


async def test_a_failed_command_is_an_error(client: DroidClient, project: Path) -> None:
    await client.initialize(project, autonomyLevel="auto-high")
    (result,) = of(await client.turn("run ls /does/not/exist"), "tool_result")
    assert result["content"].startswith("Error: ")
    assert result["isError"] is True


async def test_titles_are_notified(client: DroidClient, project: Path) -> None:
    await client.initialize(project)
    assert [note["title"] for note in of(await client.turn("say hello"), "session_title_updated")] == [
        "say hello"
    ]
    assert [note["title"] for note in of(await client.turn("title Weather"), "session_title_updated")] == [
        "Weather"
    ]
    assert await client.ask("rename_session", {"title": "Mine"}) == {"success": True}


# -- errors

INVALID_MESSAGE = {
    **ENVELOPE, "type": "response", "id": None, "error": {"code": -32700, "message": "Invalid JSON-RPC message"},
}  # fmt: skip
INVALID_REQUEST = {
    **ENVELOPE, "type": "response", "id": None, "error": {"code": -32600, "message": "Invalid request format"},
}  # fmt: skip


def without(key: str) -> Line:
    return {name: value for name, value in request("x", "interrupt_session").items() if name != key}


@pytest.mark.parametrize(
    "line",
    [*(without(key) for key in ("jsonrpc", "factoryApiVersion", "type", "id", "method")),
     {**request("x", "interrupt_session"), "id": 5}, {**request("x", "interrupt_session"), "factoryApiVersion": "9"},
     {}],
    ids=str,
)  # fmt: skip
async def test_a_line_that_is_not_part_of_the_protocol(client: DroidClient, line: Line) -> None:
    await client.write(line)
    assert await client.next() == INVALID_MESSAGE


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("nope", {}),
        ("update_session_settings", {"autonomyLevel": "bogus-level"}),
        ("update_session_settings", {"bogusField": 1}),
        ("update_session_settings", {"reasoningEffort": "superb"}),
        ("update_session_settings", {"modelId": 7}),
        ("add_user_message", {}),
        ("load_session", {"sessionId": None}),
    ],
)
async def test_invalid_requests(client: DroidClient, project: Path, method: str, params: Line) -> None:
    await client.initialize(project)
    assert await client.call(method, params) == INVALID_REQUEST
    assert text_of(await client.turn("say hello")) == "hello"


async def test_a_request_without_parameters(client: DroidClient) -> None:
    await client.write(without("params"))
    assert await client.next() == INVALID_REQUEST


@pytest.mark.parametrize(
    ("method", "params"),
    [("add_user_message", {"text": "hi"}), ("interrupt_session", {}), ("update_session_settings", {})],
)
async def test_without_a_session(client: DroidClient, method: str, params: Line) -> None:
    error = (await client.call(method, params))["error"]
    assert error["message"] == "No active session. Call initialize_session or load_session first."


# -- resuming a session


async def test_a_new_session_has_no_messages(client: DroidClient, project: Path) -> None:
    old = (await client.initialize(project))["sessionId"]
    await client.turn("say hello")
    again = await client.initialize(project, sessionId=old)
    assert again["session"]["messages"] == []


async def test_a_turn_ends_before_another_session_is_entered(client: DroidClient, project: Path) -> None:
    old = (await client.initialize(project))["sessionId"]
    await client.ask("add_user_message", {"text": "work 1000 0.05"})
    await client.until_note("assistant_text_delta")
    start = len(client.lines)
    new = await client.initialize(project)
    told = [note for line in client.lines[start:] if (note := note_of(line))]
    assert of(told, "agent_turn_completed")[0]["reason"] == "cancelled"
    assert text_of(await client.turn("say new")) == "new"
    loaded = await client.ask("load_session", {"sessionId": old})
    assert loaded["session"]["messages"][0]["content"][0]["text"] == "work 1000 0.05"
    assert new["sessionId"] != old


async def test_a_custom_name_cannot_be_loaded_later(project: Path) -> None:
    async with droid() as client:
        assert (await client.initialize(project, sessionId="my-session-1"))["sessionId"] == "my-session-1"
        await client.turn("say hello")
    async with droid() as client:
        answer = await client.call("load_session", {"sessionId": "my-session-1"})
        assert answer["error"] == {"code": -32004, "message": "Session not found"}


async def test_a_custom_uuid_can_be_loaded(project: Path) -> None:
    chosen = "0d2e1d9e-4a47-4a4b-8a8f-111111111111"
    async with droid() as client:
        assert (await client.initialize(project, sessionId=chosen))["sessionId"] == chosen
        await client.turn("say hello")
    async with droid() as client:
        loaded = await client.ask("load_session", {"sessionId": chosen})
        assert len(loaded["session"]["messages"]) == 2


async def test_loaded_messages_are_the_same_as_live_ones(project: Path) -> None:
    async with droid() as client:
        old = (await client.initialize(project, autonomyLevel="auto-high", modelId="demo-1-mini"))[
            "sessionId"
        ]
        notes = await client.turn("think\nrun pwd\ntodo")
        await client.turn("say more")
        told = [note for line in client.lines if (note := note_of(line))]
    live = [note["message"] for note in of(told, "create_message")]
    results = [(note["messageId"], note["content"]) for note in of(told, "tool_result")]
    async with droid() as client:
        await client.initialize(project, autonomyLevel="auto-low")
        loaded = await client.ask("load_session", {"sessionId": old})
        messages = loaded["session"]["messages"]
        assert [message for message in messages if message["role"] != "tool"] == live
        tools = [message for message in messages if message["role"] == "tool"]
        assert [(message["id"], message["content"][0]["content"]) for message in tools] == results
        assert (loaded["cwd"], loaded["isAgentLoopInProgress"]) == (str(project), False)
        assert (loaded["settings"]["modelId"], loaded["settings"]["autonomyLevel"]) == (
            "demo-1-mini",
            "auto-high",
        )
        notes = await client.turn("what did I say?")
        assert "say more" in text_of(notes)
        assert of(notes, "create_message")[0]["message"]["parentId"] == messages[-1]["id"]


async def test_the_resume_script_of_the_documentation(home: Path, tmp_path: Path) -> None:
    """Runs `droid/resume.sh` with its files in a directory of this test and its waits shortened."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    script = tmp_path / "resume.sh"
    script.write_text(SCRIPT.read_text().replace("/tmp/", f"{folder}/"))
    _program(home.parent / ".local" / "bin" / "droid", f'exec "{sys.executable}" -m farsteer "$@"')
    _program(
        tmp_path / "bin" / "sleep",
        f"""
        case $1 in 28) log=t1 ;; 30) log=t2 ;; *) exec /bin/sleep 0.1 ;; esac
        for n in $(seq 600); do grep -qs '"newState":"idle"' {folder}/$log.jsonl && exit; /bin/sleep 0.05; done
        """,
    )
    identity = {
        f"GIT_{who}_{what}": "t@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    process = await asyncio.create_subprocess_exec(
        "bash", str(script), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, **identity, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"},
    )  # fmt: skip
    async with asyncio.timeout(60):
        said = (await process.communicate())[0].decode()
    assert "load_session -> 2 history messages\nDOLPHIN-2288\n" in said
    assert "RESULT: SUCCESS - AI remembered the password!" in said


def _program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
