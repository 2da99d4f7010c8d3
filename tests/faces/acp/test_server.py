"""The connection itself: greeting, logging in and out, nonsense, and what a client brings along."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from farsteer import __version__
from farsteer.client import AsyncClient
from farsteer.core.errors import Unauthorized
from farsteer.faces.acp.server import AcpOptions
from tests.faces.acp.conftest import Editors
from tests.support.acp_client import Editor, editor_here
from tests.support.droid_simulator import install
from tests.support.stack import OWNER, Stack

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


async def test_the_greeting_says_what_can_be_done(stack: Stack, editors: Editors) -> None:
    async with editors(AcpOptions(agent="demo", forget_login=lambda: None)) as editor:
        hello = await editor.initialize()
        assert hello["protocolVersion"] == 1
        assert hello["agentInfo"] == {"name": "farsteer", "title": "Farsteer", "version": __version__}
        can = hello["agentCapabilities"]
        assert can["loadSession"] is True
        assert {*can["sessionCapabilities"]} >= {"list", "resume", "close", "delete", "fork"}
        assert can["auth"] == {"logout": {}}
        # A terminal is offered only to those who have one; the others are told what to type.
        (method,) = hello["authMethods"]
        assert "type" not in method
        (method,) = (await editor.initialize(auth={"terminal": True}))["authMethods"]
        assert (method["type"], method["args"]) == ("terminal", ["login"])
        assert await editor.call("authenticate", methodId="farsteer-login") == {}
        assert (await editor.refused("authenticate", methodId="magic")).code == -32602


async def test_any_version_is_answered_with_ours(editor: Editor) -> None:
    assert (await editor.call("initialize", protocolVersion=99))["protocolVersion"] == 1


@pytest.mark.parametrize("method", ["session/dance", "providers/list", "_ext/thing", "logout", "$/what"])
async def test_unknown_methods_are_said_to_be_unknown(editors: Editors, method: str) -> None:
    async with editors(strict=False) as editor:
        assert (await editor.refused(method)).code == -32601
        editor.peer.notify(method, {})
        assert await editor.call("session/list") == {"sessions": []}


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("session/new", {}),
        ("session/new", {"cwd": 7, "mcpServers": []}),
        ("session/new", {"cwd": "/", "mcpServers": "many"}),
        ("session/new", {"cwd": "/", "mcpServers": [{"name": 7}]}),
        ("session/new", {"cwd": "/", "mcpServers": [{"name": "x", "command": []}]}),
        ("session/new", {"cwd": "/", "mcpServers": [], "additionalDirectories": ["here"]}),
        ("session/load", {"cwd": "/"}),
        ("session/prompt", {"sessionId": "x"}),
        ("session/set_mode", {}),
        ("session/close", {"sessionId": 7}),
    ],
)
async def test_wrong_parameters_are_refused(editors: Editors, method: str, params: dict[str, Any]) -> None:
    async with editors(strict=False) as editor:
        assert (await editor.refused(method, **params)).code == -32602


async def test_meta_never_shadows_a_parameter(editor: Editor, stack: Stack) -> None:
    meta = {
        "cwd": "/etc",
        "sessionId": "other",
        "prompt": [{"type": "text", "text": "say evil"}],
        "agent": "x",
    }
    session = (await editor.new(stack.directory(), _meta=meta))["sessionId"]
    (listed,) = (await editor.call("session/list", _meta={"cwd": "/nowhere"}))["sessions"]
    assert listed["cwd"] == stack.directory()
    blocks = [{"type": "text", "text": "say good", "_meta": {"text": "say evil"}}]
    await editor.call("session/prompt", sessionId=session, prompt=blocks, _meta=meta)
    assert editor.text() == "good"


async def test_lines_that_are_no_messages_are_answered_and_change_nothing(editors: Editors) -> None:
    async with editors(strict=False) as editor:
        road = editor._tap._lines
        for line in (b"{nonsense\n", b"[]\n", b'"x"\n', b'{"jsonrpc":"2.0","result":1}\n'):
            await road.write(line)
        assert await editor.call("session/list") == {"sessions": []}
        assert editor.log.count("answer None") == 4


async def test_a_token_that_is_no_longer_good_asks_for_a_login_and_a_new_one_is_used(stack: Stack) -> None:
    tokens = ["wrong", OWNER]
    forgotten: list[bool] = []

    @asynccontextmanager
    async def hub() -> AsyncIterator[Any]:
        async with AsyncClient(stack.url, tokens[0]) as client:
            yield client

    options = AcpOptions(agent="demo", forget_login=lambda: forgotten.append(True))
    async with editor_here(hub, options) as editor:
        await editor.initialize()
        error = await editor.refused("session/new", cwd=stack.directory(), mcpServers=[])
        assert error.code == -32000
        assert (await editor.refused("authenticate", methodId="farsteer-login")).code == -32000
        tokens.pop(0)
        assert await editor.call("authenticate", methodId="farsteer-login") == {}
        session = (await editor.new(stack.directory()))["sessionId"]
        assert await editor.prompt(session, "say over HTTP") == "end_turn"
        assert editor.text() == "over HTTP"
        assert await editor.call("logout") == {}
        assert forgotten == [True]
        tokens[0] = "wrong"
        assert (await editor.refused("session/list")).code == -32000


async def test_no_hub_to_be_had_is_said_and_tried_again() -> None:
    @asynccontextmanager
    async def hub() -> AsyncIterator[Any]:
        raise Unauthorized("no token")
        yield

    async with editor_here(hub) as editor:
        await editor.initialize()
        for _ in range(2):
            assert (await editor.refused("session/list")).code == -32000


# -- what a client brings along


async def test_tool_servers_and_directories_reach_the_agent_and_their_secrets_nobody_else(
    editor: Editor, stack: Stack, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    account = await stack.sign_in()
    other = stack.directory("other")
    new = await editor.new(stack.directory(), mcpServers=[STDIO, HTTP], additionalDirectories=[other])
    session = new["sessionId"]
    await editor.prompt(session, "servers")
    said = editor.text()
    assert "files: stdio /bin/server" in said
    assert "web: http https://mcp.example" in said
    assert f"directory {other}" in said
    view = await account.session(session)
    assert view["mcpServers"] == ["files", "web"]
    assert view["additionalDirectories"] == [other]
    everything = await account.get("/api/sessions")
    assert "s3cret" not in everything.text + json.dumps(view) + caplog.text
    (listed,) = (await editor.call("session/list"))["sessions"]
    assert listed["additionalDirectories"] == [other]
    # A fork and a new process have them too, though the hub has not.
    forked = (await editor.call("session/fork", sessionId=session, cwd="/"))["sessionId"]
    await editor.call("session/close", sessionId=session)
    await editor.load(session)
    for name in (forked, session):
        editor.forget()
        await editor.prompt(name, "servers")
        assert editor.text() == said
    for file in home.glob("hub.db*"):
        assert b"s3cret" not in file.read_bytes(), file.name


async def test_what_an_agent_cannot_take_is_refused_and_left_out_only_on_request(
    editors: Editors, stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DROID_EXECUTABLE", install(tmp_path, "0.215"))
    further = stack.directory("other")
    async with editors(AcpOptions(agent="droid")) as editor:
        error = await editor.refused(
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


async def test_an_editor_that_always_sends_its_servers_can_load_any_session(
    editor: Editor, stack: Stack
) -> None:
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
