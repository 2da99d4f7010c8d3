"""From the demo agent's words to the vocabulary of the log."""

from __future__ import annotations

import time

from farsteer.agents.demo import protocol as wire
from farsteer.agents.turns import TurnOutput
from farsteer.core.approvals import Approval
from farsteer.core.errors import ErrorCode
from farsteer.core.events import (
    CommandsUpdate,
    DeltaKind,
    DiffBlock,
    Location,
    ModeUpdate,
    Other,
    Plan,
    TextBlock,
    TitleUpdate,
    ToolCall,
    ToolCallUpdate,
    UsageUpdate,
)
from farsteer.core.ids import new_id

Telling = (
    wire.Message | wire.Thought | wire.DeltaLine | wire.Tool | wire.ToolOutput | wire.ToolUpdate | wire.PlanLine
    | wire.Usage | wire.Title | wire.Mode | wire.Unknown | wire.Garbage
)  # fmt: skip
"""Lines that only tell something; the others are for the launch."""


def tell(turns: TurnOutput, line: Telling) -> None:
    match line:
        case wire.Message():
            turns.add_message(line.message, line.text, line.anchor, partial=line.partial, meta=line.meta)
        case wire.Thought():
            turns.add_thought(line.message, line.text, line.anchor, partial=line.partial, meta=line.meta)
        case wire.DeltaLine():
            turns.add_delta(line.delta_kind, line.message, line.text)
        case wire.Tool():
            turns.add_event(_tool_call(line))
        case wire.ToolOutput():
            turns.add_delta(DeltaKind.TOOL_OUTPUT, line.call, line.text)
        case wire.ToolUpdate():
            content = (TextBlock(text=line.text),) if line.text is not None else ()
            turns.add_event(
                ToolCallUpdate(tool_call_id=line.call, status=line.status, content=content, meta=line.meta)
            )
        case wire.PlanLine():
            turns.add_event(Plan(entries=line.entries, meta=line.meta))
        case wire.Usage():
            turns.add_event(_usage(line))
        case wire.Title():
            turns.add_event(TitleUpdate(title=line.title, meta=line.meta))
        case wire.Mode():
            turns.add_event(ModeUpdate(permission_mode=line.mode, meta=line.meta))
        case wire.Unknown():
            turns.add_event(Other(native_kind=line.kind, data=line.data))
        case wire.Garbage():
            turns.add_notice(
                f"the agent wrote a line that is no message: {line.text}", ErrorCode.AGENT_PROTOCOL
            )


def commands(line: wire.Hello) -> CommandsUpdate:
    return CommandsUpdate(commands=line.commands, meta=line.meta)


def approval(line: wire.Ask, turn_id: str | None) -> Approval:
    return Approval(
        id=new_id(), kind=line.kind, title=line.title, created_at=time.time_ns() // 1_000_000, turn_id=turn_id,
        tool_call_id=line.call, tool=line.tool, tool_kind=line.tool_kind, arguments=line.arguments,
        options=line.options, questions=line.questions, plan=line.plan, meta=line.meta,
    )  # fmt: skip


def _tool_call(line: wire.Tool) -> ToolCall:
    diff = line.diff
    return ToolCall(
        tool_call_id=line.call, title=line.title, tool_kind=line.kind, status=line.status, tool=line.tool,
        input=line.input, locations=(Location(path=line.path),) if line.path else (), meta=line.meta,
        content=(DiffBlock(path=diff.path, new_text=diff.new, old_text=diff.old),) if diff else (),
    )  # fmt: skip


def _usage(line: wire.Usage) -> UsageUpdate:
    return UsageUpdate(
        input_tokens=line.input, output_tokens=line.output, context_used=line.used, context_size=line.size,
        model=line.model, meta=line.meta,
    )  # fmt: skip
