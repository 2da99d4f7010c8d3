"""A session's log as Droid's conversation: the same messages whether they are told live or loaded later.

Droid's messages hold blocks: thoughts, then a text or a tool's use. Our log has an entry for each, so thoughts wait for
what follows them. Ids are made from ours and stay the same in every process, and in a copy of the session.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID, uuid5

from farsteer.core import events as ev
from farsteer.core.approvals import ApprovalKind
from farsteer.core.events import Entry
from farsteer.faces.droid.asking import answered_text, tool_of
from farsteer.faces.droid.notes import Message, Text, Thinking, ToolOutcome, ToolUse
from farsteer.faces.droid.notices import notice, retracted
from farsteer.faces.droid.tools import TODO, result_text, tool_use

USER, ASSISTANT, TOOL, SYSTEM = "user", "assistant", "tool", "system"
FOR_PEOPLE = "user_only"
_SPACE = UUID("6f1ab1f6-63b1-4d5b-8f0e-6f4b6f0d7a51")
_STATUS_LINE = "{number}. [{status}] {content}"

Blocks = list[Text | Thinking | ToolUse | ToolOutcome]


class Transcript:
    def __init__(self, directory: str) -> None:
        self._directory = directory
        self.uses: dict[str, ToolUse] = {}
        """Every tool call of the running turn, by its id."""
        self._done: set[str] = set()
        self.asked_by = ""
        """The message that began it."""
        self.failed = False
        """An error was told in it."""
        self._asked: dict[str, ev.ApprovalRequested] = {}
        """Approvals for which the agent named no tool call, so that one was made for them."""
        self._parent = "root"
        self._draft_id: str | None = None
        self._places: dict[str, int] = {}
        """Where in the message that is being made each of our ids stands."""
        self._thoughts: dict[int, Thinking] = {}

    def place(self, message_id: str) -> tuple[str, int]:
        """Droid's message and the block in it under which what has this id of ours is streamed."""
        if self._draft_id is None:
            self._draft_id = self._id(message_id)
        return self._draft_id, self._places.setdefault(message_id, len(self._places))

    def retract(self, message_ids: list[str]) -> str | None:
        """What was streamed under these ids of ours is void; Droid's id of it."""
        if self._draft_id is None or not any(known in self._places for known in message_ids):
            return None
        void, self._draft_id = self._draft_id, None
        self._places.clear()
        self._thoughts.clear()
        return void

    def fails(self, end: ev.TurnEnd) -> bool:
        """The end of the turn says an error that was not told before."""
        return bool(end.error) and not self.failed and end.reason is not ev.TurnEndReason.CANCELLED

    def read(self, entry: Entry) -> Iterator[Message]:
        """The messages that `entry` completes."""
        event = entry.content
        match event:
            case ev.AgentThought():
                _, block = self.place(event.message_id)
                self._thoughts[block] = Thinking(thinking=event.text)
                return
            case ev.AgentMessage():
                self.place(event.message_id)
                yield self._said(entry, Text(text=event.text))
            case ev.ToolCall():
                yield from self._called(entry, event)
            case ev.ToolCallUpdate() if event.status is not None and event.status.final:
                yield from self._result(entry, event.tool_call_id, event)
            case ev.Plan() if not self._has(TODO):
                yield from self._listed(entry, event)
            case ev.ApprovalRequested() if event.approval.tool_call_id not in self.uses:
                self._asked[event.approval.id] = event
                use = self.uses[event.approval.tool_call_id or event.approval.id] = tool_of(
                    event.approval, None
                )
                yield self._said(entry, use)
            case ev.ApprovalResolved() if event.approval_id in self._asked:
                yield from self._answered(entry, event)
            case ev.UserMessage():
                yield from self._left_over(entry)
                self.uses.clear()
                self._done.clear()
                self.failed = False
                self.asked_by = entry.local_id or event.item_id
                yield self._message(entry, self.asked_by, USER, [Text(text=event.text)])
            case ev.Notice() if notice(event) is None and not retracted(event):
                self.failed = self.failed or event.level == "error"
                yield self._system(entry, event.text)
            case ev.TurnEnd():
                yield from self._left_over(entry)
                if self.fails(event):
                    yield self._system(entry, event.error or "")
            case _:
                return

    def _called(self, entry: Entry, call: ev.ToolCall) -> Iterator[Message]:
        if call.tool_call_id in self.uses:
            return
        use = self.uses[call.tool_call_id] = tool_use(call, self._directory)
        yield self._said(entry, use)
        if call.status.final:
            yield from self._result(entry, call.tool_call_id, call)

    def _result(self, entry: Entry, call_id: str, told: ev.ToolCall | ev.ToolCallUpdate) -> Iterator[Message]:
        """The first one counts."""
        if call_id not in self._done:
            self._done.add(call_id)
            failed = told.status is ev.ToolStatus.FAILED
            text = result_text(self.uses.get(call_id), told.content, failed=failed)
            yield self._outcome(entry, call_id, text, failed=failed)

    def _answered(self, entry: Entry, event: ev.ApprovalResolved) -> Iterator[Message]:
        approval, allowed = self._asked.pop(event.approval_id).approval, event.outcome.allows
        if approval.kind is ApprovalKind.PERMISSION:
            if approval.tool_call_id is not None and allowed:
                return
            text = "Allowed" if allowed else "Error: Tool execution cancelled by user"
        elif approval.kind is ApprovalKind.QUESTION:
            text = answered_text(approval, event.answers or {}) if allowed else "Error: AskUser cancelled"
        else:
            text = (
                '{"approved":true,"message":"Spec mode exited. The user approved the plan."}'
                if allowed
                else "Error: Plan not approved - remaining in Spec Mode. Provide feedback to refine the spec."
            )
        yield self._outcome(entry, approval.tool_call_id or approval.id, text, failed=not allowed)

    def _listed(self, entry: Entry, plan: ev.Plan) -> Iterator[Message]:
        lines = [
            _STATUS_LINE.format(number=number, status=one.status, content=one.content)
            for number, one in enumerate(plan.entries, 1)
        ]
        use = ToolUse(id=f"todo_{entry.seq}", name=TODO, input={"todos": "\n".join(lines)})
        self.uses[use.id] = use
        yield self._said(entry, use)
        yield self._outcome(entry, use.id, "TODO List Updated", failed=False)
        del self.uses[use.id]

    def _has(self, name: str) -> bool:
        return any(use.name == name for use in self.uses.values())

    def _said(self, entry: Entry, last: Text | ToolUse) -> Message:
        """A message of the thoughts so far and `last`."""
        blocks: Blocks = [thought for _, thought in sorted(self._thoughts.items())]
        message_id = self._draft_id or self._id(last.id if isinstance(last, ToolUse) else entry.id)
        if isinstance(last, ToolUse) and len(self._places) > len(self._thoughts):
            # A text is still being streamed under that id.
            return self._message(entry, self._id(last.id), ASSISTANT, [last])
        self._draft_id = None
        self._places.clear()
        self._thoughts.clear()
        return self._message(entry, message_id, ASSISTANT, [*blocks, last])

    def _left_over(self, entry: Entry) -> Iterator[Message]:
        """Thoughts that nothing followed."""
        blocks: Blocks = [thought for _, thought in sorted(self._thoughts.items())]
        message_id = self._draft_id
        self._draft_id = None
        self._places.clear()
        self._thoughts.clear()
        if blocks and message_id is not None:
            yield self._message(entry, message_id, ASSISTANT, blocks)

    def _outcome(self, entry: Entry, call_id: str, text: str, *, failed: bool) -> Message:
        outcome = ToolOutcome(tool_use_id=call_id, content=text, is_error=failed)
        return self._message(entry, self._id(f"{call_id}:result"), TOOL, [outcome])

    def _system(self, entry: Entry, text: str) -> Message:
        return self._message(entry, self._id(entry.id), SYSTEM, [Text(text=text)], FOR_PEOPLE)

    def _message(
        self, entry: Entry, message_id: str, role: str, content: Blocks, visibility: str | None = None
    ) -> Message:
        message = Message(
            id=message_id, role=role, content=content, created_at=entry.created_at, updated_at=entry.created_at,
            parent_id=self._parent, visibility=visibility,
        )  # fmt: skip
        self._parent = message_id
        return message

    def _id(self, ours: str) -> str:
        return str(uuid5(_SPACE, ours))
