"""One session for the tests of `farsteer.runner.session`."""

from __future__ import annotations

from pathlib import Path

from farsteer.agents.base import Prompt
from farsteer.core import commands
from farsteer.core.approvals import Approval, ApprovalKind, Option, OptionKind
from farsteer.core.queue import QueueItem
from farsteer.core.session import SessionSpec, SessionState
from farsteer.runner.agent_places import AgentPlaces
from farsteer.runner.journal import Journal, StoredSession
from farsteer.runner.lease import RunnerLease
from farsteer.runner.session.actor import SessionActor
from farsteer.runner.session.context import ActorContext, SessionAgent, TimeLimits
from farsteer.runner.session.log import SessionLog
from tests.runner.scripted import Recorder, ScriptedAdapter, ScriptedLaunch

SESSION = "0f9d4a52-5c1e-4f6e-9d3a-0c8b8f0d1a11"
SPEC = SessionSpec(id=SESSION, machine_id="m", directory="/")


class SessionHarness:
    """One session actor with a real journal and a scripted agent."""

    def __init__(self, journal: Journal, tmp_path: Path) -> None:
        self.journal = journal
        self.adapter = ScriptedAdapter()
        self.others: dict[str, ScriptedAdapter] = {}
        """Other agents of the machine."""
        self.out = Recorder()
        self.tmp_path = tmp_path
        self.actor: SessionActor | None = None
        self.places = AgentPlaces()
        self.lease = RunnerLease()
        self.limits = TimeLimits(interrupt=0.05, interrupt_end=0.05, stop_grace=0.5, prewarm_delay=0.02)

    def find_agent(self, name: str) -> SessionAgent:
        return SessionAgent(self.others[name], str(self.tmp_path))

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
        log = SessionLog(stored.state, self.journal, self.out, stored.message_sizes, stored.drafts)
        context = ActorContext(
            SessionAgent(self.adapter, str(self.tmp_path)),
            self.limits,
            find_agent=self.find_agent,
            places=self.places,
            lease=self.lease,
        )
        self.actor = SessionActor(spec, log, context)
        self.actor.run_in_background()
        return self.actor


def item(name: str, text: str = "hello") -> QueueItem:
    return QueueItem(id=name, text=text, created_at=1, local_id=f"local-{name}")


def approval(name: str = "a") -> Approval:
    return Approval(
        id=name,
        kind=ApprovalKind.PERMISSION,
        title="run ls",
        created_at=1,
        options=(
            Option(id="y", name="Allow", kind=OptionKind.ALLOW_ONCE),
            Option(id="n", name="Reject", kind=OptionKind.REJECT_ONCE),
        ),
    )


async def start_session(harness: SessionHarness, **spec: object) -> tuple[SessionActor, ScriptedLaunch]:
    """Create a session and return it with its first launch."""
    actor = await harness.create(**spec)
    await actor.execute(commands.Create(spec=SPEC))
    return actor, await harness.adapter.launch()


async def start_turn(harness: SessionHarness, **spec: object) -> tuple[SessionActor, ScriptedLaunch, Prompt]:
    """Create a session and send it message "1". Returns when the agent has the message."""
    actor, launch = await start_session(harness, **spec)
    await actor.execute(commands.Send(item=item("1")))
    return actor, launch, await launch.prompt()
