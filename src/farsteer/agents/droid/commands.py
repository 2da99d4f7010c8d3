"""What one can ask of a Droid conversation besides talking to it. A CLI that lacks one of these raises NotCapable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from farsteer.agents.droid.history import events
from farsteer.agents.droid.notes import Message
from farsteer.agents.droid.opening import Session
from farsteer.agents.droid.rpc import Rpc, T, read
from farsteer.core.events import SessionEvent
from farsteer.core.wire import WireStruct

_TIMEOUT = 30.0
_SLOW_TIMEOUT = 300.0
"""Compaction asks the model."""


class Model(WireStruct):
    id: str
    display_name: str = ""
    supported_reasoning_efforts: list[str] = []
    default_reasoning_effort: str | None = None
    is_custom: bool = False
    no_image_support: bool = False


class RewindFile(WireStruct):
    file_path: str
    content_hash: str | None = None
    size: int | None = None
    reason: str | None = None
    """Why it cannot be restored."""


class RewindInfo(WireStruct):
    """What would happen to files if the conversation were cut before a message."""

    available_files: list[RewindFile] = []
    created_files: list[RewindFile] = []
    evicted_files: list[RewindFile] = []


class Rewound(WireStruct):
    new_session_id: str
    restored_count: int = 0
    deleted_count: int = 0
    failed_restore_count: int = 0
    failed_delete_count: int = 0


class Compaction(WireStruct):
    new_session_id: str
    removed_count: int = 0


class ContextStats(WireStruct):
    used: int
    remaining: int
    limit: int
    accuracy: str = ""


class McpServer(WireStruct):
    """A server Droid is to connect to: `command` for a local one, `url` for one elsewhere."""

    name: str
    type: str = "stdio"
    command: str | None = None
    args: list[str] | None = None
    env: dict[str, str] | None = None
    url: str | None = None
    headers: dict[str, str] | None = None


class Host(Protocol):
    """The launch whose conversation it is."""

    @property
    def native_id(self) -> str | None: ...

    def check_idle(self) -> None:
        """Raises Conflict while a turn runs."""
        ...

    async def move(self, native_id: str) -> None:
        """Go on in another conversation."""
        ...


class Commands:
    def __init__(self, rpc: Rpc, host: Host) -> None:
        self._rpc = rpc
        self._host = host

    async def models(self) -> list[Model]:
        return read(await self._ask("list_models"), _Models).models

    async def tools(self) -> list[dict[str, Any]]:
        return (await self._read("list_tools", _Listed)).tools

    async def slash_commands(self) -> list[dict[str, Any]]:
        return (await self._read("list_commands", _Listed)).commands

    async def skills(self) -> list[dict[str, Any]]:
        return (await self._read("list_skills", _Listed)).skills

    async def history(self) -> list[SessionEvent]:
        """What was said so far, as a person may see it."""
        return list(events(await self.messages()))

    async def messages(self) -> list[Message]:
        """What was said so far, as Droid keeps it."""
        session = await self._read("load_session", Session, {"sessionId": self._host.native_id})
        return session.session.messages

    async def rename(self, title: str) -> None:
        await self._ask("rename_session", {"title": title})

    async def context(self) -> ContextStats:
        return await self._read("get_context_stats", ContextStats)

    async def fork(self, title: str | None = None) -> str:
        """The native id of a copy; this launch stays where it is."""
        answer = await self._read("fork_session", _Forked, {"title": title} if title else {})
        return answer.new_session_id

    async def rewind_info(self, message_id: str) -> RewindInfo:
        """`message_id`: a message of the person's; it and all that follows would go."""
        params = {"sessionId": self._host.native_id, "messageId": message_id}
        return await self._read("get_rewind_info", RewindInfo, params)

    async def rewind(
        self, message_id: str, *, restore_files: bool = False, title: str = "Rewound"
    ) -> Rewound:
        """Go on in a copy that ends before `message_id`; the conversation as it was stays under its old id."""
        self._host.check_idle()
        info = await self.rewind_info(message_id) if restore_files else RewindInfo()
        rewound = await self.restore(message_id, info.available_files, info.created_files, title=title)
        await self._host.move(rewound.new_session_id)
        return rewound

    async def restore(
        self, message_id: str, changed: Sequence[RewindFile], created: Sequence[RewindFile], *, title: str = "Rewound"
    ) -> Rewound:  # fmt: skip
        """Bring files back and delete others, which makes a copy of the conversation; this launch stays where it is."""
        params = {
            "sessionId": self._host.native_id, "messageId": message_id, "forkTitle": title,
            "filesToRestore": changed, "filesToDelete": created,
        }  # fmt: skip
        return await self._read("execute_rewind", Rewound, params)

    async def compact(self, instructions: str | None = None) -> Compaction:
        """Replace the past by a summary and go on there. The summary lives under a new id, which must be loaded."""
        self._host.check_idle()
        params = {"customInstructions": instructions} if instructions else {}
        answer = await self._ask("compact_session", params, _SLOW_TIMEOUT)
        compaction = read(answer, Compaction)
        await self._host.move(compaction.new_session_id)
        return compaction

    # -- MCP servers

    async def mcp_servers(self) -> list[dict[str, Any]]:
        return (await self._read("list_mcp_servers", _Listed)).servers

    async def mcp_tools(self) -> list[dict[str, Any]]:
        return (await self._read("list_mcp_tools", _Listed)).tools

    async def add_mcp_server(self, server: McpServer) -> None:
        await self._ask("add_mcp_server", msgspec.to_builtins(server) | {"type": server.type})

    async def remove_mcp_server(self, name: str) -> None:
        await self._ask("remove_mcp_server", {"serverName": name, "settingsLevel": "user"})

    async def toggle_mcp_server(self, name: str, *, enabled: bool) -> None:
        params = {"serverName": name, "enabled": enabled, "settingsLevel": "user"}
        await self._ask("toggle_mcp_server", params)

    async def authenticate_mcp_server(self, name: str) -> None:
        """What is to be done follows as a notice with the address to open."""
        await self._ask("authenticate_mcp_server", {"serverName": name})

    async def cancel_mcp_auth(self, name: str) -> None:
        await self._ask("cancel_mcp_auth", {"serverName": name})

    async def clear_mcp_auth(self, name: str) -> None:
        await self._ask("clear_mcp_auth", {"serverName": name})

    async def submit_mcp_auth_code(self, name: str, code: str, state: str) -> None:
        await self._ask("submit_mcp_auth_code", {"serverName": name, "code": code, "state": state})

    async def _read(self, method: str, kind: type[T], params: dict[str, Any] | None = None) -> T:
        return read(await self._ask(method, params), kind)

    async def _ask(
        self, method: str, params: dict[str, Any] | None = None, timeout: float = _TIMEOUT
    ) -> msgspec.Raw:
        return await self._rpc.call(method, params or {}, timeout, optional=True)


class _Models(WireStruct):
    models: list[Model]


class _Forked(WireStruct):
    new_session_id: str


class _Listed(WireStruct):
    tools: list[dict[str, Any]] = []
    commands: list[dict[str, Any]] = []
    skills: list[dict[str, Any]] = []
    servers: list[dict[str, Any]] = []
