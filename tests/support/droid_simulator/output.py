"""What the simulator writes about its session, as its version of Droid does, with the requested faults."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from farsteer.core import droid
from farsteer.core.clock import now_ms
from farsteer.core.droid import MODEL_ONLY, WorkingState
from farsteer.core.ids import new_id
from farsteer.faces.droid import protocol
from farsteer.faces.droid.protocol import (
    AnyContent,
    LineEncoder,
    Message,
    Notification,
    TextContent,
    TokenUsage,
    ToolResultContent,
    ToolUse,
)
from farsteer.jsonrpc.stdio import StdoutWriter
from tests.support.droid_simulator import store
from tests.support.droid_simulator.profile import Profile
from tests.support.droid_simulator.store import Stored

REMINDER = "<system-reminder>\nThe user works on a machine.\n</system-reminder>"
_USAGE_PER_CALL = TokenUsage(100, 7)
_USAGE_DELAY = 0.05
"""How long after a turn older versions report its token usage."""
_DUPLICATED = (
    protocol.SettingsUpdated, protocol.ToolCall, protocol.ToolResult, protocol.CreateMessage,
    protocol.WorkingStateChanged,
)  # fmt: skip


class SessionOutput:
    def __init__(self, profile: Profile, writer: StdoutWriter, faults: frozenset[str]) -> None:
        self.profile = profile
        self.encoder = LineEncoder(profile.dialect)
        self.write = writer.write
        self.flush = writer.flush
        self.faults = faults
        self.keeps_autonomy = False
        self.session: Stored | None = None
        self._usage_task: asyncio.Task[None] | None = None

    @property
    def current(self) -> Stored:
        assert self.session is not None
        return self.session

    async def notify(self, notification: Notification | dict[str, Any]) -> None:
        line = self.encoder.notification(notification, self.session.id if self.session else None)
        if "strange-keys" in self.faults:
            line = line.replace(b'"jsonrpc":', b'"_meta":{"traceparent":"00-1"},"jsonrpc":', 1)
            line = line.replace(b'"type":"create_message"', b'"mood":"cheerful","type":"create_message"')
        await self.write(line)
        if "duplicates" in self.faults and isinstance(notification, _DUPLICATED):
            await self.write(line)

    async def change_state(self, new: WorkingState) -> None:
        if new is not WorkingState.THINKING or self.profile.completes_turns:
            await self.notify(protocol.WorkingStateChanged(new_state=new))

    def raise_autonomy(self) -> None:
        stored = self.current
        stored.settings = msgspec.structs.replace(stored.settings, level="high", spec=False)

    async def notify_settings(self, request_id: str | None = None) -> None:
        await self.notify(protocol.SettingsUpdated(settings=self.settings(), request_id=request_id))

    def settings(self) -> protocol.Settings:
        stored = self.current.settings
        old_name = droid.SPEC if stored.spec else droid.old_level_name(stored.level)
        if not self.profile.has_levels:
            return protocol.Settings(
                stored.model, stored.effort, old_name, spec_mode_reasoning_effort=droid.NO_EFFORT
            )
        return protocol.Settings(
            stored.model, stored.effort, stored.level, old_name, droid.SPEC if stored.spec else droid.AUTO,
            available_autonomy_levels=droid.AUTONOMY_LEVELS if self.profile.completes_turns else None,
        )  # fmt: skip

    # -- messages

    def build_message(self, role: str, *content: AnyContent, id: str | None = None, **more: Any) -> Message:
        before = self.current.messages
        return Message(
            id=id or new_id(), role=role, content=[*content], created_at=now_ms(), updated_at=now_ms(),
            parent_id=before[-1].id if before else "root", **more,
        )  # fmt: skip

    async def user_message(self, text: str, request_id: str, client_id: str | None = None) -> str:
        """Store and send a user message, with the reminder to the model; return its id, which newer clients choose."""
        message_id = (self.profile.completes_turns and client_id) or new_id()
        is_first = not self.current.messages
        if is_first and self.profile.separates_reminders:
            context = self.build_message(
                "user", TextContent(text=REMINDER), id=f"context-{message_id}", visibility=MODEL_ONLY
            )
            store.add(self.current, context)
            shown = Message(
                context.id, "user", [], context.created_at, context.updated_at, "root", visibility=MODEL_ONLY
            )
            await self.notify(protocol.CreateMessage(message=shown))
        message = self.build_message("user", TextContent(text=text), id=message_id)
        if is_first and not self.profile.separates_reminders:
            content = (TextContent(text=REMINDER), TextContent(text=text))
            store.add(self.current, self.build_message("user", *content, id=message_id))
        else:
            store.add(self.current, message)
        known = request_id if self.profile.dialect.protocol else None
        await self.notify(protocol.CreateMessage(message=message, request_id=known))
        if is_first:
            self.current.settings.title = text[:60]
            kind = "first_user_message" if self.profile.completes_turns else None
            await self.notify(protocol.TitleUpdated(title=text[:60], update_type=kind))
        return message_id

    async def add_message(self, message: Message) -> None:
        store.add(self.current, message)
        await self.notify(protocol.CreateMessage(message=message))

    async def delta(self, message_id: str, block: int, text: str, *, thought: bool = False) -> None:
        if not thought:
            await self.notify(protocol.TextDelta(message_id=message_id, block_index=block, text_delta=text))
        elif self.profile.completes_turns:
            await self.notify(
                protocol.ThinkingDelta(message_id=message_id, block_index=block, text_delta=text)
            )

    async def complete(self, message_id: str, block: int, *, thought: bool = False) -> None:
        if self.profile.completes_turns:
            kind = protocol.ThinkingComplete if thought else protocol.TextComplete
            await self.notify(kind(message_id=message_id, block_index=block))

    # -- tools

    async def tool_phase(self, use: ToolUse, phase: str) -> None:
        if self.profile.completes_turns:
            await self.notify(protocol.ToolPhaseChanged(tool_use_id=use.id, tool_name=use.name, phase=phase))

    async def tool_result(self, use: ToolUse, text: str, *, failed: bool, repeated: bool = False) -> None:
        content = ToolResultContent(tool_use_id=use.id, content=text, is_error=failed)
        message = self.build_message("tool", content)
        if not repeated:
            store.add(self.current, message)
        result = protocol.ToolResult(tool_use_id=use.id, message_id=message.id, content=text)
        if self.profile.flags_errors:
            result = protocol.ToolResult(
                tool_use_id=use.id, message_id=message.id, content=text, is_error=failed
            )
        await self.notify(result)

    # -- token usage and the end of a turn

    async def count_model_call(self) -> None:
        settings = self.current.settings
        settings.used = settings.used + _USAGE_PER_CALL
        store.save(self.current)

    async def usage_after_turn(self) -> None:
        """Report the usage, in older versions only after a while."""
        if self.profile.completes_turns:
            await self._notify_usage()
        else:
            self._usage_task = asyncio.create_task(self._notify_usage_later())

    async def _notify_usage_later(self) -> None:
        await asyncio.sleep(_USAGE_DELAY)
        await self._notify_usage()

    async def _notify_usage(self) -> None:
        used = self.current.settings.used
        await self.notify(
            protocol.TokenUsageChanged(
                session_id=self.current.id, token_usage=used,
                inclusive_token_usage=used if self.profile.completes_turns else None,
                last_call_token_usage=_USAGE_PER_CALL if self.profile.dialect.protocol else None,
            )
        )  # fmt: skip

    async def turn_completed(self, reason: str, turn_id: str, used_before: TokenUsage) -> None:
        if self.profile.completes_turns:
            total = self.current.settings.used
            await self.notify(
                protocol.TurnCompleted(
                    reason=reason, turn_id=turn_id, token_usage=total - used_before, cumulative_token_usage=total,
                    duration_ms=1,
                )
            )  # fmt: skip
