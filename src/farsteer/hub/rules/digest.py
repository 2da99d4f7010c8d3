"""A digest of a conversation, for an agent that goes on with it and cannot read another agent's history."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from farsteer.core.events import AgentMessage, SessionEvent, ToolCall, ToolCallUpdate, UserMessage
from farsteer.core.modes import ToolKind
from farsteer.core.text import clean, clean_line, clip

MAX_CHARS = 16_000
_MAX_MESSAGE = 2000
_MAX_FILES = 50
_CHANGING = frozenset({ToolKind.EDIT, ToolKind.DELETE, ToolKind.MOVE})


def make_digest(agent: str, title: str | None, events: Sequence[SessionEvent]) -> str:
    """Return what was asked and answered, and the files that were changed, in at most 16 000 characters.

    The first message of a person and the newest messages stay; what is left out between them is counted.
    """
    messages = [line for event in events if (line := _line(agent, event)) is not None]
    head = [
        f"This conversation was handed over from {agent}"
        + (f", under the title {clean_line(title, 200)}" if title else "")
        + ". What follows is a digest of it; the files are as they are now."
    ]
    files = _changed_files(events)
    if files:
        more = f"\n- and {len(files) - _MAX_FILES} more" if len(files) > _MAX_FILES else ""
        head.append(
            "Files that were changed:\n" + "\n".join(f"- {name}" for name in files[:_MAX_FILES]) + more
        )
    first = messages[:1]
    room = MAX_CHARS - sum(len(part) + 2 for part in (*head, *first)) - 200
    newest: list[str] = []
    for line in reversed(messages[1:]):
        room -= len(line) + 2
        if room < 0:
            break
        newest.append(line)
    left_out = len(messages) - len(first) - len(newest)
    between = [f"[{left_out} messages are left out]"] if left_out else []
    return "\n\n".join((*head, *first, *between, *reversed(newest), "[End of the digest]"))


def _line(agent: str, event: SessionEvent) -> str | None:
    match event:
        case UserMessage(text=text) if text.strip():
            return f"Person: {clip(clean(text).strip(), _MAX_MESSAGE)}"
        case AgentMessage(text=text, parent_tool_call_id=None) if text.strip():
            return f"{agent}: {clip(clean(text).strip(), _MAX_MESSAGE)}"
        case _:
            return None


def _changed_files(events: Iterable[SessionEvent]) -> list[str]:
    changing: set[str] = set()
    found: dict[str, None] = {}
    for event in events:
        if isinstance(event, ToolCall) and event.kind in _CHANGING:
            changing.add(event.tool_call_id)
        if isinstance(event, ToolCall | ToolCallUpdate) and event.tool_call_id in changing:
            found |= dict.fromkeys(clean_line(place.path, 300) for place in event.locations)
    return [*found]
