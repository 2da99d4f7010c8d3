"""What `droid exec` prints with `-o stream-json` and `-o json`, for any agent. Does no I/O.

The names of fields are those of Droid 0.215, which mixes two styles.
"""

from __future__ import annotations

from typing import Any

from farsteer.core import events as ev
from farsteer.core.api import SessionView
from farsteer.core.clock import now_ms
from farsteer.core.events import Entry, ToolStatus
from farsteer.core.session import Usage
from farsteer.faces.droid.protocol import ToolUse
from farsteer.faces.droid.tools import result_text, tool_use_of

Line = dict[str, Any]


class DroidLines:
    """Translates one turn. Pass the entries in their order: a tool's result refers to its call."""

    def __init__(self, session: SessionView) -> None:
        self._session = session
        self._tools: dict[str, ToolUse] = {}
        self._message_id = ""
        self._rounds = 0
        self._in_round = False

    def first(self) -> Line:
        session = self._session
        return {
            "type": "system", "subtype": "init", "cwd": session.directory, "session_id": session.id, "tools": [],
            "model": session.model, "reasoning_effort": session.model_reasoning_effort, "agent": session.agent,
        }  # fmt: skip

    def of(self, entry: Entry) -> Line | None:
        """Return the line of an entry; None if Droid prints nothing for its kind."""
        content = entry.content
        self._count_round(content)
        match content:
            case ev.UserMessage():
                return self._message("user", content.item_id or str(entry.seq), content.text, entry)
            case ev.AgentMessage() if content.parent_tool_call_id is None:
                self._message_id = content.message_id
                return self._message("assistant", content.message_id, content.text, entry)
            case ev.ToolCall():
                use = self._tools[content.tool_call_id] = tool_use_of(content, self._session.directory)
                fields = {"toolId": use.name, "toolName": use.name, "parameters": use.input}
                message_id = self._message_id or str(entry.seq)
                return self._line("tool_call", entry, id=use.id, messageId=message_id, **fields)
            case ev.ToolCallUpdate() if content.status is not None and content.status.final:
                failed = content.status is ToolStatus.FAILED
                use = self._tools.get(content.tool_call_id)
                value = result_text(use, content.content, failed=failed)
                name = use.name if use else ""
                fields = {"toolId": name, "isError": failed}
                fields |= {"error": {"type": "tool_error", "message": value}} if failed else {"value": value}
                return self._line(
                    "tool_result", entry, id=content.tool_call_id, messageId=str(entry.seq), **fields
                )
            case ev.Notice() if content.level == "error":
                return self._line("error", entry, source="agent_loop", message=content.text)
            case _:
                return None

    def failed(self, message: str) -> Line:
        """Return the last line of a turn that failed."""
        fields = {"source": "cli", "message": message}
        return {"type": "error", **fields, "timestamp": now_ms(), "session_id": self._session.id}

    def completed(self, text: str, duration_ms: int, usage: Usage) -> Line:
        """Return the last line of a turn that the agent finished."""
        return {
            "type": "completion", "finalText": text, "numTurns": self._rounds, "durationMs": duration_ms,
            "session_id": self._session.id, "timestamp": now_ms(), "usage": self._usage(usage),
        }  # fmt: skip

    def result(self, text: str, duration_ms: int, usage: Usage, *, failed: bool) -> Line:
        """Return the one object of `-o json`. Pass all entries of the turn to `of` before."""
        return {
            "type": "result", "subtype": "failure" if failed else "success", "is_error": failed,
            "duration_ms": duration_ms, "num_turns": self._rounds, "result": text, "session_id": self._session.id,
            "usage": self._usage(usage),
        }  # fmt: skip

    def _usage(self, total: Usage) -> Line:
        """Return what this turn has added to the usage of the session."""
        before = self._session.usage
        return {
            "input_tokens": total.input_tokens - before.input_tokens,
            "output_tokens": total.output_tokens - before.output_tokens,
            "cache_read_input_tokens": total.cache_read_tokens - before.cache_read_tokens,
            "cache_creation_input_tokens": total.cache_write_tokens - before.cache_write_tokens,
        }

    def _count_round(self, event: ev.SessionEvent) -> None:
        """Count the answers of the model, which Droid calls turns: each goes on behind the result of a tool."""
        match event:
            case ev.AgentMessage() | ev.AgentThought() | ev.ToolCall() if event.parent_tool_call_id is None:
                if not self._in_round:
                    self._in_round, self._message_id = True, ""
                    self._rounds += 1
            case ev.ToolCallUpdate() if event.status is not None and event.status.final:
                self._in_round = False
            case _:
                pass

    def _message(self, role: str, message_id: str, text: str, entry: Entry) -> Line:
        return self._line("message", entry, role=role, id=message_id, text=text)

    def _line(self, kind: str, entry: Entry, **fields: Any) -> Line:
        return {
            "type": kind,
            **fields,
            "timestamp": entry.created_at,
            "session_id": self._session.id,
        }
