"""Codex's items as tool calls with kind, title, changes and results."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from farsteer.agents.codex import items, protocol
from farsteer.core.events import (
    AgentMessage,
    AgentThought,
    Compacted,
    DiffBlock,
    TextBlock,
    ToolCall,
    ToolStatus,
    UserMessage,
)
from farsteer.core.modes import ToolKind


def item(kind: str, **fields: Any) -> Any:
    found = protocol.decode_item(msgspec.json.encode({"type": kind, "id": "call", **fields}))
    assert found is not None
    return found


def command(text: str, **fields: Any) -> Any:
    return item("commandExecution", command=text, **fields)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("/bin/bash -lc 'touch x'", "touch x"),
        ("/bin/bash -lc \"echo 'x'\"", "echo 'x'"),
        ("/usr/bin/zsh -lc ls", "ls"),
        ("sh -c 'a b' c", "'a b' c"),
        ("/bin/bash -lc 'it is broken", "'it is broken"),
        ("git status", "git status"),
        ("/bin/bash script.sh", "/bin/bash script.sh"),
        ("", ""),
    ],
)
def test_a_command_is_shown_without_its_shell(given: str, shown: str) -> None:
    assert items.unwrapped(given) == shown
    assert items.tool_input(command(given, cwd="/w")) == {"command": shown, "cwd": "/w"}


def test_a_command_of_a_megabyte_is_quick_and_its_title_short() -> None:
    long = command(f"/bin/bash -lc '{'x' * 1_000_000}'")
    assert len(items.tool_title(long)) <= 120


@pytest.mark.parametrize(
    ("actions", "kind"),
    [
        (["read"], ToolKind.READ),
        (["listFiles"], ToolKind.SEARCH),
        (["search", "search"], ToolKind.SEARCH),
        (["read", "unknown"], ToolKind.EXECUTE),
        ([], ToolKind.EXECUTE),
    ],
)
def test_the_kind_of_a_command_is_what_codex_reads_in_it(actions: list[str], kind: ToolKind) -> None:
    given = command("x", commandActions=[{"type": one, "path": "/w/a"} for one in actions])
    assert items.tool_kind(given) is kind


def test_a_command_that_reads_has_its_file_as_location() -> None:
    given = command("cat a", commandActions=[{"type": "read", "path": "/w/a"}])
    assert [one.path for one in items.locations(given)] == ["/w/a"]


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"status": "completed", "exitCode": 0}, ToolStatus.COMPLETED),
        ({"status": "completed", "exitCode": 3}, ToolStatus.FAILED),
        ({"status": "declined"}, ToolStatus.FAILED),
        ({"status": "failed"}, ToolStatus.FAILED),
    ],
)
def test_the_end_of_a_command(fields: dict[str, Any], status: ToolStatus) -> None:
    given = command("x", aggregatedOutput="out\n", **fields)
    assert items.final_status(given) is status
    assert items.result_content(given) == (TextBlock(text="out\n"),)


def change(kind: dict[str, Any], diff: str, path: str = "/w/a.txt") -> Any:
    return item("fileChange", changes=[{"path": path, "kind": kind, "diff": diff}])


def test_added_deleted_and_changed_files_have_diffs() -> None:
    assert items.changes(change({"type": "add"}, "new\n")) == (DiffBlock(path="/w/a.txt", new_text="new\n"),)
    assert items.changes(change({"type": "delete"}, "old\n")) == (
        DiffBlock(path="/w/a.txt", old_text="old\n", new_text=""),
    )
    diff = "@@ -1,2 +1,2 @@\n one\n-two\n+zwei\n@@ -9 +9 @@\n-x\n+y\n"
    assert items.changes(change({"type": "update", "move_path": None}, diff)) == (
        DiffBlock(path="/w/a.txt", old_text="one\ntwo\n", new_text="one\nzwei\n"),
        DiffBlock(path="/w/a.txt", old_text="x\n", new_text="y\n"),
    )


def test_a_moved_file_is_where_it_is_now() -> None:
    (block,) = items.changes(change({"type": "update", "move_path": "/w/b.txt"}, "@@ -1 +1 @@\n-x\n+y\n"))
    assert isinstance(block, DiffBlock)
    assert block.path == "/w/b.txt"


def test_a_diff_of_another_form_is_shown_as_it_is() -> None:
    assert items.changes(change({"type": "update"}, "???")) == (TextBlock(text="???"),)


def test_titles_of_changes() -> None:
    assert items.tool_title(change({"type": "add"}, "")) == "Create a.txt"
    assert items.tool_title(change({"type": "delete"}, "")) == "Delete a.txt"
    both = [{"path": "/a", "kind": {"type": "add"}}, {"path": "/b", "kind": {"type": "delete"}}]
    assert items.tool_title(item("fileChange", changes=both)) == "Edit a, b"
    assert items.tool_kind(item("fileChange", changes=both)) is ToolKind.EDIT
    assert items.tool_title(item("fileChange")) == "Edit files"


def test_an_mcp_call_and_its_result_or_error() -> None:
    blocks = [{"type": "text", "text": "A"}, {"type": "image"}, "x", {"type": "text", "text": "B"}]
    given = item("mcpToolCall", server="echo", tool="shout", arguments={"a": 1}, result={"content": blocks})
    assert (items.tool_name(given), items.tool_title(given)) == ("mcp__echo__shout", "echo: shout")
    assert items.tool_input(given) == {"a": 1}
    assert items.result_content(given) == (TextBlock(text="A\nB"),)
    failed = item("mcpToolCall", server="echo", tool="shout", error={"message": "no"}, status="failed")
    assert items.result_content(failed) == (TextBlock(text="no"),)
    assert items.final_status(failed) is ToolStatus.FAILED


def test_other_tools() -> None:
    search = item("webSearch", query="", action={"type": "search", "query": "platypus"})
    assert (items.tool_name(search), items.tool_title(search)) == ("web_search", "Web search: platypus")
    assert items.tool_kind(search) is ToolKind.FETCH
    view = item("imageView", path="/w/cat.png")
    assert (items.tool_title(view), items.tool_kind(view)) == ("View cat.png", ToolKind.READ)
    spawn = item(
        "collabAgentToolCall", tool="spawnAgent", prompt="look",
        agentsStates={"t": {"status": "completed", "message": "done"}},
    )  # fmt: skip
    assert items.tool_title(spawn) == "Start a sub-agent: look"
    assert items.result_content(spawn) == (TextBlock(text="completed: done"),)
    dynamic = item("dynamicToolCall", tool="mine", contentItems=[{"type": "inputText", "text": "hi"}])
    assert (items.tool_name(dynamic), items.result_content(dynamic)) == ("mine", (TextBlock(text="hi"),))
    image = item("imageGeneration", revisedPrompt="a cat", savedPath="/w/cat.png")
    assert items.result_content(image) == (TextBlock(text="/w/cat.png"),)


def test_an_item_of_an_unknown_kind_is_none() -> None:
    assert protocol.decode_item(b'{"type":"newItem","id":"x"}') is None


def test_stored_items_are_events() -> None:
    content = [{"type": "text", "text": "a"}, {"type": "image", "url": "x"}, {"type": "text", "text": "b"}]
    (user,) = items.stored_events(item("userMessage", content=content), "turn")
    assert isinstance(user, UserMessage)
    assert user.text == "a\nb"
    (said,) = items.stored_events(item("agentMessage", text="hi"), "turn")
    assert isinstance(said, AgentMessage)
    assert said.anchor == "turn"
    (thought,) = items.stored_events(item("reasoning", summary=["a"], content=["b"]), "turn")
    assert isinstance(thought, AgentThought)
    assert thought.text == "a\n\nb"
    assert items.stored_events(item("reasoning"), "turn") == []
    assert items.stored_events(item("contextCompaction"), "turn") == [Compacted()]
    call, done = items.stored_events(command("ls", status="completed", exitCode=0), "turn")
    assert isinstance(call, ToolCall)
    assert call.tool_call_id == done.tool_call_id  # pyright: ignore[reportAttributeAccessIssue]
