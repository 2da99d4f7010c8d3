from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from farsteer.core.session import SessionSpec, SessionState
from farsteer.runner.journal import Journal, StoredSession
from farsteer.runner.session.actor import SessionActor
from farsteer.runner.session.context import ActorContext, Limits
from farsteer.runner.session.log import SessionLog
from tests.runner.scripted import Recorder, ScriptedAdapter

SESSION = "0f9d4a52-5c1e-4f6e-9d3a-0c8b8f0d1a11"


class SessionHarness:
    """One session actor with a real journal and a scripted agent."""

    def __init__(self, journal: Journal, tmp_path: Path) -> None:
        self.journal = journal
        self.adapter = ScriptedAdapter()
        self.out = Recorder()
        self.tmp_path = tmp_path
        self.actor: SessionActor | None = None
        self.limits = Limits(interrupt=0.05, interrupt_end=0.05, stop_grace=0.5, prewarm_delay=0.02)

    async def create(self, **spec: object) -> SessionActor:
        asked = SessionSpec(id=SESSION, machine_id="m", directory=str(self.tmp_path), **spec)  # pyright: ignore[reportArgumentType]
        state = SessionState(id=SESSION, agent="scripted", directory=str(self.tmp_path))
        await self.journal.create_session(asked, state)
        return self.start(StoredSession(asked, state))

    async def reload(self) -> SessionActor:
        """Load the session from the journal, as a runner does when it starts."""
        (stored,) = await self.journal.load()
        return self.start(stored)

    def start(self, stored: StoredSession) -> SessionActor:
        spec = stored.spec
        log = SessionLog(
            stored.state, self.journal, self.out, stored.finished_items, stored.payloads, stored.drafts
        )
        context = ActorContext(self.adapter, str(self.tmp_path), self.limits)
        self.actor = SessionActor(spec, log, context)
        self.actor.run_in_background()
        return self.actor


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[SessionHarness]:
    journal = await Journal.open(tmp_path / "runner.db")
    harness = SessionHarness(journal, tmp_path)
    yield harness
    if harness.actor is not None:
        await harness.actor.close("end of test")
    await journal.close()
