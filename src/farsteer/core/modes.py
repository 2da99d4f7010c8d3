"""Permission modes and which tools each of them allows."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, get_args


class PermissionMode(StrEnum):
    """What the agent may do without asking. `docs/agents.md` has a table of what each agent does in each mode."""

    DEFAULT = "default"
    ACCEPT_EDITS = "acceptEdits"
    BYPASS = "bypassPermissions"
    PLAN = "plan"
    READ_ONLY = "read-only"
    SAFE_YOLO = "safe-yolo"
    YOLO = "yolo"


class ReasoningEffort(StrEnum):
    """How much the model should think, for models that can be told."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    XHIGH = "xhigh"


ModelMode = Literal[
    "default", "sonnet", "opus", "gpt-5.2-codex", "gpt-5.1-codex-max", "gpt-5.1-codex-mini", "gpt-5.2"
]
MODEL_MODES: tuple[str, ...] = get_args(ModelMode)[1:]
"""The models that the REST API has a name for. Each belongs to some agents only (`Capabilities.model_modes`)."""


class ToolKind(StrEnum):
    """What a tool does. These are the tool kinds that ACP defines."""

    READ = "read"
    """Reads files."""
    EDIT = "edit"
    """Writes or changes files."""
    DELETE = "delete"
    MOVE = "move"
    """Moves or renames files."""
    SEARCH = "search"
    EXECUTE = "execute"
    """Runs a command."""
    THINK = "think"
    FETCH = "fetch"
    """Gets something from the network."""
    SWITCH_MODE = "switch_mode"
    OTHER = "other"
    """Everything else, such as a tool of an MCP server. Nobody knows what it does."""


_LEAST_RISK_FIRST = (
    ToolKind.THINK, ToolKind.SEARCH, ToolKind.READ, ToolKind.FETCH, ToolKind.MOVE, ToolKind.EDIT,
    ToolKind.SWITCH_MODE, ToolKind.OTHER, ToolKind.EXECUTE, ToolKind.DELETE,
)  # fmt: skip
"""Nobody knows what a tool of kind `other` does, so that it comes after edits."""


def risk(kind: ToolKind) -> int:
    """Return how much a tool of this kind can do, as a number to compare."""
    return _LEAST_RISK_FIRST.index(kind)


class ToolPermission(StrEnum):
    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


_HARMLESS = frozenset({ToolKind.READ, ToolKind.SEARCH, ToolKind.THINK})
_EDITS = _HARMLESS | {ToolKind.EDIT, ToolKind.MOVE}
_SAFE = _EDITS | {ToolKind.EXECUTE}


def tool_permission(mode: PermissionMode, tool: ToolKind) -> ToolPermission:
    """Return whether a tool may run, must not run, or needs a person's permission."""
    match mode:
        case PermissionMode.YOLO | PermissionMode.BYPASS:
            return ToolPermission.ALLOW
        case PermissionMode.PLAN | PermissionMode.READ_ONLY:
            return ToolPermission.ALLOW if tool in _HARMLESS else ToolPermission.DENY
        case PermissionMode.DEFAULT:
            allowed = _HARMLESS
        case PermissionMode.ACCEPT_EDITS:
            allowed = _EDITS
        case PermissionMode.SAFE_YOLO:
            allowed = _SAFE
    return ToolPermission.ALLOW if tool in allowed else ToolPermission.ASK


def allows_more_than_default(mode: PermissionMode) -> bool:
    """Return whether tools run without asking in this mode that need a person's permission in the default mode."""
    return any(
        tool_permission(mode, tool) is ToolPermission.ALLOW
        and tool_permission(PermissionMode.DEFAULT, tool) is not ToolPermission.ALLOW
        for tool in ToolKind
    )


_STRICTEST_FIRST = (ToolPermission.DENY, ToolPermission.ASK, ToolPermission.ALLOW)


def loosens(before: PermissionMode, after: PermissionMode) -> bool:
    """Return whether some tool needs less permission in `after` than in `before`."""
    rank = _STRICTEST_FIRST.index
    return any(rank(tool_permission(after, tool)) > rank(tool_permission(before, tool)) for tool in ToolKind)


def requested_mode(mode: PermissionMode | None, *, yolo: bool | None) -> PermissionMode:
    """Return the mode that a session starts in. A named mode wins over the `yolo` flag."""
    if mode is not None:
        return mode
    return PermissionMode.YOLO if yolo else PermissionMode.DEFAULT
