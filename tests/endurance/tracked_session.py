"""What the test knows of one session: its log so far, and what a client has sent to it."""

from __future__ import annotations

import sqlite3

from msgspec.structs import replace

from farsteer.core.events import SessionStatus, decode_entry
from farsteer.core.queue import ItemState
from farsteer.core.session import SessionSpec, SessionState, apply
from farsteer.core.wire import decode
from farsteer.hub.store.sqlite.commands import read_state
from tests.endurance.log_checker import LogChecker


class TrackedSession:
    def __init__(self, db: sqlite3.Connection, id: str, *, set_back: bool = False) -> None:
        self.id = id
        self.local_ids: dict[str, str] = {}
        """The texts that a client has sent, by local id. It may not know whether they arrived."""
        self.names: dict[str, str] = {}
        """The item of each local id, as far as the hub has answered."""
        self.set_back = set_back
        """The hub had more entries of this session and was set back to an earlier copy of its database."""
        self.read_from_start(db)

    def read_from_start(self, db: sqlite3.Connection) -> None:
        """Begin to check the log at its first entry."""
        raw_spec, raw_state, copied = db.execute(
            "SELECT spec, state, copied FROM sessions WHERE id = ?", (self.id,)
        ).fetchone()
        spec, stored = decode(raw_spec, SessionSpec), decode(raw_state, SessionState)
        self.fork = spec.fork
        state = SessionState(
            id=self.id, agent=stored.agent, directory=stored.directory, title=spec.title,
            title_by_user=spec.title is not None, permission_mode=spec.permission_mode, model=spec.model,
            effort=spec.effort, seq=copied,
        )  # fmt: skip
        rows = db.execute("SELECT body FROM copies WHERE session_id = ? ORDER BY seq", (self.id,))
        entries = [decode_entry(body) for (body,) in rows]
        if spec.native_id is not None:
            state = replace(state, status=SessionStatus.STOPPED)
            for entry in entries:
                state = apply(state, entry.content)
        self.checker = LogChecker(state, copied=entries, set_back=self.set_back)
        assert len(self.checker.visible) == copied, f"{copied} entries were copied"

    def check(self, db: sqlite3.Connection) -> None:
        """Check what was added to the log, and that it agrees with the items of the store."""
        rows = db.execute(
            "SELECT seq, body FROM log WHERE subject = ? AND seq > ? ORDER BY seq", (self.id, self.checker.seq)
        ).fetchall()  # fmt: skip
        for seq, body in rows:
            entry = decode_entry(body)
            assert entry.seq == seq
            self.checker.check_entry(entry)
        for item_id, state in self.item_states(db).items():
            # An outcome that the hub knows first follows in the log.
            history = self.checker.items.get(item_id)
            if history is not None and history.outcome is not None:
                assert history.outcome is state, (
                    f"{item_id}: the log says {history.outcome}, the store {state}"
                )

    def item_states(self, db: sqlite3.Connection) -> dict[str, ItemState]:
        rows = db.execute("SELECT id, state FROM items WHERE session_id = ?", (self.id,))
        return {id: ItemState(state) for id, state in rows}

    def items_by_local_id(self, db: sqlite3.Connection) -> dict[str, str]:
        return dict(db.execute("SELECT local_id, id FROM items WHERE session_id = ?", (self.id,)))

    def stored_state(self, db: sqlite3.Connection) -> SessionState:
        (state,) = db.execute("SELECT state FROM sessions WHERE id = ?", (self.id,)).fetchone()
        return read_state(db, self.id, state)

    def check_names(self, db: sqlite3.Connection) -> None:
        """Check that no message is lost and each has an outcome."""
        states, by_local_id = self.item_states(db), self.items_by_local_id(db)
        for name, item_id in self.names.items():
            assert by_local_id[name] == item_id, f"{name} is lost"
        for name, item_id in by_local_id.items():
            assert states[item_id].final, f"{name} has no outcome: {states[item_id]}"

    def why_busy(self, db: sqlite3.Connection) -> str | None:
        """Return what has no end yet: a turn, or an item without an outcome in the store or in the log."""
        items = self.checker.items
        for id, state in self.item_states(db).items():
            logged = items[id].states if id in items else []
            if not state.final or not logged or not logged[-1].final:
                return f"item {id} is {state.value} and has {[one.value for one in logged]} in the log"
        turn = self.stored_state(db).turn_id
        return None if turn is None else f"turn {turn}"

    def forget_lost_names(self, db: sqlite3.Connection) -> None:
        """A hub that was set back may have lost messages. A client does not repeat them: it was told they arrived."""
        stored = self.items_by_local_id(db)
        for name in [name for name in self.local_ids if name not in stored]:
            del self.local_ids[name]
            self.names.pop(name, None)
