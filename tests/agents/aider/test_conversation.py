"""A conversation on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from farsteer.agents.aider import conversation as store
from farsteer.agents.aider.conversation import INTERRUPTED, Conversation, StartFailed
from farsteer.core.ids import new_id

Messages = list[dict[str, Any]]


def opened(folder: Path, session: str, start: str = "create", **more: str) -> Conversation:
    conversation = Conversation(str(folder), session)
    conversation.open({"session": session, "start": start, **more})
    return conversation


def said(*texts: str) -> Messages:
    return [{"role": "user" if n % 2 == 0 else "assistant", "content": text} for n, text in enumerate(texts)]


def add_turn(conversation: Conversation, anchor: str, messages: Messages) -> None:
    conversation.append({"type": "prompt", "anchor": anchor, "text": messages[-2]["content"]})
    conversation.end_turn(messages, anchor=anchor, files=["/a"], readOnly=[])


def test_nothing_is_written_before_the_first_message(tmp_path: Path) -> None:
    session = new_id()
    conversation = opened(tmp_path, session)
    assert [*tmp_path.iterdir()] == []
    add_turn(conversation, "a", said("one", "two"))
    assert store.exists(str(tmp_path), session)
    with pytest.raises(StartFailed, match="exists") as caught:
        opened(tmp_path, session)
    assert caught.value.args[0] == "already_in_use"


def test_it_is_resumed_also_after_a_summary_of_its_beginning(tmp_path: Path) -> None:
    session = new_id()
    conversation = opened(tmp_path, session)
    add_turn(conversation, "a", said("one", "two"))
    add_turn(conversation, "b", said("one", "two", "three", "four"))
    assert opened(tmp_path, session, "resume").messages == said("one", "two", "three", "four")
    add_turn(conversation, "c", said("summary", "ok", "five", "six"))
    assert opened(tmp_path, session, "resume").messages == said("summary", "ok", "five", "six")
    with pytest.raises(StartFailed) as caught:
        opened(tmp_path, new_id(), "resume")
    assert caught.value.args[0] == "not_found"


def test_a_message_that_was_never_answered_is_kept(tmp_path: Path) -> None:
    session = new_id()
    conversation = opened(tmp_path, session)
    add_turn(conversation, "a", said("one", "two"))
    conversation.append({"type": "prompt", "anchor": "b", "text": "three"})
    resumed = opened(tmp_path, session, "resume")
    assert resumed.messages == said("one", "two", "three", INTERRUPTED)
    add_turn(resumed, "c", [*resumed.messages, *said("five", "six")])
    assert opened(tmp_path, session, "resume").messages == said(
        "one", "two", "three", INTERRUPTED, "five", "six"
    )


def test_half_a_line_is_ignored_and_replaced(tmp_path: Path) -> None:
    session = new_id()
    conversation = opened(tmp_path, session)
    add_turn(conversation, "a", said("one", "two"))
    path = tmp_path / f"{session}.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"type": "prompt", "anch')
    resumed = opened(tmp_path, session, "resume")
    assert resumed.messages == said("one", "two")
    resumed.append({"type": "prompt", "anchor": "b", "text": "three"})
    assert path.read_bytes().startswith(whole + b'{"type": "prompt", "anchor": "b"')


def test_a_cut_is_permanent_and_can_be_repeated(tmp_path: Path) -> None:
    session = new_id()
    conversation = opened(tmp_path, session)
    add_turn(conversation, "a", said("one", "two"))
    add_turn(conversation, "b", said("one", "two", "three", "four"))
    with pytest.raises(StartFailed) as caught:
        opened(tmp_path, session, "resume", cutAt="nowhere")
    assert caught.value.args[0] == "unknown_anchor"
    for _ in range(2):
        assert opened(tmp_path, session, "resume", cutAt="a").messages == said("one", "two")
    assert opened(tmp_path, session, "resume").messages == said("one", "two")


def test_a_cut_at_a_turn_that_the_process_died_in_keeps_its_message(tmp_path: Path) -> None:
    session = new_id()
    conversation = opened(tmp_path, session)
    add_turn(conversation, "a", said("one", "two"))
    conversation.append({"type": "prompt", "anchor": "b", "text": "three"})
    conversation.append({"type": "prompt", "anchor": "c", "text": "five"})
    both = said("one", "two", "three", INTERRUPTED, "five", INTERRUPTED)
    assert opened(tmp_path, session, "resume").messages == both
    assert opened(tmp_path, session, "resume", cutAt="b").messages == said("one", "two", "three", INTERRUPTED)


def test_a_fork_is_a_conversation_of_its_own(tmp_path: Path) -> None:
    source, fork = new_id(), new_id()
    conversation = opened(tmp_path, source)
    add_turn(conversation, "a", said("one", "two"))
    add_turn(conversation, "b", said("one", "two", "three", "four"))
    forked = opened(tmp_path, fork, forkOf=source, cutAt="a")
    assert forked.messages == said("one", "two")
    add_turn(forked, "c", said("one", "two", "five", "six"))
    assert opened(tmp_path, source, "resume").messages == said("one", "two", "three", "four")
    assert opened(tmp_path, fork, "resume").messages == said("one", "two", "five", "six")
    with pytest.raises(StartFailed) as caught:
        opened(tmp_path, new_id(), forkOf=new_id())
    assert caught.value.args[0] == "not_found"


def test_it_is_deleted_with_its_attachments_and_no_other_is(tmp_path: Path) -> None:
    gone, kept = new_id(), new_id()
    for session in (gone, kept):
        add_turn(opened(tmp_path, session), "a", said("one", "two"))
        (tmp_path / "attachments" / session).mkdir(parents=True)
        (tmp_path / "attachments" / session / "note.txt").write_text("hi")
    store.delete(str(tmp_path), gone)
    store.delete(str(tmp_path), gone)
    assert not store.exists(str(tmp_path), gone)
    assert store.exists(str(tmp_path), kept)
    assert [path.name for path in (tmp_path / "attachments").iterdir()] == [kept]


def test_an_id_that_is_a_path_is_refused(tmp_path: Path) -> None:
    for name in ("../other", "", "a/b"):
        with pytest.raises(ValueError, match="UUID"):
            store.delete(str(tmp_path), name)


def test_the_files_of_the_chat_are_those_of_the_last_turn(tmp_path: Path) -> None:
    session = new_id()
    conversation = opened(tmp_path, session)
    assert conversation.last("files") is None
    add_turn(conversation, "a", said("one", "two"))
    assert opened(tmp_path, session, "resume").last("files") == ["/a"]
