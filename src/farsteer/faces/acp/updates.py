"""Translates the log and the live deltas of a session into `session/update` notifications."""

from __future__ import annotations

from collections import deque
from typing import Any

from farsteer.client.live_events import StreamedText
from farsteer.core import events as ev
from farsteer.core.events import Delta, DeltaKind, Entry
from farsteer.core.session import SessionState, Usage, apply

Update = dict[str, Any]

_MAX_EARLY_DELTAS = 10_000
_OUTPUT_TAIL_CHARS = 8 * 1024
_MAX_OUTPUTS = 16
_CHUNK_TYPES = {DeltaKind.MESSAGE: "agent_message_chunk", DeltaKind.THOUGHT: "agent_thought_chunk"}
_PLAN_STATUSES = {"pending", "in_progress", "completed"}
_PLAN_PRIORITIES = {"high", "medium", "low"}


class UpdateTranslator:
    """Translates one session for one client, every character once and in the order of the log.

    `state` is the session's state as far as the client has been told, which is up to entry `seq`.
    """

    def __init__(self, state: SessionState) -> None:
        self.state = state
        self.seq = state.seq
        self._texts = {kind: StreamedText() for kind in DeltaKind}
        self._early_deltas: deque[Delta] = deque(maxlen=_MAX_EARLY_DELTAS)
        """Deltas that arrived before the entry they follow."""
        self._outputs: dict[str, str] = {}
        """The last output of each running tool, by tool call id."""

    def skip_to(self, seq: int, state: SessionState) -> None:
        """Continue after entry `seq`, at which the session is in `state`. Never goes back."""
        self.state = state
        self.seq = max(self.seq, seq)

    def translate_delta(self, delta: Delta) -> list[Update]:
        """Deltas are faster than the log: one that belongs after a later entry is kept until that entry arrives."""
        if delta.after > self.seq:
            self._early_deltas.append(delta)
            return []
        return self._delta_updates(delta)

    def translate_entry(self, entry: Entry, *, shown: bool = False) -> list[Update]:
        """Return the updates of an entry and of the deltas that waited for it.

        Args:
            shown: the client shows the entry already, because it is its own prompt.
        """
        if entry.seq <= self.seq:
            return []
        self.seq = entry.seq
        content = entry.content
        if isinstance(content, ev.AgentMessage):
            # Most entries are agent messages, and they change no state that is sent.
            updates = self._whole_text(DeltaKind.MESSAGE, content)
        else:
            before = self.state
            self.state = apply(before, content)
            updates = [] if shown else self._event_updates(content)
            if self.state.title != before.title:
                updates.append({"sessionUpdate": "session_info_update", "title": self.state.title})
        while self._early_deltas and self._early_deltas[0].after <= self.seq:
            updates += self._delta_updates(self._early_deltas.popleft())
        return updates

    def _delta_updates(self, delta: Delta) -> list[Update]:
        if delta.kind is DeltaKind.TOOL_INPUT:
            return []
        text = self._texts[delta.kind].add_delta(delta)
        if not text:
            return []
        if delta.kind is DeltaKind.TOOL_OUTPUT:
            return [self._tool_output(delta.message_id, text)]
        return [_chunk(_CHUNK_TYPES[delta.kind], delta.message_id, text)]

    def _tool_output(self, tool_call_id: str, text: str) -> Update:
        """An update replaces the content of a tool call, so it repeats the output, but only the end of a long one."""
        output = (self._outputs.pop(tool_call_id, "") + text)[-_OUTPUT_TAIL_CHARS:]
        self._outputs[tool_call_id] = output
        while len(self._outputs) > _MAX_OUTPUTS:
            del self._outputs[next(iter(self._outputs))]
        content = {"type": "content", "content": {"type": "text", "text": output}}
        return {
            "sessionUpdate": "tool_call_update",
            "toolCallId": tool_call_id,
            "status": "in_progress",
            "content": [content],
        }

    def _event_updates(self, event: ev.SessionEvent) -> list[Update]:
        match event:
            case ev.UserMessage():
                return [_user_message(event)]
            case ev.AgentThought():
                return self._whole_text(DeltaKind.THOUGHT, event)
            case ev.ToolCall():
                return [_tool_call(event)]
            case ev.ToolCallUpdate():
                self._outputs.pop(event.tool_call_id, None)
                return [_tool_call_update(event)]
            case ev.Plan():
                return [{"sessionUpdate": "plan", "entries": [_plan_entry(entry) for entry in event.entries]}]
            case ev.CommandsUpdate():
                return [commands_update(event.commands)]
            case ev.UsageUpdate():
                return usage_updates(self.state.usage)
            case ev.Notice():
                return [_chunk("agent_message_chunk", f"notice-{self.seq}", f"\n[{event.text}]\n")]
            case ev.Rewound():
                text = "\n[The conversation was rewound: what follows an earlier message is forgotten.]\n"
                return [_chunk("agent_message_chunk", f"notice-{self.seq}", text)]
            case _:
                return []

    def _whole_text(self, kind: DeltaKind, event: ev.AgentMessage | ev.AgentThought) -> list[Update]:
        """Return the part of a finished message that was not sent as deltas.

        ACP has no messages of sub-agents. Their tool calls are sent, what they say is not.
        """
        if event.parent_tool_call_id is not None:
            return []
        rest = self._texts[kind].complete(event.message_id, event.text)
        return [_chunk(_CHUNK_TYPES[kind], event.message_id, rest)] if rest else []


def _user_message(event: ev.UserMessage) -> Update:
    """The log holds only the names of attachments, not their data."""
    names = "".join(f"\n[{attachment.name}]" for attachment in event.attachments)
    return _chunk("user_message_chunk", event.item_id, event.text + names)


def _chunk(chunk_type: str, message_id: str, text: str) -> Update:
    return {"sessionUpdate": chunk_type, "messageId": message_id, "content": {"type": "text", "text": text}}


def _tool_call(event: ev.ToolCall) -> Update:
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
    return {**update, **_tool_details(event)}


def _tool_call_update(event: ev.ToolCallUpdate) -> Update:
    update: Update = {"sessionUpdate": "tool_call_update", "toolCallId": event.tool_call_id}
    if event.status is not None:
        update["status"] = event.status.value
    if event.title is not None:
        update["title"] = event.title
    if event.output is not None:
        update["rawOutput"] = event.output
    return {**update, **_tool_details(event)}


def _tool_details(event: ev.ToolCall | ev.ToolCallUpdate) -> Update:
    details: Update = {}
    if event.locations:
        details["locations"] = [
            {"path": location.path}
            if location.line is None
            else {"path": location.path, "line": location.line}
            for location in event.locations
        ]
    if event.content:
        details["content"] = [_tool_content(block) for block in event.content]
    return details


def _tool_content(block: ev.ToolContent) -> dict[str, Any]:
    if isinstance(block, ev.DiffBlock):
        return {"type": "diff", "path": block.path, "oldText": block.old_text, "newText": block.new_text}
    return {"type": "content", "content": {"type": "text", "text": block.text}}


def _plan_entry(entry: ev.PlanEntry) -> dict[str, str]:
    return {
        "content": entry.content,
        "status": entry.status if entry.status in _PLAN_STATUSES else "pending",
        "priority": entry.priority if entry.priority in _PLAN_PRIORITIES else "medium",
    }


def commands_update(commands: tuple[ev.SlashCommand, ...]) -> Update:
    return {
        "sessionUpdate": "available_commands_update",
        "availableCommands": [_command(command) for command in commands],
    }


def _command(command: ev.SlashCommand) -> dict[str, Any]:
    """Split a command such as `run <command>` into its name and the hint for its input."""
    starts = (start for bracket in "<[" if (start := command.name.find(bracket)) > 0)
    start = min(starts, default=len(command.name))
    name, hint = command.name[:start].strip(), command.name[start:].strip()
    result: dict[str, Any] = {"name": name, "description": command.description}
    return {**result, "input": {"hint": hint}} if hint else result


def usage_updates(usage: Usage) -> list[Update]:
    """Return how full the context is, or nothing if the agent does not report it."""
    if usage.context_used is None or not usage.context_size:
        return []
    update: Update = {
        "sessionUpdate": "usage_update",
        "used": usage.context_used,
        "size": usage.context_size,
    }
    if usage.cost_usd:
        update["cost"] = {"amount": usage.cost_usd, "currency": "USD"}
    return [update]
