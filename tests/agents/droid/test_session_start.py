"""MCP servers that a client configures are passed to Droid when a session is opened."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from farsteer.agents.base import LaunchPlan
from farsteer.agents.droid.adapter import DroidAdapter
from farsteer.agents.droid.session_start import SessionStarter
from farsteer.agents.droid.settings import SettingsTracker
from farsteer.core.capabilities import Capabilities
from farsteer.core.errors import NotCapable
from farsteer.core.launch import LaunchDecision, LaunchMode
from farsteer.core.mcp import McpServer, McpTransport
from farsteer.core.modes import PermissionMode

SERVERS = (
    McpServer(name="files", command="/bin/server", args=("-x",), env={"KEY": "value"}),
    McpServer(name="web", type=McpTransport.HTTP, url="https://mcp.example", headers={"A": "b"}),
)
DROID_PARAMS = [
    {"name": "files", "command": "/bin/server", "args": ["-x"], "env": {"KEY": "value"}},
    {"type": "http", "name": "web", "url": "https://mcp.example", "headers": [{"name": "A", "value": "b"}]},
]


class FakeRpc:
    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []

    async def call(self, method: str, params: dict[str, Any], timeout: float, **more: Any) -> msgspec.Raw:
        self.calls.append((method, params))
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
async def test_mcp_servers_are_passed_when_a_session_is_opened(start: LaunchMode, method: str) -> None:
    rpc = FakeRpc()
    await SessionStarter(rpc, SettingsTracker(PermissionMode.DEFAULT), plan(start)).start()  # pyright: ignore[reportArgumentType]
    (params,) = [params for called, params in rpc.calls if called == method]
    assert params["mcpServers"] == DROID_PARAMS


def test_a_plan_that_needs_a_missing_capability_is_refused() -> None:
    without_servers = DroidAdapter()
    without_servers.capabilities = Capabilities(resume=True)
    with pytest.raises(NotCapable, match="MCP"):
        without_servers.check_plan(plan(LaunchMode.CREATE))
    DroidAdapter().check_plan(plan(LaunchMode.CREATE))
    with pytest.raises(NotCapable, match="one directory"):
        DroidAdapter().check_plan(plan(LaunchMode.CREATE, additional_directories=("/tmp",)))
