"""A replay notices an adapter that writes something else than was recorded."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.wire.agent import WireAgent
from tests.support.wire.codex import CODEX
from tests.support.wire.player import Mismatch
from tests.support.wire.recording import Entry, Exchange, read_entries, write_entries
from tests.support.wire.replay import output_kinds, replay


def changed(monkeypatch: pytest.MonkeyPatch, change: Callable[[list[Exchange]], None]) -> None:
    """Change the recording of `plain_turn`."""
    exchanges = CODEX.recorded("plain_turn")
    change(exchanges)
    monkeypatch.setattr(WireAgent, "recorded", lambda *_: exchanges)


def written(exchanges: list[Exchange], method: str) -> Entry:
    return next(entry for entry in exchanges[0] if entry.get("in", {}).get("method") == method)


async def test_a_line_that_differs_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(exchanges: list[Exchange]) -> None:
        written(exchanges, "turn/start")["in"]["params"]["approvalsReviewer"] = "nobody"

    changed(monkeypatch, change)
    with pytest.raises(Mismatch, match="approvalsReviewer"):
        await replay(CODEX, "plain_turn")


async def test_an_id_that_differs_from_an_earlier_one_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(exchanges: list[Exchange]) -> None:
        params = written(exchanges, "turn/start")["in"]["params"]
        params["clientUserMessageId"] = params["threadId"]

    changed(monkeypatch, change)
    with pytest.raises(Mismatch):
        await replay(CODEX, "plain_turn")


async def test_a_line_that_was_not_recorded_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(exchanges: list[Exchange]) -> None:
        exchanges[0].remove(written(exchanges, "model/list"))

    changed(monkeypatch, change)
    with pytest.raises(Mismatch, match="model/list"):
        await replay(CODEX, "plain_turn")


async def test_a_process_that_is_not_started_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(exchanges: list[Exchange]) -> None:
        exchanges.append([{"start": ["codex"]}])

    changed(monkeypatch, change)
    with pytest.raises(AssertionError, match="not started"):
        await replay(CODEX, "plain_turn")


def test_a_recording_is_the_same_after_it_was_stored(tmp_path: Path) -> None:
    first: list[Any] = [{"start": ["x"]}, {"in": {"a": "ä"}}, {"out": "no JSON"}, {"exit": {"code": 0}}]
    write_entries(tmp_path / "folder" / "x.jsonl", [first, first[:1]])
    assert read_entries(tmp_path / "folder" / "x.jsonl") == [first, first[:1]]


def test_the_shape_has_no_words_and_no_repetitions() -> None:
    delta = {"out": {"method": "item/agentMessage/delta", "params": {"delta": "x"}}}
    ended = {"out": {"method": "turn/completed", "params": {"turn": {"status": "failed"}}}}
    exchange = [{"start": []}, delta, {"in": {"id": 1, "method": "turn/start"}}, delta, ended]
    assert CODEX.shape([exchange]) == [
        "in turn/start", "out item/agentMessage/delta", "out turn/completed failed",
    ]  # fmt: skip


def test_the_kinds_of_outputs() -> None:
    lines = [
        f"> {json.dumps({})}", '… agent_message m 0 "a"', '… agent_message m 1 "b"', "agent_message {}",
        "asked permission {}", "END id1 failed: no", "EXIT 0 stopped",
    ]  # fmt: skip
    assert output_kinds(lines) == [
        "… agent_message", "agent_message", "asked permission", "END failed", "EXIT",
    ]  # fmt: skip
