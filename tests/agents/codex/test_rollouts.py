"""Codex's own files: they are found by their id without being read, and their records are events."""

from __future__ import annotations

import json
import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from farsteer.agents.codex import rollouts
from farsteer.core.events import (
    AgentMessage,
    AgentThought,
    DiffBlock,
    TextBlock,
    ToolCall,
    ToolCallUpdate,
    ToolStatus,
    TurnEnd,
    TurnEndReason,
    TurnStart,
    UsageUpdate,
)

THREAD = "0199a213-81c0-7800-8aa1-bbab2a035a53"


def rollout(home: Path, day: str = "2026/01/02", name: str = "", thread: str = THREAD) -> Path:
    path = home / "sessions" / day / f"rollout-2026-01-02T03-04-05-{thread}{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{}\n")
    return path


def record(kind: str, payload: Any) -> bytes:
    return json.dumps({"timestamp": "x", "type": kind, "payload": payload}).encode()


def read(kind: str, **payload: Any) -> list[Any]:
    return rollouts.read_record(record("event_msg", {"type": kind, "turn_id": "turn", **payload}))


def read_item(kind: str, **fields: Any) -> list[Any]:
    return read("item_completed", item={"type": kind, "id": "item", **fields})


# -- files


def test_a_thread_is_found_also_if_it_is_archived(tmp_path: Path) -> None:
    assert not rollouts.exists(tmp_path, THREAD)
    path = rollout(tmp_path)
    assert rollouts.newest(tmp_path, THREAD) == path
    archived = tmp_path / "archived_sessions" / path.name
    archived.parent.mkdir()
    path.rename(archived)
    assert rollouts.newest(tmp_path, THREAD) == archived


def test_the_file_that_codex_appends_to_is_the_newest(tmp_path: Path) -> None:
    old, new = rollout(tmp_path), rollout(tmp_path, "2026/01/03", "-segment-2")
    os.utime(old, (1, 1))
    assert rollouts.newest(tmp_path, THREAD) == new


def test_an_empty_file_and_another_thread_do_not_count(tmp_path: Path) -> None:
    rollout(tmp_path, thread="0199a213-81c0-7800-8aa1-000000000000")
    rollout(tmp_path).write_text("")
    assert not rollouts.exists(tmp_path, THREAD)


def test_a_file_of_600_megabytes_is_not_read(tmp_path: Path) -> None:
    os.truncate(rollout(tmp_path), 600 * 1024 * 1024)
    tracemalloc.start()
    try:
        assert rollouts.exists(tmp_path, THREAD)
        assert tracemalloc.get_traced_memory()[1] < 1024 * 1024
    finally:
        tracemalloc.stop()


def test_a_file_that_disappears_meanwhile_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone.jsonl"
    monkeypatch.setattr(Path, "glob", lambda *_: iter([gone]))
    assert rollouts.newest(tmp_path, THREAD) is None


# -- records


def test_the_first_record_says_whose_file_it_is() -> None:
    meta = rollouts.read_meta(record("session_meta", {"id": THREAD, "cwd": "/w", "originator": "cli"}))
    assert meta is not None
    assert (meta.id, meta.cwd) == (THREAD, "/w")
    assert rollouts.read_meta(record("event_msg", {})) is None
    assert rollouts.read_meta(b"{") is None


@pytest.mark.parametrize(
    "line",
    [
        b"", b"{", b"null", b"[]", b'{"type":"event_msg"}', b'{"type":"event_msg","payload":5}', b"\xff",
        b'{"type":"response_item","payload":{"type":"message"}}', b'{"type":"new","payload":{}}',
        b'{"type":"event_msg","payload":{"type":"item_completed"}}',
        b'{"type":"event_msg","payload":{"type":"item_completed","item":{"type":"New","id":"x"}}}',
        b'{"type":"event_msg","payload":{"type":"item_completed","item":{"type":"","id":"x"}}}',
        b'{"type":"token_usage_record","payload":{}}',
    ],
)  # fmt: skip
def test_what_is_no_event_gives_none(line: bytes) -> None:
    assert rollouts.read_record(line) == []


def test_turns_begin_and_end() -> None:
    assert read("task_started") == [TurnStart(turn_id="turn")]
    assert read("task_complete") == [TurnEnd(turn_id="turn", reason=TurnEndReason.END_TURN)]
    assert read("turn_aborted") == [TurnEnd(turn_id="turn", reason=TurnEndReason.CANCELLED)]
    (failed,) = read("task_complete", error={"message": "no"})
    assert (failed.reason, failed.error) == (TurnEndReason.FAILED, "no")


def test_messages_and_thoughts() -> None:
    (said,) = read_item(
        "AgentMessage", content=[{"type": "Text", "text": "a"}, {"type": "Text", "text": "b"}]
    )
    assert isinstance(said, AgentMessage)
    assert (said.text, said.anchor) == ("ab", "turn")
    (thought,) = read_item("Reasoning", summary_text=["hm"], raw_content=[])
    assert isinstance(thought, AgentThought)
    assert thought.text == "hm"


def test_a_command_has_its_words_and_its_output() -> None:
    call, done = read_item(
        "CommandExecution", command=["/bin/bash", "-lc", "ls -l"], cwd="file:///w%20x", parsed_cmd=[],
        aggregated_output="out", exit_code=2, status="failed",
    )  # fmt: skip
    assert isinstance(call, ToolCall)
    assert isinstance(done, ToolCallUpdate)
    assert call.input == {"command": "ls -l", "cwd": "/w x"}
    assert (done.status, done.content) == (ToolStatus.FAILED, (TextBlock(text="out"),))


def test_a_file_change_has_its_diff() -> None:
    changes = {
        "/w/a": {"type": "add", "content": "x\n"},
        "/w/b": {"type": "update", "unified_diff": "@@ -1 +1 @@\n-x\n+y\n"},
    }
    call, _ = read_item("FileChange", status="completed", changes=changes)
    assert isinstance(call, ToolCall)
    assert call.content == (
        DiffBlock(path="/w/a", new_text="x\n"),
        DiffBlock(path="/w/b", old_text="x\n", new_text="y\n"),
    )


def test_usage_has_no_cached_tokens_in_its_input() -> None:
    usage = {"input_tokens": 100, "cached_input_tokens": 70, "output_tokens": 10}
    (update,) = rollouts.read_record(record("token_usage_record", {"usage": usage}))
    assert isinstance(update, UsageUpdate)
    assert (update.input_tokens, update.cache_read_tokens, update.output_tokens) == (30, 70, 10)
