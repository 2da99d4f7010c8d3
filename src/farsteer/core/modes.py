"""Permission modes and which tools each of them allows."""

from __future__ import annotations

from enum import StrEnum


class PermissionMode(StrEnum):
    DEFAULT = "default"
    ACCEPT_EDITS = "acceptEdits"
    BYPASS = "bypassPermissions"
    PLAN = "plan"
    READ_ONLY = "read-only"
    SAFE_YOLO = "safe-yolo"
    YOLO = "yolo"


class ReasoningEffort(StrEnum):
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    XHIGH = "xhigh"


class ToolKind(StrEnum):
    """The tool kinds that ACP defines."""

    READ = "read"
    EDIT = "edit"
    DELETE = "delete"
    MOVE = "move"
    SEARCH = "search"
    EXECUTE = "execute"
    THINK = "think"
    FETCH = "fetch"
    SWITCH_MODE = "switch_mode"
    OTHER = "other"


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
