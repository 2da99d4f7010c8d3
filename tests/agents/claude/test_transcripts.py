"""Stored conversations: branches, parallel results, and files of any size by bytes."""

from __future__ import annotations

import json
import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from farsteer.agents.claude import transcripts
from farsteer.core.errors import AgentError, ErrorCode
from farsteer.core.events import AgentMessage, Compacted, SessionEvent, ToolCallUpdate, UserMessage
from farsteer.core.ids import new_id

HUGE = 300 * 1024 * 1024
MEMORY = 100 * 1024 * 1024
"""What reading a huge file may take: a little more than a record of the largest size."""
DIRECTORY = "/home/ada/project"


def user(uuid: str, parent: str | None, content: Any, **more: Any) -> dict[str, Any]:
    message = {"role": "user", "content": content}
    return {"type": "user", "uuid": uuid, "parentUuid": parent, "cwd": DIRECTORY, "message": message, **more}


def assistant(uuid: str, parent: str | None, *blocks: dict[str, Any] | str, **more: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": one} if isinstance(one, str) else one for one in blocks]
    message = {"role": "assistant", "model": "opus", "content": content}
    return {"type": "assistant", "uuid": uuid, "parentUuid": parent, "message": message, **more}


def usage(tokens: int) -> dict[str, Any]:
    return {"type": "cost-state", "modelUsage": {"opus": {"inputTokens": tokens}}}


CONVERSATION = [
    {"type": "queue-operation", "operation": "enqueue"},
    user("u1", None, "Count the files"),
    assistant("a1", "u1", "There is one."),
    user("u2", "a1", "And now?"),
    assistant("a2", "u2", "Still one."),
    usage(100),
]


class Store:
    def __init__(self, config: Path) -> None:
        self.config = config
        self._clock = 1_700_000_000

    def path(self, native_id: str) -> Path:
        folder = self.config / "projects" / "-home-ada-project"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{native_id}.jsonl"

    def add(self, *records: dict[str, Any], native_id: str | None = None) -> str:
        """Store a conversation that is newer than those before it; return its id."""
        native_id = native_id or new_id()
        lines = (json.dumps(record, separators=(",", ":")) + "\n" for record in records)
        self.path(native_id).write_text("".join(lines))
        self._clock += 10
        os.utime(self.path(native_id), (self._clock, self._clock))
        return native_id

    def grow(self, native_id: str, *records: dict[str, Any]) -> None:
        """Let a file have hundreds of megabytes, of which the disk stores nothing, with more records at its end."""
        with self.path(native_id).open("r+b") as file:
            file.seek(0, os.SEEK_END)
            file.truncate(HUGE)
            file.seek(HUGE)
            file.write(
                b"\n" + b"".join(json.dumps(one, separators=(",", ":")).encode() + b"\n" for one in records)
            )

    def read(self, native_id: str) -> list[SessionEvent]:
        return transcripts.read_conversation(self.config, native_id, "claude")[1]

    def texts(self, native_id: str) -> list[str]:
        return [event.text for event in self.read(native_id) if isinstance(event, UserMessage | AgentMessage)]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def test_conversations_are_listed_newest_first_with_title_and_directory(store: Store) -> None:
    older = store.add(*CONVERSATION)
    newer = store.add(*CONVERSATION, {"type": "ai-title", "aiTitle": "Files,   counted"})
    store.add({"type": "queue-operation"}, native_id=new_id())
    store.add(*CONVERSATION, native_id="not-an-id")
    found = transcripts.list_conversations(store.config, None, 10, "claude")
    assert [(one.native_id, one.title) for one in found] == [
        (newer, "Files, counted"),
        (older, "Count the files"),
    ]
    assert {one.directory for one in found} == {DIRECTORY}
    assert len(transcripts.list_conversations(store.config, None, 1, "claude")) == 1
    assert transcripts.list_conversations(store.config, "/elsewhere", 10, "claude") == []
    assert len(transcripts.list_conversations(store.config, DIRECTORY, 10, "claude")) == 2


def test_a_conversation_that_begins_with_a_large_image_is_listed_and_read(store: Store) -> None:
    image = {"type": "image", "source": {"type": "base64", "data": "A" * 3_000_000}}
    native_id = store.add(user("u1", None, [image, {"type": "text", "text": "What is this?"}]))
    (found,) = transcripts.list_conversations(store.config, None, 10, "claude")
    assert found.title == "What is this? [image]"
    assert store.texts(native_id) == ["What is this?\n[image]"]


def test_a_rewound_conversation_is_the_last_branch(store: Store) -> None:
    native_id = store.add(*CONVERSATION, user("u3", "a1", "Another way"), assistant("a3", "u3", "Then two."))
    assert store.texts(native_id) == ["Count the files", "There is one.", "Another way", "Then two."]


def test_what_comes_between_messages_belongs_to_the_branch(store: Store) -> None:
    attachment = {"type": "attachment", "uuid": "x1", "parentUuid": "a2", "attachment": {"type": "date"}}
    last = {"type": "attachment", "uuid": "x2", "parentUuid": "u3", "attachment": {"type": "date"}}
    native_id = store.add(*CONVERSATION, attachment, user("u3", "x1", "Thanks"), last)
    assert store.texts(native_id)[-2:] == ["Still one.", "Thanks"]


def test_a_conversation_goes_on_behind_a_compaction(store: Store) -> None:
    boundary = {
        "type": "system", "subtype": "compact_boundary", "uuid": "s1", "parentUuid": None, "logicalParentUuid": "a2",
        "compactMetadata": {"trigger": "auto", "preTokens": 150000},
    }  # fmt: skip
    summary = user("u3", "s1", "This session is being continued", isCompactSummary=True)
    native_id = store.add(*CONVERSATION, boundary, summary, assistant("a3", "u3", "Where were we?"))
    assert [type(event) for event in store.read(native_id)] == [
        UserMessage, AgentMessage, UserMessage, AgentMessage, Compacted, AgentMessage,
    ]  # fmt: skip


def test_results_of_tools_that_ran_at_the_same_time_are_all_read(store: Store) -> None:
    def call(number: int, parent: str) -> dict[str, Any]:
        block = {"type": "tool_use", "id": f"c{number}", "name": "Read", "input": {"file_path": f"/{number}"}}
        return assistant(f"a{number}", parent, block)

    def result(number: int) -> dict[str, Any]:
        block = {"type": "tool_result", "tool_use_id": f"c{number}", "content": f"text {number}"}
        return user(f"r{number}", f"a{number}", [block], toolUseResult={"file": number})

    calls = [call(1, "u1"), call(2, "a1"), call(3, "a2")]
    native_id = store.add(
        user("u1", None, "Read them"), *calls, result(1), result(2), result(3), assistant("a4", "r3", "Read.")
    )
    updates = [event for event in store.read(native_id) if isinstance(event, ToolCallUpdate)]
    assert sorted(one.tool_call_id for one in updates) == ["c1", "c2", "c3"]
    assert {one.status and one.status.value for one in updates} == {"completed"}


def test_sub_agents_and_records_that_are_cut_off_are_left_out(store: Store) -> None:
    native_id = store.add(*CONVERSATION, user("s1", "a2", "look", isSidechain=True))
    with store.path(native_id).open("a") as file:
        file.write('{"type":"user","uuid":"u9","parentUuid":"a2","mess')
    assert store.texts(native_id)[-1] == "Still one."


def test_a_conversation_without_a_message_cannot_be_resumed(store: Store) -> None:
    empty = store.add({"type": "queue-operation", "content": '"parentUuid":'}, usage(1))
    assert not transcripts.has_messages(store.config, empty)
    assert transcripts.has_messages(store.config, store.add(*CONVERSATION))
    assert not transcripts.has_messages(store.config, new_id())


def test_the_last_stored_usage_counts(store: Store) -> None:
    native_id = store.add(*CONVERSATION, usage(250), user("u3", "a2", '"type":"cost-state"'))
    assert transcripts.stored_usage(store.config, native_id)["opus"].input_tokens == 250
    assert transcripts.stored_usage(store.config, new_id()) == {}


@pytest.mark.parametrize("native_id", ["../secret", "*", "", "..", "a/b"])
def test_what_is_no_id_finds_nothing(store: Store, native_id: str) -> None:
    store.add(*CONVERSATION)
    assert transcripts.find(store.config, native_id) is None
    assert not transcripts.has_messages(store.config, native_id)
    with pytest.raises(AgentError) as caught:
        transcripts.read_conversation(store.config, native_id, "claude")
    assert caught.value.code is ErrorCode.CONVERSATION_MISSING


def test_a_link_is_not_followed(store: Store, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(json.dumps(user("u1", None, "secret")) + "\n")
    native_id = new_id()
    store.path(native_id).symlink_to(secret)
    assert transcripts.find(store.config, native_id) is None
    assert transcripts.list_conversations(store.config, None, 10, "claude") == []


def test_all_files_of_a_conversation_are_deleted_and_no_others(store: Store) -> None:
    kept, deleted = store.add(*CONVERSATION), store.add(*CONVERSATION)
    folders = [store.path(deleted).with_suffix("")]
    folders += [store.config / name / deleted for name in ("file-history", "session-env", "tasks")]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "file").touch()
    transcripts.delete_conversation(store.config, deleted)
    transcripts.delete_conversation(store.config, deleted)
    assert not any(folder.exists() for folder in folders)
    assert [path.stem for path in (store.config / "projects").glob("*/*.jsonl")] == [kept]


def test_a_huge_file_is_read_by_bytes(store: Store) -> None:
    """Listed from its ends; what is asked about it is answered without the file in memory."""
    native_id = store.add(*CONVERSATION)
    end = [user("u3", "a2", "The last one"), assistant("a3", "u3", "Goodbye."), usage(900)]
    store.grow(native_id, *end)
    empty = store.add({"type": "queue-operation"})
    store.grow(empty)
    tracemalloc.start()
    try:
        (found,) = transcripts.list_conversations(store.config, None, 10, "claude")
        assert found.native_id == native_id
        assert transcripts.has_messages(store.config, native_id)
        assert not transcripts.has_messages(store.config, empty)
        assert transcripts.stored_usage(store.config, native_id)["opus"].input_tokens == 900
        texts = store.texts(native_id)
        assert (texts[0], texts[-2:]) == ("Count the files", ["The last one", "Goodbye."])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MEMORY


def test_lines_are_read_from_both_ends_whatever_their_length(tmp_path: Path) -> None:
    lines = [b"first", b"", b"x" * 700_000, b"y", b"z" * 300_000, b"last without an end"]
    path = tmp_path / "lines"
    path.write_bytes(b"\n".join(lines))
    with path.open("rb") as file:
        assert [*transcripts.lines_forwards(file)] == [line for line in lines if line]
        file.seek(0)
        assert [*transcripts.lines_forwards(file, 10)] == [b"first", b"x" * 700_000], "whole lines only"
        found = [*transcripts.lines_backwards(file)]
        assert [line for _, line in found] == [line for line in reversed(lines) if line]
        for offset, line in found:
            file.seek(offset)
            assert file.read(len(line)) == line


def test_what_was_typed_during_a_turn_and_commands_of_the_shell_are_messages(store: Store) -> None:
    queued = {"type": "queued_command", "prompt": "also count the folders", "commandMode": "prompt"}
    native_id = store.add(
        user("u1", None, "Count the files"),
        {"type": "attachment", "uuid": "q1", "parentUuid": "u1", "attachment": queued},
        {"type": "attachment", "uuid": "q2", "parentUuid": "q1", "attachment": {"type": "date"}},
        assistant("a1", "q2", "One file, no folder."),
        user("u2", "a1", "<bash-input>ls</bash-input>"),
        user("u3", "u2", "<bash-stdout>notes.txt</bash-stdout><bash-stderr></bash-stderr>"),
        assistant("a2", "u3", "I see."),
    )
    said = [event.text for event in store.read(native_id) if isinstance(event, UserMessage)]
    assert said == ["Count the files", "also count the folders", "!ls"]
