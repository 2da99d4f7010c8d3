"""Codex's notifications as events of the session."""

from __future__ import annotations

from typing import Any

from farsteer.agents.base import Followed, Registered, TurnBegun
from farsteer.agents.codex import items, protocol
from farsteer.agents.codex.usage import UsageTracker
from farsteer.agents.turns import TurnOutput
from farsteer.core.events import (
    Compacted,
    DeltaKind,
    Notice,
    Other,
    Plan,
    PlanEntry,
    TitleUpdate,
    ToolCall,
    ToolCallUpdate,
    ToolStatus,
    TurnEndReason,
    UserMessage,
)
from farsteer.core.ids import new_id
from farsteer.core.modes import ToolKind
from farsteer.core.recent import RecentIds
from farsteer.core.text import clean_line

SENT_FROM = "terminal"
LOGIN_HINT = "log in with `codex login`, or set OPENAI_API_KEY for the runner"

_IGNORED = frozenset(
    {
        "account/rateLimits/updated", "account/updated", "app/list/updated", "hook/started", "hook/completed",
        "item/commandExecution/terminalInteraction", "remoteControl/status/changed", "skills/changed",
        "thread/readState/changed", "thread/settings/updated", "thread/status/changed", "turn/diff/updated",
        "turn/moderationMetadata", "thread/environment/connected", "thread/goal/cleared", "thread/unarchived",
        "project/changed", "model/safetyBuffering/updated",
    }
)  # fmt: skip
"""They repeat what other messages say, or concern the terminal interface only."""
_STREAMED = (protocol.AgentMessageItem, protocol.ReasoningItem, protocol.PlanItem)
_PLAN_STATUSES = {"inProgress": "in_progress", "completed": "completed"}
_MAX_CHANGES = 256
"""How many announced file changes are remembered for their approvals."""
_MAX_WARNINGS = 64
_TITLE_CHARS = 200


class Translator:
    """Passes what Codex reports to a `TurnOutput`. `thread_id` is the thread of the session."""

    def __init__(self, output: TurnOutput) -> None:
        self._output = output
        self._usage = UsageTracker()
        self.thread_id: str | None = None
        self.turn_id: str | None = None
        """Codex's id of the running turn."""
        self._registered: str | None = None
        self._changes: dict[str, protocol.FileChangeItem] = {}
        self._open_tools: dict[str, str] = {}
        """The thread of each tool call that has begun."""
        self._children: dict[str, str] = {}
        """The tool call that stands for each thread of a sub-agent."""
        self._streaming: dict[str, None] = {}
        """Messages and thoughts of the session's thread that have begun."""
        self._spawning: list[str] = []
        """Tool calls that start a sub-agent whose thread is not known yet."""
        self._warnings = RecentIds(_MAX_WARNINGS)
        self.steered: dict[str, None] = {}
        """Ids of messages that Codex has accepted into the turn and the model has not seen yet."""
        self.is_shared = False
        """Codex's own interface uses the same thread."""
        self.given_name: str | None = None
        """The name that we have given the thread, which is no title."""
        self.own_message: str | None = None
        """The id of our last message that began a turn."""

    def open_thread(self, thread_id: str, *, stored: bool) -> None:
        """Enter the session's thread. One that Codex has stored can be resumed."""
        self.thread_id = thread_id
        if stored:
            self._register()

    @property
    def is_registered(self) -> bool:
        """Whether Codex has stored the thread."""
        return self._registered is not None and self._registered == self.thread_id

    def find_changes(self, item_id: str) -> protocol.FileChangeItem | None:
        return self._changes.get(item_id)

    def handle(self, message: protocol.Notification) -> None:
        if isinstance(message, protocol.ItemDelta):
            self._delta(message)
            return
        match message:
            case protocol.ItemStarted():
                self._item_started(message)
            case protocol.ItemCompleted():
                self._item_completed(message)
                if self.is_shared and self._is_main(message.thread_id):
                    self._output.add(Followed(record=message.item.id))
            case protocol.SummaryPartAdded():
                if message.summary_index:
                    self._output.add_delta(DeltaKind.THOUGHT, message.item_id, "\n\n")
            case protocol.PatchUpdated():
                known = self._changes.get(message.item_id)
                if known is not None:
                    self._remember(protocol.FileChangeItem(id=known.id, changes=message.changes))
            case protocol.McpProgress():
                self._output.add_delta(DeltaKind.TOOL_OUTPUT, message.item_id, f"{message.message}\n")
            case protocol.TurnStarted():
                if self._is_main(message.thread_id):
                    self.turn_id = message.turn.id
            case protocol.TurnCompleted():
                self._turn_completed(message)
            case protocol.PlanUpdated():
                if self._is_main(message.thread_id):
                    entries = (
                        PlanEntry(content=step.step, status=_PLAN_STATUSES.get(step.status, "pending"))
                        for step in message.plan
                    )
                    meta = {"explanation": message.explanation} if message.explanation else None
                    self._output.add_event(Plan(entries=tuple(entries), meta=meta))
            case protocol.UsageUpdated():
                is_main = self._is_main(message.thread_id)
                # When a thread is opened, Codex repeats what earlier processes used, with the turn that used it.
                is_new = not is_main or message.turn_id == self.turn_id
                update = self._usage.update(
                    message.thread_id, message.token_usage, is_main=is_main, is_new=is_new
                )
                if update is not None:
                    self._output.add_event(update)
            case protocol.Reverted():
                self._usage.forget(message.thread_id)
            case protocol.ThreadStarted():
                self._thread_started(message.thread)
            case protocol.NameUpdated():
                if self._is_main(message.thread_id) and message.thread_name not in (
                    None,
                    "",
                    self.given_name,
                ):
                    self._output.add_event(TitleUpdate(title=clean_line(message.thread_name, _TITLE_CHARS)))
            case protocol.RequestResolved() | protocol.Compacted():
                # The first is for the approvals. The second repeats the item `contextCompaction`.
                pass
            case _:
                self._notice(message)

    def handle_unknown(self, message: protocol.UnknownNotification) -> None:
        if message.method not in _IGNORED:
            self._output.add_event(Other(native_kind=message.method, data=message.params))

    # -- turns

    def _turn_completed(self, message: protocol.TurnCompleted) -> None:
        turn = message.turn
        if not self._is_main(message.thread_id):
            self._child_completed(message.thread_id, turn)
            return
        if self.turn_id is not None and turn.id != self.turn_id:
            return
        self._register()
        match turn.status:
            case "interrupted":
                self.end_turn(TurnEndReason.CANCELLED)
            case "failed":
                self.end_turn(TurnEndReason.FAILED, error_text(turn.error))
            case _:
                self.end_turn(TurnEndReason.END_TURN)

    def end_turn(self, reason: TurnEndReason, error: str | None = None) -> None:
        if self.steered:
            count = len(self.steered)
            text = f"The turn ended before the model saw {count} message{'s'[: count > 1]} sent into it."
            meta = {"messageIds": [*self.steered]}
            self._output.add_event(Notice(text=text, level="warning", code="steer_lost", meta=meta))
        self.forget_turn()
        self._output.end(reason, error)

    def forget_turn(self) -> None:
        self.turn_id = None
        self.steered.clear()
        self._changes.clear()
        self._open_tools.clear()
        self._spawning.clear()
        self._streaming.clear()

    def _register(self) -> None:
        if self.thread_id is not None and self._registered != self.thread_id:
            self._registered = self.thread_id
            self._output.add(Registered(native_id=self.thread_id))

    # -- items

    def _delta(self, message: protocol.ItemDelta) -> None:
        kind = DeltaKind.THOUGHT
        if isinstance(message, protocol.MessageDelta | protocol.PlanDelta):
            kind = DeltaKind.MESSAGE
        elif isinstance(message, protocol.OutputDelta):
            kind = DeltaKind.TOOL_OUTPUT
        self._output.add_delta(kind, message.item_id, message.delta)

    def _item_started(self, message: protocol.ItemStarted) -> None:
        if isinstance(message.item, items.ToolItem):
            self._begin_tool(message.item, message.thread_id)
        elif isinstance(message.item, _STREAMED) and self._is_main(message.thread_id):
            self._streaming[message.item.id] = None

    def _break_off(self) -> None:
        """Close messages that Codex does not complete, because a new message or an error has stopped the model."""
        for message_id in self._streaming:
            self._output.close_draft(message_id)
        self._streaming.clear()

    def _item_completed(self, message: protocol.ItemCompleted) -> None:
        item, parent = message.item, self._parent(message.thread_id)
        self._streaming.pop(item.id, None)
        anchor = message.turn_id if parent is None else None
        match item:
            case protocol.UserMessageItem():
                if parent is None:
                    if self.is_shared and item.client_id not in (self.own_message, *self.steered):
                        self._add_foreign_message(item)
                    self.steered.pop(item.client_id or "", None)
                    self._break_off()
                    # Codex stores a thread with its first message, before it reports the message.
                    self._register()
            case protocol.AgentMessageItem():
                meta = {"phase": item.phase} if item.phase else None
                self._output.add_message(item.id, item.text, anchor, parent=parent, meta=meta)
            case protocol.ReasoningItem():
                # Codex streams both, and most models have the summary only.
                text = "\n\n".join([*item.summary, *item.content])
                if text:
                    self._output.add_thought(item.id, text, anchor, parent=parent)
            case protocol.PlanItem():
                # The answer of a turn in plan mode.
                self._output.add_message(item.id, item.text, anchor, parent=parent, meta={"plan": True})
            case protocol.CompactionItem():
                if parent is None:
                    self._output.add_event(Compacted())
            case protocol.SubAgentActivityItem():
                self._sub_agent_activity(item, message.thread_id)
            case _:
                self._end_tool(item, message.thread_id)

    def _add_foreign_message(self, item: protocol.UserMessageItem) -> None:
        """A person wrote in Codex's own interface: it begins a turn, or belongs to the one that runs."""
        text = items.message_text(item)
        message = UserMessage(item_id=item.client_id or item.id, text=text, sent_from=SENT_FROM)
        if self._output.turn_id is not None or self.turn_id is None:
            # A turn that was interrupted at once may have ended before.
            self._output.add_event(message)
            return
        turn_id = new_id()
        self._output.add(TurnBegun(turn_id=turn_id, message=message))
        self._output.begin(turn_id)

    def _begin_tool(self, item: items.ToolItem, thread_id: str | None) -> None:
        if item.id in self._open_tools:
            return
        self._open_tools[item.id] = thread_id or ""
        if isinstance(item, protocol.FileChangeItem):
            self._remember(item)
        if isinstance(item, protocol.CollabToolCallItem) and item.tool == "spawnAgent":
            self._spawning.append(item.id)
        self._output.add_event(items.tool_call(item, self._parent(thread_id)))

    def _end_tool(self, item: items.ToolItem, thread_id: str | None) -> None:
        self._begin_tool(item, thread_id)
        del self._open_tools[item.id]
        self._changes.pop(item.id, None)
        if item.id in self._spawning:
            self._spawning.remove(item.id)
            assert isinstance(item, protocol.CollabToolCallItem)
            for child in item.receiver_thread_ids:
                self._children.setdefault(child, item.id)
        status: str | None = getattr(item, "status", None)
        meta: dict[str, Any] = {"status": status} if status == "declined" else {}
        if isinstance(item, protocol.CommandItem) and item.exit_code is not None:
            meta["exitCode"] = item.exit_code
        self._output.add_event(
            ToolCallUpdate(
                tool_call_id=item.id, status=items.final_status(item), content=items.result_content(item),
                title=items.tool_title(item), locations=items.locations(item), meta=meta or None,
            )
        )  # fmt: skip

    def _remember(self, item: protocol.FileChangeItem) -> None:
        self._changes[item.id] = item
        if len(self._changes) > _MAX_CHANGES:
            del self._changes[next(iter(self._changes))]

    # -- sub-agents

    def _is_main(self, thread_id: str | None) -> bool:
        return thread_id is None or self.thread_id is None or thread_id == self.thread_id

    def _parent(self, thread_id: str | None) -> str | None:
        """Return the tool call that stands for the sub-agent of this thread, None for the session's own thread."""
        if self._is_main(thread_id):
            return None
        assert thread_id is not None
        return self._children.get(thread_id) or self._begin_child(thread_id, "Sub-agent")

    def _begin_child(self, thread_id: str, title: str, parent: str | None = None) -> str:
        self._children[thread_id] = thread_id
        self._output.add_event(
            ToolCall(
                tool_call_id=thread_id, title=title, tool_kind=ToolKind.OTHER, status=ToolStatus.IN_PROGRESS,
                tool="sub_agent", parent_tool_call_id=parent,
            )
        )  # fmt: skip
        return thread_id

    def _thread_started(self, thread: protocol.Thread) -> None:
        if self._is_main(thread.id) or thread.id in self._children:
            return
        if self.is_shared and thread.parent_thread_id is None and not self._spawning:
            if not thread.ephemeral:
                text = (
                    "The person at the terminal began another conversation. It is not part of this session."
                )
                self._add_notice(text, "conversation_changed")
            return
        name = clean_line(thread.agent_nickname or thread.agent_role or "", _TITLE_CHARS)
        parent = self._spawning[0] if self._spawning else None
        if parent is None and not self._is_main(thread.parent_thread_id):
            parent = self._children.get(thread.parent_thread_id or "")
        self._begin_child(thread.id, f"Sub-agent {name}".strip(), parent)

    def _sub_agent_activity(self, item: protocol.SubAgentActivityItem, thread_id: str | None) -> None:
        child = item.agent_thread_id
        if item.kind == "started" and child and child not in self._children:
            name = clean_line(item.agent_path, _TITLE_CHARS)
            self._begin_child(child, f"Sub-agent {name}".strip(), self._parent(thread_id))

    def _child_completed(self, thread_id: str | None, turn: protocol.Turn) -> None:
        call = self._children.get(thread_id or "")
        if call != thread_id or call is None:
            return
        status = ToolStatus.COMPLETED if turn.status == "completed" else ToolStatus.FAILED
        self._output.add_event(ToolCallUpdate(tool_call_id=call, status=status))
        # Another task for the same sub-agent begins a new call.
        del self._children[call]

    # -- notices

    def _notice(
        self, message: protocol.ErrorReported | protocol.Warned | protocol.ConfigWarned | protocol.ModelRerouted
        | protocol.McpStatus,
    ) -> None:  # fmt: skip
        match message:
            case protocol.ErrorReported():
                if message.will_retry:
                    if self._is_main(message.thread_id):
                        self._break_off()
                    self._add_notice(error_text(message.error), "retry")
                # Another error is the reason of the turn's end, which follows.
                elif not self._is_main(message.thread_id) or self._output.turn_id is None:
                    self._add_notice(error_text(message.error), "agent_error", level="error")
            case protocol.Warned():
                self._add_warning(message.message)
            case protocol.ConfigWarned():
                self._add_warning(": ".join(filter(None, (message.summary, message.details))))
            case protocol.ModelRerouted():
                text = f"Codex uses the model {message.to_model} instead of {message.from_model}"
                self._add_notice(text, "model_rerouted")
            case protocol.McpStatus():
                if message.status == "failed":
                    text = (
                        f"The MCP server {message.name} did not start: {message.error or 'no reason given'}"
                    )
                    self._add_notice(text, "mcp_status")

    def _add_warning(self, text: str) -> None:
        """Codex repeats some warnings with every turn. Each is shown once."""
        if text not in self._warnings:
            self._warnings.add(text)
            self._add_notice(text, "agent_warning")

    def _add_notice(self, text: str, code: str, level: str = "warning") -> None:
        self._output.add_notice(text, code, level)


def error_text(error: protocol.TurnError | None) -> str:
    if error is None:
        return "Codex gave no reason"
    text = error.message or "Codex gave no reason"
    if error.additional_details and error.additional_details not in text:
        text = f"{text} ({error.additional_details})"
    if error.codex_error_info == "unauthorized" or "401 Unauthorized" in text:
        text = f"{text}: {LOGIN_HINT}"
    return text
