"""Claude Code's tools as tool calls: diffs before and after an edit."""

from __future__ import annotations

from typing import Any

import pytest

from farsteer.agents.claude.protocol import Block
from farsteer.agents.claude.tools import tool_call, tool_kind, tool_result, tool_title
from farsteer.core.events import DiffBlock, TextBlock
from farsteer.core.modes import ToolKind

PATH = "/project/a.py"


def call(name: str, **given: Any) -> Block:
    return Block(type="tool_use", id="c1", name=name, input=given)


def test_a_tool_that_nobody_knows_may_do_anything() -> None:
    assert tool_kind("mcp__server__tool") is ToolKind.OTHER


@pytest.mark.parametrize(
    ("name", "given", "title"),
    [
        ("Bash", {"command": "make\n  test", "description": "Tests"}, "make test"),
        ("Read", {"file_path": "/a"}, "Read /a"),
        ("Grep", {"pattern": "x"}, "Grep x"),
        ("WebFetch", {"url": "https://host"}, "WebFetch https://host"),
        ("mcp__x__y", {"strange": [1]}, "mcp__x__y"),
    ],
)
def test_a_title_says_what_it_is_about(name: str, given: dict[str, Any], title: str) -> None:
    assert tool_title(name, given) == title


def test_an_edit_proposes_its_change() -> None:
    assert tool_call(call("Write", file_path="a.py", content="x"), None, "/project").content == (
        DiffBlock(path=PATH, new_text="x"),
    )
    edits = [{"old_string": "a", "new_string": "b"}, {"old_string": "c", "new_string": "d"}, {"strange": 1}]
    assert tool_call(call("MultiEdit", file_path=PATH, edits=edits), None, "/project").content == (
        DiffBlock(path=PATH, new_text="b", old_text="a"),
        DiffBlock(path=PATH, new_text="d", old_text="c"),
    )


@pytest.mark.parametrize(
    ("details", "old", "new"),
    [
        ({"content": "x", "originalFile": None}, None, "x"),
        ({"content": "x", "originalFile": "y"}, "y", "x"),
        ({"oldString": "a", "newString": "b", "originalFile": "a a"}, "a a", "b a"),
        ({"oldString": "a", "newString": "b", "originalFile": "a a", "replaceAll": True}, "a a", "b b"),
        ({"oldString": "a", "newString": "b", "originalFile": "x" * 300_000 + "a"}, "a", "b"),
        ({"oldString": "a", "newString": "b", "originalFile": None}, "a", "b"),
    ],
)
def test_a_finished_edit_shows_the_file_before_and_after(
    details: dict[str, Any], old: str | None, new: str
) -> None:
    block = Block(type="tool_result", tool_use_id="c1", content="The file has been updated")
    update = tool_result(block, {"filePath": PATH, "structuredPatch": [], **details}, "/project")
    assert update.content == (DiffBlock(path=PATH, new_text=new, old_text=old),)


def test_a_failed_edit_shows_why() -> None:
    block = Block(type="tool_result", tool_use_id="c1", content="File has changed", is_error=True)
    update = tool_result(block, {"filePath": PATH, "structuredPatch": [], "content": "x"}, "/project")
    assert update.content == (TextBlock(text="File has changed"),)
