"""What an agent has streamed of an unfinished message survives the runner, once, and costs little."""

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
from tests.runner.conftest import SESSION, SessionHarness
from tests.runner.scripted import CountingJournal, Recorder
from tests.support.eventually import eventually

STATE = SessionState(id=SESSION, agent="scripted", directory="/")
MESSAGE = DraftKey(DeltaKind.MESSAGE, "m")
THOUGHT = DraftKey(DeltaKind.THOUGHT, "t")


def delta(text: str, offset: int = 0, key: DraftKey = MESSAGE) -> Delta:
    return Delta(message_id=key.message_id, kind=key.kind, text=text, offset=offset)


# -- what is kept


def test_fragments_in_a_row_are_one_piece_and_are_taken_once() -> None:
    drafts = Drafts()
    drafts.add([delta("Hel"), delta("lo", 3), delta("hm", 0, THOUGHT), delta(", you", 5)])
    assert drafts.has_unsaved
    assert drafts.pop_unsaved() == [DraftDelta(MESSAGE, 0, "Hello, you"), DraftDelta(THOUGHT, 0, "hm")]
    assert not drafts.has_unsaved
    drafts.add([delta("!", 10)])
    assert drafts.pop_unsaved() == [DraftDelta(MESSAGE, 10, "!")]


@given(st.lists(st.tuples(st.integers(0, 12), st.text(min_size=1, max_size=4), st.booleans())))
def test_the_journal_s_pieces_make_the_text_that_was_streamed(
    fragments: list[tuple[int, str, bool]],
) -> None:
    """Also when the agent takes back a part of it; what comes after a gap is left out."""
    drafts, pieces, text = Drafts(), list[DraftDelta](), ""
    for offset, more, saves in fragments:
        drafts.add([delta(more, offset)])
        if offset <= len(text):
            text = text[:offset] + more
        if saves:
            pieces += drafts.pop_unsaved()
    pieces += drafts.pop_unsaved()
    assert assemble_drafts(pieces) == ((Draft(MESSAGE, text),) if text else ())


def test_it_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drafts_module, "_MAX_CHARS", 10)
    monkeypatch.setattr(drafts_module, "_MAX_OPEN", 3)
    drafts = Drafts()
    drafts.add([delta("01234567"), delta("abcdef", 8), delta("more", 14), delta("x", 0, THOUGHT)])
    assert drafts.pop_unsaved() == [DraftDelta(MESSAGE, 0, "01234567ab")]
    drafts.finish(ev.AgentMessage(message_id="m", text="all of it"))
    for name in "abcd":
        drafts.add([delta(name, 0, DraftKey(DeltaKind.MESSAGE, name))])
    assert [piece.text for piece in drafts.pop_unsaved()] == ["a", "b"], "the thought is still open"


def test_a_finished_message_has_no_draft_and_a_late_fragment_begins_none() -> None:
    drafts = Drafts()
    drafts.add([delta("Hel"), delta("hm", 0, THOUGHT)])
    assert drafts.finish(ev.AgentMessage(message_id="m", text="Hello")) == [], "the journal has nothing of it"
    assert drafts.pop_unsaved() == [DraftDelta(THOUGHT, 0, "hm")]
    drafts.add([delta("Hel"), delta("lo", 3)])
    assert not drafts.has_unsaved
    assert drafts.finish(ev.AgentThought(message_id="t", text="hm!")) == [THOUGHT]


def test_what_a_tool_prints_is_no_draft() -> None:
    drafts = Drafts()
    drafts.add([delta("output", 0, DraftKey(DeltaKind.TOOL_OUTPUT, "c"))])
    assert not drafts.has_unsaved


# -- how it is written


class Desk:
    """A log inside a turn."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.disk = CountingJournal(journal, writable=True)
        self.out = Recorder()
        self.log = SessionLog(STATE, self.disk, self.out)

    async def drafts(self) -> list[str]:
        (stored,) = await self.journal.load()
        return [draft.text for draft in stored.drafts]

    async def until_stored(self, *texts: str) -> None:
        async def seen() -> bool:
            return await self.drafts() == list(texts)

        await eventually(seen)

    async def say(self, event: ev.SessionEvent) -> None:
        self.log.add(event)
        await self.log.flush()


@pytest.fixture
async def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Desk]:
    monkeypatch.setattr(log_module, "_DRAFT_DELAY", 0.01)
    journal = await Journal.open(tmp_path / "runner.db")
    await journal.create_session(SessionSpec(id=SESSION, machine_id="m", directory="/"), STATE)
    desk = Desk(journal)
    await desk.say(ev.TurnStart(turn_id="turn"))
    desk.disk.appends = 0
    yield desk
    desk.disk.writable.set()
    await desk.log.close()
    await journal.close()


async def test_many_fragments_are_one_write_and_the_next_waits(desk: Desk) -> None:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    for n in range(100):
        desk.log.publish_deltas([delta(str(n % 10), n)])
    await desk.until_stored("0123456789" * 10)
    desk.log.publish_deltas([delta("!", 100)])
    await desk.until_stored("0123456789" * 10 + "!")
    assert loop.time() - begun >= log_module._DRAFT_INTERVAL
    assert desk.disk.appends == 2
    assert desk.log._draft_timer is None, "nothing streams: no timer runs"


async def test_a_draft_goes_along_with_any_other_commit(desk: Desk) -> None:
    desk.log.publish_deltas([delta("Hel")])
    await desk.say(ev.TitleUpdate(title="x"))
    assert await desk.drafts() == ["Hel"]
    await eventually(lambda: desk.log._draft_timer is None)
    assert desk.disk.appends == 1


async def test_a_short_message_is_never_written_for_its_draft(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "CONFIRM_SECONDS", 60)
    desk.log.publish_deltas([delta("Hel")])
    await desk.say(ev.AgentMessage(message_id="m", text="Hello"))
    await eventually(lambda: desk.log._draft_timer is None)
    assert desk.disk.appends == 0
    assert [entry.content for entry in desk.out.entries][1:] == [
        ev.AgentMessage(message_id="m", text="Hello")
    ]


async def test_a_finished_message_takes_its_draft_s_place_in_one_commit_before_anybody_hears_of_it(
    desk: Desk,
) -> None:
    desk.log.publish_deltas([delta("Hel")])
    await desk.until_stored("Hel")
    desk.disk.writable.clear()
    saying = asyncio.ensure_future(desk.say(ev.AgentMessage(message_id="m", text="Hello")))
    await eventually(lambda: desk.disk.appends == 2)
    assert len(desk.out.entries) == 1
    assert await desk.drafts() == ["Hel"]
    desk.disk.writable.set()
    await saying
    assert await desk.drafts() == []
    assert [item.seq for item in await desk.journal.unconfirmed(SESSION, 1)] == [2]
    assert len(desk.out.entries) == 2


async def test_a_message_that_is_finished_while_its_draft_is_being_written_leaves_none(desk: Desk) -> None:
    desk.disk.writable.clear()
    desk.log.publish_deltas([delta("Hel")])
    await eventually(lambda: desk.disk.appends == 1)
    saying = asyncio.ensure_future(desk.say(ev.AgentMessage(message_id="m", text="Hello")))
    desk.disk.writable.set()
    await saying
    assert await desk.drafts() == []
    assert [item.seq for item in await desk.journal.unconfirmed(SESSION, 1)] == [2]


async def test_what_was_added_and_not_yet_flushed_keeps_its_draft(desk: Desk) -> None:
    """A commit in between must not forget the draft: the message itself is not in it."""
    desk.log.publish_deltas([delta("Hel")])
    await desk.until_stored("Hel")
    desk.log.add(ev.AgentMessage(message_id="m", text="Hello"))
    await desk.log._save()
    assert await desk.drafts() == ["Hel"]
    await desk.log.flush()
    assert await desk.drafts() == []


async def test_a_commit_that_waits_for_another_takes_its_whole_state_along(desk: Desk) -> None:
    """Otherwise the journal could hold events that its state does not know of."""
    desk.disk.writable.clear()
    desk.log.publish_deltas([delta("Hel")])
    await eventually(lambda: desk.disk.appends == 1)
    waiting = asyncio.ensure_future(desk.log._save())
    await asyncio.sleep(0)
    saying = asyncio.ensure_future(desk.say(ev.TitleUpdate(title="x")))
    await asyncio.sleep(0)
    desk.disk.writable.set()
    await waiting
    (stored,) = await desk.journal.load()
    outbox = await desk.journal.unconfirmed(SESSION, 0)
    assert stored.state.seq == outbox[-1].seq
    assert stored.state.title == "x"
    await saying


async def test_the_end_of_the_turn_forgets_every_draft_and_between_turns_none_is_kept(desk: Desk) -> None:
    desk.log.publish_deltas([delta("Hel"), delta("hm", 0, THOUGHT)])
    await desk.until_stored("Hel", "hm")
    await desk.say(ev.TurnEnd(turn_id="turn", reason=TurnEndReason.END_TURN))
    assert await desk.drafts() == []
    desk.log.publish_deltas([delta("late")])
    assert desk.log._draft_timer is None


async def test_a_deleted_session_leaves_no_draft(desk: Desk) -> None:
    desk.log.publish_deltas([delta("Hel")])
    await desk.until_stored("Hel")
    await desk.journal.delete_session(SESSION)
    await desk.journal.create_session(SessionSpec(id=SESSION, machine_id="m", directory="/"), STATE)
    assert await desk.drafts() == []


# -- what becomes of it


async def test_after_a_kill_what_was_streamed_stands_before_the_end_of_the_lost_turn_once(
    harness: SessionHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state in the journal is all that a killed runner leaves."""
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
    assert [said.partial for said in harness.out.of(ev.AgentMessage)] == [False, True]  # pyright: ignore[reportAttributeAccessIssue]
    launch.gone = True
    for one in killed[:-1]:
        one._task.cancel()  # pyright: ignore[reportOptionalMemberAccess]
