"""The model's to-do list as a plan.

Claude Code has two forms of it: the tool `TodoWrite` sets the whole list, and the tools `TaskCreate` and `TaskUpdate`
change one entry, which Claude Code stores in `<config>/tasks/<conversation>`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import msgspec

from farsteer.agents.claude.protocol import Block
from farsteer.agents.claude.tools import tool_input
from farsteer.core.events import Plan, PlanEntry

_MAX_ENTRIES = 500
_FILE_BYTES = 256 * 1024


class TodoList:
    """The list as the calls of tools have left it. `folder` has the entries of earlier processes."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._entries: dict[str, PlanEntry] = {}

    def handle_result(self, use: Block, details: Any) -> Plan | None:
        """Take a successful call. Returns the list if the call has changed it."""
        given, result, before = tool_input(use.input), tool_input(details), {**self._entries}
        match use.name:
            case "TodoWrite" if isinstance(given.get("todos"), list):
                self._entries = _entries(enumerate(given["todos"]), "content")
                return self._plan()
            case "TaskCreate":
                task = tool_input(result.get("task"))
                if task.get("id"):
                    self._entries |= _entries([(task["id"], {**given, **task})], "subject")
            case "TaskUpdate":
                self._update(str(given.get("taskId") or ""), given)
            case "TaskList" if isinstance(result.get("tasks"), list):
                tasks = [tool_input(task) for task in cast("list[Any]", result["tasks"])]
                self._entries = _entries(((task.get("id"), task) for task in tasks), "subject")
            case _:
                return None
        return self._plan() if self._entries != before else None

    def _update(self, task_id: str, given: dict[str, Any]) -> None:
        if task_id not in self._entries:
            self._entries = self._stored() | self._entries
        known = self._entries.get(task_id)
        if given.get("status") == "deleted":
            self._entries.pop(task_id, None)
        elif known is not None:
            self._entries[task_id] = PlanEntry(
                content=str(given.get("subject") or known.content),
                status=str(given.get("status") or known.status),
            )

    def _stored(self) -> dict[str, PlanEntry]:
        found: list[tuple[str, dict[str, Any]]] = []
        try:
            files = sorted(self._folder.glob("*.json"), key=_number)[:_MAX_ENTRIES] if self._folder else []
            for path in files:
                with path.open("rb") as file:
                    task = msgspec.json.decode(file.read(_FILE_BYTES), type=dict[str, Any])
                found.append((path.stem, task))
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return {}
        return _entries(found, "subject")

    def _plan(self) -> Plan:
        return Plan(entries=tuple(self._entries.values()))


def _entries(listed: Iterable[tuple[Any, Any]], text: str) -> dict[str, PlanEntry]:
    entries = ((str(key), tool_input(entry)) for key, entry in listed)
    return {
        key: PlanEntry(content=str(entry.get(text) or ""), status=str(entry.get("status") or "pending"))
        for key, entry in entries
    }


def _number(path: Path) -> tuple[int, str]:
    return (int(path.stem) if path.stem.isdecimal() else 0, path.stem)
