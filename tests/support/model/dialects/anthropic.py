"""Anthropic's messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from tests.support.model.conversation import Conversation, Json, Message, Tool, message
from tests.support.model.dialects.base import INPUT_TOKENS, OUTPUT_TOKENS, Block, Dialect, Event, calls

_SIGNATURE = "c2NyaXB0ZWQ="
_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
    529: "overloaded_error",
}


class Anthropic(Dialect):
    wire: ClassVar[str] = "anthropic"

    @classmethod
    def read(cls, path: str, body: Json) -> Conversation:
        thinking = body.get("thinking") or {}
        effort = (body.get("output_config") or {}).get("effort") or thinking.get("budget_tokens")
        return Conversation(
            wire=cls.wire,
            model=str(body.get("model")),
            effort=None if effort is None else str(effort),
            stream=bool(body.get("stream")),
            messages=tuple(one for raw in body.get("messages", []) for one in _messages(raw)),
            tools=tuple(Tool(raw["name"], raw.get("input_schema") or {}) for raw in body.get("tools") or []),
        )

    @classmethod
    def error(cls, status: int, message: str) -> Json:
        return {"type": "error", "error": {"type": _ERRORS.get(status, "api_error"), "message": message}}

    def whole(self, blocks: Sequence[Block]) -> Json:
        content = [_content(block) | _filled(block) for block in blocks]
        return self._message(content, _reason(blocks), OUTPUT_TOKENS)

    def begin(self) -> list[Event]:
        return [_event("message_start", message=self._message([], None, 1)), _event("ping")]

    def open(self, block: Block) -> list[Event]:
        return [_event("content_block_start", index=block.index, content_block=_content(block))]

    def delta(self, block: Block, text: str) -> list[Event]:
        delta = {
            "text": {"type": "text_delta", "text": text},
            "thought": {"type": "thinking_delta", "thinking": text},
            "call": {"type": "input_json_delta", "partial_json": text},
        }[block.kind]
        return [_event("content_block_delta", index=block.index, delta=delta)]

    def close(self, block: Block) -> list[Event]:
        stop = _event("content_block_stop", index=block.index)
        if block.kind != "thought":
            return [stop]
        signature = {"type": "signature_delta", "signature": _SIGNATURE}
        return [_event("content_block_delta", index=block.index, delta=signature), stop]

    def end(self, blocks: Sequence[Block]) -> list[Event]:
        delta = {"stop_reason": _reason(blocks), "stop_sequence": None}
        return [
            _event("message_delta", delta=delta, usage={"output_tokens": OUTPUT_TOKENS}),
            _event("message_stop"),
        ]

    def fail(self, status: int, message: str) -> list[Event]:
        return [Event(self.error(status, message), "error")]

    def _message(self, content: list[Json], reason: str | None, output_tokens: int) -> Json:
        usage = {
            "input_tokens": INPUT_TOKENS,
            "output_tokens": output_tokens,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
        }
        return {
            "id": f"msg_{self.id}", "type": "message", "role": "assistant", "model": self.model, "content": content,
            "stop_reason": reason, "stop_sequence": None, "usage": usage,
        }  # fmt: skip


def _event(name: str, **data: Any) -> Event:
    return Event({"type": name, **data}, name)


def _reason(blocks: Sequence[Block]) -> str:
    return "tool_use" if calls(blocks) else "end_turn"


def _content(block: Block) -> Json:
    """Return an empty block."""
    if block.call is not None:
        return {"type": "tool_use", "id": block.call.id, "name": block.call.name, "input": {}}
    if block.kind == "thought":
        return {"type": "thinking", "thinking": "", "signature": ""}
    return {"type": "text", "text": ""}


def _filled(block: Block) -> Json:
    if block.call is not None:
        return {"input": block.call.input}
    if block.kind == "thought":
        return {"thinking": block.text, "signature": _SIGNATURE}
    return {"text": block.text}


def _messages(raw: Json) -> list[Message]:
    """Split a user message: tool results first, then the person's text."""
    role: str = raw.get("role", "user")
    if role not in ("user", "assistant"):
        return []
    blocks = _blocks(raw.get("content"))
    if role == "assistant":
        used = [f"{block.get('name')}()" for block in blocks if block.get("type") == "tool_use"]
        return message("assistant", [*_texts(blocks), *used])
    results = [block for block in blocks if block.get("type") == "tool_result"]
    tools = [one for result in results for one in message("tool", _texts(_blocks(result.get("content"))))]
    images = sum(block.get("type") == "image" for block in blocks)
    return [*tools, *message("user", _texts(blocks), images)]


def _blocks(content: str | list[Json] | None) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content or []


def _texts(blocks: list[Json]) -> list[str]:
    return [block["text"] for block in blocks if block.get("type") == "text"]
