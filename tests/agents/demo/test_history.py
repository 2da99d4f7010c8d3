from __future__ import annotations

from pathlib import Path

import pytest

from farsteer.agents.demo.history import History, HistoryError, has_messages

ID = "11111111-1111-4111-8111-111111111111"
OTHER = "22222222-2222-4222-8222-222222222222"


def make_history(folder: Path, *texts: str) -> History:
    history = History.create(str(folder), ID)
    for text in texts:
        history.add({"role": "user", "anchor": f"at {text}", "text": text})
    return history


def texts(history: History) -> list[str]:
    return [record["text"] for record in history.messages]


def test_no_file_is_written_before_the_first_message(tmp_path: Path) -> None:
    make_history(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert not has_messages(str(tmp_path), ID)


def test_messages_are_resumed(tmp_path: Path) -> None:
    make_history(tmp_path, "one", "zwei 🎉")
    assert has_messages(str(tmp_path), ID)
    assert texts(History.resume(str(tmp_path), ID)) == ["one", "zwei 🎉"]
    assert (tmp_path / f"{ID}.jsonl").stat().st_mode & 0o777 == 0o600


def test_an_incomplete_last_line_is_dropped(tmp_path: Path) -> None:
    make_history(tmp_path, "one", "two")
    path = tmp_path / f"{ID}.jsonl"
    path.write_bytes(path.read_bytes()[:-5])
    history = History.resume(str(tmp_path), ID)
    assert texts(history) == ["one"]
    history.add({"role": "user", "anchor": "x", "text": "three"})
    assert texts(History.resume(str(tmp_path), ID)) == ["one", "three"]


def test_a_single_incomplete_line_is_not_a_conversation(tmp_path: Path) -> None:
    (tmp_path / f"{ID}.jsonl").write_bytes(b'{"role":"user"')
    assert not has_messages(str(tmp_path), ID)
    history = make_history(tmp_path, "fresh")
    assert texts(History.resume(str(tmp_path), ID)) == texts(history) == ["fresh"]


def test_a_cut_is_written_at_once(tmp_path: Path) -> None:
    make_history(tmp_path, "one", "two", "three")
    History.resume(str(tmp_path), ID, "at two")
    assert texts(History.resume(str(tmp_path), ID)) == ["one", "two"]


def test_a_fork_copies_and_leaves_its_source(tmp_path: Path) -> None:
    make_history(tmp_path, "one", "two")
    fork = History.fork(str(tmp_path), ID, OTHER, "at one")
    fork.add({"role": "user", "anchor": "x", "text": "new"})
    assert texts(History.resume(str(tmp_path), OTHER)) == ["one", "new"]
    assert texts(History.resume(str(tmp_path), ID)) == ["one", "two"]


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        (lambda folder: History.create(folder, ID), "already_in_use"),
        (lambda folder: History.resume(folder, OTHER), "not_found"),
        (lambda folder: History.resume(folder, ID, "nowhere"), "unknown_anchor"),
        (lambda folder: History.fork(folder, OTHER, OTHER), "not_found"),
        (lambda folder: History.fork(folder, ID, ID), "already_in_use"),
    ],
    ids=["create", "resume", "cut", "fork of nothing", "fork onto itself"],
)
def test_a_conversation_that_cannot_be_opened_has_a_reason_and_is_unchanged(
    tmp_path: Path, act, reason: str
) -> None:
    make_history(tmp_path, "one")
    with pytest.raises(HistoryError) as caught:
        act(str(tmp_path))
    assert caught.value.reason == reason
    assert texts(History.resume(str(tmp_path), ID)) == ["one"]


def test_a_damaged_file_is_not_a_conversation(tmp_path: Path) -> None:
    make_history(tmp_path, "one")
    path = tmp_path / f"{ID}.jsonl"
    path.write_bytes(b"not json\n" + path.read_bytes())
    with pytest.raises(HistoryError) as caught:
        History.resume(str(tmp_path), ID)
    assert caught.value.reason == "damaged"


def test_a_file_holds_the_directory_of_the_conversation(tmp_path: Path) -> None:
    history = History.create(str(tmp_path), ID, "/somewhere")
    assert not has_messages(str(tmp_path), ID)
    history.add({"role": "user", "anchor": "x", "text": "one"})
    assert has_messages(str(tmp_path), ID)
    again = History.resume(str(tmp_path), ID, directory="/elsewhere")
    assert (again.directory, texts(again)) == ("/somewhere", ["one"])
    assert History.fork(str(tmp_path), ID, OTHER, directory="/elsewhere").directory == "/elsewhere"


def test_a_file_of_an_earlier_version_gets_its_directory_with_the_next_record(tmp_path: Path) -> None:
    make_history(tmp_path, "one")
    assert History.resume(str(tmp_path), ID).directory == ""
    History.resume(str(tmp_path), ID, directory="/somewhere").add({"role": "allow", "tool": "run"})
    again = History.resume(str(tmp_path), ID)
    assert (again.directory, texts(again)) == ("/somewhere", ["one"])


def test_a_file_with_only_a_directory_is_not_a_conversation(tmp_path: Path) -> None:
    (tmp_path / f"{ID}.jsonl").write_bytes(b'{"role":"about","directory":"/somewhere"}\n')
    assert not has_messages(str(tmp_path), ID)
    with pytest.raises(HistoryError, match="no conversation"):
        History.resume(str(tmp_path), ID)
    assert texts(make_history(tmp_path, "fresh")) == ["fresh"]


def test_a_cut_at_a_thought_removes_the_message_after_it(tmp_path: Path) -> None:
    history = make_history(tmp_path, "one")
    history.add({"role": "thought", "anchor": "t", "text": "hm"})
    history.add({"role": "agent", "anchor": "a", "text": "yes"})
    assert texts(History.resume(str(tmp_path), ID, "a")) == ["one", "hm", "yes"]
    assert texts(History.resume(str(tmp_path), ID, "t")) == ["one", "hm"]


def test_permissions_for_the_session_are_stored_and_are_not_messages(tmp_path: Path) -> None:
    history = make_history(tmp_path, "one")
    history.add({"role": "allow", "tool": "run"})
    again = History.resume(str(tmp_path), ID)
    assert (texts(again), again.allowed_tools) == (["one"], {"run"})
