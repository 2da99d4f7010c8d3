"""To-do lists as plans."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from farsteer.agents.claude.protocol import Block
from farsteer.agents.claude.todos import TodoList
from farsteer.core.events import Plan


def call(todos: TodoList, name: str, given: Any, details: Any = None) -> list[tuple[str, str]] | None:
    """Return the entries of the plan that a call leads to."""
    plan: Plan | None = todos.handle_result(Block(type="tool_use", id="c", name=name, input=given), details)
    return None if plan is None else [(entry.content, entry.status) for entry in plan.entries]


def create(todos: TodoList, number: str, subject: str) -> list[tuple[str, str]] | None:
    given = {"subject": subject, "description": "about it"}
    return call(todos, "TaskCreate", given, {"task": {"id": number, "subject": subject}})


def test_the_whole_list_is_set() -> None:
    given = {"todos": [{"content": "first", "status": "completed"}, {"content": "second"}]}
    assert call(TodoList(), "TodoWrite", given) == [("first", "completed"), ("second", "pending")]


def test_entries_are_added_changed_and_removed() -> None:
    todos = TodoList()
    assert create(todos, "1", "first") == [("first", "pending")]
    assert create(todos, "2", "second") == [("first", "pending"), ("second", "pending")]
    changed = {"taskId": "1", "status": "in_progress", "subject": "first of all"}
    assert call(todos, "TaskUpdate", changed) == [("first of all", "in_progress"), ("second", "pending")]
    assert call(todos, "TaskUpdate", {"taskId": "1", "status": "deleted"}) == [("second", "pending")]


def test_a_call_that_changes_nothing_is_no_new_plan() -> None:
    todos = TodoList()
    create(todos, "1", "first")
    listed = {"tasks": [{"id": "1", "subject": "first", "status": "pending"}]}
    assert call(todos, "TaskList", {}, listed) is None
    assert call(todos, "TaskUpdate", {"taskId": "7", "status": "completed"}) is None
    assert call(todos, "TaskGet", {"taskId": "1"}) is None
    assert call(todos, "Bash", {"command": "ls"}) is None


def test_what_an_earlier_process_stored_is_known(tmp_path: Path) -> None:
    for number in (10, 2):
        task = {"id": str(number), "subject": f"task {number}", "status": "pending"}
        (tmp_path / f"{number}.json").write_text(json.dumps(task))
    changed = call(TodoList(tmp_path), "TaskUpdate", {"taskId": "10", "status": "completed"})
    assert changed == [("task 2", "pending"), ("task 10", "completed")]


def test_damaged_and_strange_values_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "1.json").write_text("{")
    todos = TodoList(tmp_path)
    assert call(todos, "TaskUpdate", {"taskId": "1", "status": "completed"}) is None
    for given in (None, [], {"todos": "x"}, {"taskId": 5}):
        for name in ("TodoWrite", "TaskCreate", "TaskUpdate", "TaskList"):
            assert call(todos, name, given, "nothing") is None
