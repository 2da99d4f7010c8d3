"""The agent's updates as events of the session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from farsteer.agents.acp import protocol
from farsteer.agents.acp.settings import SessionSettings
from farsteer.agents.acp.tool_calls import KnownCall, ToolCalls, content_text, status_of
from farsteer.agents.acp.usage import from_counts
from farsteer.agents.base import Registered
from farsteer.agents.turns import TurnOutput
from farsteer.core.events import (
    CommandsUpdate,
    DeltaKind,
    ModeUpdate,
    Other,
    Plan,
    PlanEntry,
    SlashCommand,
    TextBlock,
    TitleUpdate,
    ToolCall,
    ToolCallUpdate,
    ToolContent,
    ToolStatus,
    TurnEndReason,
    UsageUpdate,
)
from farsteer.core.ids import new_id
from farsteer.core.recent import RecentIds
from farsteer.core.text import clean_line
from farsteer.jsonrpc.messages import as_object

_MESSAGE_CHARS = 4 * 1024 * 1024
"""A longer message is stored in parts."""
_ID_CHARS = 200
_NAME_CHARS = 200
_TITLE_CHARS = 200
_MAX_COMMANDS = 1000
_CONVERSATION = (
    protocol.Chunk, protocol.ToolBegun, protocol.ToolChanged, protocol.PlanChanged, protocol.ContextUsed,
)  # fmt: skip
"""What a replay repeats and the log has already."""


class Translator:
    """Passes what the agent reports to a `TurnOutput`.

    Args:
        terminal_output: Returns what a terminal of ours has shown, by its id.
    """

    def __init__(
        self, output: TurnOutput, settings: SessionSettings, terminal_output: Callable[[str], str]
    ) -> None:
        self.calls = ToolCalls()
        self.session_id: str | None = None
        self.is_replaying = False
        """The agent repeats a conversation that the log has already."""
        self.is_empty = True
        """The turn has shown nothing yet."""
        self.on_options: Callable[[], None] = lambda: None
        """Called when the agent's configuration options have changed."""
        self._output = output
        self._settings = settings
        self._terminal_output = terminal_output
        self._is_registered = False
        self._native_message: tuple[DeltaKind, str | None] | None = None
        """The message that is being streamed, as the agent names it."""
        self._message_id = ""
        self._message_chars = 0
        self._used_ids = RecentIds()
        self._cost = 0.0

    @property
    def has_open_message(self) -> bool:
        return self._native_message is not None

    def open_session(self, session_id: str, *, stored: bool) -> None:
        """Enter the session. One that the agent has stored can be resumed."""
        self.session_id = session_id
        if stored:
            self._register()

    def _register(self) -> None:
        if not self._is_registered and self.session_id is not None:
            self._is_registered = True
            self._output.add(Registered(native_id=self.session_id))

    # -- turns

    def begin_turn(self) -> None:
        self.finish_message()
        self.is_empty = True

    def end_turn(self, reason: TurnEndReason, error: str | None = None) -> None:
        if reason in (TurnEndReason.FAILED, TurnEndReason.CRASHED, TurnEndReason.CANCELLED):
            # What has arrived of the last message becomes a partial one.
            self._native_message = None
        self.finish_message()
        if reason in (TurnEndReason.END_TURN, TurnEndReason.MAX_TOKENS) and not self.is_empty:
            self._register()
        self.calls.end_turn()
        self._output.end(reason, error)

    def finish_message(self) -> None:
        """Emit the message that is being streamed. The protocol does not say where one ends."""
        if self._native_message is None:
            return
        kind = self._native_message[0]
        self._native_message = None
        text = self._output.drop_draft(kind, self._message_id)
        if kind is DeltaKind.THOUGHT:
            self._output.add_thought(self._message_id, text)
        else:
            self._output.add_message(self._message_id, text)

    # -- updates

    def handle(self, update: protocol.AnyUpdate | protocol.UnknownUpdate) -> None:
        if self.is_replaying and isinstance(update, _CONVERSATION):
            return
        match update:
            case protocol.MessageChunk():
                self._add_chunk(DeltaKind.MESSAGE, update)
            case protocol.ThoughtChunk():
                self._add_chunk(DeltaKind.THOUGHT, update)
            case protocol.ToolBegun() | protocol.ToolChanged():
                self._handle_tool(update)
            case protocol.UserChunk():
                # Our own message, which some agents repeat. Between turns it is somebody else's.
                if self._output.turn_id is None:
                    self._output.add_event(Other(native_kind="user_message_chunk", data=update.content))
            case protocol.PlanChanged():
                self._show()
                self._output.add_event(Plan(entries=tuple(map(_plan_entry, update.entries))))
            case protocol.CommandsChanged():
                commands = update.available_commands[:_MAX_COMMANDS]
                self._output.add_event(CommandsUpdate(commands=tuple(map(_command, commands))))
            case protocol.ModeChanged():
                self._report(self._settings.handle_native_mode(update.current_mode_id))
            case protocol.OptionsChanged():
                self._report(self._settings.handle_options(update.config_options))
                self.on_options()
            case protocol.InfoChanged():
                title = clean_line(update.title or "", _TITLE_CHARS)
                if title:
                    self._output.add_event(TitleUpdate(title=title))
            case protocol.ContextUsed():
                self._handle_usage(update)
            case _:
                self._show()
                self._output.add_event(Other(native_kind=update.kind, data=update.data))

    def _report(self, update: ModeUpdate | None) -> None:
        if update is not None:
            self._output.add_event(update)

    def _show(self) -> None:
        """Something of the turn is shown."""
        self.is_empty = False
        if not self._is_registered and self._output.turn_id is not None:
            # The agent works on the message, so that it has stored it, or soon will.
            self._register()

    def _add_chunk(self, kind: DeltaKind, update: protocol.Chunk) -> None:
        if update.meta is not None:
            self._handle_chunk_meta(update.meta)
        content = update.content
        text = content.get("text") if content.get("type") == "text" else None
        if not isinstance(text, str):
            text = content_text(content)
        if self._native_message != (kind, update.message_id) or self._message_chars > _MESSAGE_CHARS:
            if not text:
                return
            self.finish_message()
            self._native_message = (kind, update.message_id)
            self._message_id = self._new_message_id(kind, update.message_id)
            self._message_chars = 0
            self._show()
        self._message_chars += len(text)
        self._output.add_delta(kind, self._message_id, text)

    def _handle_chunk_meta(self, meta: dict[str, Any]) -> None:
        """Qwen reports the tokens of each call of its model in a chunk without text."""
        update = from_counts(as_object(meta.get("usage")) or {})
        if update is not None:
            self._output.add_event(update)

    def _new_message_id(self, kind: DeltaKind, native: str | None) -> str:
        """Return the agent's id if it is one and is not in use. A thought and its message may have the same."""
        if native is None or not native or len(native) > _ID_CHARS:
            return new_id()
        found = f"{native}:thought" if kind is DeltaKind.THOUGHT else native
        if found in self._used_ids:
            found = f"{found}:{new_id()}"
        self._used_ids.add(found)
        return found

    def _handle_usage(self, update: protocol.ContextUsed) -> None:
        cost = meta = None
        if update.cost is not None and update.cost.currency == "USD":
            # The agent reports the sum of the session.
            cost, self._cost = max(update.cost.amount - self._cost, 0.0), update.cost.amount
        elif update.cost is not None:
            meta = {"cost": update.cost}
        self._output.add_event(
            UsageUpdate(
                context_used=max(update.used, 0), context_size=max(update.size, 0), cost_usd=cost or None, meta=meta
            )
        )  # fmt: skip

    # -- tool calls

    def _handle_tool(self, update: protocol.ToolFields) -> None:
        self._show()
        call, status = self.calls.take(update), status_of(update)
        if not call.is_begun:
            self.finish_message()
            self.begin_call(call)
            if status is None or not status.final:
                if status is ToolStatus.IN_PROGRESS:
                    call.is_running = True
                    self._output.add_event(ToolCallUpdate(tool_call_id=call.id, status=status))
                return
        if call.is_final and (status is None or not status.final or update.raw_output is None):
            return  # Its result is in the log. Only another result is news.
        if status is not None and status.final:
            self._end_call(call, status, update)
        else:
            self._change_call(call, status, update)

    def begin_call(self, call: KnownCall) -> None:
        """Write a tool call into the log, unless it is there. A permission may be asked for before it is announced."""
        if call.is_begun:
            return
        call.is_begun = True
        self._output.add_event(
            ToolCall(
                tool_call_id=call.id, title=call.title or call.name or call.kind.value, tool_kind=call.kind,
                status=ToolStatus.PENDING, tool=call.name, input=call.arguments, locations=call.locations,
                content=call.content,
            )
        )  # fmt: skip

    def _change_call(self, call: KnownCall, status: ToolStatus | None, update: protocol.ToolFields) -> None:
        content: tuple[ToolContent, ...] = ()
        if status is ToolStatus.IN_PROGRESS:
            status = None if call.is_running else status
            call.is_running = True
        # What a call shows before it runs is its input, as far as the model has written it (Kimi).
        if update.content is not None and call.is_running:
            content = self._changed_content(call)
        title = call.title if update.title is not None else None
        locations = call.locations if update.locations is not None else ()
        if status is ToolStatus.PENDING:
            status = None
        if status or title or locations or content or update.raw_output is not None:
            self._output.add_event(
                ToolCallUpdate(
                    tool_call_id=call.id, status=status, title=title, locations=locations, content=content,
                    output=update.raw_output,
                )
            )  # fmt: skip

    def _changed_content(self, call: KnownCall) -> tuple[ToolContent, ...]:
        """Pass on text that only grows as deltas. Returns content that is no such text."""
        if not call.content or not all(isinstance(block, TextBlock) for block in call.content):
            return call.content
        text = "\n".join(block.text for block in call.content if isinstance(block, TextBlock))
        if self._output.turn_id is None or not text.startswith(call.text):
            return call.content
        self._output.add_delta(DeltaKind.TOOL_OUTPUT, call.id, text[len(call.text) :])
        call.text = text
        return ()

    def _end_call(self, call: KnownCall, status: ToolStatus, update: protocol.ToolFields) -> None:
        call.is_final = True
        content = call.content if update.content is not None or call.text else ()
        shown = (TextBlock(text=self._terminal_output(terminal)) for terminal in call.terminals)
        self._output.add_event(
            ToolCallUpdate(
                tool_call_id=call.id, status=status, title=call.title if update.title is not None else None,
                locations=call.locations if update.locations is not None else (),
                content=(*content, *shown), output=update.raw_output,
            )
        )  # fmt: skip


def _plan_entry(step: protocol.PlanStep) -> PlanEntry:
    return PlanEntry(content=step.content, status=step.status, priority=step.priority)


def _command(command: protocol.Command) -> SlashCommand:
    return SlashCommand(
        name=clean_line(command.name, _NAME_CHARS), description=clean_line(command.description)
    )
