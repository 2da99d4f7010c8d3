"""The official Python SDK as a client over stdio. It parses every message into its models and must drop none."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from pathlib import Path
from typing import Any, cast

import acp
import pytest
from acp import schema

from tests.support.eventually import eventually

pytestmark = pytest.mark.slow


class Client:
    """Implements the client methods of the SDK."""

    def __init__(self) -> None:
        self.updates: list[Any] = []
        self.requests: list[Any] = []

    async def session_update(self, session_id: str, update: Any, **extra: Any) -> None:
        self.updates.append(update)

    async def request_permission(
        self, options: list[Any], session_id: str, tool_call: Any, **extra: Any
    ) -> schema.RequestPermissionResponse:
        self.requests.append(tool_call)
        chosen = next(option for option in options if option.kind == "allow_once")
        outcome = schema.AllowedOutcome(outcome="selected", option_id=chosen.option_id)
        return schema.RequestPermissionResponse(outcome=outcome)

    def text(self) -> str:
        return "".join(
            update.content.text for update in self.updates if update.session_update == "agent_message_chunk"
        )

    def on_connect(self, conn: Any) -> None:
        self.connection = conn


async def test_the_sdk_over_stdio(home: Path, project: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    client = Client()
    async with (
        asyncio.timeout(50),
        acp.spawn_agent_process(
            cast("acp.Client", client), sys.executable, "-m", "farsteer", "acp", "--agent", "demo",
            env=dict(os.environ), cwd=project, use_unstable_protocol=True,
        ) as (agent, process),
    ):  # fmt: skip
        hello = await agent.initialize(
            protocol_version=acp.PROTOCOL_VERSION, client_info=schema.Implementation(name="test", version="1")
        )
        assert hello.agent_info is not None
        assert hello.agent_info.name == "farsteer"
        assert hello.agent_capabilities is not None
        assert hello.agent_capabilities.load_session
        new = await agent.new_session(cwd=str(project), mcp_servers=[])
        assert new.modes is not None
        assert [option.id for option in new.config_options or []] == ["agent", "model", "effort", "mode"]
        text = acp.text_block("write a.txt x\nthink\ntodo\nsay done")
        answer = await agent.prompt(session_id=new.session_id, prompt=[text])
        assert answer.stop_reason == "end_turn"
        assert client.text().endswith("done")
        assert (project / "a.txt").exists()
        assert len(client.requests) == 1
        running = asyncio.create_task(
            agent.prompt(session_id=new.session_id, prompt=[acp.text_block("slow 500")])
        )
        await eventually(lambda: "word2" in client.text())
        await agent.cancel(session_id=new.session_id)
        assert (await running).stop_reason == "cancelled"
        await agent.set_session_mode(session_id=new.session_id, mode_id="acceptEdits")
        listed = await agent.list_sessions()
        assert [one.session_id for one in listed.sessions] == [new.session_id]
        client.updates.clear()
        await agent.load_session(session_id=new.session_id, cwd=str(project), mcp_servers=[])
        await eventually(lambda: "done" in client.text())
        assert any(update.session_update == "user_message_chunk" for update in client.updates)
        with pytest.raises(acp.RequestError):
            await agent.load_session(session_id="nobody", cwd=str(project), mcp_servers=[])
    assert process.returncode == 0
    # The SDK logs and drops what it cannot parse.
    assert [record.message for record in caplog.records] == []
