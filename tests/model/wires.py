"""A strict client for each wire format: it builds requests, and takes no stream that is not well-formed."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

from tests.support.model.conversation import Json


@dataclass
class Used:
    """A tool call of the model, and what the tool answered."""

    id: str
    name: str
    input: Any
    result: str = ""


@dataclass
class Reply:
    text: str = ""
    thought: str = ""
    calls: list[Used] = field(default_factory=list)
    tokens: tuple[int, int] = (0, 0)


Turn = str | Reply
"""A person's words, or the model's answer with what its tools gave."""

BASH: Json = {
    "type": "object",
    "properties": {"command": {"type": "string"}, "why": {"type": "string"}},
    "required": ["command", "why"],
}


class Wire(ABC):
    name: ClassVar[str]

    def path(self, model: str, stream: bool) -> str:
        raise NotImplementedError

    @abstractmethod
    def body(
        self, turns: list[Turn], *, model: str, stream: bool, tools: dict[str, Json], effort: str | None
    ) -> Json: ...

    @abstractmethod
    def streamed(self, events: list[tuple[str | None, str]]) -> Reply: ...

    @abstractmethod
    def whole(self, body: Json) -> Reply: ...


class AnthropicWire(Wire):
    name: ClassVar[str] = "anthropic"

    def path(self, model: str, stream: bool) -> str:
        return "/some/proxy/v1/messages"

    def body(
        self, turns: list[Turn], *, model: str, stream: bool, tools: dict[str, Json], effort: str | None
    ) -> Json:
        messages: list[Json] = []
        for turn in turns:
            if isinstance(turn, str):
                reminder = {"type": "text", "text": "<system-reminder>[[say:not this]]</system-reminder>"}
                messages.append({"role": "user", "content": [{"type": "text", "text": turn}, reminder]})
                messages.append({"role": "system", "content": "a note in the middle"})
                continue
            content: list[Json] = [{"type": "text", "text": turn.text}] if turn.text else []
            content += [
                {"type": "tool_use", "id": c.id, "name": c.name, "input": c.input} for c in turn.calls
            ]
            messages.append({"role": "assistant", "content": content})
            results = [{"type": "tool_result", "tool_use_id": c.id, "content": c.result} for c in turn.calls]
            if results:
                messages.append({"role": "user", "content": results})
        offered = [{"name": name, "input_schema": schema} for name, schema in tools.items()]
        config = {"output_config": {"effort": effort}} if effort else {}
        return {"model": model, "stream": stream, "messages": messages, "tools": offered, **config}

    def streamed(self, events: list[tuple[str | None, str]]) -> Reply:
        parsed = [(name, json.loads(data)) for name, data in events]
        assert all(name == data["type"] for name, data in parsed)
        assert [name for name, _ in parsed][:2] == ["message_start", "ping"]
        assert [name for name, _ in parsed][-2:] == ["message_delta", "message_stop"]
        usage = parsed[0][1]["message"]["usage"] | parsed[-2][1]["usage"]
        message = parsed[0][1]["message"] | {"content": [], "usage": usage}
        message["stop_reason"] = parsed[-2][1]["delta"]["stop_reason"]
        opened: int | None = None
        for name, data in parsed[2:-2]:
            match name:
                case "content_block_start":
                    assert opened is None
                    assert data["index"] == len(message["content"])
                    opened = data["index"]
                    message["content"].append(data["content_block"] | {"json": ""})
                case "content_block_delta":
                    assert data["index"] == opened
                    delta, block = data["delta"], message["content"][-1]
                    key = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}
                    if delta["type"] == "input_json_delta":
                        block["json"] += delta["partial_json"]
                    else:
                        block[key[delta["type"]]] += delta[key[delta["type"]]]
                case "content_block_stop":
                    assert data["index"] == opened
                    opened = None
                    if message["content"][-1]["type"] == "tool_use":
                        message["content"][-1]["input"] = json.loads(message["content"][-1]["json"])
                case _:
                    raise AssertionError(f"{name} in the middle of a stream")
        assert opened is None
        return self.whole(message)

    def whole(self, body: Json) -> Reply:
        reply = Reply(tokens=(body["usage"]["input_tokens"], body["usage"]["output_tokens"]))
        for block in body["content"]:
            match block["type"]:
                case "text":
                    reply.text += block["text"]
                case "thinking":
                    assert block["signature"]
                    reply.thought += block["thinking"]
                case "tool_use":
                    reply.calls.append(Used(block["id"], block["name"], block["input"]))
        assert body["stop_reason"] == ("tool_use" if reply.calls else "end_turn")
        return reply


class ChatWire(Wire):
    name: ClassVar[str] = "chat"

    def path(self, model: str, stream: bool) -> str:
        return "/v1/chat/completions"

    def body(
        self, turns: list[Turn], *, model: str, stream: bool, tools: dict[str, Json], effort: str | None
    ) -> Json:
        messages: list[Json] = [{"role": "system", "content": "[[say:not this]]"}]
        for turn in turns:
            if isinstance(turn, str):
                messages.append({"role": "user", "content": turn})
                continue
            functions = [{"name": call.name, "arguments": json.dumps(call.input)} for call in turn.calls]
            used = [
                {"id": call.id, "type": "function", "function": function}
                for call, function in zip(turn.calls, functions, strict=True)
            ]
            messages.append({"role": "assistant", "content": turn.text or None, "tool_calls": used})
            messages += [{"role": "tool", "tool_call_id": c.id, "content": c.result} for c in turn.calls]
        offered = [
            {"type": "function", "function": {"name": name, "parameters": schema}}
            for name, schema in tools.items()
        ]
        config = {"reasoning_effort": effort} if effort else {}
        return {"model": model, "stream": stream, "messages": messages, "tools": offered, **config}

    def streamed(self, events: list[tuple[str | None, str]]) -> Reply:
        assert {name for name, _ in events} == {None}
        assert events[-1][1] == "[DONE]"
        chunks = [json.loads(data) for _, data in events[:-1]]
        assert len({chunk["id"] for chunk in chunks}) == 1
        assert chunks[-1]["choices"] == []
        message: Json = {"content": "", "reasoning_content": "", "tool_calls": []}
        reasons = [chunk["choices"][0]["finish_reason"] for chunk in chunks[:-1]]
        assert reasons[:-1] == [None] * (len(reasons) - 1)
        for chunk in chunks[:-1]:
            delta = chunk["choices"][0]["delta"]
            for key in ("content", "reasoning_content"):
                message[key] += delta.get(key, "")
            for part in delta.get("tool_calls", []):
                if "id" in part:
                    assert part["index"] == len(message["tool_calls"])
                    message["tool_calls"].append(part)
                else:
                    known = message["tool_calls"][part["index"]]["function"]
                    known["arguments"] += part["function"]["arguments"]
        choice = {"message": message, "finish_reason": reasons[-1]}
        return self.whole({"choices": [choice], "usage": chunks[-1]["usage"]})

    def whole(self, body: Json) -> Reply:
        message = body["choices"][0]["message"]
        calls = [
            Used(call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
            for call in message.get("tool_calls", [])
        ]
        assert body["choices"][0]["finish_reason"] == ("tool_calls" if calls else "stop")
        tokens = (body["usage"]["prompt_tokens"], body["usage"]["completion_tokens"])
        return Reply(message["content"], message.get("reasoning_content", ""), calls, tokens)


class ResponsesWire(Wire):
    name: ClassVar[str] = "responses"

    def path(self, model: str, stream: bool) -> str:
        return "/v1/responses"

    def body(
        self, turns: list[Turn], *, model: str, stream: bool, tools: dict[str, Json], effort: str | None
    ) -> Json:
        environment = "<environment_context>[[say:not this]]</environment_context>"
        items: list[Json] = [_item("user", environment)]
        for turn in turns:
            if isinstance(turn, str):
                items.append(_item("user", turn))
                continue
            if turn.text:
                items.append(_item("assistant", turn.text))
            for call in turn.calls:
                arguments = json.dumps(call.input)
                used = {"call_id": call.id, "name": call.name, "arguments": arguments}
                items.append({"type": "function_call", **used})
                items.append({"type": "function_call_output", "call_id": call.id, "output": call.result})
        offered = [{"type": "function", "name": name, "parameters": schema} for name, schema in tools.items()]
        config = {"reasoning": {"effort": effort}} if effort else {}
        return {"model": model, "stream": stream, "input": items, "tools": offered, **config}

    def streamed(self, events: list[tuple[str | None, str]]) -> Reply:
        parsed = [json.loads(data) for _, data in events]
        assert [data["type"] for data in parsed] == [name for name, _ in events]
        assert [data["sequence_number"] for data in parsed] == [*range(len(parsed))]
        assert parsed[0]["type"] == "response.created"
        assert parsed[-1]["type"] == "response.completed"
        output: list[Json] = parsed[-1]["response"]["output"]
        opened: list[Json] = []
        deltas = ""
        for data in parsed[1:-1]:
            kind = data["type"]
            if kind == "response.output_item.added":
                assert data["output_index"] == len(opened)
                opened.append(data["item"])
                deltas = ""
            elif kind.endswith(".delta"):
                assert data["item_id"] == opened[-1]["id"]
                deltas += data["delta"]
            elif kind == "response.output_item.done":
                assert data["item"] == output[data["output_index"]]
                assert data["item"]["id"] == opened[-1]["id"]
            elif kind.endswith("part.done"):
                assert data["part"]["text"] == deltas
            elif kind.endswith(".done"):
                assert deltas in data.values()
        assert len(opened) == len(output)
        return self.whole(parsed[-1]["response"])

    def whole(self, body: Json) -> Reply:
        assert body["status"] == "completed"
        reply = Reply(tokens=(body["usage"]["input_tokens"], body["usage"]["output_tokens"]))
        for item in body["output"]:
            match item["type"]:
                case "message":
                    reply.text += "".join(part["text"] for part in item["content"])
                case "reasoning":
                    reply.thought += "".join(part["text"] for part in item["summary"])
                case "function_call":
                    reply.calls.append(Used(item["call_id"], item["name"], json.loads(item["arguments"])))
                case "custom_tool_call":
                    reply.calls.append(Used(item["call_id"], item["name"], item["input"]))
                case other:
                    raise AssertionError(other)
        return reply


class GeminiWire(Wire):
    name: ClassVar[str] = "gemini"

    def path(self, model: str, stream: bool) -> str:
        return f"/v1beta/models/{model}:" + ("streamGenerateContent?alt=sse" if stream else "generateContent")

    def body(
        self, turns: list[Turn], *, model: str, stream: bool, tools: dict[str, Json], effort: str | None
    ) -> Json:
        contents: list[Json] = []
        for turn in turns:
            if isinstance(turn, str):
                contents.append({"role": "user", "parts": [{"text": turn}]})
                continue
            parts: list[Json] = [{"text": turn.text}] if turn.text else []
            parts += [{"functionCall": {"name": call.name, "args": call.input}} for call in turn.calls]
            contents.append({"role": "model", "parts": parts})
            if turn.calls:
                answers = [{"name": call.name, "response": {"output": call.result}} for call in turn.calls]
                contents.append(
                    {"role": "user", "parts": [{"functionResponse": answer} for answer in answers]}
                )
        declared = [{"name": name, "parametersJsonSchema": schema} for name, schema in tools.items()]
        config = {"generationConfig": {"thinkingConfig": {"thinkingLevel": effort}}} if effort else {}
        return {
            "contents": contents,
            "tools": [{"functionDeclarations": declared}] if tools else [],
            **config,
        }

    def streamed(self, events: list[tuple[str | None, str]]) -> Reply:
        answers = [json.loads(data) for _, data in events]
        candidates = [answer["candidates"][0] for answer in answers]
        assert ["finishReason" in candidate for candidate in candidates] == [False] * (len(answers) - 1) + [
            True
        ]
        parts = [part for candidate in candidates for part in candidate["content"]["parts"]]
        candidate = {"content": {"parts": parts}, "finishReason": candidates[-1]["finishReason"]}
        return self.whole({"candidates": [candidate], "usageMetadata": answers[-1]["usageMetadata"]})

    def whole(self, body: Json) -> Reply:
        usage, candidate = body["usageMetadata"], body["candidates"][0]
        assert candidate["finishReason"] == "STOP"
        reply = Reply(tokens=(usage["promptTokenCount"], usage["candidatesTokenCount"]))
        for part in candidate["content"]["parts"]:
            if "functionCall" in part:
                call = part["functionCall"]
                reply.calls.append(Used(call["name"], call["name"], call["args"]))
            elif part.get("thought"):
                reply.thought += part["text"]
            else:
                reply.text += part["text"]
        return reply


def _item(role: str, text: str) -> Json:
    kind = "input_text" if role == "user" else "output_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


WIRES: list[Wire] = [AnthropicWire(), ChatWire(), ResponsesWire(), GeminiWire()]
