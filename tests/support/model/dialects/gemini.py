"""Gemini's generateContent and streamGenerateContent."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, ClassVar

from tests.support.model.conversation import Conversation, Json, Message, Tool, message
from tests.support.model.dialects.base import INPUT_TOKENS, OUTPUT_TOKENS, Block, Dialect, Event

_USAGE = {
    "promptTokenCount": INPUT_TOKENS,
    "candidatesTokenCount": OUTPUT_TOKENS,
    "totalTokenCount": INPUT_TOKENS + OUTPUT_TOKENS,
}
_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
}


class Gemini(Dialect):
    wire: ClassVar[str] = "gemini"

    @classmethod
    def read(cls, path: str, body: Json) -> Conversation:
        model, _, method = path.rpartition("/models/")[2].partition(":")
        thinking = (body.get("generationConfig") or {}).get("thinkingConfig") or {}
        effort = thinking.get("thinkingLevel") or thinking.get("thinkingBudget")
        declared = [one for raw in body.get("tools") or [] for one in raw.get("functionDeclarations") or []]
        return Conversation(
            wire=cls.wire,
            model=model,
            effort=None if effort is None else str(effort),
            stream=method == "streamGenerateContent",
            messages=tuple(one for raw in body.get("contents", []) for one in _messages(raw)),
            tools=tuple(
                Tool(one["name"], one.get("parametersJsonSchema") or one.get("parameters") or {})
                for one in declared
            ),
        )

    @classmethod
    def error(cls, status: int, message: str) -> Json:
        return {"error": {"code": status, "message": message, "status": _STATUS.get(status, "INTERNAL")}}

    def whole(self, blocks: Sequence[Block]) -> Json:
        return self._answer([_part(block, block.text) for block in blocks], "STOP")

    def delta(self, block: Block, text: str) -> list[Event]:
        return [] if block.kind == "call" else [Event(self._answer([_part(block, text)]))]

    def close(self, block: Block) -> list[Event]:
        return [Event(self._answer([_part(block, "")]))] if block.kind == "call" else []

    def end(self, blocks: Sequence[Block]) -> list[Event]:
        return [Event(self._answer([{"text": ""}], "STOP"))]

    def _answer(self, parts: list[Json], reason: str | None = None) -> Json:
        candidate: Json = {"content": {"role": "model", "parts": parts}, "index": 0}
        if reason is not None:
            candidate["finishReason"] = reason
        return {
            "candidates": [candidate],
            "usageMetadata": _USAGE,
            "modelVersion": self.model,
            "responseId": self.id,
        }


def _part(block: Block, text: str) -> Json:
    if block.call is not None:
        return {"functionCall": {"name": block.call.name, "args": block.call.input}}
    return {"text": text, "thought": True} if block.kind == "thought" else {"text": text}


def _messages(raw: Json) -> list[Message]:
    parts: list[Json] = raw.get("parts") or []
    texts = [part["text"] for part in parts if "text" in part and not part.get("thought")]
    if raw.get("role") == "model":
        used = [f"{part['functionCall']['name']}()" for part in parts if "functionCall" in part]
        return message("assistant", [*texts, *used])
    answered = [part["functionResponse"] for part in parts if "functionResponse" in part]
    results = [one for answer in answered for one in message("tool", [_result(answer.get("response"))])]
    images = sum("inlineData" in part for part in parts)
    return [*results, *message("user", texts, images)]


def _result(response: Any) -> str:
    output = response.get("output", response) if isinstance(response, dict) else response
    return output if isinstance(output, str) else json.dumps(output)
