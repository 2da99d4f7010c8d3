"""The connection: `initialize`, login and logout, invalid messages and parameters."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from farsteer import __version__
from farsteer.client import AsyncClient
from farsteer.core.errors import Unauthorized, Unavailable
from farsteer.faces.acp.server import AcpOptions
from farsteer.faces.in_process_client import InProcessClient
from tests.faces.acp.conftest import Editors
from tests.support.acp_client import Editor, in_process_editor
from tests.support.stack import OWNER, Stack


async def test_initialize_returns_the_capabilities(stack: Stack, editors: Editors) -> None:
    async with editors(AcpOptions(agent="demo", forget_login=lambda: None)) as editor:
        result = await editor.initialize()
        assert result["protocolVersion"] == 1
        assert result["agentInfo"] == {"name": "farsteer", "title": "Farsteer", "version": __version__}
        capabilities = result["agentCapabilities"]
        assert capabilities["loadSession"] is True
        assert {*capabilities["sessionCapabilities"]} >= {"list", "resume", "close", "delete", "fork"}
        assert capabilities["auth"] == {"logout": {}}
        # Only clients that have a terminal are offered a login in one.
        (method,) = result["authMethods"]
        assert "type" not in method
        (method,) = (await editor.initialize(auth={"terminal": True}))["authMethods"]
        assert (method["type"], method["args"]) == ("terminal", ["login"])
        assert await editor.call("authenticate", methodId="farsteer-login") == {}
        assert (await editor.expect_error("authenticate", methodId="magic")).code == -32602


async def test_any_protocol_version_is_answered_with_version_1(editor: Editor) -> None:
    assert (await editor.call("initialize", protocolVersion=99))["protocolVersion"] == 1


@pytest.mark.parametrize("method", ["session/dance", "providers/list", "_ext/thing", "logout", "$/what"])
async def test_unknown_requests_are_refused_and_unknown_notifications_ignored(
    editors: Editors, method: str
) -> None:
    async with editors(strict=False) as editor:
        assert (await editor.expect_error(method)).code == -32601
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
        assert (await editor.expect_error(method, **params)).code == -32602


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


async def test_invalid_lines_are_answered_with_errors(editors: Editors) -> None:
    async with editors(strict=False) as editor:
        for line in (b"{nonsense\n", b"[]\n", b'"x"\n', b'{"jsonrpc":"2.0","result":1}\n'):
            await editor.transport.write(line)
        assert await editor.call("session/list") == {"sessions": []}
        assert editor.log.count("answer None") == 4


async def test_an_invalid_token_asks_for_a_login_and_the_new_token_is_used(stack: Stack) -> None:
    tokens = ["wrong", OWNER]
    forgotten: list[bool] = []

    @asynccontextmanager
    async def hub() -> AsyncIterator[Any]:
        async with AsyncClient(stack.url, tokens[0]) as client:
            yield client

    options = AcpOptions(agent="demo", forget_login=lambda: forgotten.append(True))
    async with in_process_editor(hub, options) as editor:
        await editor.initialize()
        error = await editor.expect_error("session/new", cwd=stack.directory(), mcpServers=[])
        assert error.code == -32000
        assert (await editor.expect_error("authenticate", methodId="farsteer-login")).code == -32000
        tokens.pop(0)
        assert await editor.call("authenticate", methodId="farsteer-login") == {}
        session = (await editor.new(stack.directory()))["sessionId"]
        assert await editor.prompt(session, "say over HTTP") == "end_turn"
        assert editor.text() == "over HTTP"
        assert await editor.call("logout") == {}
        assert forgotten == [True]
        tokens[0] = "wrong"
        assert (await editor.expect_error("session/list")).code == -32000


async def test_a_cancel_that_does_not_reach_the_hub_is_one_log_line(
    editor: Editor, stack: Stack, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unreachable(self: object, session_id: str) -> None:
        raise Unavailable("no hub")

    session = (await editor.new(stack.directory()))["sessionId"]
    prompt = editor.start_prompt(session, "slow 20 20")
    await editor.wait_for_update("agent_message_chunk")
    monkeypatch.setattr(InProcessClient, "abort", unreachable)
    editor.cancel(session)
    await editor.call("session/list")
    await prompt
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_a_hub_that_cannot_be_opened_is_tried_again_with_every_request() -> None:
    @asynccontextmanager
    async def hub() -> AsyncIterator[Any]:
        raise Unauthorized("no token")
        yield

    async with in_process_editor(hub) as editor:
        await editor.initialize()
        for _ in range(2):
            assert (await editor.expect_error("session/list")).code == -32000
