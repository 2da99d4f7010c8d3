"""A session's log as ACP's updates: each character once, each thing in its place, whatever overtakes what."""

from __future__ import annotations

from collections import deque
from typing import Any

from farsteer.client.text import LiveText
from farsteer.core import events as ev
from farsteer.core.events import Delta, DeltaKind, Entry
from farsteer.core.session import SessionState, Usage, apply

Update = dict[str, Any]

_EARLY = 10_000
_TAIL = 8 * 1024
_TOOLS = 16
_CHUNKS = {DeltaKind.MESSAGE: "agent_message_chunk", DeltaKind.THOUGHT: "agent_thought_chunk"}
_PLAN_STATES = {"pending", "in_progress", "completed"}
_PRIORITIES = {"high", "medium", "low"}


class Narrator:
    """Tells one client of one session. `state` is what the client has been told of, up to `seq`."""

    def __init__(self, state: SessionState) -> None:
        self.state = state
        self.seq = state.seq
        self._texts = {kind: LiveText() for kind in DeltaKind}
        self._early: deque[Delta] = deque(maxlen=_EARLY)
        self._outputs: dict[str, str] = {}
        """The end of what each running tool has written."""

    def settle(self, state: SessionState) -> None:
        """What the session is now; the client is told what comes after it."""
        self.state = state
        self.seq = max(self.seq, state.seq)

    def fragment(self, delta: Delta) -> list[Update]:
        """Fragments overtake the log; each waits for the entry it follows."""
        if delta.after > self.seq:
            self._early.append(delta)
            return []
        return self._fragment(delta)

    def entry(self, entry: Entry, *, own: bool = False) -> list[Update]:
        """`own`: this client said it and shows it already."""
        if entry.seq <= self.seq:
            return []
        self.seq = entry.seq
        content = entry.content
        if isinstance(content, ev.AgentMessage):
            # Most of a log is these, and they change nothing that is told.
            updates = self._whole(DeltaKind.MESSAGE, content.message_id, content.text)
        else:
            before = self.state
            self.state = apply(before, content)
            updates = [] if own else self._updates(content)
            if self.state.title != before.title:
                updates.append({"sessionUpdate": "session_info_update", "title": self.state.title})
        while self._early and self._early[0].after <= self.seq:
            updates += self._fragment(self._early.popleft())
        return updates

    def _fragment(self, delta: Delta) -> list[Update]:
        new = self._texts[delta.kind].fragment(delta)
        if not new:
            return []
        if delta.kind is DeltaKind.TOOL_OUTPUT:
            return [self._output(delta.message_id, new)]
        return [_chunk(_CHUNKS[delta.kind], delta.message_id, new)]

    def _output(self, call: str, new: str) -> Update:
        """A tool's output replaces what was shown of it, so a long one is shown from its end."""
        shown = self._outputs[call] = (self._outputs.pop(call, "") + new)[-_TAIL:]
        while len(self._outputs) > _TOOLS:
            del self._outputs[next(iter(self._outputs))]
        content = {"type": "content", "content": {"type": "text", "text": shown}}
        return {
            "sessionUpdate": "tool_call_update",
            "toolCallId": call,
            "status": "in_progress",
            "content": [content],
        }

    def _updates(self, event: ev.SessionEvent) -> list[Update]:
        match event:
            case ev.UserMessage():
                return _said(event)
            case ev.AgentThought():
                return self._whole(DeltaKind.THOUGHT, event.message_id, event.text)
            case ev.ToolCall():
                return [tool_call(event)]
            case ev.ToolCallUpdate():
                self._outputs.pop(event.tool_call_id, None)
                return [tool_call_update(event)]
            case ev.Plan():
                return [{"sessionUpdate": "plan", "entries": [_plan_entry(one) for one in event.entries]}]
            case ev.CommandsUpdate():
                return [commands(event.commands)]
            case ev.UsageUpdate():
                return usage(self.state.usage)
            case ev.Notice():
                return [_chunk("agent_message_chunk", f"notice-{self.seq}", f"\n[{event.text}]\n")]
            case ev.Rewound():
                text = "\n[The conversation was rewound: what follows an earlier message is forgotten.]\n"
                return [_chunk("agent_message_chunk", f"notice-{self.seq}", text)]
            case _:
                return []

    def _whole(self, kind: DeltaKind, message_id: str, text: str) -> list[Update]:
        rest = self._texts[kind].whole(message_id, text)
        return [_chunk(_CHUNKS[kind], message_id, rest)] if rest else []


def _said(event: ev.UserMessage) -> list[Update]:
    """A person's message; of what was attached only the name is known here."""
    names = "".join(f"\n[{attachment.name}]" for attachment in event.attachments)
    return [_chunk("user_message_chunk", event.item_id, event.text + names)]


def _chunk(kind: str, message_id: str, text: str) -> Update:
    return {"sessionUpdate": kind, "messageId": message_id, "content": {"type": "text", "text": text}}


def tool_call(event: ev.ToolCall) -> Update:
    update: Update = {
        "sessionUpdate": "tool_call",
        "toolCallId": event.tool_call_id,
        "title": event.title,
        "kind": event.tool_kind.value,
        "status": event.status.value,
    }
    if event.tool:
        update["name"] = event.tool
    if event.input is not None:
        update["rawInput"] = event.input
    return {**update, **_details(event)}


def tool_call_update(event: ev.ToolCallUpdate) -> Update:
    update: Update = {"sessionUpdate": "tool_call_update", "toolCallId": event.tool_call_id}
    if event.status is not None:
        update["status"] = event.status.value
    if event.title is not None:
        update["title"] = event.title
    if event.output is not None:
        update["rawOutput"] = event.output
    return {**update, **_details(event)}


def _details(event: ev.ToolCall | ev.ToolCallUpdate) -> Update:
    details: Update = {}
    if event.locations:
        details["locations"] = [
            {"path": place.path} if place.line is None else {"path": place.path, "line": place.line}
            for place in event.locations
        ]
    if event.content:
        details["content"] = [tool_content(block) for block in event.content]
    return details


def tool_content(block: ev.ToolContent) -> dict[str, Any]:
    if isinstance(block, ev.DiffBlock):
        return {"type": "diff", "path": block.path, "oldText": block.old_text, "newText": block.new_text}
    return {"type": "content", "content": {"type": "text", "text": block.text}}


def _plan_entry(entry: ev.PlanEntry) -> dict[str, str]:
    return {
        "content": entry.content,
        "status": entry.status if entry.status in _PLAN_STATES else "pending",
        "priority": entry.priority if entry.priority in _PRIORITIES else "medium",
    }


def commands(known: tuple[ev.SlashCommand, ...]) -> Update:
    return {
        "sessionUpdate": "available_commands_update",
        "availableCommands": [_command(one) for one in known],
    }


def _command(command: ev.SlashCommand) -> dict[str, Any]:
    """A name, and apart from it what is to be typed behind it."""
    start = min((at for mark in "<[" if (at := command.name.find(mark)) > 0), default=len(command.name))
    name, hint = command.name[:start].strip(), command.name[start:].strip()
    found: dict[str, Any] = {"name": name, "description": command.description}
    return {**found, "input": {"hint": hint}} if hint else found


def usage(used: Usage) -> list[Update]:
    """How full the context is, where the agent says so."""
    if used.context_used is None or not used.context_size:
        return []
    update: Update = {
        "sessionUpdate": "usage_update",
        "used": used.context_used,
        "size": used.context_size,
    }
    if used.cost_usd:
        update["cost"] = {"amount": used.cost_usd, "currency": "USD"}
    return [update]
