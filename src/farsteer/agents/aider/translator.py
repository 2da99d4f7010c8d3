"""The worker's lines as events."""

from __future__ import annotations

from farsteer.agents.aider import protocol
from farsteer.agents.turns import TurnOutput
from farsteer.core.errors import ErrorCode
from farsteer.core.events import (
    DeltaKind,
    DiffBlock,
    Location,
    Other,
    TextBlock,
    ToolCall,
    ToolCallUpdate,
    ToolContent,
    UsageUpdate,
)

Translatable = (
    protocol.Delta | protocol.Message | protocol.Thought | protocol.Tool | protocol.ToolOutput | protocol.ToolUpdate
    | protocol.Notice | protocol.Usage | protocol.Unknown | protocol.Garbage
)  # fmt: skip
_DELTAS = {"message": DeltaKind.MESSAGE, "thought": DeltaKind.THOUGHT}


def translate(line: Translatable, output: TurnOutput) -> None:
    """Add the outputs for a line to `output`."""
    match line:
        case protocol.Delta():
            output.add_delta(_DELTAS[line.kind], line.message, line.text)
        case protocol.Message():
            output.add_message(line.message, line.text, line.anchor, partial=line.partial)
        case protocol.Thought():
            output.add_thought(line.message, line.text)
        case protocol.Tool():
            output.add_event(
                ToolCall(
                    tool_call_id=line.call, title=line.title, tool_kind=line.kind, status=line.status, tool=line.tool,
                    input=line.input, locations=(Location(path=line.path),) if line.path else (),
                    content=_content(line.diff, line.text),
                )
            )  # fmt: skip
        case protocol.ToolOutput():
            output.add_delta(DeltaKind.TOOL_OUTPUT, line.call, line.text)
        case protocol.ToolUpdate():
            output.add_event(
                ToolCallUpdate(
                    tool_call_id=line.call, status=line.status, content=_content(line.diff, line.text),
                    partial=line.partial,
                )
            )  # fmt: skip
        case protocol.Notice():
            output.add_notice(line.text, ErrorCode.AGENT_FAILED, line.level)
        case protocol.Usage():
            output.add_event(
                UsageUpdate(
                    turn_id=output.turn_id, input_tokens=line.input, output_tokens=line.output,
                    cache_read_tokens=line.cache_read, cost_usd=line.cost, context_used=line.used,
                    context_size=line.size, model=line.model,
                )
            )  # fmt: skip
        case protocol.Unknown():
            output.add_event(Other(native_kind=line.kind, data=line.data))
        case protocol.Garbage():
            output.add_notice(f"aider's worker wrote an invalid line: {line.text}", ErrorCode.AGENT_PROTOCOL)


def _content(diff: protocol.Diff | None, text: str | None) -> tuple[ToolContent, ...]:
    if diff is not None:
        return (DiffBlock(path=diff.path, new_text=diff.new, old_text=diff.old),)
    return (TextBlock(text=text),) if text else ()
