"""An abstract tool becomes the call that the agent at hand understands."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.model.conversation import Json, Tool
from tests.support.model.script import BadScript, Use
from tests.support.model.tools import call


def schema(*required: str, **properties: Any) -> Json:
    described = {
        name: kind if isinstance(kind, dict) else {"type": kind} for name, kind in properties.items()
    }
    return {"type": "object", "properties": described, "required": [*required]}


RISK = {"type": "string", "enum": ["low", "medium", "high"]}
DROID = Tool("Execute", schema("summary", "command", summary="string", command="string", riskLevel=RISK))


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        (DROID, {"command": "ls", "summary": "scripted", "riskLevel": "medium"}),
        (Tool("Bash", schema("command", command="string")), {"command": "ls"}),
        (Tool("exec_command", schema("cmd", cmd="string", tty="boolean")), {"cmd": "ls"}),
        (Tool("run_shell_command", schema("command", "is_background", command="string", is_background="boolean")),
         {"command": "ls", "is_background": False}),
        (Tool("shell", schema("command", command="array")), {"command": ["bash", "-lc", "ls"]}),
        (Tool("bash", {"type": "OBJECT", "properties": {"command": {}, "n": {"type": "INTEGER"}}, "required": ["n"]}),
         {"command": "ls", "n": 1}),
    ],
    ids=lambda value: value.name if isinstance(value, Tool) else "",
)  # fmt: skip
def test_bash_is_whichever_tool_runs_commands(tool: Tool, given: Json) -> None:
    made = call(Use("bash", ("ls",)), [Tool("Other", {}), tool])
    assert (made.name, made.input) == (tool.name, given)


def test_writing_a_file() -> None:
    write = Use("write", ("a.txt", "one\ntwo"))
    patch = "*** Begin Patch\n*** Add File: a.txt\n+one\n+two\n*** End Patch"
    create = Tool("Create", schema("file_path", "content", file_path="string", content="string"))
    assert call(write, [create]).input == {"file_path": "a.txt", "content": "one\ntwo"}
    assert call(write, [Tool("write_file", schema(path="string", contents="string"))]).input == {
        "path": "a.txt", "contents": "one\ntwo",
    }  # fmt: skip
    assert call(write, [Tool("apply_patch", {}, "custom")]).input == patch
    assert call(write, [Tool("apply_patch", schema(input="string"))]).input == {"input": patch}


def test_code_mode_writes_javascript() -> None:
    code = [Tool("exec", {}, "custom")]
    made = call(Use("bash", ('echo "x"',)), code)
    assert (
        made.input == 'const r = await tools.exec_command({"cmd": "echo \\"x\\""}); text(JSON.stringify(r))'
    )
    assert "tools.apply_patch(" in str(call(Use("write", ("a", "b")), code).input)
    with pytest.raises(BadScript):
        call(Use("ask", ("q", "")), code)


def test_asking_and_planning() -> None:
    asked = call(Use("ask", ("Which?", "A|B")), [Tool("AskUser", schema(questionnaire="string"))])
    assert asked.input == {"questionnaire": "1. [question] Which?\n[topic] Choice\n[option] A\n[option] B"}
    other = call(Use("ask", ("Which?", "A|B")), [Tool("AskUserQuestion", schema(questions="array"))])
    assert isinstance(other.input, dict)
    assert [option["label"] for option in other.input["questions"][0]["options"]] == ["A", "B"]
    planned = call(
        Use("plan", ("# Plan",)), [Tool("ExitSpecMode", schema("plan", plan="string", title="string"))]
    )
    assert planned.input == {"plan": "# Plan", "title": "Scripted plan"}


def test_no_two_calls_have_the_same_id() -> None:
    assert len({call(Use("bash", ("ls",)), [DROID]).id for _ in range(100)}) == 100


def test_a_custom_tool_by_name_takes_text() -> None:
    assert call(Use("exec", input={"input": "text(1)"}), [Tool("exec", {}, "custom")]).input == "text(1)"
