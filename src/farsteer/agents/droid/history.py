"""A stored conversation as a person may see it.

Droid puts reminders to the model into the history. Newer CLIs keep them in messages that only the model sees, older
ones put them into the person's own message; both are left out here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from farsteer.agents.droid.notes import Message, ToolUse
from farsteer.agents.droid.tools import kind_of, locations_of, outcome_of, proposal_of, title_of
from farsteer.core.events import (
    AgentMessage,
    AgentThought,
    Notice,
    SessionEvent,
    ToolCall,
    ToolCallUpdate,
    ToolStatus,
    UserMessage,
)

MODEL_ONLY = "llm_only"
_REMINDER = re.compile(r"<system-reminder>.*?(?:</system-reminder>|\Z)\s*", re.DOTALL)


def spoken(text: str) -> str:
    """The text without reminders to the model."""
    return _REMINDER.sub("", text) if "<system-reminder>" in text else text


def text_blocks(message: Message) -> list[str]:
    """Each text of a message that is meant for people."""
    if message.visibility == MODEL_ONLY:
        return []
    texts = (block["text"] for block in message.content if isinstance(block.get("text"), str))
    return [said for text in texts if (said := spoken(text)).strip()]


def tool_use(block: dict[str, Any]) -> ToolUse | None:
    call, name, given = block.get("id"), block.get("name"), block.get("input")
    if not isinstance(call, str) or not isinstance(name, str):
        return None
    return ToolUse(id=call, name=name, input=given if isinstance(given, dict) else {})


def text_id(message_id: str, block: int) -> str:
    """Our id for one text of a message: a message of Droid's may hold several of ours."""
    return f"{message_id}:{block}"


def thought_id(message_id: str, block: int) -> str:
    return f"{message_id}:t{block}"


def events(messages: Iterable[Message]) -> Iterator[SessionEvent]:
    """The conversation in our vocabulary."""
    uses: dict[str, ToolUse] = {}
    for message in messages:
        if message.visibility == MODEL_ONLY:
            continue
        if message.role == "user":
            said = "\n".join(text_blocks(message))
            if said:
                yield UserMessage(item_id=message.id, text=said, anchor=message.id)
        elif message.role == "system":
            for text in text_blocks(message):
                yield Notice(text=text)
        for index, block in enumerate(message.content):
            yield from _block(message, index, block, uses)


def _block(
    message: Message, index: int, block: dict[str, Any], uses: dict[str, ToolUse]
) -> Iterator[SessionEvent]:
    match block.get("type"):
        case "text" if message.role == "assistant":
            yield AgentMessage(
                message_id=text_id(message.id, index), text=str(block.get("text") or ""), anchor=message.id
            )
        case "thinking":
            yield AgentThought(
                message_id=thought_id(message.id, index),
                text=str(block.get("thinking") or ""),
                anchor=message.id,
            )
        case "tool_use":
            use = tool_use(block)
            if use is not None:
                uses[use.id] = use
                yield ToolCall(
                    tool_call_id=use.id, title=title_of(use), tool_kind=kind_of(use.name), status=ToolStatus.PENDING,
                    tool=use.name, input=use.input, locations=locations_of(use), content=proposal_of(use),
                )  # fmt: skip
        case "tool_result":
            call = str(block.get("toolUseId") or block.get("tool_use_id"))
            failed = bool(block.get("isError") or block.get("is_error"))
            yield ToolCallUpdate(
                tool_call_id=call, status=ToolStatus.FAILED if failed else ToolStatus.COMPLETED,
                content=outcome_of(uses.get(call), block.get("content"), failed=failed),
            )  # fmt: skip
        case _:
            pass
