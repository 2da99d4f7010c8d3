"""Droid's `stream-jsonrpc` vocabulary, shared by the adapter (`agents.droid`) and the face (`faces.droid`).

Pure tables and functions. `docs/droid.md` describes the protocol. JSON-RPC's own error codes are in `jsonrpc.errors`.
"""

from __future__ import annotations

from enum import StrEnum

from farsteer.core.events import TurnEndReason
from farsteer.core.modes import PermissionMode, ReasoningEffort, ToolKind
from farsteer.core.wire import WireStruct

ENVELOPE = {"jsonrpc": "2.0", "factoryApiVersion": "1.0.0"}
"""The fields that every line carries, in this order."""

# -- methods

METHOD_PREFIX = "droid."
SESSION_NOTIFICATION = "droid.session_notification"
REQUEST_PERMISSION = "droid.request_permission"
ASK_USER = "droid.ask_user"


class Method(StrEnum):
    """Methods that a client calls; on the wire each has `METHOD_PREFIX` in front."""

    INITIALIZE_SESSION = "initialize_session"
    LOAD_SESSION = "load_session"
    CLOSE_SESSION = "close_session"
    FORK_SESSION = "fork_session"
    RENAME_SESSION = "rename_session"
    COMPACT_SESSION = "compact_session"
    INTERRUPT_SESSION = "interrupt_session"
    ADD_USER_MESSAGE = "add_user_message"
    UPDATE_SESSION_SETTINGS = "update_session_settings"
    GET_REWIND_INFO = "get_rewind_info"
    EXECUTE_REWIND = "execute_rewind"
    GET_CONTEXT_STATS = "get_context_stats"
    LIST_MODELS = "list_models"
    LIST_COMMANDS = "list_commands"
    LIST_SKILLS = "list_skills"
    LIST_TOOLS = "list_tools"
    LIST_MCP_SERVERS = "list_mcp_servers"
    LIST_MCP_TOOLS = "list_mcp_tools"
    LIST_MCP_REGISTRY = "list_mcp_registry"
    ADD_MCP_SERVER = "add_mcp_server"


# -- errors

SESSION_NOT_FOUND = -32004
DISCONNECTED = -32005
NO_ACTIVE_SESSION = "No active session. Call initialize_session or load_session first."

# -- sessions and messages


class WorkingState(StrEnum):
    """Values of `droid_working_state_changed`."""

    IDLE = "idle"
    STREAMING = "streaming_assistant_message"
    THINKING = "thinking"
    EXECUTING_TOOL = "executing_tool"
    WAITING_FOR_CONFIRMATION = "waiting_for_tool_confirmation"


MODEL_ONLY = "llm_only"
"""The visibility of a message that only the model sees."""
USER_ONLY = "user_only"
"""The visibility of a message that only people see."""


class NoticeCode(StrEnum):
    """Codes of our `Notice` events for which Droid has a notification of its own."""

    MODEL_RETRY = "model_retry"
    MESSAGE_RETRACTED = "message_retracted"
    MCP_STATUS = "mcp_status"
    MCP_AUTH_REQUIRED = "mcp_auth_required"


# -- how a turn ends

COMPLETED = "completed"
SPEC_HANDOFF = "spec_handoff"
"""The turn goes on in another session, which carries out the approved plan."""

_TURN_END_REASONS = {
    COMPLETED: TurnEndReason.END_TURN,
    SPEC_HANDOFF: TurnEndReason.END_TURN,
    "cancelled": TurnEndReason.CANCELLED,
    "permission_rejected": TurnEndReason.CANCELLED,
    "prompt_rejected": TurnEndReason.REFUSAL,
    "process_exit": TurnEndReason.CRASHED,
}
_COMPLETION_REASONS = {
    TurnEndReason.CANCELLED: "cancelled",
    TurnEndReason.REFUSAL: "prompt_rejected",
    TurnEndReason.FAILED: "error",
    TurnEndReason.CRASHED: "error",
    TurnEndReason.LOST: "error",
}
FAILURE_REASONS = frozenset((
    "model_usage_exhausted", "model_authentication_failed", "model_request_rejected", "model_provider_unreachable",
    "model_provider_unavailable", "permission_rejected", "completion_persistence_failed", "no_approver_available",
))  # fmt: skip
"""Reasons that say more than `error`."""


def turn_end_reason(reason: str) -> TurnEndReason:
    """Return our reason for Droid's; one that we do not know is a failure."""
    return _TURN_END_REASONS.get(reason, TurnEndReason.FAILED)


def completion_reason(reason: TurnEndReason) -> str:
    """Return the reason that `agent_turn_completed` names."""
    return _COMPLETION_REASONS.get(reason, COMPLETED)


# -- permission modes and reasoning effort

AUTONOMY_LEVELS = ("off", "low", "medium", "high")
"""In ascending order. Low: file edits and read-only commands. Medium: reversible commands. High: everything."""
SPEC = "spec"
"""The interaction mode in which Droid only plans. CLIs before interaction modes had it as an autonomy level."""
AUTO = "auto"
"""The interaction mode in which Droid works."""

_MODE_BY_LEVEL = {
    "off": PermissionMode.DEFAULT,
    "low": PermissionMode.ACCEPT_EDITS,
    "medium": PermissionMode.SAFE_YOLO,
    "high": PermissionMode.YOLO,
}
_LEVEL_BY_MODE = {
    **{mode: level for level, mode in _MODE_BY_LEVEL.items()},
    PermissionMode.READ_ONLY: "off",
    PermissionMode.PLAN: "off",
    PermissionMode.BYPASS: "high",
}
_LEVEL_BY_OLD_NAME = {"normal": "off", "auto-low": "low", "auto-medium": "medium", "auto-high": "high"}
_OLD_NAME_BY_LEVEL = {level: name for name, level in _LEVEL_BY_OLD_NAME.items()}


def autonomy_level(mode: PermissionMode) -> str:
    """Return the autonomy level of a permission mode: off, low, medium or high."""
    return _LEVEL_BY_MODE[mode]


def interaction_mode(mode: PermissionMode) -> str:
    return SPEC if mode is PermissionMode.PLAN else AUTO


def autonomy_mode(mode: PermissionMode) -> str:
    """Return the one word that older CLIs have for interaction mode and level: normal, spec, auto-low and so on."""
    return SPEC if mode is PermissionMode.PLAN else old_level_name(autonomy_level(mode))


def old_level_name(level: str) -> str:
    return _OLD_NAME_BY_LEVEL[level]


def level_from_name(name: str) -> str | None:
    """Return the level that a current or an older name stands for, None if it is neither."""
    level = _LEVEL_BY_OLD_NAME.get(name, name)
    return level if level in AUTONOMY_LEVELS else None


def permission_mode(
    interaction_mode: str | None = None, autonomy_level: str | None = None, autonomy_mode: str | None = None
) -> PermissionMode | None:
    """Return the permission mode of Droid's settings, None if they name no level or one that we do not know.

    Several of our modes have the same settings; the most common one is returned.
    """
    if SPEC in (interaction_mode, autonomy_level, autonomy_mode):
        return PermissionMode.PLAN
    level = level_from_name(autonomy_level or autonomy_mode or "")
    return None if level is None else _MODE_BY_LEVEL[level]


NO_EFFORT = "none"
REASONING_EFFORTS = (NO_EFFORT, *(effort.value for effort in ReasoningEffort))
"""What the face offers for each model."""
EFFORT_BY_NAME: dict[str, ReasoningEffort | None] = {
    **{effort.value: effort for effort in ReasoningEffort},
    "max": ReasoningEffort.XHIGH,
    "minimal": ReasoningEffort.LOW,
    NO_EFFORT: None,
    "off": None,
    "dynamic": None,
}
"""What a client may ask for. None: the model's default."""

# -- approvals

PROCEED_ONCE = "proceed_once"
PROCEED_ALWAYS = "proceed_always"
PROCEED_EDIT = "proceed_edit"
"""Approve the plan as the person has edited it."""
PROCEED_NEW_SESSION = "proceed_new_session"
"""Carry the plan out in a new session; the level may follow, as in `proceed_new_session_low`."""
CANCEL = "cancel"
EXIT_SPEC_MODE = "exit_spec_mode"
"""The confirmation type of a plan."""

PLAN_OPTION_MODES = {
    PROCEED_ONCE: PermissionMode.DEFAULT,
    "proceed_auto_run": PermissionMode.DEFAULT,
    "proceed_auto_run_low": PermissionMode.ACCEPT_EDITS,
    "proceed_auto_run_medium": PermissionMode.SAFE_YOLO,
    "proceed_auto_run_high": PermissionMode.YOLO,
}
"""The permission mode that follows from each way to approve a plan."""

PLAN_ANSWER = "plan"
"""Key of `Answer.answers` for the plan as the person has edited it."""
CHOICE_ANSWER = "choice"
"""Key of `Answer.answers` for the one of several plans that the person chose."""

# -- tools


class ToolName(StrEnum):
    """The tools of Droid's that need special treatment."""

    EXECUTE = "Execute"
    CREATE = "Create"
    EDIT = "Edit"
    MULTI_EDIT = "MultiEdit"
    APPLY_PATCH = "ApplyPatch"
    READ = "Read"
    GREP = "Grep"
    FETCH_URL = "FetchUrl"
    EXIT_SPEC_MODE = "ExitSpecMode"
    ASK_USER = "AskUser"
    TODO_WRITE = "TodoWrite"


TOOL_KINDS: dict[str, ToolKind] = {
    ToolName.READ: ToolKind.READ,
    "LS": ToolKind.READ,
    ToolName.EXECUTE: ToolKind.EXECUTE,
    ToolName.EDIT: ToolKind.EDIT,
    ToolName.MULTI_EDIT: ToolKind.EDIT,
    ToolName.CREATE: ToolKind.EDIT,
    ToolName.APPLY_PATCH: ToolKind.EDIT,
    ToolName.GREP: ToolKind.SEARCH,
    "Glob": ToolKind.SEARCH,
    "ToolSearch": ToolKind.SEARCH,
    "WebSearch": ToolKind.FETCH,
    ToolName.FETCH_URL: ToolKind.FETCH,
    ToolName.TODO_WRITE: ToolKind.THINK,
    ToolName.EXIT_SPEC_MODE: ToolKind.SWITCH_MODE,
    ToolName.ASK_USER: ToolKind.OTHER,
    "Skill": ToolKind.OTHER,
    "Task": ToolKind.OTHER,
}
"""Droid's own tools. MCP tools are named `<server>___<tool>`."""

MCP_SEPARATOR = "___"


# -- rewinds


class RewindFile(WireStruct):
    file_path: str
    content_hash: str | None = None
    size: int | None = None
    reason: str | None = None
    """Why the file cannot be restored."""


class RewindInfo(WireStruct, omit_defaults=False):
    """What a rewind to before a message could do with the files that were changed since."""

    available_files: list[RewindFile] = []
    created_files: list[RewindFile] = []
    evicted_files: list[RewindFile] = []


class DroidRewindResult(WireStruct, omit_defaults=False):
    new_session_id: str
    restored_count: int = 0
    deleted_count: int = 0
    failed_restore_count: int = 0
    failed_delete_count: int = 0
