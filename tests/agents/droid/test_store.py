"""What Droid has stored, listed and read: bounded, in order, and without what only the model sees."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from farsteer.agents.droid import store
from farsteer.agents.droid.adapter import DroidAdapter
from farsteer.core.errors import AgentError, BadRequest, ErrorCode
from farsteer.core.events import AgentMessage, ToolCall, ToolCallUpdate, ToolStatus, UserMessage
from farsteer.core.ids import new_id

REMINDER = "<system-reminder>\nToday is Monday.\n</system-reminder>"


def message(id: str, role: str, *content: Any, **more: Any) -> dict[str, Any]:
    blocks = [{"type": "text", "text": one} if isinstance(one, str) else one for one in content]
    return {
        "type": "message",
        "id": id,
        "timestamp": "2026-01-05T10:00:00.000Z",
        "message": {"role": role, "content": blocks, **more},
    }


TALK = [
    message("context-u1", "user", REMINDER, visibility="llm_only"),
    message("u1", "user", "Count the   files\nplease"),
    message("a1", "assistant", {"type": "tool_use", "id": "c1", "name": "LS", "input": {}}),
    message("r1", "user", {"type": "tool_result", "tool_use_id": "c1", "is_error": False, "content": "README.md"}),
    message("a2", "assistant", "There is one."),
    {"type": "agent_turn_outcome", "turnId": "u1", "reason": "completed", "resultKind": "text"},
]  # fmt: skip


class Store:
    def __init__(self, home: Path) -> None:
        self.home = home
        self._clock = 1_700_000_000

    def keep(
        self, *lines: dict[str, Any], cwd: str = "/home/ada/project", title: str = "New Session", torn: str = "",
        id: str | None = None, **start: Any,
    ) -> str:  # fmt: skip
        """A conversation that is newer than the ones before it."""
        name = id or new_id()
        folder = self.home / ".factory" / "sessions" / cwd.replace("/", "-")
        folder.mkdir(parents=True, exist_ok=True)
        head = {"type": "session_start", "id": name, "title": title, "cwd": cwd, **start}
        path = folder / f"{name}.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in (head, *lines)) + torn)
        path.with_suffix(".settings.json").write_text("{}")
        path.with_suffix(".settings.json.bak").write_text("{}")
        self._clock += 1
        os.utime(path, (self._clock, self._clock))
        return name

    def files(self) -> list[str]:
        return sorted(path.name for path in self.home.glob(".factory/sessions/*/*"))


@pytest.fixture
def kept(tmp_path: Path) -> Store:
    return Store(tmp_path)


def test_the_newest_comes_first_with_title_directory_and_time(kept: Store) -> None:
    old = kept.keep(*TALK)
    new = kept.keep(*TALK, cwd="/elsewhere", title="A name of its own")
    first, second = store.conversations(kept.home, None, 10)
    assert (first.native_id, first.title, first.directory) == (new, "A name of its own", "/elsewhere")
    assert (second.native_id, second.title, second.directory) == (
        old,
        "Count the files please",
        "/home/ada/project",
    )
    assert (first.updated_at, second.updated_at) == (1_700_000_002_000, 1_700_000_001_000)
    assert (first.agent, first.messages) == ("droid", 3)
    assert [one.native_id for one in store.conversations(kept.home, None, 1)] == [new]
    assert [one.native_id for one in store.conversations(kept.home, "/home/ada/project/", 10)] == [old]
    assert store.conversations(kept.home, "/nowhere", 10) == []


def test_what_nobody_has_talked_in_is_not_listed(kept: Store, tmp_path: Path) -> None:
    kept.keep()
    kept.keep(TALK[0])
    folder = tmp_path / ".factory" / "sessions" / "-home-ada-project"
    (folder / "strange name.jsonl").write_text("{}\n")
    (folder / f"{new_id()}.jsonl").write_bytes(b"\xff\xfe no lines of Droid's")
    (folder / f"{new_id()}.jsonl").symlink_to("/etc/passwd")
    assert store.conversations(kept.home, None, 10) == []
    assert store.conversations(tmp_path / "nobody", None, 10) == []


def test_only_the_beginning_of_a_long_file_is_read_for_a_list(
    kept: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = kept.keep(*TALK, message("a3", "assistant", "x" * 1_000_000), *([TALK[4]] * 100))
    late = kept.keep(message("context-u1", "user", "y" * 1_000_000, visibility="llm_only"), TALK[1])
    read: list[int] = []
    real = Path.open

    def counting(path: Path, *arguments: Any, **more: Any) -> Any:
        file = real(path, *arguments, **more)
        return _Spy(file, lambda size=-1: read.append(size) or file.read(size))

    monkeypatch.setattr(Path, "open", counting)
    listed = store.conversations(kept.home, None, 10)
    assert [(one.native_id, one.title, one.messages) for one in listed] == [
        (late, None, None),
        (long, "Count the files please", None),
    ]
    assert [size for size in read if size < 0 or size > 512 * 1024] == []


class _Spy:
    def __init__(self, file: Any, read: Any) -> None:
        self._file = file
        self.read = read

    def __enter__(self) -> _Spy:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def test_a_conversation_is_read_whole_without_reminders_and_a_torn_line(kept: Store) -> None:
    name = kept.keep(*TALK, torn='{"type":"message","id":"u9","message":{"role":"user","con')
    about, events = store.history(kept.home, name)
    assert (about.native_id, about.messages) == (name, 3)
    asked, answered = events[0], events[-1]
    assert isinstance(asked, UserMessage)
    assert (asked.item_id, asked.text, asked.anchor) == ("u1", "Count the   files\nplease", "u1")
    assert isinstance(answered, AgentMessage)
    assert (answered.text, answered.anchor) == ("There is one.", "a2")
    assert [event.status for event in events if isinstance(event, ToolCallUpdate)] == [ToolStatus.COMPLETED]
    assert "Monday" not in str(events)


def test_reminders_inside_a_message_are_left_out_too(kept: Store) -> None:
    name = kept.keep(message("u1", "user", REMINDER, "Hello there"), message("a1", "assistant", "Hi."))
    about, events = store.history(kept.home, name)
    assert about.title == "Hello there"
    assert isinstance(events[0], UserMessage)
    assert events[0].text == "Hello there"


def test_a_tool_that_was_cut_short_is_not_left_running(kept: Store) -> None:
    name = kept.keep(*TALK[:3], message("u2", "user", "Are you there?"))
    _, events = store.history(kept.home, name)
    kinds = [type(event) for event in events]
    assert kinds.index(ToolCall) < kinds.index(ToolCallUpdate) < len(kinds) - 1
    assert [event.status for event in events if isinstance(event, ToolCallUpdate)] == [ToolStatus.FAILED]


def test_an_answer_that_was_stored_before_its_question_comes_after_it(kept: Store) -> None:
    """Droid does that when the first answer is a fast one."""
    name = kept.keep(TALK[0], message("a1", "assistant", "Hi."), message("u1", "user", "Hello"))
    _, events = store.history(kept.home, name)
    assert [type(event) for event in events] == [UserMessage, AgentMessage]


@pytest.mark.parametrize("name", ["", "..", "../x", "*", "a/b", "nobody"])
def test_what_is_no_conversation_is_missing(kept: Store, name: str) -> None:
    kept.keep(*TALK)
    with pytest.raises(AgentError) as caught:
        store.history(kept.home, name)
    assert caught.value.code is ErrorCode.CONVERSATION_MISSING


async def test_discarding_deletes_the_three_files_of_one_conversation(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Store(Path.home())
    gone, stays = kept.keep(*TALK, id="talk"), kept.keep(*TALK, id="talk-2")
    adapter = DroidAdapter()
    for _ in range(2):
        await adapter.delete_conversation(gone, "")
    assert kept.files() == [f"{stays}.jsonl", f"{stays}.settings.json", f"{stays}.settings.json.bak"]
    for name in ("*", "../talk-2", ""):
        with pytest.raises(BadRequest):
            await adapter.delete_conversation(name, "")
    assert len(await adapter.list_conversations("", None, 10)) == 1
