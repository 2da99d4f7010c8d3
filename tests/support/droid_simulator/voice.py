"""What the simulator says about its session, in the words of its version, and twice where it is told to stutter."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from farsteer.core.ids import new_id
from farsteer.faces.droid import notes
from farsteer.faces.droid.modes import LEVELS
from farsteer.faces.droid.notes import Message, Note, Text, Thinking, Tokens, ToolOutcome, ToolUse
from farsteer.faces.droid.wire import Writing
from farsteer.jsonrpc.stdio import StdoutWriter
from tests.support.droid_simulator import store
from tests.support.droid_simulator.profile import Profile
from tests.support.droid_simulator.store import Stored

REMINDER = "<system-reminder>\nThe user works on a machine.\n</system-reminder>"
_PER_CALL = Tokens(100, 7)
_COUNTING_SECONDS = 0.05
_STUTTERED = (
    notes.SettingsUpdated, notes.ToolCall, notes.ToolResult, notes.CreateMessage, notes.StateChanged,
)  # fmt: skip


def now() -> int:
    return time.time_ns() // 1_000_000


class Voice:
    def __init__(self, profile: Profile, writer: StdoutWriter, bad: frozenset[str]) -> None:
        self.profile = profile
        self.writing = Writing(profile.dialect)
        self.write = writer.write
        self.flush = writer.flush
        self.bad = bad
        self.session: Stored | None = None
        self._counting: asyncio.Task[None] | None = None

    @property
    def here(self) -> Stored:
        assert self.session is not None
        return self.session

    async def note(self, note: Note | dict[str, Any]) -> None:
        line = self.writing.note(note, self.session.id if self.session else None)
        if "strange-keys" in self.bad:
            line = line.replace(b'"jsonrpc":', b'"_meta":{"traceparent":"00-1"},"jsonrpc":', 1)
            line = line.replace(b'"type":"create_message"', b'"mood":"cheerful","type":"create_message"')
        await self.write(line)
        if "duplicates" in self.bad and isinstance(note, _STUTTERED):
            await self.write(line)

    async def state(self, new: str) -> None:
        if new != notes.THINKING or self.profile.completes:
            await self.note(notes.StateChanged(new_state=new))

    async def settings(self, request: str | None = None) -> None:
        await self.note(notes.SettingsUpdated(settings=self.settings_now(), request_id=request))

    def settings_now(self) -> notes.Settings:
        said = self.here.settings
        old = "spec" if said.spec else "normal" if said.level == "off" else f"auto-{said.level}"
        if not self.profile.levels:
            return notes.Settings(said.model, said.effort, old, spec_mode_reasoning_effort="none")
        return notes.Settings(
            said.model, said.effort, said.level, old, "spec" if said.spec else "auto",
            available_autonomy_levels=LEVELS if self.profile.completes else None,
        )  # fmt: skip

    # -- messages

    def message(
        self, role: str, *content: Text | Thinking | ToolUse | ToolOutcome, id: str | None = None, **more: Any
    ) -> Message:
        before = self.here.messages
        return Message(
            id=id or new_id(), role=role, content=[*content], created_at=now(), updated_at=now(),
            parent_id=before[-1].id if before else "root", **more,
        )  # fmt: skip

    async def heard(self, text: str, request: str, name: str | None = None) -> str:
        """A person's message, with what the model is reminded of; its id, which newer clients choose."""
        message_id, first = (self.profile.completes and name) or new_id(), not self.here.messages
        if first and self.profile.reminders_apart:
            context = self.message(
                "user", Text(text=REMINDER), id=f"context-{message_id}", visibility="llm_only"
            )
            store.add(self.here, context)
            shown = Message(
                context.id, "user", [], context.created_at, context.updated_at, "root", visibility="llm_only"
            )
            await self.note(notes.CreateMessage(message=shown))
        message = self.message("user", Text(text=text), id=message_id)
        if first and not self.profile.reminders_apart:
            store.add(self.here, self.message("user", Text(text=REMINDER), Text(text=text), id=message_id))
        else:
            store.add(self.here, message)
        known = request if self.profile.dialect.protocol else None
        await self.note(notes.CreateMessage(message=message, request_id=known))
        if first:
            self.here.settings.title = text[:60]
            kind = "first_user_message" if self.profile.completes else None
            await self.note(notes.TitleUpdated(title=text[:60], update_type=kind))
        return message_id

    async def told(self, message: Message) -> None:
        store.add(self.here, message)
        await self.note(notes.CreateMessage(message=message))

    async def delta(self, message_id: str, block: int, text: str, *, thought: bool = False) -> None:
        if not thought:
            await self.note(notes.TextDelta(message_id=message_id, block_index=block, text_delta=text))
        elif self.profile.completes:
            await self.note(notes.ThinkingDelta(message_id=message_id, block_index=block, text_delta=text))

    async def complete(self, message_id: str, block: int, *, thought: bool = False) -> None:
        if self.profile.completes:
            kind = notes.ThinkingComplete if thought else notes.TextComplete
            await self.note(kind(message_id=message_id, block_index=block))

    # -- tools

    async def phase(self, use: ToolUse, phase: str) -> None:
        if self.profile.completes:
            await self.note(notes.PhaseChanged(tool_use_id=use.id, tool_name=use.name, phase=phase))

    async def result(self, use: ToolUse, text: str, *, failed: bool, again: bool = False) -> None:
        outcome = ToolOutcome(tool_use_id=use.id, content=text, is_error=failed)
        message = self.message("tool", outcome)
        if not again:
            store.add(self.here, message)
        note = notes.ToolResult(tool_use_id=use.id, message_id=message.id, content=text)
        if self.profile.flags_errors:
            note = notes.ToolResult(tool_use_id=use.id, message_id=message.id, content=text, is_error=failed)
        await self.note(note)

    # -- tokens and the end

    async def called(self) -> None:
        """The model was called once more."""
        here = self.here
        here.settings.used = here.settings.used.plus(_PER_CALL)
        store.save(here)

    async def usage_after_idle(self) -> None:
        """Older versions count a while longer."""
        if self.profile.completes:
            await self.usage()
        else:
            self._counting = asyncio.create_task(self._count())

    async def _count(self) -> None:
        await asyncio.sleep(_COUNTING_SECONDS)
        await self.usage()

    async def usage(self) -> None:
        used = self.here.settings.used
        inclusive = used if self.profile.completes else None
        await self.note(
            notes.UsageChanged(
                session_id=self.here.id, token_usage=used, inclusive_token_usage=inclusive,
                last_call_token_usage=_PER_CALL if self.profile.dialect.protocol else None,
            )
        )  # fmt: skip

    async def completed(self, reason: str, turn_id: str, before: Tokens) -> None:
        if self.profile.completes:
            total = self.here.settings.used
            await self.note(
                notes.TurnCompleted(
                    reason=reason, turn_id=turn_id, token_usage=total.minus(before), cumulative_token_usage=total,
                    duration_ms=1,
                )
            )  # fmt: skip
