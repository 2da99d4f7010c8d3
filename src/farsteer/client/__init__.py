"""The Python SDK: `Client` for scripts, `AsyncClient` for asyncio. Both cover the whole REST and live API.

    from farsteer import Client

    with Client() as client:
        session = client.start(".", agent="demo")
        print(session.ask("hello"))

The names here are also those of `farsteer`. `farsteer.errors` has the errors, `farsteer.events` what can happen.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from farsteer.client.async_client import AsyncClient
    from farsteer.client.live_events import Gap, LiveEvent
    from farsteer.client.session import AsyncSession
    from farsteer.client.stream import EventStream
    from farsteer.client.sync_client import Client, Session, Stream, Turn
    from farsteer.client.turn import AsyncTurn, TurnResult, TurnUpdate
    from farsteer.core.api import (
        AgentView,
        ApprovalView,
        Approve,
        Deny,
        MachineView,
        MessageAccepted,
        NewAttachment,
        SessionView,
    )
    from farsteer.core.worktrees import (
        BranchReady,
        WorktreeDiff,
        WorktreeMoved,
        WorktreesCleaned,
        WorktreeView,
    )

_MODULES = {
    "AgentView": "farsteer.core.api",
    "ApprovalView": "farsteer.core.api",
    "Approve": "farsteer.core.api",
    "AsyncClient": "farsteer.client.async_client",
    "AsyncSession": "farsteer.client.session",
    "AsyncTurn": "farsteer.client.turn",
    "BranchReady": "farsteer.core.worktrees",
    "Client": "farsteer.client.sync_client",
    "Deny": "farsteer.core.api",
    "EventStream": "farsteer.client.stream",
    "Gap": "farsteer.client.live_events",
    "LiveEvent": "farsteer.client.live_events",
    "MachineView": "farsteer.core.api",
    "MessageAccepted": "farsteer.core.api",
    "NewAttachment": "farsteer.core.api",
    "Session": "farsteer.client.sync_client",
    "SessionView": "farsteer.core.api",
    "Stream": "farsteer.client.sync_client",
    "Turn": "farsteer.client.sync_client",
    "TurnResult": "farsteer.client.turn",
    "TurnUpdate": "farsteer.client.turn",
    "WorktreeDiff": "farsteer.core.worktrees",
    "WorktreeMoved": "farsteer.core.worktrees",
    "WorktreeView": "farsteer.core.worktrees",
    "WorktreesCleaned": "farsteer.core.worktrees",
}

__all__ = [
    "AgentView",
    "ApprovalView",
    "Approve",
    "AsyncClient",
    "AsyncSession",
    "AsyncTurn",
    "BranchReady",
    "Client",
    "Deny",
    "EventStream",
    "Gap",
    "LiveEvent",
    "MachineView",
    "MessageAccepted",
    "NewAttachment",
    "Session",
    "SessionView",
    "Stream",
    "Turn",
    "TurnResult",
    "TurnUpdate",
    "WorktreeDiff",
    "WorktreeMoved",
    "WorktreeView",
    "WorktreesCleaned",
]

if not TYPE_CHECKING:
    # Imported on first use: without a hub, `farsteer exec` follows turns without the HTTP library. Hidden from type
    # checkers, which would otherwise accept every name.

    def __getattr__(name: str) -> object:
        if name in _MODULES:
            from importlib import import_module

            return getattr(import_module(_MODULES[name]), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
