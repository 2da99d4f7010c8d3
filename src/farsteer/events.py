"""What can happen in a session and at a hub, as classes for `match`.

    from farsteer.events import AgentMessage, ToolCall, ToolKind

    for update in session.turn("tidy up"):
        match update.event:
            case ToolCall(kind=ToolKind.EDIT, title=title):
                print("edits:", title)
            case AgentMessage(text=text):
                print(text)

`TurnUpdate.event` and `Entry.content` are one of these events (`SessionEvent`). A turn begins with a `TurnStart` and
ends with its one `TurnEnd`. An event of a kind that this version does not know is an `Other`.

`LiveEvent.content`, of `Client.events`, is one of the classes of `SyncEvent`, whose names end in `Event`. They tell
what happens to all sessions and machines.
"""

from farsteer.core.approvals import Approval, ApprovalKind, Option, OptionKind, Outcome, Question
from farsteer.core.events import (
    AgentMessage,
    AgentSwitched,
    AgentThought,
    ApprovalRequested,
    ApprovalResolved,
    CommandsUpdate,
    Compacted,
    Delta,
    DeltaKind,
    DiffBlock,
    Entry,
    FileRestore,
    FilesRestored,
    LaunchEnd,
    LaunchStart,
    Location,
    ModeUpdate,
    Notice,
    Other,
    Plan,
    PlanEntry,
    QueueUpdate,
    Rewound,
    Role,
    SessionEvent,
    SessionStatus,
    SlashCommand,
    StatusUpdate,
    TerminalUpdate,
    TextBlock,
    TitleUpdate,
    ToolCall,
    ToolCallUpdate,
    ToolStatus,
    TurnEnd,
    TurnEndReason,
    TurnStart,
    UsageUpdate,
    UserMessage,
)
from farsteer.core.live_events import (
    MachineRemovedEvent,
    MachineUpdatedEvent,
    MessageDeltaEvent,
    MessageReceivedEvent,
    MessagesClearedEvent,
    OnlineUsersChangedEvent,
    SessionAddedEvent,
    SessionChanges,
    SessionRemovedEvent,
    SessionUpdatedEvent,
    SyncEvent,
    TypingChangedEvent,
)
from farsteer.core.modes import PermissionMode, ReasoningEffort, ToolKind
from farsteer.core.queue import Attachment, Delivery, ItemState, QueueItem

__all__ = [
    "AgentMessage",
    "AgentSwitched",
    "AgentThought",
    "Approval",
    "ApprovalKind",
    "ApprovalRequested",
    "ApprovalResolved",
    "Attachment",
    "CommandsUpdate",
    "Compacted",
    "Delivery",
    "Delta",
    "DeltaKind",
    "DiffBlock",
    "Entry",
    "FileRestore",
    "FilesRestored",
    "ItemState",
    "LaunchEnd",
    "LaunchStart",
    "Location",
    "MachineRemovedEvent",
    "MachineUpdatedEvent",
    "MessageDeltaEvent",
    "MessageReceivedEvent",
    "MessagesClearedEvent",
    "ModeUpdate",
    "Notice",
    "OnlineUsersChangedEvent",
    "Option",
    "OptionKind",
    "Other",
    "Outcome",
    "PermissionMode",
    "Plan",
    "PlanEntry",
    "Question",
    "QueueItem",
    "QueueUpdate",
    "ReasoningEffort",
    "Rewound",
    "Role",
    "SessionAddedEvent",
    "SessionChanges",
    "SessionEvent",
    "SessionRemovedEvent",
    "SessionStatus",
    "SessionUpdatedEvent",
    "SlashCommand",
    "StatusUpdate",
    "SyncEvent",
    "TerminalUpdate",
    "TextBlock",
    "TitleUpdate",
    "ToolCall",
    "ToolCallUpdate",
    "ToolKind",
    "ToolStatus",
    "TurnEnd",
    "TurnEndReason",
    "TurnStart",
    "TypingChangedEvent",
    "UsageUpdate",
    "UserMessage",
]
