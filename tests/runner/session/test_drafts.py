"""The streamed text of an unfinished message survives a kill of the runner, and costs few writes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farsteer.agents.base import DeltaEmitted, EventEmitted
from farsteer.core import commands
from farsteer.core import events as ev
from farsteer.core.events import Delta, DeltaKind, TurnEndReason
from farsteer.core.queue import QueueItem
from farsteer.core.session import SessionSpec, SessionState
from farsteer.runner.journal import Journal
from farsteer.runner.session import drafts as drafts_module
from farsteer.runner.session import log as log_module
from farsteer.runner.session.drafts import Draft, DraftDelta, DraftKey, Drafts, assemble_drafts
from farsteer.runner.session.log import SessionLog
from tests.runner.harness import SESSION, SessionHarness
from tests.runner.scripted import CountingJournal, Recorder
from tests.support.eventually import eventually

STATE = SessionState(id=SESSION, agent="scripted", directory="/")
MESSAGE = DraftKey(DeltaKind.MESSAGE, "m")
THOUGHT = DraftKey(DeltaKind.THOUGHT, "t")


def delta(text: str, offset: int = 0, key: DraftKey = MESSAGE) -> Delta:
    return Delta(message_id=key.message_id, kind=key.kind, text=text, offset=offset)


# -- in memory


def test_deltas_that_continue_each_other_are_merged_and_returned_once() -> None:
    drafts = Drafts()
    drafts.add([delta("Hel"), delta("lo", 3), delta("hm", 0, THOUGHT), delta(", you", 5)])
    assert drafts.has_unsaved
    assert drafts.pop_unsaved() == [DraftDelta(MESSAGE, 0, "Hello, you"), DraftDelta(THOUGHT, 0, "hm")]
    assert not drafts.has_unsaved
    drafts.add([delta("!", 10)])
    assert drafts.pop_unsaved() == [DraftDelta(MESSAGE, 10, "!")]


@given(st.lists(st.tuples(st.integers(0, 12), st.text(min_size=1, max_size=4), st.booleans())))
def test_the_stored_deltas_give_the_streamed_text(
    deltas: list[tuple[int, str, bool]],
) -> None:
    """Also when the agent replaces a part of it. Text after a gap is left out."""
    drafts, stored, text = Drafts(), list[DraftDelta](), ""
    for offset, more, saves in deltas:
        drafts.add([delta(more, offset)])
        if offset <= len(text):
            text = text[:offset] + more
        if saves:
            stored += drafts.pop_unsaved()
    stored += drafts.pop_unsaved()
    assert assemble_drafts(stored) == ((Draft(MESSAGE, text),) if text else ())


def test_drafts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drafts_module, "_MAX_CHARS", 10)
    monkeypatch.setattr(drafts_module, "_MAX_OPEN", 3)
    drafts = Drafts()
    drafts.add([delta("01234567"), delta("abcdef", 8), delta("more", 14), delta("x", 0, THOUGHT)])
    assert drafts.pop_unsaved() == [DraftDelta(MESSAGE, 0, "01234567ab")]
    drafts.finish(ev.AgentMessage(message_id="m", text="all of it"))
    for name in "abcd":
        drafts.add([delta(name, 0, DraftKey(DeltaKind.MESSAGE, name))])
    assert [delta.text for delta in drafts.pop_unsaved()] == ["a", "b"], "the thought is still open"


def test_a_finished_message_has_no_draft_and_a_late_delta_begins_none() -> None:
    drafts = Drafts()
    drafts.add([delta("Hel"), delta("hm", 0, THOUGHT)])
    assert drafts.finish(ev.AgentMessage(message_id="m", text="Hello")) == [], "the journal has nothing of it"
    assert drafts.pop_unsaved() == [DraftDelta(THOUGHT, 0, "hm")]
    drafts.add([delta("Hel"), delta("lo", 3)])
    assert not drafts.has_unsaved
    assert drafts.finish(ev.AgentThought(message_id="t", text="hm!")) == [THOUGHT]


def test_the_output_of_tools_is_not_drafted() -> None:
    drafts = Drafts()
    drafts.add([delta("output", 0, DraftKey(DeltaKind.TOOL_OUTPUT, "c"))])
    assert not drafts.has_unsaved


# -- in the journal


class LogHarness:
    """A log within a turn."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.counted = CountingJournal(journal, writable=True)
        self.out = Recorder()
        self.log = SessionLog(STATE, self.counted, self.out)

    async def drafts(self) -> list[str]:
        (stored,) = await self.journal.load()
        return [draft.text for draft in stored.drafts]

    async def until_stored(self, *texts: str) -> None:
        async def seen() -> bool:
            return await self.drafts() == list(texts)

        await eventually(seen)

    async def log_event(self, event: ev.SessionEvent) -> None:
        self.log.add(event)
        await self.log.flush()


@pytest.fixture
async def log_harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LogHarness]:
    monkeypatch.setattr(log_module, "_DRAFT_DELAY", 0.01)
    journal = await Journal.open(tmp_path / "runner.db")
    await journal.create_session(SessionSpec(id=SESSION, machine_id="m", directory="/"), STATE)
    log_harness = LogHarness(journal)
    await log_harness.log_event(ev.TurnStart(turn_id="turn"))
    log_harness.counted.appends = 0
    yield log_harness
    log_harness.counted.writable.set()
    await log_harness.log.close()
    await journal.close()


async def test_many_deltas_are_one_write_and_the_next_write_waits(log_harness: LogHarness) -> None:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    for n in range(100):
        log_harness.log.publish_deltas([delta(str(n % 10), n)])
    await log_harness.until_stored("0123456789" * 10)
    log_harness.log.publish_deltas([delta("!", 100)])
    await log_harness.until_stored("0123456789" * 10 + "!")
    assert loop.time() - begun >= log_module._DRAFT_INTERVAL
    assert log_harness.counted.appends == 2
    assert log_harness.log._draft_timer is None, "no timer runs while nothing is streamed"


async def test_a_draft_is_part_of_any_other_commit(log_harness: LogHarness) -> None:
    log_harness.log.publish_deltas([delta("Hel")])
    await log_harness.log_event(ev.TitleUpdate(title="x"))
    assert await log_harness.drafts() == ["Hel"]
    await eventually(lambda: log_harness.log._draft_timer is None)
    assert log_harness.counted.appends == 1


async def test_a_short_message_is_never_written_for_its_draft(
    log_harness: LogHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "CONFIRM_SECONDS", 60)
    log_harness.log.publish_deltas([delta("Hel")])
    await log_harness.log_event(ev.AgentMessage(message_id="m", text="Hello"))
    await eventually(lambda: log_harness.log._draft_timer is None)
    assert log_harness.counted.appends == 0
    assert [entry.content for entry in log_harness.out.entries][1:] == [
        ev.AgentMessage(message_id="m", text="Hello")
    ]


async def test_a_finished_message_replaces_its_draft_in_one_commit_before_it_is_published(
    log_harness: LogHarness,
) -> None:
    log_harness.log.publish_deltas([delta("Hel")])
    await log_harness.until_stored("Hel")
    log_harness.counted.writable.clear()
    logging = asyncio.ensure_future(log_harness.log_event(ev.AgentMessage(message_id="m", text="Hello")))
    await eventually(lambda: log_harness.counted.appends == 2)
    assert len(log_harness.out.entries) == 1
    assert await log_harness.drafts() == ["Hel"]
    log_harness.counted.writable.set()
    await logging
    assert await log_harness.drafts() == []
    assert [item.seq for item in await log_harness.journal.unconfirmed(SESSION, 1)] == [2]
    assert len(log_harness.out.entries) == 2


async def test_a_message_that_is_finished_while_its_draft_is_being_written_leaves_none(
    log_harness: LogHarness,
) -> None:
    log_harness.counted.writable.clear()
    log_harness.log.publish_deltas([delta("Hel")])
    await eventually(lambda: log_harness.counted.appends == 1)
    logging = asyncio.ensure_future(log_harness.log_event(ev.AgentMessage(message_id="m", text="Hello")))
    log_harness.counted.writable.set()
    await logging
    assert await log_harness.drafts() == []
    assert [item.seq for item in await log_harness.journal.unconfirmed(SESSION, 1)] == [2]


async def test_a_message_that_is_not_flushed_keeps_its_draft(log_harness: LogHarness) -> None:
    """A commit in between must not delete the draft, because it does not contain the message."""
    log_harness.log.publish_deltas([delta("Hel")])
    await log_harness.until_stored("Hel")
    log_harness.log.add(ev.AgentMessage(message_id="m", text="Hello"))
    await log_harness.log._save()
    assert await log_harness.drafts() == ["Hel"]
    await log_harness.log.flush()
    assert await log_harness.drafts() == []


async def test_a_commit_that_waits_for_another_contains_the_latest_state(log_harness: LogHarness) -> None:
    """Otherwise the journal could hold entries that are newer than its state."""
    log_harness.counted.writable.clear()
    log_harness.log.publish_deltas([delta("Hel")])
    await eventually(lambda: log_harness.counted.appends == 1)
    waiting = asyncio.ensure_future(log_harness.log._save())
    await asyncio.sleep(0)
    logging = asyncio.ensure_future(log_harness.log_event(ev.TitleUpdate(title="x")))
    await asyncio.sleep(0)
    log_harness.counted.writable.set()
    await waiting
    (stored,) = await log_harness.journal.load()
    outbox = await log_harness.journal.unconfirmed(SESSION, 0)
    assert stored.state.seq == outbox[-1].seq
    assert stored.state.title == "x"
    await logging


async def test_the_end_of_the_turn_deletes_every_draft_and_none_is_kept_between_turns(
    log_harness: LogHarness,
) -> None:
    log_harness.log.publish_deltas([delta("Hel"), delta("hm", 0, THOUGHT)])
    await log_harness.until_stored("Hel", "hm")
    await log_harness.log_event(ev.TurnEnd(turn_id="turn", reason=TurnEndReason.END_TURN))
    assert await log_harness.drafts() == []
    log_harness.log.publish_deltas([delta("late")])
    assert log_harness.log._draft_timer is None


async def test_a_deleted_session_leaves_no_draft(log_harness: LogHarness) -> None:
    log_harness.log.publish_deltas([delta("Hel")])
    await log_harness.until_stored("Hel")
    await log_harness.journal.delete_session(SESSION)
    await log_harness.journal.create_session(SessionSpec(id=SESSION, machine_id="m", directory="/"), STATE)
    assert await log_harness.drafts() == []


# -- after a kill


async def test_after_a_kill_the_drafts_are_logged_once_before_the_end_of_the_lost_turn(
    harness: SessionHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed runner leaves only what is in the journal."""
    monkeypatch.setattr(log_module, "_DRAFT_DELAY", 0.01)
    actor = await harness.create()
    await actor.execute(commands.Send(item=QueueItem(id="1", text="hi", created_at=1)))
    launch = await harness.adapter.launch()
    await launch.prompt()
    whole = DraftKey(DeltaKind.MESSAGE, "whole")
    await launch.emit(DeltaEmitted(delta("finis", 0, whole)), DeltaEmitted(delta("hm", 0, THOUGHT)))
    await launch.emit(DeltaEmitted(delta("Once upon a ")), DeltaEmitted(delta("time", 12)))

    async def stored() -> bool:
        (found,) = await harness.journal.load()
        return len(found.drafts) == 3

    await eventually(stored)
    await launch.emit(EventEmitted(ev.AgentMessage(message_id="whole", text="finished")))
    await harness.out.until(ev.AgentMessage)
    killed = [actor]
    for _ in range(2):
        killed.append(await harness.reload())
        await harness.out.until(ev.TurnEnd)
        await eventually(lambda: killed[-1].state.turn_id is None)
    after = [entry.content for entry in harness.out.entries]
    lost = after[-4:]
    assert lost[:2] == [
        ev.AgentThought(message_id="t", text="hm", partial=True),
        ev.AgentMessage(message_id="m", text="Once upon a time", partial=True),
    ]
    assert isinstance(lost[2], ev.TurnEnd)
    assert lost[2].reason is TurnEndReason.LOST
    assert isinstance(lost[3], ev.LaunchEnd)
    assert [said.partial for said in harness.out.of(ev.AgentMessage)] == [False, True]
    launch.gone = True
    for one in killed[:-1]:
        one._task.cancel()  # pyright: ignore[reportOptionalMemberAccess]
