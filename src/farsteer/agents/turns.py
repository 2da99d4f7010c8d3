"""What every adapter owes about a turn, kept here once, whatever the agent says:

- exactly one `TurnEnded` per turn, after everything that belongs to it;
- a message that was begun and never finished is flushed as partial, an open tool call is closed, an open approval is
  withdrawn, all before the turn ends;
- fragments carry their offset, adjacent ones of a batch are merged, and a finished message is said once.

An adapter feeds a `Turns` while it reads a batch of lines and then puts `take()` into the sink.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from farsteer.agents.base import (
    ApprovalAsked,
    ApprovalWithdrawn,
    DeltaEmitted,
    EventEmitted,
    Output,
    TurnEnded,
)
from farsteer.core.approvals import Approval
from farsteer.core.errors import Conflict
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
from farsteer.core.recent import RecentIds

_REMEMBERED = 512
"""Finished messages of a turn whose repetition is noticed; more would let a flood eat memory."""
_DRAFT_CHARS = 8 * 1024 * 1024
"""Kept of an unfinished message; what an agent streams beyond it goes out live and is not kept twice."""
_NOTICE_CHARS = 500


@dataclass(slots=True)
class _Draft:
    """A message, thought or tool output of which only fragments are known yet."""

    kind: DeltaKind
    message_id: str
    parts: list[str] = field(default_factory=list[str])
    size: int = 0

    @property
    def text(self) -> str:
        return "".join(self.parts)

    def fragment(self, text: str) -> DeltaEmitted:
        delta = Delta(message_id=self.message_id, kind=self.kind, text=text, offset=self.size)
        self.size += len(text)
        if self.size <= _DRAFT_CHARS:
            self.parts.append(text)
        return DeltaEmitted(delta)


class Turns:
    def __init__(self) -> None:
        self.current: str | None = None
        self._drafts: dict[tuple[DeltaKind, str], _Draft] = {}
        self._finished = RecentIds(_REMEMBERED)
        self._tools: set[str] = set()
        self._asked: dict[str, Approval] = {}
        self._out: list[Output] = []
        self._live: tuple[_Draft, list[str]] | None = None
        """The fragment that is being merged."""

    def take(self) -> list[Output]:
        """What was said since the last call."""
        self._flush()
        out, self._out = self._out, []
        return out

    def begin(self, turn_id: str) -> None:
        if self.current is not None:
            raise Conflict("a turn is running already")
        self.current = turn_id
        self._finished.clear()

    def end(self, reason: TurnEndReason, error: str | None = None) -> None:
        """End the running turn; a second end is none."""
        self.close_open()
        if self.current is not None:
            self._out.append(TurnEnded(turn_id=self.current, reason=reason, error=error))
            self.current = None

    def abandon(self) -> None:
        """The running turn never reached the agent: it has no end."""
        self.close_open()
        self.current = None

    def close_open(self) -> None:
        """Finish what is open, because nobody else will."""
        self._flush()
        for draft in list(self._drafts.values()):
            if draft.kind is DeltaKind.MESSAGE:
                self.message(draft.message_id, draft.text, partial=True)
            elif draft.kind is DeltaKind.THOUGHT:
                self.thought(draft.message_id, draft.text, partial=True)
        for tool_call_id in sorted(self._tools):
            draft = self._drafts.get((DeltaKind.TOOL_OUTPUT, tool_call_id))
            content = (TextBlock(text=draft.text),) if draft else ()
            self._say(ToolCallUpdate(tool_call_id=tool_call_id, status=ToolStatus.FAILED, content=content))
        self._tools.clear()
        self._drafts.clear()
        for approval_id in list(self._asked):
            self.withdraw(approval_id)

    def delta(self, kind: DeltaKind, message_id: str, text: str) -> None:
        live = self._live
        if live is not None and live[0].message_id == message_id and live[0].kind is kind:
            # Nearly every fragment continues the one before it.
            live[1].append(text)
            return
        if not text or message_id in self._finished:
            return
        key = (kind, message_id)
        draft = self._drafts.get(key)
        if draft is None:
            draft = self._drafts[key] = _Draft(kind, message_id)
        if self._live is None or self._live[0] is not draft:
            self._flush()
            self._live = (draft, [])
        self._live[1].append(text)

    def forget(self, kind: DeltaKind, message_id: str) -> None:
        """The agent takes back what it has streamed of this; what it streams next begins anew."""
        self._flush()
        self._drafts.pop((kind, message_id), None)

    def message(
        self, message_id: str, text: str, anchor: str | None = None, *, partial: bool = False,
        meta: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        if self._finish(DeltaKind.MESSAGE, message_id):
            self._say(
                AgentMessage(message_id=message_id, text=text, anchor=anchor, partial=partial, meta=meta)
            )

    def thought(
        self, message_id: str, text: str, anchor: str | None = None, *, partial: bool = False,
        meta: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        if self._finish(DeltaKind.THOUGHT, message_id):
            self._say(
                AgentThought(message_id=message_id, text=text, anchor=anchor, partial=partial, meta=meta)
            )

    def say(self, event: SessionEvent) -> None:
        if isinstance(event, ToolCall | ToolCallUpdate) and event.status is not None:
            if event.status.final:
                self._flush()
                self._tools.discard(event.tool_call_id)
                self._drafts.pop((DeltaKind.TOOL_OUTPUT, event.tool_call_id), None)
            else:
                self._tools.add(event.tool_call_id)
        self._say(event)

    def notice(self, text: str, code: str, level: str = "warning") -> None:
        clipped = text if len(text) <= _NOTICE_CHARS else text[: _NOTICE_CHARS - 1] + "…"
        self._say(Notice(text=clipped, level=level, code=code))

    def ask(self, approval: Approval) -> None:
        self._asked[approval.id] = approval
        self.put(ApprovalAsked(approval=approval))

    def withdraw(self, approval_id: str) -> None:
        if self._asked.pop(approval_id, None) is not None:
            self.put(ApprovalWithdrawn(approval_id=approval_id))

    def answered(self, approval_id: str) -> None:
        """The approval is open and is answered now."""
        if self._asked.pop(approval_id, None) is None:
            raise Conflict("the agent no longer waits for this answer")

    def put(self, output: Output) -> None:
        self._flush()
        self._out.append(output)

    def _say(self, event: SessionEvent) -> None:
        if self._live is not None:
            self._flush()
        self._out.append(EventEmitted(event))

    def _finish(self, kind: DeltaKind, message_id: str) -> bool:
        if message_id in self._finished:
            return False
        self._finished.add(message_id)
        if self._drafts:
            self._flush()
            self._drafts.pop((kind, message_id), None)
        return True

    def _flush(self) -> None:
        if self._live is not None:
            draft, parts = self._live
            self._live = None
            self._out.append(draft.fragment("".join(parts)))
