"""The client's MCP servers, in Droid's words, whenever a conversation is opened."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from farsteer.agents.base import LaunchPlan
from farsteer.agents.droid.adapter import DroidAdapter
from farsteer.agents.droid.opening import Opening
from farsteer.agents.droid.settings import Dial
from farsteer.core.capabilities import Capabilities
from farsteer.core.errors import NotCapable
from farsteer.core.launch import LaunchDecision, LaunchMode
from farsteer.core.mcp import McpServer, McpTransport
from farsteer.core.modes import PermissionMode

SERVERS = (
    McpServer(name="files", command="/bin/server", args=("-x",), env={"KEY": "value"}),
    McpServer(name="web", type=McpTransport.HTTP, url="https://mcp.example", headers={"A": "b"}),
)
IN_DROIDS_WORDS = [
    {"name": "files", "command": "/bin/server", "args": ["-x"], "env": {"KEY": "value"}},
    {"type": "http", "name": "web", "url": "https://mcp.example", "headers": [{"name": "A", "value": "b"}]},
]


class FakeRpc:
    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []

    async def call(self, method: str, params: dict[str, Any], timeout: float, **more: Any) -> msgspec.Raw:
        self.asked.append((method, params))
        settings = {"autonomyLevel": "off", "interactionMode": "auto"}
        return msgspec.Raw(msgspec.json.encode({"sessionId": "s", "settings": settings}))


def plan(start: LaunchMode, **more: Any) -> LaunchPlan:
    decision = LaunchDecision(start=start, native_id="s" if start is LaunchMode.RESUME else None)
    return LaunchPlan(
        session_id="s", directory="/", generation=1, decision=decision, mcp_servers=SERVERS, **more
    )


@pytest.mark.parametrize(
    ("start", "method"), [(LaunchMode.CREATE, "initialize_session"), (LaunchMode.RESUME, "load_session")]
)
async def test_they_are_given_when_a_conversation_is_opened(start: LaunchMode, method: str) -> None:
    rpc = FakeRpc()
    opening = Opening(rpc, Dial(PermissionMode.DEFAULT), "/", 5.0)  # pyright: ignore[reportArgumentType]
    await opening.perform(plan(start))
    (params,) = [params for asked, params in rpc.asked if asked == method]
    assert params["mcpServers"] == IN_DROIDS_WORDS


def test_an_agent_that_cannot_take_them_refuses_the_plan() -> None:
    without_servers = DroidAdapter()
    without_servers.capabilities = Capabilities(resume=True)
    with pytest.raises(NotCapable, match="MCP"):
        without_servers.check_plan(plan(LaunchMode.CREATE))
    DroidAdapter().check_plan(plan(LaunchMode.CREATE))
    with pytest.raises(NotCapable, match="one directory"):
        DroidAdapter().check_plan(plan(LaunchMode.CREATE, additional_directories=("/tmp",)))
