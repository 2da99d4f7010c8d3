"""Maps abstract tools to the tools of an agent."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from tests.support.model.conversation import Json, Tool
from tests.support.model.script import ABSTRACT, BadScript, Use

# Names are compared in lower case without _ and -.
NAMES: dict[str, tuple[str, ...]] = {
    "bash": (
        "bash", "execcommand", "shellcommand", "runshellcommand", "runterminalcommand", "shell", "execute",
    ),
    "escalate": ("execcommand",),
    "write": ("write", "writefile", "create", "createfile", "applypatch"),
    "read": ("read", "readfile", "view"),
    "ask": ("askuser", "askuserquestion"),
    "plan": ("exitspecmode", "exitplanmode"),
}  # fmt: skip
DEFERRED = {"plan": "ExitPlanMode"}
"""Tools that Claude Code offers by name only, and whose schema a model may search for."""
ESCALATED = {"sandbox_permissions": "require_escalated", "justification": "May I?"}
"""How a model of Codex asks to run a command outside of the sandbox."""
COMMAND = ("command", "cmd", "script")
PATH = ("file_path", "filePath", "path", "absolute_path", "target_file", "filename")
CONTENT = ("content", "contents", "file_text", "text")
# Given wherever it is offered: without it an agent takes the worst for granted.
RISK = {"riskLevel": "medium"}
_EMPTY: dict[str, Any] = {
    "integer": 1,
    "number": 1,
    "boolean": False,
    "array": [],
    "object": {},
    "null": None,
}


@dataclass(frozen=True)
class Call:
    """A tool call: JSON for a function, free text for a custom tool."""

    id: str
    name: str
    input: Json | str

    @property
    def text(self) -> str:
        return self.input if isinstance(self.input, str) else json.dumps(self.input)


def call(use: Use, tools: Sequence[Tool], *, may_escalate: bool = True) -> Call:
    """Return the call of a tool, offered by the request, that does what the script asks for."""
    if use.tool == "escalate" and not may_escalate:
        use = Use("bash", use.texts)
    name, given = _named(use, tools) if use.tool not in ABSTRACT else _abstract(use, tools)
    return Call(f"call_{uuid4().hex[:12]}", name, given)


def _named(use: Use, tools: Sequence[Tool]) -> tuple[str, Json | str]:
    # Also a tool that was not offered: a model does that, and agents must bear it.
    custom = any(tool.name == use.tool and tool.kind == "custom" for tool in tools)
    given = use.input or {}
    return use.tool, str(given.get("input", "")) if custom else given


def _abstract(use: Use, tools: Sequence[Tool]) -> tuple[str, Json | str]:
    known = {tool.name.lower().replace("_", "").replace("-", ""): tool for tool in tools}
    for name in NAMES[use.tool]:
        if name in known:
            tool = known[name]
            return tool.name, _custom(use) if tool.kind == "custom" else _function(use, tool.schema)
    code = known.get("exec")
    if code is not None and code.kind == "custom":
        return code.name, _code(use)
    if "toolsearch" in known and use.tool in DEFERRED:
        return DEFERRED[use.tool], _function(use, {})
    raise BadScript(f"no tool for [[{use.tool}]] among {sorted(tool.name for tool in tools)}")


def _function(use: Use, schema: Json) -> Json:
    properties: Json = schema.get("properties") or {}
    given = _ARGUMENTS[use.tool](use.texts, properties)
    risk = {name: value for name, value in RISK.items() if name in properties}
    needed = {name: _default(properties.get(name) or {}) for name in schema.get("required") or []}
    return needed | risk | given


def _default(schema: Json) -> Any:
    if schema.get("enum"):
        return schema["enum"][0]
    kind = schema.get("type", "string")
    kind = (kind[0] if isinstance(kind, list) else kind).lower()
    return _EMPTY.get(kind, "scripted")


def _key(properties: Json, names: Sequence[str]) -> str:
    return next((name for name in names if name in properties), names[0])


def _bash(texts: Sequence[str], properties: Json) -> Json:
    key = _key(properties, COMMAND)
    as_list = (properties.get(key) or {}).get("type") == "array"
    return {key: ["bash", "-lc", texts[0]] if as_list else texts[0]}


def _escalate(texts: Sequence[str], properties: Json) -> Json:
    return _bash(texts, properties) | ESCALATED


def _write(texts: Sequence[str], properties: Json) -> Json:
    if not any(name in properties for name in PATH) and "input" in properties:
        return {"input": _patch(*texts)}
    return {_key(properties, PATH): texts[0], _key(properties, CONTENT): texts[1]}


def _read(texts: Sequence[str], properties: Json) -> Json:
    return {_key(properties, PATH): texts[0]}


def _ask(texts: Sequence[str], properties: Json) -> Json:
    question, options = texts[0], texts[1].split("|") if texts[1] else []
    if "questionnaire" in properties:
        lines = [f"1. [question] {question}", "[topic] Choice", *(f"[option] {option}" for option in options)]
        return {"questionnaire": "\n".join(lines)}
    choices = [{"label": option, "description": option} for option in options]
    return {
        "questions": [{"question": question, "header": "Choice", "options": choices, "multiSelect": False}]
    }


def _plan(texts: Sequence[str], properties: Json) -> Json:
    return {"plan": texts[0]} | ({"title": "Scripted plan"} if "title" in properties else {})


_ARGUMENTS: dict[str, Callable[[Sequence[str], Json], Json]] = {
    "bash": _bash,
    "escalate": _escalate,
    "write": _write,
    "read": _read,
    "ask": _ask,
    "plan": _plan,
}


def _patch(path: str, text: str) -> str:
    added = "".join(f"+{line}\n" for line in text.splitlines())
    return f"*** Begin Patch\n*** Add File: {path}\n{added}*** End Patch"


def _custom(use: Use) -> str:
    return _patch(*use.texts) if use.tool == "write" else use.texts[0]


def _code(use: Use) -> str:
    """Codex's code mode: one tool takes JavaScript that calls the others."""
    match use.tool:
        case "bash":
            call = f"tools.exec_command({json.dumps({'cmd': use.texts[0]})})"
        case "escalate":
            call = f"tools.exec_command({json.dumps({'cmd': use.texts[0], **ESCALATED})})"
        case "write":
            call = f"tools.apply_patch({json.dumps(_patch(*use.texts))})"
        case "read":
            call = f"tools.exec_command({json.dumps({'cmd': f'cat {use.texts[0]}'})})"
        case _:
            raise BadScript(f"no tool for [[{use.tool}]] in code mode")
    return f"const r = await {call}; text(JSON.stringify(r))"
