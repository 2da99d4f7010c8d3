"""The output of a launch, turn by turn, with the rules that every adapter must keep.

An adapter passes what it reads from its agent to a `TurnOutput` and puts the result of `drain` into the sink, once per
batch of lines. Whatever the agent does, `TurnOutput` guarantees:

- Each turn has exactly one `TurnEnded`, after everything that belongs to the turn.
- Before a turn ends, an unfinished message is emitted as partial, an open tool call is closed as failed and an open
  approval is withdrawn.
- Deltas carry their offset, adjacent deltas of a batch are merged, and a finished message is emitted once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from farsteer.agents.base import (
    ApprovalAsked,
    ApprovalWithdrawn,
    DeltaEmitted,
    EventEmitted,
    Output,
    TurnEnded,
)
from farsteer.core.approvals import Approval
from farsteer.core.errors import Conflict, ErrorCode
from farsteer.core.events import (
    AgentMessage,
    AgentThought,
    Delta,
    DeltaKind,
    Notice,
    SessionEvent,
    TextBlock,
    ToolCall,
    ToolCallUpdate,
    ToolStatus,
    TurnEndReason,
)
from farsteer.core.lines import Oversized
from farsteer.core.recent import RecentIds

_FINISHED_IDS = 512
"""How many ids of finished messages are remembered to drop repetitions. Bounds the memory of a long turn."""
_DRAFT_CHARS = 8 * 1024 * 1024
"""How much of an unfinished message is kept. Text beyond it is still emitted as deltas."""
_NOTICE_CHARS = 500
_MESSAGES = frozenset((DeltaKind.MESSAGE, DeltaKind.THOUGHT))


@dataclass(slots=True)
class _Draft:
    """A message, thought or tool output of which only deltas have arrived."""

    kind: DeltaKind
    message_id: str
    parts: list[str] = field(default_factory=list[str])
    size: int = 0

    @property
    def text(self) -> str:
        return "".join(self.parts)

    def append(self, text: str) -> DeltaEmitted:
        delta = Delta(message_id=self.message_id, kind=self.kind, text=text, offset=self.size)
        self.size += len(text)
        if self.size <= _DRAFT_CHARS:
            self.parts.append(text)
        return DeltaEmitted(delta)


class TurnOutput:
    """Collects the outputs of one launch and tracks what is open in its current turn."""

    def __init__(self) -> None:
        self.turn_id: str | None = None
        """The running turn, or None between turns."""
        self._drafts: dict[tuple[DeltaKind, str], _Draft] = {}
        self._finished = RecentIds(_FINISHED_IDS)
        self._open_tools: set[str] = set()
        self._open_approvals: dict[str, None] = {}
        """Used as a set that keeps the order in which approvals were asked."""
        self._outputs: list[Output] = []
        self._pending: tuple[_Draft, list[str]] | None = None
        """The delta that is still being merged, as its draft and the parts to append."""

    def drain(self) -> list[Output]:
        """Return the outputs added since the last call."""
        self._flush()
        outputs, self._outputs = self._outputs, []
        return outputs

    # Turns

    def begin(self, turn_id: str) -> None:
        """Start a turn. Raises Conflict if one is running."""
        if self.turn_id is not None:
            raise Conflict("a turn is running already")
        self.turn_id = turn_id
        self._finished.clear()

    def end(self, reason: TurnEndReason, error: str | None = None) -> None:
        """Close everything open and end the running turn. Idempotent."""
        self.close_open_items()
        if self.turn_id is not None:
            self._outputs.append(TurnEnded(turn_id=self.turn_id, reason=reason, error=error))
            self.turn_id = None

    def hand_over(self, turn_id: str) -> None:
        """End the running turn and start another one, in which unfinished messages and thoughts go on."""
        self._flush()
        unfinished = {key: draft for key, draft in self._drafts.items() if key[0] in _MESSAGES}
        for key in unfinished:
            del self._drafts[key]
        self.end(TurnEndReason.END_TURN)
        self._drafts = unfinished
        self.begin(turn_id)

    def abandon(self) -> None:
        """Forget the running turn without a `TurnEnded`, because its message never reached the agent."""
        self.close_open_items()
        self.turn_id = None

    def close_open_items(self) -> None:
        """Emit drafts as partial messages, fail open tool calls and withdraw open approvals."""
        self._flush()
        for draft in list(self._drafts.values()):
            self._emit_partial(draft)
        for tool_call_id in sorted(self._open_tools):
            draft = self._drafts.get((DeltaKind.TOOL_OUTPUT, tool_call_id))
            content = (TextBlock(text=draft.text),) if draft else ()
            self._emit(
                ToolCallUpdate(
                    tool_call_id=tool_call_id, status=ToolStatus.FAILED, content=content, partial=draft is not None
                )
            )  # fmt: skip
        self._open_tools.clear()
        self._drafts.clear()
        for approval_id in list(self._open_approvals):
            self.withdraw_approval(approval_id)

    # Messages

    def add_delta(self, kind: DeltaKind, message_id: str, text: str) -> None:
        """Add streamed text. Text of a message that is already finished is dropped."""
        pending = self._pending
        if pending is not None and pending[0].message_id == message_id and pending[0].kind is kind:
            # The fast path: nearly every delta continues the one before it.
            pending[1].append(text)
            return
        if not text or message_id in self._finished:
            return
        key = (kind, message_id)
        draft = self._drafts.get(key)
        if draft is None:
            draft = self._drafts[key] = _Draft(kind, message_id)
        self._flush()
        self._pending = (draft, [text])

    def drop_draft(self, kind: DeltaKind, message_id: str) -> str:
        """Discard and return the streamed text of a message that the agent retracts. The next delta has offset 0."""
        self._flush()
        draft = self._drafts.pop((kind, message_id), None)
        return "" if draft is None else draft.text

    def close_draft(self, message_id: str) -> None:
        """Emit what has arrived of a message or thought as partial, because the agent has broken it off."""
        self._flush()
        for draft in [one for one in self._drafts.values() if one.message_id == message_id]:
            self._emit_partial(draft)

    def add_message(
        self, message_id: str, text: str, anchor: str | None = None, *, partial: bool = False,
        parent: str | None = None, meta: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """Add a whole message. A repetition of a finished message is dropped."""
        if self._finish(DeltaKind.MESSAGE, message_id):
            self._emit(
                AgentMessage(
                    message_id=message_id, text=text, anchor=anchor, partial=partial, parent_tool_call_id=parent,
                    meta=meta,
                )
            )  # fmt: skip

    def add_thought(
        self, message_id: str, text: str, anchor: str | None = None, *, partial: bool = False,
        parent: str | None = None, meta: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """Add a whole thought. A repetition of a finished thought is dropped."""
        if self._finish(DeltaKind.THOUGHT, message_id):
            self._emit(
                AgentThought(
                    message_id=message_id, text=text, anchor=anchor, partial=partial, parent_tool_call_id=parent,
                    meta=meta,
                )
            )  # fmt: skip

    # Everything else

    def add_event(self, event: SessionEvent) -> None:
        """Add any other event. Tool calls are tracked until their final status.

        The result of a tool that was broken off (`partial`) gets what the tool had written until then.
        """
        if isinstance(event, ToolCall):
            self.drop_draft(DeltaKind.TOOL_INPUT, event.tool_call_id)
        elif isinstance(event, ToolCallUpdate) and event.partial:
            event = self._with_output(event)
        if isinstance(event, ToolCall | ToolCallUpdate) and event.status is not None:
            if event.status.final:
                self._flush()
                self._open_tools.discard(event.tool_call_id)
                self._drafts.pop((DeltaKind.TOOL_OUTPUT, event.tool_call_id), None)
            else:
                self._open_tools.add(event.tool_call_id)
        self._emit(event)

    def add_notice(self, text: str, code: str, level: str = "warning") -> None:
        """Add a notice for the person, shortened to 500 characters."""
        clipped = text if len(text) <= _NOTICE_CHARS else text[: _NOTICE_CHARS - 1] + "…"
        self._emit(Notice(text=clipped, level=level, code=code))

    def add_oversized(self, line: Oversized) -> None:
        """Add a notice for a line of the agent that was too long to be read."""
        head = line.head.decode(errors="replace")
        text = f"Skipped a line of {line.size} bytes ({line.reason}): {head}"
        self.add_notice(text, ErrorCode.TOO_LARGE)

    def ask_approval(self, approval: Approval) -> None:
        self._open_approvals[approval.id] = None
        self.add(ApprovalAsked(approval=approval))

    def withdraw_approval(self, approval_id: str) -> None:
        """Withdraw an approval that the agent no longer waits for. Does nothing if it is not open."""
        if approval_id in self._open_approvals:
            del self._open_approvals[approval_id]
            self.add(ApprovalWithdrawn(approval_id=approval_id))

    def close_approval(self, approval_id: str) -> None:
        """Mark an approval as answered. Raises Conflict if it is not open."""
        if approval_id not in self._open_approvals:
            raise Conflict("the agent no longer waits for this answer")
        del self._open_approvals[approval_id]

    def add(self, output: Output) -> None:
        """Add any other output, such as `Registered` or `Exited`."""
        self._flush()
        self._outputs.append(output)

    def _emit(self, event: SessionEvent) -> None:
        if self._pending is not None:
            self._flush()
        self._outputs.append(EventEmitted(event))

    def _with_output(self, event: ToolCallUpdate) -> ToolCallUpdate:
        written = self.drop_draft(DeltaKind.TOOL_OUTPUT, event.tool_call_id)
        if not written:
            return replace(event, partial=False)
        return replace(event, content=(TextBlock(text=written), *event.content))

    def _emit_partial(self, draft: _Draft) -> None:
        if draft.kind is DeltaKind.MESSAGE:
            self.add_message(draft.message_id, draft.text, partial=True)
        elif draft.kind is DeltaKind.THOUGHT:
            self.add_thought(draft.message_id, draft.text, partial=True)

    def _finish(self, kind: DeltaKind, message_id: str) -> bool:
        """Mark a message as finished. Returns False if it already was."""
        if message_id in self._finished:
            return False
        self._finished.add(message_id)
        if self._drafts:
            self._flush()
            self._drafts.pop((kind, message_id), None)
        return True

    def _flush(self) -> None:
        if self._pending is not None:
            draft, parts = self._pending
            self._pending = None
            self._outputs.append(draft.append("".join(parts)))
