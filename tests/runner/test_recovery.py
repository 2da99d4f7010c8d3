"""What a runner makes of a welcome after its journal, or the hub's database, was lost or set back."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from farsteer.core import commands
from farsteer.core import events as ev
from farsteer.core.events import make_entry
from farsteer.core.ids import new_id
from farsteer.core.queue import ItemState, QueueItem, QueueRef
from farsteer.core.session import SessionSpec, SessionState
from farsteer.core.wire import encode
from farsteer.link.messages import KnownSession, Welcome, encode_entry
from farsteer.runner.journal import ItemOutcome, Journal, JournalBatch, LogPosition, StoredSession
from farsteer.runner.journal_schema import MIGRATIONS
from farsteer.runner.runner import Runner, settling_commands
from farsteer.storage.connection import connect
from farsteer.storage.migrations import migrate
from tests.support.eventually import eventually

S = ItemState
SESSION = new_id()
SPEC = SessionSpec(id=SESSION, machine_id="m", directory="/")
STATE = SessionState(id=SESSION, agent="demo", directory="/")


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[Journal]:
    journal = await Journal.open(tmp_path / "runner.db")
    await journal.create_session(SPEC, STATE)
    yield journal
    await journal.close()


def batch_of(*seqs: int) -> JournalBatch:
    entries = [encode_entry(make_entry(SESSION, seq, ev.Notice(text="x"), 1)) for seq in seqs]
    return JournalBatch(entries=entries)


# -- outcomes in the journal


async def test_outcomes_are_kept_for_the_life_of_the_session(journal: Journal) -> None:
    items = [new_id() for _ in range(1200)]
    outcomes = [ItemOutcome(item, S.DELIVERED, seq) for seq, item in enumerate(items, 1)]
    await journal.append(replace(STATE, seq=1200), JournalBatch(outcomes=outcomes))
    assert journal.find_outcome(SESSION, items[0]) == ItemOutcome(items[0], S.DELIVERED, 1)
    assert journal.find_outcome(SESSION, new_id()) is None
    assert journal.find_outcome(new_id(), items[0]) is None
    await journal.delete_session(SESSION)
    assert journal.find_outcome(SESSION, items[0]) is None


async def test_an_outcome_is_lost_if_neither_the_hub_nor_the_journal_has_its_entry(journal: Journal) -> None:
    batch = batch_of(5, 8)
    batch.outcomes = [ItemOutcome(str(seq), S.DELIVERED, seq) for seq in (2, 3, 5, 7, 9)]
    await journal.append(replace(STATE, seq=9), batch)
    await journal.mark_lost([LogPosition(SESSION, acked=2, following=9)])
    found = {seq: journal.find_outcome(SESSION, str(seq)) for seq in (2, 3, 5, 7, 9)}
    assert {seq: one.seq for seq, one in found.items() if one} == {2: 2, 3: 0, 5: 5, 7: 0, 9: 9}


async def test_the_settled_items_of_an_earlier_version_are_known(tmp_path: Path) -> None:
    old, new = new_id(), new_id()
    delivered = make_entry(SESSION, 7, ev.QueueUpdate(item_id=new, state=S.DELIVERED), 1)
    with closing(connect(tmp_path / "runner.db")) as db:
        migrate(db, MIGRATIONS[:5])
        for item in (old, new):
            db.execute("INSERT INTO settled (session, item) VALUES (?, ?)", (SESSION, item))
        db.execute("INSERT INTO outbox VALUES (?, 7, 'queue_update', ?)", (SESSION, encode(delivered)))
    journal = await Journal.open(tmp_path / "runner.db")
    assert journal.find_outcome(SESSION, old) == ItemOutcome(old, S.UNKNOWN, 0)
    assert journal.find_outcome(SESSION, new) == ItemOutcome(new, S.DELIVERED, 7)
    await journal.close()


COMMANDS = (ev.SlashCommand("test", "Run the tests"),)


async def test_commands_are_written_when_they_change_and_belong_to_the_state(journal: Journal) -> None:
    await journal.append(replace(STATE, seq=1), JournalBatch(commands=encode(COMMANDS)))
    await journal.append(replace(STATE, seq=2, commands=COMMANDS), JournalBatch())
    (stored,) = await journal.load()
    assert stored.state == replace(STATE, seq=2, commands=COMMANDS)
    await journal.append(replace(STATE, seq=3), JournalBatch(commands=encode(())))
    (stored,) = await journal.load()
    assert stored.state == replace(STATE, seq=3)


async def test_the_waiting_messages_of_an_earlier_version_are_known(tmp_path: Path) -> None:
    with closing(connect(tmp_path / "runner.db")) as db:
        migrate(db, MIGRATIONS[:7])
        db.execute("INSERT INTO sessions VALUES (?, ?, ?)", (SESSION, encode(SPEC), encode(STATE)))
        message = encode(QueueItem(id="i", text="hello", created_at=1))
        db.execute("INSERT INTO messages VALUES (?, 'i', ?)", (SESSION, message))
    journal = await Journal.open(tmp_path / "runner.db")
    assert await journal.read_message(SESSION, "i") == message
    (stored,) = await journal.load()
    assert stored.message_sizes == {"i": len(message)}
    await journal.close()


async def test_the_commands_of_an_earlier_version_are_known(tmp_path: Path) -> None:
    state = replace(STATE, seq=4, commands=COMMANDS)
    with closing(connect(tmp_path / "runner.db")) as db:
        migrate(db, MIGRATIONS[:6])
        db.execute("INSERT INTO sessions VALUES (?, ?, ?)", (SESSION, encode(SPEC), encode(state)))
    journal = await Journal.open(tmp_path / "runner.db")
    await journal.append(replace(state, seq=5), JournalBatch())
    (stored,) = await journal.load()
    assert stored.state == replace(state, seq=5)
    await journal.close()


async def test_of_a_restored_session_only_what_belongs_to_its_state_stays(
    journal: Journal, tmp_path: Path
) -> None:
    await journal.append(replace(STATE, seq=2), JournalBatch(messages={"old": b"1", "kept": b"2"}))
    await journal.append(replace(STATE, seq=3), batch_of(3))
    state = replace(STATE, seq=9, queue=(QueueRef("kept"), QueueRef("lost")))
    await journal.restore_sessions(
        [StoredSession(SPEC, state, {"kept": 1})], [(SESSION, ItemOutcome("old", S.DELIVERED, 9))]
    )
    (stored,) = await journal.load()
    assert (stored.state, [*stored.message_sizes], stored.confirmed) == (state, ["kept"], 9)
    assert journal.find_outcome(SESSION, "old") == ItemOutcome("old", S.DELIVERED, 9)


# -- the welcome


@pytest.mark.parametrize(
    ("state", "queued", "restored", "settled"),
    [
        # It has an outcome on the hub: the log has it too, if this session goes on with the hub's state.
        (S.DELIVERED, True, False, S.DELIVERED),
        (S.CANCELLED, True, True, S.CANCELLED),
        (S.CANCELLED, False, False, S.CANCELLED),
        (S.DELIVERED, False, True, None),
        # It has none there, and the runner has nothing of it.
        (S.QUEUED, False, False, S.UNKNOWN),
        (S.HANDED_OVER, False, True, S.UNKNOWN),
        (S.ACCEPTED, False, True, S.UNKNOWN),
        (S.ACCEPTED, False, False, None),
        # The runner has it.
        (S.QUEUED, True, False, None),
        (S.HANDED_OVER, True, True, None),
    ],
)
def test_what_is_settled_of_the_items_on_which_hub_and_runner_differ(
    state: ItemState, *, queued: bool, restored: bool, settled: ItemState | None
) -> None:
    queue = (QueueRef("item"),) if queued else ()
    found = settling_commands({"item": state}, 7, queue, restored=restored)
    assert [(one.item_id, one.state, one.checked) for one in found] == (
        [] if settled is None else [("item", settled, 7)]
    )


async def test_a_thousand_sessions_of_a_lost_journal_go_on(tmp_path: Path) -> None:
    """Their turns end as lost, their items as unknown, and all of it is in the journal."""
    runner = await Runner.open(tmp_path)
    ids = [new_id() for _ in range(1000)]
    known = [
        KnownSession(
            replace(SPEC, id=id),
            replace(
                STATE, id=id, seq=40, generation=2, native_id=id, registered=True, turn_id="turn", turn_item="item",
                status=ev.SessionStatus.WORKING, queue=(QueueRef("item", S.HANDED_OVER), QueueRef("waits")),
            ),
        )
        for id in ids
    ]  # fmt: skip
    welcome = Welcome(acked=dict.fromkeys(ids, 42), restored=known)
    try:
        await runner.handle_welcome(welcome)
        for id in ids:
            actor = runner.actor(id)
            assert actor is not None
            await eventually(lambda actor=actor: actor.state.turn_id is None)
            state = actor.state
            assert (state.status, state.queue, state.native_id) == (ev.SessionStatus.STOPPED, (), id)
            await actor.execute(commands.Stop())
            waiting = actor.log.find_outcome("waits")
            assert waiting is not None
            assert waiting.state is S.UNKNOWN
    finally:
        await runner.close()
    with closing(sqlite3.connect(tmp_path / "runner.db")) as db:
        kinds = [
            kind for (kind,) in db.execute("SELECT kind FROM outbox WHERE session = ? ORDER BY seq", ids[:1])
        ]
        [(first,)] = db.execute("SELECT min(seq) FROM outbox").fetchall()
    assert first == 43
    assert sorted(kinds) == ["launch_end", "queue_update", "queue_update", "turn_end"]


async def test_a_kill_during_the_restore_of_a_session_does_not_forget_what_may_have_run(
    tmp_path: Path,
) -> None:
    """The next welcome does not name an accepted item any more: the session is then as new as on the hub."""
    runner = await Runner.open(tmp_path)
    known = KnownSession(SPEC, replace(STATE, seq=40, native_id=SESSION, registered=True))
    item = new_id()
    welcome = Welcome(acked={SESSION: 40}, restored=[known], items={SESSION: {item: S.ACCEPTED}})
    copy = tmp_path / "copy.db"
    restore = Journal.restore_sessions

    async def restore_and_copy(self: Journal, *args: Any) -> None:
        await restore(self, *args)
        with closing(connect(tmp_path / "runner.db")) as source, closing(sqlite3.connect(copy)) as target:
            source.backup(target)

    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Journal, "restore_sessions", restore_and_copy)
            await runner.handle_welcome(welcome)
        actor = runner.actor(SESSION)
        assert actor is not None
        await eventually(lambda: (found := actor.log.find_outcome(item)) is not None and found.seq > 40)
    finally:
        await runner.close()
    killed = await Journal.open(copy)
    try:
        assert killed.find_outcome(SESSION, item) == ItemOutcome(item, S.UNKNOWN, 0)
    finally:
        await killed.close()
    with closing(sqlite3.connect(tmp_path / "runner.db")) as db:
        rows = db.execute("SELECT count(*) FROM outbox WHERE kind = 'queue_update'").fetchall()
    assert rows == [(1,)]
