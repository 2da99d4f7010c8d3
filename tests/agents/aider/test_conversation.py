"""A conversation on disk, as the worker writes it and Farsteer reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from farsteer.agents.aider import history
from farsteer.agents.aider.conversation import INTERRUPTED, Conversation, StartFailed
from farsteer.core.errors import AgentError, ErrorCode
from farsteer.core.events import AgentMessage, UserMessage
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
    told = [{"message": f"m-{anchor}", "text": messages[-1]["content"]}]
    conversation.end_turn(messages, anchor=anchor, said=told, files=[], readOnly=[])


def test_nothing_is_written_before_the_first_message(tmp_path: Path) -> None:
    session = new_id()
    conversation = opened(tmp_path, session)
    assert [*tmp_path.iterdir()] == []
    add_turn(conversation, "a", said("one", "two"))
    assert history.exists(str(tmp_path), session)
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


def test_it_is_read_as_events_and_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    session = new_id()
    conversation = opened(tmp_path, session)
    add_turn(conversation, "a", said("one", "two"))
    about, events = history.read(str(tmp_path), session)
    assert (about.directory, about.title, about.messages) == (str(tmp_path), "one", 2)
    assert events == [
        UserMessage(item_id="a", text="one", anchor="a"), AgentMessage(message_id="m-a", text="two", anchor="a"),
    ]  # fmt: skip
    assert history.list_stored(str(tmp_path), str(tmp_path), 10) == [about]
    assert history.list_stored(str(tmp_path), "/elsewhere", 10) == []
    (tmp_path / f"{new_id()}.jsonl").write_text("damaged\n")
    assert history.list_stored(str(tmp_path), None, 10) == [about], "a damaged one hides no other"
    history.delete(str(tmp_path), session)
    history.delete(str(tmp_path), session)
    with pytest.raises(AgentError) as caught:
        history.read(str(tmp_path), session)
    assert caught.value.code is ErrorCode.CONVERSATION_MISSING
