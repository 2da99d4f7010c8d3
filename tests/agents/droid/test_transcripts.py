"""Stored conversations are listed and read in bounded time, in order, and without what only the model sees."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from farsteer.agents.droid import transcripts
from farsteer.agents.droid.adapter import DroidAdapter
from farsteer.agents.droid.protocol import Message
from farsteer.agents.droid.transcripts import strip_reminders, to_events
from farsteer.core.errors import AgentError, BadRequest, ErrorCode
from farsteer.core.events import (
    AgentMessage,
    AgentThought,
    Notice,
    ToolCall,
    ToolCallUpdate,
    ToolStatus,
    UserMessage,
)
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


CONVERSATION = [
    message("context-u1", "user", REMINDER, visibility="llm_only"),
    message("u1", "user", "Count the   files\nplease"),
    message("a1", "assistant", {"type": "tool_use", "id": "c1", "name": "LS", "input": {}}),
    message("r1", "user", {"type": "tool_result", "tool_use_id": "c1", "is_error": False, "content": "README.md"}),
    message("a2", "assistant", "There is one."),
    {"type": "agent_turn_outcome", "turnId": "u1", "reason": "completed", "resultKind": "text"},
]  # fmt: skip


class StoredFiles:
    def __init__(self, home: Path) -> None:
        self.home = home
        self._clock = 1_700_000_000

    def add(
        self, *lines: dict[str, Any], cwd: str = "/home/ada/project", title: str = "New Session", incomplete: str = "",
        id: str | None = None, **start: Any,
    ) -> str:  # fmt: skip
        """Write a conversation that is newer than those before it; return its id."""
        name = id or new_id()
        folder = self.home / ".factory" / "sessions" / cwd.replace("/", "-")
        folder.mkdir(parents=True, exist_ok=True)
        head = {"type": "session_start", "id": name, "title": title, "cwd": cwd, **start}
        path = folder / f"{name}.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in (head, *lines)) + incomplete)
        path.with_suffix(".settings.json").write_text("{}")
        path.with_suffix(".settings.json.bak").write_text("{}")
        self._clock += 1
        os.utime(path, (self._clock, self._clock))
        return name

    def files(self) -> list[str]:
        return sorted(path.name for path in self.home.glob(".factory/sessions/*/*"))


@pytest.fixture
def stored(tmp_path: Path) -> StoredFiles:
    return StoredFiles(tmp_path)


def test_conversations_are_listed_newest_first_with_title_directory_and_time(stored: StoredFiles) -> None:
    old = stored.add(*CONVERSATION)
    new = stored.add(*CONVERSATION, cwd="/elsewhere", title="A name of its own")
    first, second = transcripts.list_conversations(stored.home, None, 10)
    assert (first.native_id, first.title, first.directory) == (new, "A name of its own", "/elsewhere")
    assert (second.native_id, second.title, second.directory) == (
        old,
        "Count the files please",
        "/home/ada/project",
    )
    assert (first.updated_at, second.updated_at) == (1_700_000_002_000, 1_700_000_001_000)
    assert (first.agent, first.messages) == ("droid", 3)
    assert [one.native_id for one in transcripts.list_conversations(stored.home, None, 1)] == [new]
    assert [
        one.native_id for one in transcripts.list_conversations(stored.home, "/home/ada/project/", 10)
    ] == [old]
    assert transcripts.list_conversations(stored.home, "/nowhere", 10) == []


def test_a_file_without_a_prompt_is_not_listed(stored: StoredFiles, tmp_path: Path) -> None:
    stored.add()
    stored.add(CONVERSATION[0])
    folder = tmp_path / ".factory" / "sessions" / "-home-ada-project"
    (folder / "strange name.jsonl").write_text("{}\n")
    (folder / f"{new_id()}.jsonl").write_bytes(b"\xff\xfe not JSON lines")
    (folder / f"{new_id()}.jsonl").symlink_to("/etc/passwd")
    assert transcripts.list_conversations(stored.home, None, 10) == []
    assert transcripts.list_conversations(tmp_path / "nobody", None, 10) == []


def test_only_the_beginning_of_a_long_file_is_read_for_a_list(
    stored: StoredFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = stored.add(*CONVERSATION, message("a3", "assistant", "x" * 1_000_000), *([CONVERSATION[4]] * 100))
    late = stored.add(message("context-u1", "user", "y" * 1_000_000, visibility="llm_only"), CONVERSATION[1])
    read: list[int] = []
    real = Path.open

    def counting(path: Path, *arguments: Any, **more: Any) -> Any:
        file = real(path, *arguments, **more)
        return _Spy(file, lambda size=-1: read.append(size) or file.read(size))

    monkeypatch.setattr(Path, "open", counting)
    listed = transcripts.list_conversations(stored.home, None, 10)
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


def test_a_conversation_is_read_without_reminders_and_an_incomplete_line(stored: StoredFiles) -> None:
    name = stored.add(*CONVERSATION, incomplete='{"type":"message","id":"u9","message":{"role":"user","con')
    about, events = transcripts.read_conversation(stored.home, name)
    assert (about.native_id, about.messages) == (name, 3)
    asked, answered = events[0], events[-1]
    assert isinstance(asked, UserMessage)
    assert (asked.item_id, asked.text, asked.anchor) == ("u1", "Count the   files\nplease", "u1")
    assert isinstance(answered, AgentMessage)
    assert (answered.text, answered.anchor) == ("There is one.", "a2")
    assert [event.status for event in events if isinstance(event, ToolCallUpdate)] == [ToolStatus.COMPLETED]
    assert "Monday" not in str(events)


def test_reminders_inside_a_message_are_left_out_too(stored: StoredFiles) -> None:
    name = stored.add(message("u1", "user", REMINDER, "Hello there"), message("a1", "assistant", "Hi."))
    about, events = transcripts.read_conversation(stored.home, name)
    assert about.title == "Hello there"
    assert isinstance(events[0], UserMessage)
    assert events[0].text == "Hello there"


def test_a_tool_call_without_a_result_is_failed(stored: StoredFiles) -> None:
    name = stored.add(*CONVERSATION[:3], message("u2", "user", "Are you there?"))
    _, events = transcripts.read_conversation(stored.home, name)
    kinds = [type(event) for event in events]
    assert kinds.index(ToolCall) < kinds.index(ToolCallUpdate) < len(kinds) - 1
    assert [event.status for event in events if isinstance(event, ToolCallUpdate)] == [ToolStatus.FAILED]


def test_an_answer_that_was_stored_before_its_prompt_comes_after_it(stored: StoredFiles) -> None:
    """Droid stores them so if the first answer is fast."""
    name = stored.add(CONVERSATION[0], message("a1", "assistant", "Hi."), message("u1", "user", "Hello"))
    _, events = transcripts.read_conversation(stored.home, name)
    assert [type(event) for event in events] == [UserMessage, AgentMessage]


@pytest.mark.parametrize("name", ["", "..", "../x", "*", "a/b", "nobody"])
def test_an_unknown_or_invalid_id_is_missing(stored: StoredFiles, name: str) -> None:
    stored.add(*CONVERSATION)
    with pytest.raises(AgentError) as caught:
        transcripts.read_conversation(stored.home, name)
    assert caught.value.code is ErrorCode.CONVERSATION_MISSING


async def test_deleting_removes_the_three_files_of_one_conversation(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = StoredFiles(Path.home())
    gone, stays = stored.add(*CONVERSATION, id="talk"), stored.add(*CONVERSATION, id="talk-2")
    adapter = DroidAdapter()
    for _ in range(2):
        await adapter.delete_conversation(gone, "")
    assert stored.files() == [f"{stays}.jsonl", f"{stays}.settings.json", f"{stays}.settings.json.bak"]
    for name in ("*", "../talk-2", ""):
        with pytest.raises(BadRequest):
            await adapter.delete_conversation(name, "")
    assert len(await adapter.list_conversations("", None, 10)) == 1


# -- messages of older and newer CLIs

REMINDER_BLOCK = {"type": "text", "text": "<system-reminder>\nToday is Monday.\n</system-reminder>"}
ANSWER = Message(
    id="a1",
    role="assistant",
    content=[
        {"type": "thinking", "thinking": "Hmm."},
        {"type": "text", "text": "Let me look."},
        {"type": "tool_use", "id": "call-1", "name": "Execute", "input": {"command": "ls"}},
    ],
)
NEWER = [
    Message(id="context-u1", role="user", content=[REMINDER_BLOCK], visibility="llm_only"),
    Message(id="u1", role="user", content=[{"type": "text", "text": "What is here?"}]),
    ANSWER,
    Message(
        id="r1", role="tool",
        content=[{"type": "tool_result", "toolUseId": "call-1", "isError": False, "content": "README.md"}],
    ),
    Message(id="s1", role="system", content=[{"type": "text", "text": "Low on credit"}], visibility="user_only"),
    Message(id="s2", role="system", content=[{"type": "text", "text": "secret"}], visibility="llm_only"),
]  # fmt: skip
OLDER = [
    Message(id="u1", role="user", content=[REMINDER_BLOCK, REMINDER_BLOCK, {"type": "text", "text": "What is here?"}]),
    ANSWER,
    Message(
        id="r1", role="user",
        content=[{"type": "tool_result", "tool_use_id": "call-1", "is_error": True, "content": "Error: no"}],
    ),
]  # fmt: skip


def test_a_newer_history_leaves_out_what_only_the_model_sees() -> None:
    events = [*to_events(NEWER)]
    assert [type(event) for event in events] == [
        UserMessage, AgentThought, AgentMessage, ToolCall, ToolCallUpdate, Notice,
    ]  # fmt: skip
    assert isinstance(events[0], UserMessage)
    assert (events[0].text, events[0].anchor) == ("What is here?", "u1")
    assert "secret" not in str(events)


def test_an_older_history_has_its_reminders_stripped() -> None:
    events = [*to_events(OLDER)]
    assert isinstance(events[0], UserMessage)
    assert events[0].text == "What is here?"
    assert isinstance(events[-1], ToolCallUpdate)
    assert events[-1].status is ToolStatus.FAILED
    assert "Monday" not in str(events)


def test_only_reminders_are_stripped() -> None:
    assert strip_reminders("plain") == "plain"
    assert strip_reminders("<system-reminder>x</system-reminder>\nkeep <b>this</b>") == "keep <b>this</b>"
    assert strip_reminders("before <system-reminder>never closed") == "before "
