"""Drafts: kept for all devices, the last writer wins knowingly, gone when they are sent."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from farsteer.core.api import SendMessage, WriteDraft
from farsteer.core.api.drafts import MAX_SENT_DRAFT
from farsteer.core.errors import Conflict, ErrorCode, Forbidden, NotFound
from farsteer.core.ids import new_id
from farsteer.hub import Hub, Scope
from farsteer.hub.store.sqlite.schema import MIGRATIONS
from farsteer.storage.migrations import migrate
from tests.hub.conftest import OWNER_TOKEN, create
from tests.hub.scripted import FeedRecorder, ScriptedRunner, caller

ME = caller(email="ann@example.com", client_id="phone")
OTHER = caller(token_id="laptop", label="laptop")


async def write(hub: Hub, session_id: str, text: str, version: int | None = None) -> int:
    written = await hub.drafts.write(ME, session_id, WriteDraft(text=text, version=version))
    return written.draft.version


async def test_a_draft_is_kept_with_who_and_when(hub: Hub, session_id: str, home: Path) -> None:
    nothing = (await hub.drafts.read(ME, session_id)).draft
    assert (nothing.text, nothing.version, nothing.by, nothing.updated_at) == ("", 0, None, None)
    written = (await hub.drafts.write(ME, session_id, WriteDraft(text="now the", version=0))).draft
    assert (written.text, written.version, written.by) == ("now the", 1, "ann@example.com")
    assert (written.identity, written.client_id) == (ME.identity, "phone")
    assert (await hub.drafts.read(OTHER, session_id)).draft == written
    await hub.close()
    again = await Hub.open(home, OWNER_TOKEN)
    assert (await again.drafts.read(OTHER, session_id)).draft == written
    await again.close()


async def test_a_stale_write_is_refused(hub: Hub, session_id: str) -> None:
    assert await write(hub, session_id, "one", 0) == 1
    await hub.drafts.write(OTHER, session_id, WriteDraft(text="two", version=1))
    for stale in (0, 1, 3):
        with pytest.raises(Conflict) as refused:
            await write(hub, session_id, "lost", stale)
        assert refused.value.code is ErrorCode.DRAFT_OUTDATED
        assert refused.value.details == {"version": 2}
    assert (await hub.drafts.read(ME, session_id)).draft.text == "two"
    assert await write(hub, session_id, "three") == 3, "who names no version replaces whatever is there"


async def test_of_two_writers_at_once_one_is_refused(hub: Hub, session_id: str) -> None:
    results = await asyncio.gather(
        *(write(hub, session_id, f"{n}", 0) for n in range(5)), return_exceptions=True
    )
    assert sorted(str(type(result).__name__) for result in results) == ["Conflict"] * 4 + ["int"]


async def test_others_are_told(hub: Hub, session_id: str) -> None:
    feed = FeedRecorder(hub)
    await write(hub, session_id, "hello")
    await write(hub, session_id, "x" * (MAX_SENT_DRAFT + 1))
    first, long = feed.of("draft-updated")
    assert (first["namespace"], first["sessionId"]) == ("default", session_id)
    assert first["data"]["text"] == "hello"
    assert (first["data"]["version"], first["data"]["by"], first["data"]["clientId"]) == (
        1, "ann@example.com", "phone",
    )  # fmt: skip
    assert (long["data"]["text"], long["data"]["version"]) == (None, 2)
    assert {event.namespace for event in feed.events} == {"default"}
    assert (await hub.store.read_feed("default", 0, types=["draft-updated"])).events == [], "it is not stored"


async def test_a_draft_that_is_sent_is_gone(hub: Hub, runner: ScriptedRunner, session_id: str) -> None:
    await write(hub, session_id, "do it")
    await hub.messages.send(ME, session_id, SendMessage(text="something else"))
    assert (await hub.drafts.read(ME, session_id)).draft.text == "do it"
    feed = FeedRecorder(hub)
    await hub.messages.send(OTHER, session_id, SendMessage(text="do it"))
    emptied = (await hub.drafts.read(ME, session_id)).draft
    assert (emptied.text, emptied.version, emptied.by) == ("", 2, OTHER.name)
    assert [event["data"]["text"] for event in feed.of("draft-updated")] == [""]
    with pytest.raises(Conflict):
        await write(hub, session_id, "late", 1)
    assert await write(hub, session_id, "next", 2) == 3


async def test_a_repeated_message_does_not_take_the_next_draft(
    hub: Hub, runner: ScriptedRunner, session_id: str
) -> None:
    message = SendMessage(text="again", local_id="1")
    await hub.messages.send(ME, session_id, message)
    await write(hub, session_id, "again")
    await hub.messages.send(ME, session_id, message)
    assert (await hub.drafts.read(ME, session_id)).draft.text == "again"


async def test_a_draft_goes_with_its_session(hub: Hub, session_id: str, home: Path) -> None:
    await write(hub, session_id, "a telling text")
    await hub.sessions.delete(ME, session_id)
    with pytest.raises(NotFound):
        await hub.drafts.read(ME, session_id)
    await hub.close()
    with sqlite3.connect(home / "hub.db") as db:
        assert db.execute("SELECT count(*) FROM drafts").fetchone() == (0,)
    db.close()


async def test_scopes(hub: Hub, session_id: str) -> None:
    reader, writer = caller("default", Scope.READ), caller("default", Scope.WRITE)
    assert (await hub.drafts.read(reader, session_id)).draft.version == 0
    with pytest.raises(Forbidden):
        await hub.drafts.write(reader, session_id, WriteDraft(text="x"))
    assert (await hub.drafts.write(writer, session_id, WriteDraft(text="x"))).draft.version == 1
    with pytest.raises(Forbidden):
        await hub.drafts.read(writer, session_id)
    with pytest.raises(NotFound):
        await hub.drafts.write(ME, new_id(), WriteDraft(text="x"))


async def test_a_draft_whose_writer_cannot_be_read_is_repaired(hub: Hub, session_id: str, home: Path) -> None:
    await write(hub, session_id, "text")
    with sqlite3.connect(home / "hub.db") as db:
        db.execute("UPDATE drafts SET identity = x'ff'")
    db.close()
    draft = (await hub.drafts.read(ME, session_id)).draft
    assert (draft.text, draft.identity) == ("text", None)


async def test_the_database_of_an_older_hub_has_no_drafts(home: Path) -> None:
    home.mkdir(exist_ok=True)
    with sqlite3.connect(home / "hub.db", isolation_level=None) as db:
        migrate(db, MIGRATIONS[:17])
    db.close()
    hub = await Hub.open(home, OWNER_TOKEN)
    async with ScriptedRunner(hub) as runner:
        session_id = await create(hub, runner)
        assert await write(hub, session_id, "x") == 1
    await hub.close()
