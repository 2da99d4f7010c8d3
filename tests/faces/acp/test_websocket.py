"""The websocket `/acp` of the hub."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from tests.support.acp_client import Editor, WebSocketTransport, choose_option
from tests.support.eventually import eventually
from tests.support.stack import OWNER, Stack


@asynccontextmanager
async def connect_editor(stack: Stack, token: str = OWNER) -> AsyncIterator[Editor]:
    headers = {"authorization": f"Bearer {token}"}
    url = stack.url.replace("http", "ws", 1) + "/acp"
    async with connect(url, additional_headers=headers, max_size=None) as socket:
        editor = Editor(WebSocketTransport(socket), choose_option("allow_once"))
        running = asyncio.create_task(editor.peer.run())
        try:
            await editor.initialize()
            yield editor
        finally:
            await socket.close()
            await running


async def test_a_session_over_a_websocket_goes_on_after_a_disconnect(stack: Stack) -> None:
    async with connect_editor(stack) as editor:
        session = (await editor.new(stack.directory()))["sessionId"]
        assert await editor.prompt(session, "write a.txt x\nsay ü€𝄞") == "end_turn"
        assert editor.text().endswith("ü€𝄞")
        editor.start_prompt(session, "slow 40").add_done_callback(lambda done: done.exception())
        await editor.wait_until(lambda: "word2" in editor.text())
    async with connect_editor(stack) as again:
        await again.load(session)
        await again.wait_until(lambda: again.text().endswith("word40"))


@pytest.mark.parametrize("token", ["", "wrong"])
async def test_a_connection_without_a_valid_token_is_refused(stack: Stack, token: str) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with connect_editor(stack, token):
            pass
    assert refused.value.response.status_code == 401


async def test_scopes_apply_and_a_revoked_token_ends_the_connection(stack: Stack) -> None:
    account = await stack.sign_in()
    session = await stack.create(account)
    made = await account.post_json("/api/tokens", {"label": "reader", "scopes": ["read"]}, 201)
    async with connect_editor(stack, made["secret"]) as reader:
        assert (await reader.call("session/list"))["sessions"][0]["sessionId"] == session
        await reader.load(session)
        blocks = [{"type": "text", "text": "say no"}]
        error = await reader.expect_error("session/prompt", sessionId=session, prompt=blocks)
        assert error.data["code"] == "forbidden"
        hello = await reader.initialize()
        assert (hello["authMethods"], hello["agentCapabilities"]["auth"]) == ([], {})
        assert (await account.delete(f"/api/tokens/{made['token']['id']}")).status_code == 200
        await eventually(lambda: reader.peer.closed)


async def test_sessions_of_another_namespace_do_not_exist(stack: Stack) -> None:
    account = await stack.sign_in()
    session = await stack.create(account)
    async with connect_editor(stack, f"{OWNER}:team") as other:
        assert (await other.call("session/list"))["sessions"] == []
        assert (
            await other.expect_error("session/load", sessionId=session, cwd="/", mcpServers=[])
        ).code == -32002
        assert await other.call("session/delete", sessionId=session) == {}
    assert (await account.session(session))["id"] == session


async def test_a_write_token_cannot_loosen_a_session_over_acp(stack: Stack) -> None:
    account = await stack.sign_in()
    made = await account.post_json("/api/tokens", {"label": "writer", "scopes": ["read", "write"]}, 201)
    async with connect_editor(stack, made["secret"]) as editor:
        session = (await editor.new(stack.directory()))["sessionId"]
        server = {"name": "evil", "command": "/bin/sh", "args": [], "env": []}
        attempts = [
            await editor.expect_error("session/set_mode", sessionId=session, modeId="yolo"),
            await editor.expect_error(
                "session/set_config_option", sessionId=session, configId="mode", value="acceptEdits"
            ),
            await editor.expect_error("session/new", cwd=stack.directory(), mcpServers=[server]),
        ]
        for error in attempts:
            assert error.data == {"code": "forbidden", "scope": "approve"}
            assert "farsteer token create" in error.message
        await editor.call("session/set_mode", sessionId=session, modeId="plan")
    [only] = (await account.get_json("/api/sessions"))["sessions"]
    assert (only["permissionMode"], only["mcpServers"]) == ("plan", [])


async def test_an_answer_over_acp_is_recorded_with_its_token(stack: Stack) -> None:
    account = await stack.sign_in()
    made = await account.post_json("/api/tokens", {"label": "editor"}, 201)
    async with connect_editor(stack, made["secret"]) as editor:
        session = (await editor.new(stack.directory()))["sessionId"]
        await editor.prompt(session, "write a.txt x")
    log = [entry["content"] for entry in await account.messages(session, limit=200)]
    who = [entry["identity"] for entry in log if entry["kind"] in ("user_message", "approval_resolved")]
    assert who == [{"tokenId": made["token"]["id"], "label": "editor"}] * 2


async def test_editors_are_counted_among_the_live_connections(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stack.hub.sockets, "_limit", 1)
    async with connect_editor(stack):
        with pytest.raises(InvalidStatus) as refused:
            async with connect_editor(stack):
                pass
        assert refused.value.response.status_code == 429
        assert b"too_many_sockets" in (refused.value.response.body or b"")
    await eventually(lambda: stack.hub.sockets.count("default") == 0)
    async with connect_editor(stack):
        pass
