"""A session's log as Droid's messages: the same whether they are sent live or loaded later.

A message of Droid's holds blocks: thoughts, followed by a text or a tool use. Our log has an entry for each of these,
so thoughts are held back until the entry that follows them. Ids are derived from ours, so that they are the same in
every process and in a copy of the session.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast
from uuid import UUID, uuid5

from farsteer.core import events as ev
from farsteer.core.approvals import ApprovalKind
from farsteer.core.clock import now_ms
from farsteer.core.droid import USER_ONLY, NoticeCode, ToolName
from farsteer.core.events import AgentMessage, AgentThought, Delta, DeltaKind, Entry, Notice
from farsteer.faces.droid.approvals import questionnaire_result, tool_use_for
from farsteer.faces.droid.protocol import (
    AnyContent,
    McpAuthRequired,
    McpStatusChanged,
    Message,
    ModelRetry,
    Notification,
    TextComplete,
    TextContent,
    TextDelta,
    ThinkingComplete,
    ThinkingContent,
    ThinkingDelta,
    ToolProgress,
    ToolResultContent,
    ToolUse,
)
from farsteer.faces.droid.tools import result_text, tool_use_of

USER, ASSISTANT, TOOL, SYSTEM = "user", "assistant", "tool", "system"
_ID_NAMESPACE = UUID("6f1ab1f6-63b1-4d5b-8f0e-6f4b6f0d7a51")
_PLAN_APPROVED = '{"approved":true,"message":"Spec mode exited. The user approved the plan."}'
_PLAN_DENIED = "Error: Plan not approved - remaining in Spec Mode. Provide feedback to refine the spec."
_REPEATED_OUTPUT = 64 * 1024
"""A tool's output is repeated in each progress update up to this length."""


class Transcript:
    """Builds the messages of one session from its entries, in order."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self.tool_uses: dict[str, ToolUse] = {}
        """The tool calls of the current turn by id."""
        self._finished_tools: set[str] = set()
        self.prompt_id = ""
        """Id of the user message that started the current turn."""
        self._error_reported = False
        """The current turn has reported an error."""
        self._unannounced: dict[str, ev.ApprovalRequested] = {}
        """Open approvals whose tool call the agent did not announce, so that a tool use was made up for them."""
        self._parent_id = "root"
        self._draft_id: str | None = None
        """Id of the assistant message that is being built."""
        self._block_indexes: dict[str, int] = {}
        """The block of the draft in which each of our message ids is."""
        self._thoughts: dict[int, ThinkingContent] = {}

    def locate(self, message_id: str) -> tuple[str, int]:
        """Return the message and the block in which our message with this id is streamed."""
        if self._draft_id is None:
            self._draft_id = _derived_id(message_id)
        return self._draft_id, self._block_indexes.setdefault(message_id, len(self._block_indexes))

    def retract(self, message_ids: list[str]) -> str | None:
        """Drop the draft if it contains one of these messages; return the draft's id."""
        if self._draft_id is None or not any(known in self._block_indexes for known in message_ids):
            return None
        return self._take_draft()[0]

    def is_unreported_error(self, end: ev.TurnEnd) -> bool:
        """Whether the end of the turn carries an error that was not reported before."""
        return bool(end.error) and not self._error_reported and end.reason is not ev.TurnEndReason.CANCELLED

    def append(self, entry: Entry) -> Iterator[Message]:
        """Yield the messages that this entry completes."""
        event = entry.content
        match event:
            case ev.AgentThought() | ev.AgentMessage() if event.parent_tool_call_id is not None:
                return  # Droid does not show what a sub-agent says.
            case ev.AgentThought():
                _, block = self.locate(event.message_id)
                self._thoughts[block] = ThinkingContent(thinking=event.text)
                return
            case ev.AgentMessage():
                self.locate(event.message_id)
                yield self._assistant_message(entry, TextContent(text=event.text))
            case ev.ToolCall():
                yield from self._tool_call(entry, event)
            case ev.ToolCallUpdate() if event.status is not None and event.status.final:
                yield from self._tool_result(entry, event.tool_call_id, event)
            case ev.Plan() if not self._uses_tool(ToolName.TODO_WRITE):
                yield from self._todo_list(entry, event)
            case ev.ApprovalRequested() if event.approval.tool_call_id not in self.tool_uses:
                self._unannounced[event.approval.id] = event
                use = tool_use_for(event.approval, None)
                self.tool_uses[use.id] = use
                yield self._assistant_message(entry, use)
            case ev.ApprovalResolved() if event.approval_id in self._unannounced:
                yield from self._approval_result(entry, event)
            case ev.UserMessage():
                yield from self._remaining_thoughts(entry)
                self.tool_uses.clear()
                self._finished_tools.clear()
                self._error_reported = False
                self.prompt_id = entry.local_id or event.item_id
                yield self._message(entry, self.prompt_id, USER, [TextContent(text=event.text)])
            case ev.Notice() if notification_for(event) is None and not retracted_ids(event):
                self._error_reported = self._error_reported or event.level == "error"
                yield self._system_message(entry, event.text)
            case ev.TurnEnd():
                yield from self._remaining_thoughts(entry)
                if self.is_unreported_error(event):
                    yield self._system_message(entry, event.error or "")
            case _:
                return

    def _tool_call(self, entry: Entry, call: ev.ToolCall) -> Iterator[Message]:
        if call.tool_call_id in self.tool_uses:
            return
        use = self.tool_uses[call.tool_call_id] = tool_use_of(call, self._directory)
        yield self._assistant_message(entry, use)
        if call.status.final:
            yield from self._tool_result(entry, call.tool_call_id, call)

    def _tool_result(
        self, entry: Entry, call_id: str, event: ev.ToolCall | ev.ToolCallUpdate
    ) -> Iterator[Message]:
        """The first result of a call counts."""
        if call_id not in self._finished_tools:
            self._finished_tools.add(call_id)
            failed = event.status is ev.ToolStatus.FAILED
            text = result_text(self.tool_uses.get(call_id), event.content, failed=failed)
            yield self._result_message(entry, call_id, text, failed=failed)

    def _approval_result(self, entry: Entry, event: ev.ApprovalResolved) -> Iterator[Message]:
        approval, allowed = self._unannounced.pop(event.approval_id).approval, event.outcome.allows
        match approval.kind:
            case ApprovalKind.PERMISSION:
                if approval.tool_call_id is not None and allowed:
                    return
                text = "Allowed" if allowed else "Error: Tool execution cancelled by user"
            case ApprovalKind.QUESTION:
                answers = event.answers or {}
                text = questionnaire_result(approval, answers) if allowed else "Error: AskUser cancelled"
            case ApprovalKind.PLAN:
                text = _PLAN_APPROVED if allowed else _PLAN_DENIED
        yield self._result_message(entry, approval.tool_call_id or approval.id, text, failed=not allowed)

    def _todo_list(self, entry: Entry, plan: ev.Plan) -> Iterator[Message]:
        """A plan of an agent that has no tool for it, as a call of Droid's TodoWrite."""
        lines = [f"{number}. [{one.status}] {one.content}" for number, one in enumerate(plan.entries, 1)]
        use = ToolUse(id=f"todo_{entry.seq}", name=ToolName.TODO_WRITE, input={"todos": "\n".join(lines)})
        self.tool_uses[use.id] = use
        yield self._assistant_message(entry, use)
        yield self._result_message(entry, use.id, "TODO List Updated", failed=False)
        del self.tool_uses[use.id]

    def _uses_tool(self, name: str) -> bool:
        return any(use.name == name for use in self.tool_uses.values())

    def _assistant_message(self, entry: Entry, last: TextContent | ToolUse) -> Message:
        """Return a message of the thoughts so far, followed by `last`."""
        if isinstance(last, ToolUse) and len(self._block_indexes) > len(self._thoughts):
            # A text is still being streamed into the draft.
            return self._message(entry, _derived_id(last.id), ASSISTANT, [last])
        draft_id, thoughts = self._take_draft()
        message_id = draft_id or _derived_id(last.id if isinstance(last, ToolUse) else entry.id)
        return self._message(entry, message_id, ASSISTANT, [*thoughts, last])

    def _remaining_thoughts(self, entry: Entry) -> Iterator[Message]:
        """Thoughts that neither a text nor a tool use followed."""
        message_id, thoughts = self._take_draft()
        if thoughts and message_id is not None:
            yield self._message(entry, message_id, ASSISTANT, thoughts)

    def _take_draft(self) -> tuple[str | None, list[AnyContent]]:
        """Return the id and the thoughts of the draft, and begin a new one."""
        draft_id, self._draft_id = self._draft_id, None
        thoughts: list[AnyContent] = [thought for _, thought in sorted(self._thoughts.items())]
        self._block_indexes.clear()
        self._thoughts.clear()
        return draft_id, thoughts

    def _result_message(self, entry: Entry, call_id: str, text: str, *, failed: bool) -> Message:
        result = ToolResultContent(tool_use_id=call_id, content=text, is_error=failed)
        return self._message(entry, _derived_id(f"{call_id}:result"), TOOL, [result])

    def _system_message(self, entry: Entry, text: str) -> Message:
        return self._message(entry, _derived_id(entry.id), SYSTEM, [TextContent(text=text)], USER_ONLY)

    def _message(
        self, entry: Entry, message_id: str, role: str, content: list[AnyContent], visibility: str | None = None
    ) -> Message:  # fmt: skip
        message = Message(
            id=message_id, role=role, content=content, created_at=entry.created_at, updated_at=entry.created_at,
            parent_id=self._parent_id, visibility=visibility,
        )  # fmt: skip
        self._parent_id = message_id
        return message


def _derived_id(our_id: str) -> str:
    return str(uuid5(_ID_NAMESPACE, our_id))


# -- deltas


class DeltaStream:
    """Turns live deltas of messages, thoughts and tool output into notifications; each character is sent once."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._sent: dict[str, int] = {}
        """How many characters of each unfinished message were sent."""
        self._outputs: dict[str, str] = {}

    def reset(self) -> None:
        """A turn begins: nothing that an earlier one left unfinished will be continued."""
        self._sent.clear()
        self._outputs.clear()

    def forget(self, message_ids: list[str]) -> None:
        """The agent has retracted these messages; if they are streamed again, it is from the start."""
        for message_id in message_ids:
            self._sent.pop(message_id, None)

    def notification(self, delta: Delta) -> Notification | None:
        """Return the notification for a delta, None if there is nothing new to send."""
        if delta.kind is DeltaKind.TOOL_OUTPUT:
            return self._progress(delta)
        if delta.kind is DeltaKind.TOOL_INPUT:
            return None
        sent = self._sent.get(delta.message_id, 0)
        if delta.offset > sent:
            return None  # Text before it is missing; the complete message will bring it.
        if delta.offset == 0:
            sent = 0  # The agent starts over, after a retraction that was sent before.
        new = delta.text[sent - delta.offset :]
        return self._text_delta(delta.kind, delta.message_id, new, sent) if new else None

    def complete(self, event: AgentMessage | AgentThought) -> list[Notification]:
        """Return notifications for the rest of a message that was not streamed, and for its completion."""
        is_thought = isinstance(event, AgentThought)
        kind = DeltaKind.THOUGHT if is_thought else DeltaKind.MESSAGE
        sent = self._sent.get(event.message_id, 0)
        rest = event.text[sent:]
        deltas = [self._text_delta(kind, event.message_id, rest, sent)] if rest else []
        self._sent.pop(event.message_id, None)
        message_id, block = self._transcript.locate(event.message_id)
        completed = ThinkingComplete if is_thought else TextComplete
        return [*deltas, completed(message_id=message_id, block_index=block)]

    def _text_delta(self, kind: DeltaKind, message_id: str, text: str, sent: int) -> Notification:
        self._sent[message_id] = sent + len(text)
        droid_id, block = self._transcript.locate(message_id)
        delta = ThinkingDelta if kind is DeltaKind.THOUGHT else TextDelta
        return delta(message_id=droid_id, block_index=block, text_delta=text)

    def _progress(self, delta: Delta) -> Notification | None:
        use = self._transcript.tool_uses.get(delta.message_id)
        if use is None:
            return None
        update: dict[str, Any] = {"type": "status", "text": delta.text, "timestamp": now_ms()}
        output = self._outputs.get(use.id, "")
        if len(output) == delta.offset and len(output) + len(delta.text) <= _REPEATED_OUTPUT:
            self._outputs[use.id] = update["fullOutput"] = output + delta.text
        return ToolProgress(tool_use_id=use.id, tool_name=use.name, update=update)


# -- notices


def notification_for(notice: Notice) -> Notification | None:
    """Return Droid's notification for a notice; None if it has none and the notice is shown as a message."""
    meta: dict[str, Any] = notice.meta or {}
    match notice.code:
        case NoticeCode.MODEL_RETRY:
            attempt = meta.get("attempt")
            return ModelRetry(
                attempt=attempt if isinstance(attempt, int) else 1,
                reason=str(meta.get("reason") or "unknown"),
            )
        case NoticeCode.MCP_STATUS if isinstance(meta.get("servers"), list):
            return McpStatusChanged(servers=meta["servers"], summary=meta.get("summary") or {})
        case NoticeCode.MCP_AUTH_REQUIRED:
            url = str(meta.get("authUrl") or "")
            return McpAuthRequired(
                server_name=str(meta.get("serverName") or ""),
                auth_url=url,
                message=notice.text.removesuffix(f": {url}"),
            )
        case _:
            return None


def retracted_ids(notice: Notice) -> list[str]:
    """Return our ids of the messages that the agent retracts with this notice."""
    ids = (notice.meta or {}).get("messageIds") if notice.code == NoticeCode.MESSAGE_RETRACTED else None
    return [str(one) for one in cast("list[Any]", ids)] if isinstance(ids, list) else []
