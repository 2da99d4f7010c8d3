"""OpenAI's chat completions, which many other models support as well."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, ClassVar

from tests.support.model.conversation import Conversation, Json, Message, Tool, message
from tests.support.model.dialects.base import INPUT_TOKENS, OUTPUT_TOKENS, Block, Dialect, Event, calls

_USAGE = {
    "prompt_tokens": INPUT_TOKENS,
    "completion_tokens": OUTPUT_TOKENS,
    "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
}


class Chat(Dialect):
    wire: ClassVar[str] = "chat"

    def __init__(self, model: str) -> None:
        super().__init__(model)
        self._calls = 0

    @classmethod
    def read(cls, path: str, body: Json) -> Conversation:
        effort = body.get("reasoning_effort") or (body.get("reasoning") or {}).get("effort")
        return Conversation(
            wire=cls.wire,
            model=str(body.get("model")),
            effort=effort,
            stream=bool(body.get("stream")),
            messages=tuple(one for raw in body.get("messages", []) for one in _messages(raw)),
            tools=tuple(
                Tool(raw["function"]["name"], raw["function"].get("parameters") or {})
                for raw in body.get("tools") or []
                if raw.get("type") == "function"
            ),
        )

    @classmethod
    def error(cls, status: int, message: str) -> Json:
        return {
            "error": {"message": message, "type": f"scripted_{status}", "param": None, "code": str(status)}
        }

    def whole(self, blocks: Sequence[Block]) -> Json:
        answer: Json = {
            "role": "assistant",
            "content": "".join(block.text for block in blocks if block.kind == "text"),
        }
        if thought := "".join(block.text for block in blocks if block.kind == "thought"):
            answer["reasoning_content"] = thought
        if used := calls(blocks):
            answer["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.text}}
                for call in used
            ]
        choice = {"index": 0, "message": answer, "finish_reason": _reason(blocks)}
        return self._object("chat.completion", [choice]) | {"usage": _USAGE}

    def begin(self) -> list[Event]:
        return [self._chunk({"role": "assistant", "content": ""})]

    def open(self, block: Block) -> list[Event]:
        if block.call is None:
            return []
        self._calls += 1
        function = {"name": block.call.name, "arguments": ""}
        return [self._tool_chunk({"id": block.call.id, "type": "function", "function": function})]

    def delta(self, block: Block, text: str) -> list[Event]:
        if block.kind == "call":
            return [self._tool_chunk({"function": {"arguments": text}})]
        return [self._chunk({"content" if block.kind == "text" else "reasoning_content": text})]

    def end(self, blocks: Sequence[Block]) -> list[Event]:
        usage = Event(self._object("chat.completion.chunk", []) | {"usage": _USAGE})
        return [self._chunk({}, _reason(blocks)), usage, Event("[DONE]")]

    def _tool_chunk(self, call: Json) -> Event:
        return self._chunk({"tool_calls": [{"index": self._calls - 1, **call}]})

    def _chunk(self, delta: Json, reason: str | None = None) -> Event:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return Event(self._object("chat.completion.chunk", [choice]))

    def _object(self, kind: str, choices: list[Json]) -> Json:
        return {
            "id": f"chatcmpl-{self.id}",
            "object": kind,
            "created": int(time.time()),
            "model": self.model,
            "choices": choices,
        }


def _reason(blocks: Sequence[Block]) -> str:
    return "tool_calls" if calls(blocks) else "stop"


def _messages(raw: Json) -> list[Message]:
    role: str = raw.get("role", "user")
    content: Any = raw.get("content")
    blocks: list[Json] = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
    texts = [block["text"] for block in blocks if block.get("type") == "text"]
    match role:
        case "user":
            return message("user", texts, sum(block.get("type") == "image_url" for block in blocks))
        case "assistant":
            used = [f"{call['function']['name']}()" for call in raw.get("tool_calls") or []]
            return message("assistant", [*texts, *used])
        case "tool":
            return message("tool", texts)
        case _:
            return []
