"""A token with `read` and `write` does not reach what `approve` protects."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.stack import Account, Stack

LOOSE = ["acceptEdits", "safe-yolo", "yolo", "bypassPermissions"]
PROGRAM = {"name": "evil", "command": "/bin/sh", "args": ["-c", "true"]}
REMOTE = {"name": "evil", "type": "http", "url": "http://127.0.0.1:1/"}


@pytest.fixture
async def writer(stack: Stack, owner: Account) -> Account:
    made = await owner.post_json("/api/tokens", {"label": "writer", "scopes": ["read", "write"]}, 201)
    return await stack.sign_in(made["secret"])


def check_refusal(body: Any) -> None:
    error = body["error"]
    assert error["code"] == "forbidden"
    assert error["details"] == {"scope": "approve"}
    assert "farsteer token create" in error["message"]


@pytest.mark.parametrize("mode", LOOSE)
async def test_a_write_token_cannot_loosen_the_permission_mode(
    stack: Stack, owner: Account, writer: Account, mode: str
) -> None:
    session = await stack.create(writer)
    path = f"/api/sessions/{session}/permission-mode"
    check_refusal(await writer.post_json(path, {"mode": mode}, 403))
    assert (await owner.session(session))["permissionMode"] == "default"
    for allowed in ("plan", "read-only", "default"):
        await writer.post_json(path, {"mode": allowed})
    await owner.post_json(path, {"mode": mode})
    await writer.post_json(path, {"mode": mode})
    assert (await writer.session(session))["permissionMode"] == mode


@pytest.mark.parametrize(
    "fields",
    [
        *({"permissionMode": mode} for mode in LOOSE),
        {"yolo": True},
        {"mcpServers": [PROGRAM]},
        {"mcpServers": [REMOTE]},
    ],
    ids=str,
)
async def test_a_write_token_cannot_create_a_session_that_does_not_ask(
    stack: Stack, owner: Account, writer: Account, fields: dict[str, Any]
) -> None:
    machines = (await writer.get_json("/api/machines"))["machines"]
    body = {"machineId": machines[0]["id"], "directory": stack.directory(), "agent": "demo", **fields}
    check_refusal(await writer.post_json("/api/sessions", body, 403))
    assert (await owner.get_json("/api/sessions"))["sessions"] == []
    await writer.post_json("/api/sessions", {**body, **dict.fromkeys(fields), "mcpServers": []})


async def test_a_fork_by_a_write_token_asks_although_its_source_does_not(
    stack: Stack, owner: Account, writer: Account
) -> None:
    session = await stack.create(owner, permissionMode="yolo")
    await owner.turn(session, "say hello")
    by_writer = await writer.post_json(f"/api/sessions/{session}/fork", {})
    assert (await owner.session(by_writer["sessionId"]))["permissionMode"] == "default"
    assert any("permission mode is default" in line["message"] for line in by_writer["logs"])
    by_owner = await owner.post_json(f"/api/sessions/{session}/fork", {})
    assert (await owner.session(by_owner["sessionId"]))["permissionMode"] == "yolo"
