"""Sessions: created, listed, loaded, configured, forked, closed and deleted, whoever created them."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from pathlib import Path

import pytest

from farsteer.faces.acp import sessions
from farsteer.faces.acp.server import AcpOptions
from tests.faces.acp.conftest import Editors
from tests.support.acp_client import Editor, never_answer
from tests.support.droid_simulator import install
from tests.support.stack import Stack

STDIO = {
    "name": "files",
    "command": "/bin/server",
    "args": ["--x"],
    "env": [{"name": "KEY", "value": "s3cret"}],
}
HTTP = {
    "type": "http",
    "name": "web",
    "url": "https://mcp.example",
    "headers": [{"name": "A", "value": "s3cret"}],
}


async def test_a_new_session_describes_its_settings(editor: Editor, stack: Stack) -> None:
    new = await editor.new(stack.directory())
    assert new["modes"]["currentModeId"] == "default"
    chosen = {one["id"]: one for one in new["configOptions"]}
    assert [*chosen] == ["agent", "model", "effort", "mode"]
    assert chosen["agent"]["currentValue"] == "demo"
    assert {one["value"] for one in chosen["model"]["options"]} >= {"demo-1", "demo-1-mini"}
    assert new["models"]["currentModelId"] in {one["modelId"] for one in new["models"]["availableModels"]}


async def test_a_free_uuid_is_the_id_of_the_new_session(editor: Editor, stack: Stack) -> None:
    chosen = "5bd86ac3-2a1e-4c3f-9d0a-1f2e3d4c5b6a"
    meta = {"farsteer": {"sessionId": chosen}}
    assert (await editor.new(stack.directory(), _meta=meta))["sessionId"] == chosen
    assert (await (await stack.sign_in()).session(chosen))["id"] == chosen
    params = {"cwd": stack.directory(), "mcpServers": []}
    taken = await editor.expect_error("session/new", **params, _meta=meta)
    assert "has this id already" in taken.message
    wrong = await editor.expect_error("session/new", **params, _meta={"farsteer": {"sessionId": "x"}})
    assert wrong.code == -32602


async def test_settings_are_changed_by_config_options_and_by_the_older_methods(
    editor: Editor, stack: Stack
) -> None:
    session = (await editor.new(stack.directory()))["sessionId"]
    await editor.call("session/set_model", sessionId=session, modelId="demo-1-mini")
    values = await editor.configure(session, "effort", "high")
    assert (values["model"], values["effort"]) == ("demo-1-mini", "high")
    assert (await editor.configure(session, "model", "demo-1"))["model"] == "demo-1"
    assert (await editor.configure(session, "mode", "acceptEdits"))["mode"] == "acceptEdits"
    await editor.prompt(session, "model")
    assert editor.text() == "model demo-1, effort high, permission mode acceptEdits"
    for option, value in (("mode", "no"), ("model", "default"), ("effort", "default"), ("colour", "red")):
        error = await editor.expect_error(
            "session/set_config_option", sessionId=session, configId=option, value=value
        )
        assert error.code == -32602, option
    assert (await editor.expect_error("session/set_mode", sessionId=session, modeId="no")).code == -32602


async def test_load_replays_the_history_before_its_response_and_resume_does_not(
    editors: Editors, stack: Stack
) -> None:
    async with editors() as first:
        session = (await first.new(stack.directory()))["sessionId"]
        await first.prompt(session, "think a thought\nsay one\ntodo")
    async with editors() as second:
        loaded = await second.load(session)
        assert "sessionId" not in loaded
        replayed = [*second.log]
        assert second.text("user_message_chunk") == "think a thought\nsay one\ntodo"
        assert second.text("agent_thought_chunk") == "a thought"
        assert "one" in second.text()
        after = replayed[replayed.index("answer 2") + 1 :]
        assert {*after} <= {"available_commands_update", "usage_update"}
        assert "plan" in replayed
        await second.prompt(session, "say two")
        assert second.text().endswith("two")
    async with editors() as third:
        await third.call("session/resume", sessionId=session, cwd="/", mcpServers=[])
        await third.wait_for_update("available_commands_update")
        assert not {"user_message_chunk", "agent_message_chunk", "plan"} & {*third.log}
        assert await third.prompt(session, "history") == "end_turn"
        assert "say two" in third.text()


async def test_loading_again_replays_again_and_neither_starts_a_process_nor_ends_a_turn(
    editors: Editors, stack: Stack
) -> None:
    account = await stack.sign_in()
    async with editors(answer=never_answer) as editor:
        session = (await editor.new(stack.directory()))["sessionId"]
        await editor.prompt(session, "say before")
        running = editor.start_prompt(session, "say begun\nwrite a.txt x")
        await editor.wait_for_requests()
        for _ in range(3):
            editor.clear()
            await editor.load(session)
            assert editor.text("user_message_chunk") == "say beforesay begun\nwrite a.txt x"
            assert "beforebegun" in editor.text()
        # The dialog of the first request may be gone, so each load cancels the request and sends it again.
        await editor.wait_for_requests(4)
        await editor.wait_until(lambda: len(editor.cancelled_requests) == 3)
        starts = [
            one
            for one in await account.messages(session, limit=200)
            if one["content"]["kind"] == "launch_start"
        ]
        assert len(starts) == 1
        editor.cancel(session)
        assert await running == "cancelled"


async def test_the_list_contains_every_session_whoever_created_it(editor: Editor, stack: Stack) -> None:
    account = await stack.sign_in()
    elsewhere = await stack.create(account, title="From the web")
    mine = (await editor.new(stack.directory("other")))["sessionId"]
    listed = (await editor.call("session/list"))["sessions"]
    assert {one["sessionId"] for one in listed} == {elsewhere, mine}
    (web,) = [one for one in listed if one["sessionId"] == elsewhere]
    assert (web["title"], web["cwd"]) == ("From the web", stack.directory())
    assert web["updatedAt"].endswith("Z")
    (only,) = (await editor.call("session/list", cwd=stack.directory("other")))["sessions"]
    assert only["sessionId"] == mine
    assert (await editor.expect_error("session/list", cursor="nonsense")).code == -32602


async def test_pages_of_the_list_skip_no_session(
    editor: Editor, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = await stack.sign_in()
    made = {await stack.create(account) for _ in range(5)}
    monkeypatch.setattr(sessions, "_PAGE_SIZE", 2)
    found: list[str] = []
    page = await editor.call("session/list")
    while True:
        found += [one["sessionId"] for one in page["sessions"]]
        if "nextCursor" not in page:
            break
        page = await editor.call("session/list", cursor=page["nextCursor"])
    assert len(found) == 5
    assert {*found} == made


async def test_a_turn_of_another_client_appears_with_its_message(editor: Editor, stack: Stack) -> None:
    account = await stack.sign_in()
    session = await stack.create(account)
    await account.turn(session, "say first")
    await editor.load(session)
    assert editor.text("user_message_chunk") == "say first"
    editor.clear()
    await account.turn(session, "say from the phone")
    await editor.wait_until(lambda: "from the phone" in editor.text())
    assert editor.text("user_message_chunk") == "say from the phone"
    kinds = [kind for kind in editor.log if kind.endswith("chunk")]
    assert kinds[0] == "user_message_chunk"
    assert set(kinds[1:]) == {"agent_message_chunk"}


async def test_loading_a_session_in_the_middle_of_a_turn_misses_nothing(
    editors: Editors, stack: Stack
) -> None:
    account = await stack.sign_in()
    session = await stack.create(account)
    async with editors() as editor:
        await account.say(session, "slow 40")
        await account.until(session, "working")
        await editor.load(session)
        whole = " ".join(f"word{n}" for n in range(1, 41))
        await editor.wait_until(lambda: editor.text() == whole)


async def test_close_cancels_the_turn_and_stops_the_agent_and_the_session_can_be_loaded_again(
    editor: Editor, stack: Stack
) -> None:
    account = await stack.sign_in()
    session = (await editor.new(stack.directory()))["sessionId"]
    running = editor.start_prompt(session, "slow 500")
    await editor.wait_for_update("agent_message_chunk")
    assert await editor.call("session/close", sessionId=session) == {}
    assert await running == "cancelled"
    assert (await account.session(session))["status"] == "stopped"
    blocks = [{"type": "text", "text": "hi"}]
    assert (await editor.expect_error("session/prompt", sessionId=session, prompt=blocks)).code == -32002
    await editor.load(session)
    assert await editor.prompt(session, "say again") == "end_turn"


async def test_delete_is_idempotent_and_final(editor: Editor, stack: Stack) -> None:
    session = (await editor.new(stack.directory()))["sessionId"]
    for _ in range(2):
        assert await editor.call("session/delete", sessionId=session) == {}
    assert await editor.call("session/delete", sessionId="never-there") == {}
    assert (await editor.call("session/list"))["sessions"] == []
    assert (
        await editor.expect_error("session/load", sessionId=session, cwd="/", mcpServers=[])
    ).code == -32002


async def test_deleting_a_session_answers_the_open_prompts_of_its_clients(
    editor: Editor, stack: Stack
) -> None:
    account = await stack.sign_in()
    session = (await editor.new(stack.directory()))["sessionId"]
    running = editor.start_prompt(session, "slow 500")
    await editor.wait_for_update("agent_message_chunk")
    assert (await account.delete(f"/api/sessions/{session}")).status_code == 200
    (failed,) = await asyncio.gather(running, return_exceptions=True)
    assert "deleted" in str(failed)


async def test_a_fork_keeps_the_history_and_its_source_goes_on(editor: Editor, stack: Stack) -> None:
    session = (await editor.new(stack.directory()))["sessionId"]
    await editor.prompt(session, "my number is 7")
    forked = (await editor.call("session/fork", sessionId=session, cwd="/", mcpServers=[]))["sessionId"]
    assert forked != session
    editor.clear()
    await editor.prompt(forked, "what number did I tell you?")
    assert editor.text() == "7"
    assert {one for one, _ in editor.updates} == {forked}
    assert await editor.prompt(session, "say here") == "end_turn"


async def test_the_agent_can_be_replaced_only_before_the_first_message(
    editors: Editors, stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DROID_EXECUTABLE", install(tmp_path, "0.215"))
    await stack.stop_runner()
    await stack.start_runner()
    account = await stack.sign_in()
    async with editors() as editor:
        session = (await editor.new(stack.directory()))["sessionId"]
        await editor.configure(session, "mode", "acceptEdits")
        values = await editor.configure(session, "agent", "droid")
        assert (values["agent"], values["mode"]) == ("droid", "acceptEdits")
        editor.clear()
        assert await editor.prompt(session, "say from Droid") == "end_turn"
        assert editor.text() == "from Droid"
        assert {one for one, _ in editor.updates} == {session}
        error = await editor.expect_error(
            "session/set_config_option", sessionId=session, configId="agent", value="demo"
        )
        assert "stays with its agent" in error.message
        (listed,) = (await editor.call("session/list"))["sessions"]
        assert listed["sessionId"] == session
    (view,) = (await account.get_json("/api/sessions"))["sessions"]
    assert view["agent"] == "droid"
    async with editors() as again:
        await again.load(session)
        assert again.text() == "from Droid"
        await again.load(view["id"])


async def test_choosing_an_unknown_agent_changes_nothing(editor: Editor, stack: Stack) -> None:
    session = (await editor.new(stack.directory()))["sessionId"]
    error = await editor.expect_error(
        "session/set_config_option", sessionId=session, configId="agent", value="nobody"
    )
    assert error.data["code"] == "agent_unknown"
    assert await editor.prompt(session, "say still demo") == "end_turn"
    assert len((await editor.call("session/list"))["sessions"]) == 1


async def test_the_first_new_returns_the_session_of_the_command_line_and_replays_it_after_the_response(
    editors: Editors, stack: Stack
) -> None:
    account = await stack.sign_in()
    session = await stack.create(account)
    await account.turn(session, "say earlier")
    async with editors(AcpOptions(session_id=session)) as editor:
        assert (await editor.new(stack.directory()))["sessionId"] == session
        await editor.wait_until(lambda: editor.text() == "earlier")
        assert editor.log[1] == "answer 2"
        assert editor.text("user_message_chunk") == "say earlier"
        assert (await editor.new(stack.directory()))["sessionId"] != session


async def test_a_session_that_cannot_be_created_is_refused_with_an_error_code(
    editor: Editor, stack: Stack
) -> None:
    missing = await editor.expect_error("session/new", cwd="/no/such/place", mcpServers=[])
    assert missing.data["code"] == "directory_missing"
    relative = await editor.expect_error("session/new", cwd="here", mcpServers=[])
    assert relative.code == -32602
    assert (
        await editor.expect_error("session/load", sessionId="nobody", cwd="/", mcpServers=[])
    ).code == -32002
    await stack.stop_runner()
    offline = await editor.expect_error("session/new", cwd=stack.directory(), mcpServers=[])
    assert offline.data["code"] == "machine_offline"


# -- MCP servers, directories and attachments


async def test_mcp_servers_and_directories_reach_the_agent_and_secrets_stay_on_its_machine(
    editor: Editor, stack: Stack, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    account = await stack.sign_in()
    other = stack.directory("other")
    new = await editor.new(stack.directory(), mcpServers=[STDIO, HTTP], additionalDirectories=[other])
    session = new["sessionId"]
    await editor.prompt(session, "servers")
    text = editor.text()
    assert "files: stdio /bin/server" in text
    assert "web: http https://mcp.example" in text
    assert f"directory {other}" in text
    view = await account.session(session)
    assert view["mcpServers"] == ["files", "web"]
    assert view["additionalDirectories"] == [other]
    everything = await account.get("/api/sessions")
    assert "s3cret" not in everything.text + json.dumps(view) + caplog.text
    (listed,) = (await editor.call("session/list"))["sessions"]
    assert listed["additionalDirectories"] == [other]
    # A fork and a new process of the agent get them too, although the hub does not store them.
    forked = (await editor.call("session/fork", sessionId=session, cwd="/"))["sessionId"]
    await editor.call("session/close", sessionId=session)
    await editor.load(session)
    for name in (forked, session):
        editor.clear()
        await editor.prompt(name, "servers")
        assert editor.text() == text
    for file in home.glob("hub.db*"):
        assert b"s3cret" not in file.read_bytes(), file.name


async def test_what_the_agent_does_not_support_is_refused_or_left_out_with_lenient(
    editors: Editors, stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DROID_EXECUTABLE", install(tmp_path, "0.215"))
    further = stack.directory("other")
    async with editors(AcpOptions(agent="droid")) as editor:
        error = await editor.expect_error(
            "session/new", cwd=stack.directory(), mcpServers=[STDIO], additionalDirectories=[further]
        )
        assert (error.code, error.data["code"]) == (-32602, "not_capable")
        assert "--lenient" in error.message
        assert "s3cret" not in json.dumps(error.body)
        assert (await editor.call("session/list"))["sessions"] == []
    async with editors(AcpOptions(agent="droid", lenient=True)) as editor:
        new = await editor.new(stack.directory(), mcpServers=[STDIO], additionalDirectories=[further])
        account = await stack.sign_in()
        view = await account.session(new["sessionId"])
        assert (view["mcpServers"], view["additionalDirectories"]) == (["files"], [])


async def test_mcp_servers_sent_with_load_and_resume_are_ignored(editor: Editor, stack: Stack) -> None:
    account = await stack.sign_in()
    session = await stack.create(account)
    await editor.load(session, mcpServers=[STDIO])
    await editor.call("session/resume", sessionId=session, cwd="/", mcpServers=[STDIO])
    await editor.prompt(session, "servers")
    assert editor.text() == "I was given none."


async def test_images_and_files_reach_the_agent(editor: Editor, stack: Stack) -> None:
    session = (await editor.new(stack.directory()))["sessionId"]
    data = base64.b64encode(b"a picture").decode()
    blocks = [
        {"type": "text", "text": "say look"},
        {"type": "image", "data": data, "mimeType": "image/png"},
    ]
    await editor.prompt(session, blocks)
    assert "I got image-1.png (image/png, 9 bytes" in editor.text()
