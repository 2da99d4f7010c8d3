"""OpenAI's responses, with Codex's custom tools and its code mode."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from tests.support.model.conversation import Conversation, Json, Message, Tool, message
from tests.support.model.dialects.base import INPUT_TOKENS, OUTPUT_TOKENS, Block, Dialect, Event

_USAGE = {
    "input_tokens": INPUT_TOKENS,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": OUTPUT_TOKENS,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
}


class Responses(Dialect):
    wire: ClassVar[str] = "responses"

    def __init__(self, model: str) -> None:
        super().__init__(model)
        self._sequence = 0

    @classmethod
    def read(cls, path: str, body: Json) -> Conversation:
        given = body.get("input")
        items: list[Json] = [{"role": "user", "content": given}] if isinstance(given, str) else given or []
        added = [tool for item in items if item.get("type") == "additional_tools" for tool in item["tools"]]
        return Conversation(
            wire=cls.wire,
            model=str(body.get("model")),
            effort=(body.get("reasoning") or {}).get("effort"),
            stream=bool(body.get("stream")),
            messages=tuple(one for item in items for one in _messages(item)),
            tools=tuple(_tools([*(body.get("tools") or []), *added])),
            instructions="\n".join(_instructions(items)),
        )

    @classmethod
    def error(cls, status: int, message: str) -> Json:
        return {
            "error": {"message": message, "type": f"scripted_{status}", "param": None, "code": str(status)}
        }

    def whole(self, blocks: Sequence[Block]) -> Json:
        return self._response("completed", [_item(block, done=True) for block in blocks]) | {"usage": _USAGE}

    def begin(self) -> list[Event]:
        return [self._event("response.created", response=self._response("in_progress", []))]

    def open(self, block: Block) -> list[Event]:
        return [
            self._event(
                "response.output_item.added", output_index=block.index, item=_item(block, done=False)
            ),
            *self._part(block, "added", ""),
        ]

    def delta(self, block: Block, text: str) -> list[Event]:
        return [self._of(block, f"{_stream(block)}.delta", delta=text)]

    def close(self, block: Block) -> list[Event]:
        if block.kind == "search":
            return [self._done(block)]
        done = {"text": "text", "thought": "text", "call": _field(block)}[block.kind]
        return [
            self._of(block, f"{_stream(block)}.done", **{done: block.text}),
            *self._part(block, "done", block.text),
            self._done(block),
        ]

    def _done(self, block: Block) -> Event:
        return self._event(
            "response.output_item.done", output_index=block.index, item=_item(block, done=True)
        )

    def end(self, blocks: Sequence[Block]) -> list[Event]:
        return [self._event("response.completed", response=self.whole(blocks))]

    def fail(self, status: int, message: str) -> list[Event]:
        error = {"code": "server_error", "message": message}
        return [self._event("response.failed", response=self._response("failed", []) | {"error": error})]

    def _part(self, block: Block, verb: str, text: str) -> list[Event]:
        match block.kind:
            case "text":
                return [self._of(block, f"response.content_part.{verb}", part=_text(text))]
            case "thought":
                return [self._of(block, f"response.reasoning_summary_part.{verb}", part=_summary(text))]
            case "call" | "search":
                return []

    def _of(self, block: Block, name: str, **data: Any) -> Event:
        index = {"text": {"content_index": 0}, "thought": {"summary_index": 0}}.get(block.kind, {})
        return self._event(name, item_id=_id(block), output_index=block.index, **index, **data)

    def _event(self, name: str, **data: Any) -> Event:
        self._sequence += 1
        return Event({"type": name, "sequence_number": self._sequence - 1, **data}, name)

    def _response(self, status: str, output: list[Json]) -> Json:
        return {
            "id": f"resp_{self.id}", "object": "response", "created_at": int(time.time()), "status": status,
            "model": self.model, "output": output, "error": None, "parallel_tool_calls": True, "tools": [],
        }  # fmt: skip


def _field(block: Block) -> str:
    return "input" if block.call is not None and isinstance(block.call.input, str) else "arguments"


def _stream(block: Block) -> str:
    if block.kind == "call":
        return (
            f"response.{'custom_tool_call_input' if _field(block) == 'input' else 'function_call_arguments'}"
        )
    return "response.output_text" if block.kind == "text" else "response.reasoning_summary_text"


def _id(block: Block) -> str:
    return f"{ {'text': 'msg', 'thought': 'rs', 'call': 'fc', 'search': 'ws'}[block.kind] }_{block.id}"


def _text(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": []}


def _summary(text: str) -> Json:
    return {"type": "summary_text", "text": text}


def _item(block: Block, *, done: bool) -> Json:
    status = "completed" if done else "in_progress"
    if block.call is not None:
        field = _field(block)
        kind = "custom_tool_call" if field == "input" else "function_call"
        namespace, _, name = block.call.name.rpartition("/")
        call = {"call_id": block.call.id, "name": name, field: block.text if done else ""}
        if namespace:
            call["namespace"] = namespace
        return {"type": kind, "id": _id(block), "status": status, **call}
    if block.kind == "search":
        action = {"type": "search", "query": block.text}
        return {"type": "web_search_call", "id": _id(block), "status": status, "action": action}
    if block.kind == "thought":
        return {"type": "reasoning", "id": _id(block), "summary": [_summary(block.text)] if done else []}
    content = [_text(block.text)] if done else []
    return {"type": "message", "id": _id(block), "role": "assistant", "status": status, "content": content}


def _tools(raw: list[Json]) -> Iterator[Tool]:
    for tool in raw:
        match tool.get("type"):
            case "namespace":
                yield from _tools(tool.get("tools") or [])
            case "function":
                yield Tool(tool["name"], tool.get("parameters") or {})
            case "custom":
                yield Tool(tool["name"], {}, "custom")
            case _:
                continue  # the provider's own: web search and the like


def _instructions(items: list[Json]) -> Iterator[str]:
    for item in items:
        content: Any = item.get("content")
        if item.get("role") == "developer" and isinstance(content, list):
            yield from (str(block.get("text") or "") for block in content)


def _messages(item: Json) -> list[Message]:
    match item.get("type", "message"):
        case "message" if item.get("role") in ("user", "assistant"):
            content: Any = item.get("content")
            blocks: list[Json] = (
                [{"type": "input_text", "text": content}] if isinstance(content, str) else content
            )
            texts = [block["text"] for block in blocks if block.get("type") in ("input_text", "output_text")]
            images = sum(block.get("type") == "input_image" for block in blocks)
            return message(item["role"], texts, images)
        case "agent_message":
            # Codex gives a sub-agent its task in this form, and announces its answers to others in it.
            content = item.get("content") or []
            is_task = any("Type: NEW_TASK" in str(block.get("text")) for block in content)
            tasks = [str(block["encrypted_content"]) for block in content if "encrypted_content" in block]
            return message("user", tasks) if is_task else []
        case "function_call" | "custom_tool_call":
            return message("assistant", [f"{item.get('name')}()"])
        case "function_call_output" | "custom_tool_call_output":
            return message("tool", _outputs(item.get("output")))
        case _:
            return []


def _outputs(output: Any) -> list[str]:
    if isinstance(output, list):
        return [str(block.get("text", "")) for block in output]
    return [output if isinstance(output, str) else str(output)]
