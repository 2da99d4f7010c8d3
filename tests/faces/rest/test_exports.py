"""GET /api/sessions/{id}/export: a download that is complete, or recognisably incomplete."""

import json
from collections.abc import AsyncGenerator
from typing import Any

import httpx
import pytest

from farsteer.core import events as ev
from farsteer.hub import Hub
from farsteer.hub.services import exports
from farsteer.hub.services.exports import Export
from farsteer.hub.store.base import LogPage
from tests.hub.conftest import create
from tests.hub.scripted import ScriptedRunner
from tests.support.eventually import eventually
from tests.support.stack import OWNER, Account, Stack

MESSAGES = 60
"""Of half a megabyte each: more than the buffers between server and client hold."""


async def test_a_session_is_exported_in_both_formats(stack: Stack, owner: Account) -> None:
    session_id = await stack.create(owner, title="the login bug")
    log = await owner.turn(session_id, "hello")
    path = f"/api/sessions/{session_id}/export"
    response = await owner.get(path)
    assert response.headers["content-type"] == "application/x-ndjson"
    name = f"the-login-bug-{session_id[:8]}"
    assert response.headers["content-disposition"] == f'attachment; filename="{name}.jsonl"'
    assert response.headers["x-content-type-options"] == "nosniff"
    assert "content-length" not in response.headers
    head, *entries = map(json.loads, response.text.splitlines())
    assert head["session"]["title"] == "the login bug"
    assert entries == log
    page = await owner.get(path, params={"format": "markdown"})
    assert page.headers["content-type"] == "text/markdown; charset=utf-8"
    assert page.headers["content-disposition"] == f'attachment; filename="{name}.md"'
    assert page.text.startswith("# the login bug\n")
    assert "\n> hello\n" in page.text
    only_head = await owner.head(path)
    assert (only_head.status_code, only_head.content) == (200, b"")
    assert only_head.headers["content-disposition"] == response.headers["content-disposition"]


async def test_a_title_that_is_not_ascii_is_offered_as_a_second_filename(
    stack: Stack, owner: Account
) -> None:
    session_id = await stack.create(owner, title="das Übel")
    response = await owner.head(f"/api/sessions/{session_id}/export", params={"format": "markdown"})
    end = f"{session_id[:8]}.md"
    expected = f"attachment; filename=\"session-{end}\"; filename*=UTF-8''das-%C3%9Cbel-{end}"
    assert response.headers["content-disposition"] == expected


async def test_a_foreign_session_or_an_unknown_format_is_refused(stack: Stack, owner: Account) -> None:
    session_id = await stack.create(owner)
    path = f"/api/sessions/{session_id}/export"
    await owner.get_json(path, 400, format="pdf")
    stranger = await stack.sign_in(f"{OWNER}:elsewhere")
    await stranger.get_json(path, 404)


async def long_session(hub: Hub, runner: ScriptedRunner) -> str:
    session_id = await create(hub, runner)
    for start in range(0, MESSAGES, 10):
        texts = [ev.AgentMessage(message_id=str(start + n), text="x" * 500_000) for n in range(10)]
        await runner.append(session_id, *texts)
    return session_id


async def test_a_client_that_disconnects_stops_its_export(
    hub_only: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "_PAGE_SIZE", 1)
    hub = hub_only.hub
    read, export = hub.store.read_page, hub.exports.export
    pages: list[int] = []
    running: list[AsyncGenerator[bytes]] = []

    async def counted(*args: Any, after: int, **fields: Any) -> LogPage:
        pages.append(after)
        return await read(*args, after=after, **fields)

    async def watched(*args: Any) -> Export:
        begun = await export(*args)
        running.append(begun.chunks)
        return begun

    monkeypatch.setattr(hub.store, "read_page", counted)
    monkeypatch.setattr(hub.exports, "export", watched)
    async with ScriptedRunner(hub) as runner:
        session_id = await long_session(hub, runner)
        owner = await hub_only.sign_in()
        async with owner.stream("GET", f"/api/sessions/{session_id}/export") as response:
            assert response.status_code == 200
            await anext(response.aiter_raw())
        await eventually(lambda: running[0].ag_frame is None)  # pyright: ignore[reportAttributeAccessIssue]
        assert len(pages) < MESSAGES, "nothing is read after the client has disconnected"


async def test_an_export_that_fails_midway_is_recognisably_incomplete(
    hub_only: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "_PAGE_SIZE", 1)
    async with ScriptedRunner(hub_only.hub) as runner:
        session_id = await long_session(hub_only.hub, runner)
        owner = await hub_only.sign_in()
        async with owner.stream("GET", f"/api/sessions/{session_id}/export") as response:
            await owner.delete(f"/api/sessions/{session_id}")
            with pytest.raises(httpx.RemoteProtocolError):
                async for _ in response.aiter_raw():
                    pass
