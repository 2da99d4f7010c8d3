"""Tool calls of other agents as Droid's tools."""

from __future__ import annotations

from typing import Any

import pytest

from farsteer.core.events import DiffBlock, Location, TextBlock, ToolCall, ToolContent, ToolStatus
from farsteer.core.modes import ToolKind
from farsteer.faces.droid.protocol import ToolUse
from farsteer.faces.droid.tools import programs_in, result_text, tool_use_of


def call(
    kind: ToolKind, tool: str | None, given: dict[str, Any] | None = None, *content: ToolContent
) -> ToolUse:
    return tool_use_of(
        ToolCall(
            tool_call_id="c", title="The title", tool_kind=kind, status=ToolStatus.PENDING, tool=tool, input=given,
            content=content,
        ),
        "/project",
    )  # fmt: skip


def test_a_command_of_any_agent_is_execute() -> None:
    use = call(ToolKind.EXECUTE, "Bash", {"command": "ls", "description": "look"})
    assert (use.name, use.input["command"], use.input["riskLevel"]) == ("Execute", "ls", "high")
    assert call(ToolKind.EXECUTE, "shell", {"command": ["ls", "-l"]}).input["command"] == "ls -l"
    assert call(ToolKind.EXECUTE, None).input["command"] == "The title"


def test_droids_own_tools_are_unchanged() -> None:
    given = {"command": "ls", "riskLevel": "low", "riskLevelReason": "reads"}
    assert call(ToolKind.EXECUTE, "Execute", given) == ToolUse(id="c", name="Execute", input=given)
    given = {"file_path": "/a", "old_str": "x", "new_str": "y"}
    assert call(ToolKind.EDIT, "Edit", given, DiffBlock(path="/a", old_text="x", new_text="y")).input == given
    assert call(ToolKind.READ, "LS", {"directory_path": "/"}).name == "LS"
    assert call(ToolKind.OTHER, "linear___list").name == "linear___list"


def test_a_change_of_a_file_is_create_or_edit() -> None:
    create = call(ToolKind.EDIT, "Write", {}, DiffBlock(path="a.txt", new_text="x"))
    assert (create.name, create.input) == ("Create", {"file_path": "/project/a.txt", "content": "x"})
    edit = call(ToolKind.EDIT, "str_replace", {}, DiffBlock(path="/a", old_text="x", new_text="y"))
    assert (edit.name, edit.input) == ("Edit", {"file_path": "/a", "old_str": "x", "new_str": "y"})
    read = ToolCall(
        tool_call_id="c",
        title="t",
        tool_kind=ToolKind.READ,
        status=ToolStatus.PENDING,
        locations=(Location("b"),),
    )
    assert tool_use_of(read, "/project").input == {"file_path": "/project/b"}


@pytest.mark.parametrize(
    ("command", "programs"),
    [
        ("ls", ["ls"]),
        ("rm x && git push; ls | wc -l", ["rm", "git push", "ls", "wc"]),
        ("a\na || b &", ["a", "b"]),
        ("", []),
        ("A=1", ["A=1"]),
        ("for i in 1; do rm -rf X; done", ["rm"]),
        ("if [ -f x; then rm", ["if [ -f x; then rm"]),
    ],
)
def test_the_programs_of_a_command(command: str, programs: list[str]) -> None:
    assert programs_in(command) == programs


def test_results_are_written_as_droid_does() -> None:
    execute = ToolUse(id="c", name="Execute")
    done = "Command completed successfully\n\n[Process exited with code 0]"
    assert result_text(execute, (), failed=False) == done
    assert (
        result_text(execute, (TextBlock(text="hi\n"),), failed=False) == "hi\n\n[Process exited with code 0]"
    )
    assert result_text(execute, (TextBlock(text=done),), failed=False) == done
    assert result_text(execute, (TextBlock(text="no"),), failed=True) == "Error: no"
    assert result_text(None, (), failed=True) == "Error: Tool execution failed"
    assert '"diffLines":[{"type":"added","content":"x"}]' in result_text(
        None, (DiffBlock(path="a", new_text="x"),), failed=False
    )
