"""A stored conversation as a person may see it.

Droid puts reminders to the model into the history. Newer CLIs keep them in messages that only the model sees, older
ones put them into the person's own message; both are left out here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from farsteer.agents.droid.notes import Message, ToolUse
from farsteer.agents.droid.tools import kind_of, locations_of, outcome_of, proposal_of, title_of
from farsteer.core.errors import AgentError, ErrorCode
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
_CONTEXT = "context-"
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


def in_order(messages: Sequence[Message]) -> list[Message]:
    """The messages as they were said.

    With a fast model the first answer may be stored before what was asked. The reminders are stored before both, and
    they name the message that they came with.
    """
    places = {message.id: index for index, message in enumerate(messages)}
    moved: set[str] = set()
    ordered: list[Message] = []
    for message in messages:
        if message.id in moved:
            continue
        ordered.append(message)
        asked = message.id.removeprefix(_CONTEXT)
        if asked != message.id and asked in places:
            moved.add(asked)
            ordered.append(messages[places[asked]])
    return ordered


def is_prompt(message: Message) -> bool:
    """A person has said it. Older CLIs keep the results of tools in messages of the same role."""
    return (
        message.role == "user"
        and any(block.get("type") != "tool_result" for block in message.content)
        and (message.visibility != MODEL_ONLY)
    )


def first_prompt(messages: Sequence[Message], after: str | None) -> Message | None:
    """The first message of a person after this one, or of all. Raises AgentError `anchor_unknown`."""
    start = 0
    if after is not None:
        start = next((index for index, message in enumerate(messages, 1) if message.id == after), -1)
        if start < 0:
            raise AgentError(f"this conversation has no message {after}", code=ErrorCode.ANCHOR_UNKNOWN)
    return next((message for message in messages[start:] if is_prompt(message)), None)


def events(messages: Iterable[Message]) -> Iterator[SessionEvent]:
    """The conversation in our vocabulary. A tool that never came to its end is said to have failed."""
    uses: dict[str, ToolUse] = {}
    running: dict[str, None] = {}
    for message in messages:
        if message.visibility == MODEL_ONLY:
            continue
        if message.role == "user":
            said = "\n".join(text_blocks(message))
            if said:
                yield from _cut_short(running)
                yield UserMessage(item_id=message.id, text=said, anchor=message.id)
        elif message.role == "system":
            for text in text_blocks(message):
                yield Notice(text=text)
        for index, block in enumerate(message.content):
            for event in _block(message, index, block, uses):
                if isinstance(event, ToolCall):
                    running[event.tool_call_id] = None
                elif isinstance(event, ToolCallUpdate):
                    running.pop(event.tool_call_id, None)
                yield event
    yield from _cut_short(running)


def _cut_short(running: dict[str, None]) -> Iterator[SessionEvent]:
    for call in running:
        yield ToolCallUpdate(tool_call_id=call, status=ToolStatus.FAILED)
    running.clear()


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
