"""The state of a session is small, whatever the size of what waits in it."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from farsteer.agents.base import ApprovalAsked, ApprovalWithdrawn
from farsteer.core import commands
from farsteer.core import events as ev
from farsteer.core.approvals import Answer, Outcome
from farsteer.core.errors import Conflict, ErrorCode
from farsteer.core.queue import Attachment, ItemState
from farsteer.core.session import MAX_OPEN_APPROVALS, SessionState
from farsteer.core.wire import encode
from farsteer.link.frames import encode_frame
from farsteer.link.messages import Events
from farsteer.runner.journal import Journal
from farsteer.runner.journal_schema import MIGRATIONS
from farsteer.runner.session import log as session_log
from farsteer.storage.connection import connect
from farsteer.storage.migrations import migrate
from tests.runner.harness import SESSION, SPEC, SessionHarness, approval, item, start_turn

SMALL = 16 * 1024


def frame_size(state: SessionState) -> int:
    return len(encode_frame(Events(session=state.id, entries=[], state=state)))


async def test_a_state_with_eighty_megabytes_in_its_queue_fits_a_frame(harness: SessionHarness) -> None:
    actor, launch, running = await start_turn(harness)
    texts = {str(number): f"{number} " + "x" * 800_000 for number in range(2, 102)}
    for name, text in texts.items():
        await actor.execute(commands.Send(item=item(name, text)))
    assert len(actor.state.queue) == 100
    assert frame_size(actor.state) < SMALL
    entries = await harness.journal.unconfirmed(SESSION, 0)
    assert max(len(entry.body) for entry in entries) < 2048
    await actor.execute(commands.Cancel(item_id="2"))
    await actor.execute(commands.SendNow(item_id="50"))
    await launch.finish(running)
    prompt = await launch.prompt()
    assert prompt.text == texts["50"]
    await launch.finish(prompt)
    assert (await launch.prompt()).text == texts["3"]


async def test_messages_wait_whole_in_the_journal_until_they_have_an_outcome(
    harness: SessionHarness,
) -> None:
    actor, launch, first = await start_turn(harness)
    long = replace(item("2", "word " * 50_000), attachments=(Attachment(name="a", data="aGk=", size=2),))
    await actor.execute(commands.Send(item=long))
    before = actor
    actor = await harness.reload()
    second = await harness.adapter.launch()
    prompt = await second.prompt()
    assert (prompt.text, prompt.attachments) == (long.text, long.attachments)
    await harness.out.until(ev.QueueUpdate, item_id="2", state=ItemState.DELIVERED)
    assert await harness.journal.read_message(SESSION, "2") is None
    launch.gone = True
    before._task.cancel()  # pyright: ignore[reportOptionalMemberAccess]
    assert first.text == "hello"


async def test_a_runner_limits_the_bytes_that_wait_in_a_session(
    harness: SessionHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_log, "_MAX_QUEUED_BYTES", 10_000)
    actor, _, _ = await start_turn(harness)
    await actor.execute(commands.Send(item=item("2", "x" * 6000)))
    with pytest.raises(Conflict) as refusal:
        await actor.execute(commands.Send(item=item("3", "x" * 6000)))
    assert refusal.value.code is ErrorCode.QUEUE_FULL
    await actor.execute(commands.Cancel(item_id="2"))
    await actor.execute(commands.Send(item=item("3", "x" * 6000)))


async def test_a_message_that_the_journal_lost_fails_and_the_next_is_delivered(
    harness: SessionHarness, tmp_path: Path
) -> None:
    actor, launch, prompt = await start_turn(harness)
    for name in "23":
        await actor.execute(commands.Send(item=item(name, name * 100_000)))
    with closing(sqlite3.connect(tmp_path / "runner.db")) as db, db:
        db.execute("DELETE FROM messages WHERE item = '2'")
    await launch.finish(prompt)
    assert (await launch.prompt()).text == "3" * 100_000
    await harness.out.until(ev.QueueUpdate, item_id="2", state=ItemState.FAILED)


# -- approvals


async def test_a_large_approval_is_whole_in_the_log_and_for_the_agent(harness: SessionHarness) -> None:
    actor, launch, _ = await start_turn(harness)
    asked = replace(approval("a" * 10_000), arguments={"file": "x" * 3_000_000})
    await launch.emit(ApprovalAsked(approval=asked))
    requested = await harness.out.until(ev.ApprovalRequested)
    assert isinstance(requested, ev.ApprovalRequested)
    logged = requested.approval
    assert (len(logged.id), logged.arguments) == (64, asked.arguments)
    assert frame_size(actor.state) < SMALL
    answer = Answer(outcome=Outcome.APPROVED)
    await actor.execute(commands.AnswerApproval(approval_id=logged.id, answer=answer))
    given, _ = await launch.answers.get()
    assert given == asked


async def test_more_approvals_than_may_be_open_wait_for_others(harness: SessionHarness) -> None:
    actor, launch, prompt = await start_turn(harness)
    names = [str(number) for number in range(MAX_OPEN_APPROVALS + 3)]
    await launch.emit(*(ApprovalAsked(approval=approval(name)) for name in names))
    await harness.out.until(ev.ApprovalRequested, MAX_OPEN_APPROVALS)
    assert [one.id for one in actor.state.approvals] == names[:MAX_OPEN_APPROVALS]
    await launch.emit(ApprovalWithdrawn(approval_id=names[-3]), ApprovalWithdrawn(approval_id="0"))
    await harness.out.until(ev.ApprovalRequested, MAX_OPEN_APPROVALS + 1)
    assert [one.id for one in actor.state.approvals] == [*names[1:MAX_OPEN_APPROVALS], names[-2]]
    await launch.finish(prompt)
    await harness.out.until(ev.TurnEnd)
    assert actor.state.approvals == ()
    assert names[-1] not in [one.content.approval.id for one in harness.out.entries
                             if isinstance(one.content, ev.ApprovalRequested)]  # fmt: skip


# -- journals of earlier versions


async def test_a_journal_with_whole_messages_in_its_states_is_opened(tmp_path: Path) -> None:
    waiting = {
        "id": "2",
        "text": "old " * 1000,
        "createdAt": 1,
        "state": "queued",
        "attachments": [{"name": "a"}],
    }
    asked = json.loads(encode(replace(approval(), arguments={"file": "x" * 100_000})))
    state = {
        "id": SESSION, "agent": "scripted", "directory": str(tmp_path), "registered": True, "nativeId": "n",
        "queue": [waiting], "approvals": [asked], "turnId": "t", "turnItem": "1",
    }  # fmt: skip
    path = tmp_path / "runner.db"
    with closing(connect(path)) as db:
        migrate(db, MIGRATIONS[:2])
        db.execute("INSERT INTO sessions VALUES (?, ?, ?)", (SESSION, encode(SPEC), encode(state)))
        attachment = encode([{"name": "a", "data": "aGk="}])
        db.execute("INSERT INTO payloads VALUES (?, ?, ?)", (SESSION, "2", attachment))
    journal = await Journal.open(path)
    harness = SessionHarness(journal, tmp_path)
    actor = await harness.reload()
    assert frame_size(actor.state) < SMALL
    launch = await harness.adapter.launch()
    prompt = await launch.prompt()
    assert (prompt.text, prompt.attachments) == (waiting["text"], (Attachment(name="a", data="aGk="),))
    await harness.out.until(ev.ApprovalResolved)
    async with asyncio.timeout(10):
        await actor.close("end of test")
    await journal.close()
