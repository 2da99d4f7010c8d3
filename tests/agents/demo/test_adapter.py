"""Stored conversations of the demo agent: listed, read and deleted by its adapter."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from farsteer.agents.demo.adapter import DemoAdapter
from farsteer.agents.demo.copies import copies_path
from farsteer.agents.demo.history import History
from farsteer.core.errors import AgentError, BadRequest, ErrorCode
from farsteer.core.events import AgentMessage, AgentThought, UserMessage
from farsteer.core.ids import new_id

ADAPTER = DemoAdapter()


def store(folder: Path, *texts: str, directory: str = "/somewhere", at: int | None = None) -> str:
    native_id = new_id()
    history = History.create(str(folder), native_id, directory)
    for number, text in enumerate(texts):
        history.add({"role": "user", "anchor": f"u{number}", "text": text})
        history.add({"role": "thought", "anchor": f"t{number}", "text": "hm"})
        history.add({"role": "agent", "anchor": f"a{number}", "text": text.upper(), "partial": True})
    if at is not None:
        os.utime(folder / f"{native_id}.jsonl", (at, at))
    return native_id


async def test_conversations_are_listed_newest_first_with_title_and_directory(tmp_path: Path) -> None:
    old = store(tmp_path, "hello\nthere", at=1000)
    new = store(tmp_path, "x" * 100, "more", directory="/elsewhere", at=2000)
    first, second = await ADAPTER.list_conversations(str(tmp_path), None, 10)
    assert (first.native_id, first.title, first.directory) == (new, "x" * 59 + "…", "/elsewhere")
    assert (first.messages, first.updated_at, first.agent) == (4, 2_000_000, "demo")
    assert (second.native_id, second.title, second.messages) == (old, "hello", 2)
    assert [one.native_id for one in await ADAPTER.list_conversations(str(tmp_path), None, 1)] == [new]
    assert [one.native_id for one in await ADAPTER.list_conversations(str(tmp_path), "/somewhere/.", 1)] == [
        old
    ]


async def test_a_file_of_an_earlier_version_is_listed_and_gets_its_directory(tmp_path: Path) -> None:
    native_id = store(tmp_path, "hello", directory="")
    (one,) = await ADAPTER.list_conversations(str(tmp_path), None, 10)
    assert (one.native_id, one.directory, one.title) == (native_id, "", "hello")
    assert await ADAPTER.list_conversations(str(tmp_path), "/somewhere", 10) == []
    History.resume(str(tmp_path), native_id, directory="/somewhere").add({"role": "allow", "tool": "run"})
    (one,) = await ADAPTER.list_conversations(str(tmp_path), "/somewhere", 10)
    assert one.messages == 2


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("not-an-id.jsonl", b'{"role":"user","anchor":"u","text":"x"}\n'),
        ("11111111-1111-4111-8111-111111111111.json", b"{}"),
        ("11111111-1111-4111-8111-111111111111.jsonl", b"no json\n"),
        ("11111111-1111-4111-8111-111111111111.jsonl", b"[1,2]\n"),
        ("11111111-1111-4111-8111-111111111111.jsonl", b'{"type":"foreign"}\n'),
        ("11111111-1111-4111-8111-111111111111.jsonl", b'{"role":"user","text":7}\n'),
        ("11111111-1111-4111-8111-111111111111.jsonl", b'{"role":["user"]}\n'),
        ("11111111-1111-4111-8111-111111111111.jsonl", b'{"role":"about","directory":"/x"}\n'),
        ("11111111-1111-4111-8111-111111111111.jsonl", b""),
        ("11111111-1111-4111-8111-111111111111.jsonl", b"\xff\xfe\x00\n"),
        ("11111111-1111-4111-8111-111111111111.jsonl", b'{"role":"user","anchor":"u","text":"torn"}'),
    ],
    ids=range(11),
)
async def test_other_files_are_not_listed(tmp_path: Path, name: str, content: bytes) -> None:
    native_id = store(tmp_path, "hello")
    (tmp_path / name).write_bytes(content)
    assert [one.native_id for one in await ADAPTER.list_conversations(str(tmp_path), None, 10)] == [native_id]


async def test_folders_and_links_are_not_listed_and_a_missing_folder_is_empty(tmp_path: Path) -> None:
    (tmp_path / f"{new_id()}.jsonl").mkdir()
    (tmp_path / f"{new_id()}.jsonl").symlink_to("/etc/passwd")
    assert await ADAPTER.list_conversations(str(tmp_path), None, 10) == []
    assert await ADAPTER.list_conversations(str(tmp_path / "missing"), None, 10) == []


async def test_a_long_conversation_is_listed_without_being_read_whole(tmp_path: Path) -> None:
    native_id = store(tmp_path, "begin", "x" * 600_000)
    (one,) = await ADAPTER.list_conversations(str(tmp_path), None, 10)
    assert (one.title, one.messages) == ("begin", None)
    whole, _ = await ADAPTER.read_history(native_id, str(tmp_path))
    assert whole.messages == 4


async def test_a_conversation_is_read_with_ids_and_anchors(tmp_path: Path) -> None:
    native_id = store(tmp_path, "hello")
    conversation, events = await ADAPTER.read_history(native_id, str(tmp_path))
    assert (conversation.title, conversation.directory) == ("hello", "/somewhere")
    assert events == [
        UserMessage(item_id="u0", text="hello", anchor="u0"),
        AgentThought(message_id="t0", text="hm", anchor="t0"),
        AgentMessage(message_id="a0", text="HELLO", anchor="a0", partial=True),
    ]


async def test_a_damaged_conversation_cannot_be_read(tmp_path: Path) -> None:
    native_id = store(tmp_path, "hello")
    path = tmp_path / f"{native_id}.jsonl"
    path.write_bytes(b"damage\n" + path.read_bytes())
    with pytest.raises(AgentError, match="damaged") as caught:
        await ADAPTER.read_history(native_id, str(tmp_path))
    assert caught.value.code is ErrorCode.CONVERSATION_MISSING


async def test_deleting_removes_every_file_of_one_conversation(tmp_path: Path) -> None:
    gone, kept = store(tmp_path, "hello"), store(tmp_path, "there")
    for native_id in (gone, kept):
        folder = Path(copies_path(str(tmp_path), native_id))
        folder.mkdir()
        (folder / "copy").write_text("x")
    (tmp_path / f"{gone}.jsonl.new").write_text("a draft that a crash left")
    await ADAPTER.delete_conversation(gone, str(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {f"{kept}.jsonl", f"{kept}.copies"}
    await ADAPTER.delete_conversation(gone, str(tmp_path))
    with pytest.raises(BadRequest):
        await ADAPTER.delete_conversation("../victim", str(tmp_path))
