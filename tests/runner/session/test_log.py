"""What the log commits before it publishes, and what it publishes before it commits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from unittest.mock import AsyncMock

import pytest
from msgspec.structs import replace

from farsteer.core import events as ev
from farsteer.core.events import SessionStatus
from farsteer.core.session import SessionSpec, SessionState, Worktree
from farsteer.runner.journal import Journal
from farsteer.runner.session.log import CONFIRM_SECONDS, PrivateState, SessionLog
from tests.runner.harness import SESSION
from tests.runner.scripted import CountingJournal, Recorder
from tests.support.eventually import eventually

STATE = SessionState(id=SESSION, agent="scripted", directory="/")


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[Journal]:
    journal = await Journal.open(tmp_path / "runner.db")
    await journal.create_session(SessionSpec(id=SESSION, machine_id="m", directory="/"), STATE)
    yield journal
    await journal.close()


async def saved(journal: Journal) -> list[int]:
    return [item.seq for item in await journal.unconfirmed(SESSION, 0)]


async def test_plain_output_is_published_at_once_and_saved_if_it_is_not_confirmed(
    journal: Journal,
) -> None:
    disk, out = CountingJournal(journal), Recorder()
    log = SessionLog(STATE, disk, out)
    for text in "abc":
        log.add(ev.AgentMessage(message_id=text, text=text))
        await log.flush()
    assert [entry.seq for entry in out.entries] == [1, 2, 3]
    log.confirm(2)
    disk.writable.set()

    async def written() -> bool:
        return await saved(journal) == [3]

    await eventually(written)
    (stored,) = await journal.load()
    assert stored.state.seq == 3
    await log.close()


async def test_confirmed_output_is_never_saved_and_the_next_change_is_saved_with_its_number(
    journal: Journal,
) -> None:
    log = SessionLog(STATE, journal, Recorder())
    log.add(ev.AgentMessage(message_id="m", text="hi"))
    await log.flush()
    log.confirm(1)
    log.add(ev.AgentMessage(message_id="n", text="unconfirmed"))
    await log.flush()
    log.add(ev.TitleUpdate(title="x"))
    await log.flush()
    assert await saved(journal) == [2, 3]
    await log.close()


async def test_a_stream_that_the_hub_keeps_confirming_is_never_saved(journal: Journal) -> None:
    disk = CountingJournal(journal)
    log = SessionLog(STATE, disk, Recorder())
    loop = asyncio.get_running_loop()
    end = loop.time() + 3 * CONFIRM_SECONDS
    while loop.time() < end:
        log.add(ev.AgentMessage(message_id="m", text="hi"))
        await log.flush()
        # There is always an unconfirmed entry, but never an old one.
        await asyncio.sleep(CONFIRM_SECONDS / 10)
        log.confirm(log.state.seq)
    assert disk.appends == 0
    disk.writable.set()
    await log.close()


async def test_unconfirmed_output_is_bounded(journal: Journal) -> None:
    log = SessionLog(STATE, journal, Recorder())
    for _ in range(300):
        log.add(ev.AgentMessage(message_id="m", text="hi"))
        await log.flush()
    assert len(await saved(journal)) > 200
    log.add(ev.AgentMessage(message_id="m", text="x" * 100_000))
    await log.flush()
    assert len(await saved(journal)) == 301
    await log.close()


@pytest.mark.parametrize(
    "event",
    [
        ev.TurnStart(turn_id="t", item_id="i"),
        ev.StatusUpdate(status=SessionStatus.IDLE),
        ev.TitleUpdate(title="x"),
    ],
)
async def test_a_change_of_the_state_is_saved_before_it_is_published(
    journal: Journal, event: ev.SessionEvent
) -> None:
    disk, out = CountingJournal(journal), Recorder()
    log = SessionLog(STATE, disk, out)
    log.add(event)
    log.add(ev.AgentMessage(message_id="m", text="hi"))
    flushing = asyncio.ensure_future(log.flush())
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(flushing), 0.05)
    assert not out.entries
    disk.writable.set()
    await flushing
    assert [entry.seq for entry in out.entries] == [1, 2]
    assert await saved(journal) == [1, 2]


async def test_a_log_continues_after_the_last_entry_of_the_hub(journal: Journal) -> None:
    out = Recorder()
    log = SessionLog(STATE, journal, out)
    log.catch_up(7)
    log.catch_up(3)
    log.add(ev.Notice(text="next"))
    await log.flush()
    assert [entry.seq for entry in out.entries] == [8]
    await log.close()
    (stored,) = await journal.load()
    assert stored.state.seq == 8


PRIVATE_CHANGES: list[PrivateState] = [
    {"native_id": "n"}, {"registered": True}, {"generation": 7}, {"fork_of": "f"}, {"cut_at": "c"},
    {"left_behind": ("a", "b")}, {"transcript_at": "r"},
    {"worktree": Worktree(base="/b", path="/p", branch="x", name="x")}, {"digest_due": True},
    {"handed_off_to": ("a",)},
]  # fmt: skip


@pytest.mark.parametrize("changes", PRIVATE_CHANGES, ids=lambda changes: next(iter(changes)))
async def test_private_state_is_committed_and_published_without_an_entry(
    journal: Journal, changes: PrivateState
) -> None:
    out = Recorder()
    log = SessionLog(STATE, journal, out)
    log.update_private_state(**changes)
    await log.flush()
    (stored,) = await journal.load()
    assert stored.state == log.state == replace(STATE, **changes)
    assert (out.entries, out.states) == ([], [log.state])
    await log.close()


def test_every_private_field_is_tested() -> None:
    tested = {name for changes in PRIVATE_CHANGES for name in changes}
    assert tested == set(PrivateState.__annotations__)


@pytest.mark.parametrize(
    "name", sorted(set(SessionState.__struct_fields__) - set(PrivateState.__annotations__))
)
async def test_all_other_state_is_changed_by_events_only(journal: Journal, name: str) -> None:
    log = SessionLog(STATE, journal, Recorder())
    with pytest.raises(TypeError, match=name):
        log.update_private_state(**{name: getattr(STATE, name)})
    assert log.state is STATE


async def test_a_write_to_the_journal_is_repeated_whatever_made_it_fail(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = AsyncMock(side_effect=[MemoryError, RuntimeError("?"), None])
    monkeypatch.setattr(journal, "append", append)
    out = Recorder()
    log = SessionLog(STATE, journal, out)
    log.add(ev.TitleUpdate(title="new"))
    await log.flush()
    assert append.await_count == 3
    assert [entry.seq for entry in out.entries] == [1]


async def test_a_journal_that_was_set_back_is_recognised_although_the_states_are_equal(
    journal: Journal,
) -> None:
    log = SessionLog(STATE, journal, Recorder())
    log.add(ev.StatusUpdate(status=SessionStatus.IDLE))
    await log.flush()
    older = SessionLog(log.state, journal, Recorder())
    log.add(ev.AgentMessage(message_id="m", text="hi"))
    await log.flush()
    assert not older.differs(log.state)
    for event in (
        ev.TurnStart(turn_id="t", item_id="i"),
        ev.TurnEnd(turn_id="t", reason=ev.TurnEndReason.END_TURN),
    ):
        log.add(event)
        await log.flush()
    assert (log.state.status, log.state.turn_id) == (older.state.status, older.state.turn_id)
    assert older.differs(log.state)
    (stored,) = await journal.load()
    assert stored.state.journaled == log.state.seq
    await log.close()
    await older.close()
