"""Farsteer: run coding agents on your machines, steer them from anywhere."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from farsteer.client import (
        AgentView,
        ApprovalView,
        Approve,
        AsyncClient,
        AsyncSession,
        AsyncTurn,
        BranchReady,
        Client,
        Deny,
        EventStream,
        Gap,
        LiveEvent,
        MachineView,
        MessageAccepted,
        NewAttachment,
        Session,
        SessionView,
        Stream,
        Turn,
        TurnResult,
        TurnUpdate,
        WorktreeDiff,
        WorktreeMoved,
        WorktreesCleaned,
        WorktreeView,
    )

__version__ = "0.2.0.dev0"
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
    "__version__",
]

if not TYPE_CHECKING:
    # The SDK is imported on first use, because the CLI and the runner start without its HTTP library.

    def __getattr__(name: str) -> object:
        if name in __all__:
            from farsteer import client

            return getattr(client, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
