"""What a person should know that is no message: retries, errors, MCP servers, compaction."""

from __future__ import annotations

from typing import Any

from farsteer.agents.droid import notes
from farsteer.core.events import Notice, Other, SessionEvent

_RETRIES = {
    "overloaded": "is overloaded",
    "rate_limited": "limits our rate",
    "timeout": "did not answer in time",
    "network": "cannot be reached",
    "empty_response": "answered nothing",
}


def retry(note: notes.Retry) -> Notice:
    why = _RETRIES.get(note.reason, "failed")
    return Notice(
        text=f"The model {why}; Droid tries again (attempt {note.attempt})", level="warning", code="model_retry",
        meta={"attempt": note.attempt, "reason": note.reason, **(note.extra or {})},
    )  # fmt: skip


def error(note: notes.ErrorSaid) -> Notice:
    meta: dict[str, Any] = {"errorType": note.error_type, **(note.extra or {})}
    return Notice(text=note.message, level="error", code="agent_error", meta=meta)


def retracted(note: notes.Retracted, message_ids: list[str]) -> Notice:
    return Notice(
        text="Droid took a message back and asks the model again", code="message_retracted",
        meta={"messageId": note.message_id, "messageIds": message_ids, **(note.extra or {})},
    )  # fmt: skip


def child_session(note: notes.ChildSession) -> Other:
    data = {
        "childSessionId": note.child_session_id, "toolUseId": note.tool_use_id, "subagentType": note.subagent_type,
        "description": note.description,
    }  # fmt: skip
    return Other(native_kind="child_session_available", data=data, meta=note.extra)


def other(note: notes.Known) -> SessionEvent | None:
    """The notes that need nothing but to be told; None for those that say nothing a person could use."""
    match note:
        case notes.McpAuthRequired():
            return Notice(
                text=f"{note.message or f'Authentication required for {note.server_name}'}: {note.auth_url}",
                level="warning", code="mcp_auth_required",
                meta={"serverName": note.server_name, "authUrl": note.auth_url, **(note.extra or {})},
            )  # fmt: skip
        case notes.McpAuthCompleted():
            return Notice(
                text=note.message or f"Authentication of {note.server_name}: {note.outcome}",
                level="info" if note.outcome == "success" else "warning", code="mcp_auth_completed",
                meta={"serverName": note.server_name, "outcome": note.outcome, **(note.extra or {})},
            )  # fmt: skip
        case notes.QueuedDiscarded():
            return Notice(
                text=f"Droid discarded a message that waited: {note.text}", level="warning",
                code="queued_message_discarded", meta={"requestId": note.request_id, **(note.extra or {})},
            )  # fmt: skip
        case notes.Compacted():
            return Notice(
                text=f"Droid compacted the conversation: {note.removed_count} messages became a summary",
                code="compacted",
                meta={"removedCount": note.removed_count, "summaryId": note.summary_id, **(note.extra or {})},
            )  # fmt: skip
        case notes.DirectoryChanged():
            return Notice(
                text=f"Droid now works in {note.cwd}", code="directory_changed", meta={"cwd": note.cwd}
            )
        case notes.StructuredOutput():
            data = {"messageId": note.message_id, "structuredOutput": note.structured_output}
            return Other(native_kind="structured_output", data=data, meta=note.extra)
        case _:
            return None


class McpBoard:
    """The state of the MCP servers, told when it changes and there are any."""

    def __init__(self) -> None:
        self._told: list[dict[str, Any]] = []

    def read(self, note: notes.McpStatus) -> Notice | None:
        if note.servers == self._told:
            return None
        self._told = note.servers
        states = [f"{server.get('name')} {server.get('status')}" for server in note.servers]
        failed = any(server.get("status") == "failed" for server in note.servers)
        return Notice(
            text=f"MCP servers: {', '.join(states) or 'none'}", level="warning" if failed else "info",
            code="mcp_status", meta={"servers": note.servers, "summary": note.summary, **(note.extra or {})},
        )  # fmt: skip
