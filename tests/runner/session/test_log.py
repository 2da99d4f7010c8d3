"""A session's log at its source: what is on which disk before anybody hears of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from farsteer.core import events as ev
from farsteer.core.events import SessionStatus
from farsteer.core.session import SessionSpec, SessionState
from farsteer.runner.journal import Journal
from farsteer.runner.session.log import CONFIRM_SECONDS, SessionLog
from tests.runner.conftest import SESSION
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


async def test_what_an_agent_says_goes_up_at_once_and_into_the_journal_if_it_is_not_confirmed(
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


async def test_what_is_confirmed_is_never_written_and_the_next_change_takes_its_number_along(
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


async def test_a_stream_that_the_hub_keeps_confirming_costs_the_journal_nothing(journal: Journal) -> None:
    disk = CountingJournal(journal)
    log = SessionLog(STATE, disk, Recorder())
    loop = asyncio.get_running_loop()
    end = loop.time() + 3 * CONFIRM_SECONDS
    while loop.time() < end:
        log.add(ev.AgentMessage(message_id="m", text="hi"))
        await log.flush()
        # Always one on its way, none of them old.
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
async def test_what_decides_the_next_step_is_in_the_journal_first(
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


async def test_a_log_goes_on_behind_what_the_hub_holds(journal: Journal) -> None:
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
