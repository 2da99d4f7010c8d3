from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from farsteer.agents.acp.minute_files import keep_from_loss
from farsteer.agents.process.environment import RUN_AS_VARIABLE
from farsteer.core.errors import AgentError

ID = "0123abcd-0000-4000-8000-000000000000"
NOW = datetime(2026, 11, 18, 20, 30, 10, tzinfo=UTC)


@pytest.fixture
def chats(tmp_path: Path) -> Path:
    folder = tmp_path / ".gemini" / "tmp" / "project" / "chats"
    folder.mkdir(parents=True)
    (tmp_path / "aside").mkdir()
    return folder


def prepare(tmp_path: Path, native_id: str = ID) -> None:
    keep_from_loss({"HOME": str(tmp_path)}, native_id, str(tmp_path / "aside"), NOW)


def test_the_conversation_gets_the_name_of_another_minute(tmp_path: Path, chats: Path) -> None:
    (chats / "session-2026-11-18T20-30-0123abcd.jsonl").write_text("history")
    (chats / "session-2026-11-18T20-30-99999999.jsonl").write_text("another")
    prepare(tmp_path)
    assert sorted(path.name for path in chats.iterdir()) == [
        "session-2026-11-18T20-28-0123abcd.jsonl", "session-2026-11-18T20-30-99999999.jsonl",
    ]  # fmt: skip
    assert (chats / "session-2026-11-18T20-28-0123abcd.jsonl").read_text() == "history"


def test_files_of_earlier_loads_are_put_aside_and_never_deleted(tmp_path: Path, chats: Path) -> None:
    (chats / "session-2026-11-18T20-28-0123abcd.jsonl").write_text("the whole history")
    (chats / "session-2026-11-18T20-29-0123abcd.jsonl").write_text("header")
    prepare(tmp_path)
    (left,) = chats.iterdir()
    assert (left.name, left.read_text()) == ("session-2026-11-18T20-27-0123abcd.jsonl", "the whole history")
    assert [path.read_text() for path in (tmp_path / "aside").iterdir()] == ["header"]


def test_nothing_is_touched_for_an_id_that_is_none_or_has_no_file(tmp_path: Path, chats: Path) -> None:
    (chats / "session-2026-11-18T20-30-0123abcd.jsonl").write_text("history")
    for native_id in ("*", "../..", "ffffffff-0000-4000-8000-000000000000"):
        prepare(tmp_path, native_id)
    assert [path.name for path in chats.iterdir()] == ["session-2026-11-18T20-30-0123abcd.jsonl"]


def test_files_of_another_user_are_left_alone(tmp_path: Path) -> None:
    with pytest.raises(AgentError, match="another user"):
        keep_from_loss({"HOME": str(tmp_path), RUN_AS_VARIABLE: "agent"}, ID, str(tmp_path))
