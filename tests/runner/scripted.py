"""A scripted adapter and other stand-ins for the tests of the runner."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from farsteer.agents.base import Adapter, Exited, Launch, LaunchPlan, Output, Prompt, Sink, TurnEnded
from farsteer.core.approvals import Answer, Approval
from farsteer.core.capabilities import AgentInfo, Capabilities
from farsteer.core.events import (
    Delta,
    Entry,
    FileRestore,
    FilesRestored,
    TurnEndReason,
    decode_entry,
    kind_of,
)
from farsteer.core.modes import PermissionMode
from farsteer.core.session import SessionState
from farsteer.link.messages import EncodedEntry
from farsteer.runner.journal import ItemOutcome, Journal, JournalBatch
from farsteer.runner.session.drafts import DraftDelta

SECONDS = 10.0
E = TypeVar("E", bound=msgspec.Struct)


class ScriptedLaunch(Launch):
    """Records calls in queues and lists; a test emits its output."""

    def __init__(self, plan: LaunchPlan, sink: Sink) -> None:
        self.plan = plan
        self.sink = sink
        self.prompts: asyncio.Queue[Prompt] = asyncio.Queue()
        self.answers: asyncio.Queue[tuple[Approval, Answer]] = asyncio.Queue()
        self.interrupts: asyncio.Queue[None] = asyncio.Queue()
        self.modes: list[PermissionMode] = []
        self.mode_error: Exception | None = None
        self.send_error: Exception | None = None
        self.steered: list[Prompt] = []
        self.steer_error: Exception | None = None
        self.steer_hangs = False
        self.restored: list[tuple[str, str | None]] = []
        self.restore_error: Exception | None = None
        self.reported_id: str | None = None
        """The native id the agent reports, if it is another one than it was given."""
        self.gone = False
        self.answers_after: asyncio.Task[None] | None = None
        """`interrupt` returns when this task is done."""
        self.ends_in_send: TurnEndReason | None = None
        """If set, the turn ends this way before `send` returns, which it does when `release` is set."""
        self.release = asyncio.Event()

    @property
    def native_id(self) -> str | None:
        return self.reported_id or self.plan.decision.native_id

    @property
    def pid(self) -> int:
        return 0

    async def send(self, prompt: Prompt) -> None:
        if self.send_error is not None:
            raise self.send_error
        self.prompts.put_nowait(prompt)
        if self.ends_in_send is not None:
            await self.finish(prompt, self.ends_in_send)
            await self.release.wait()

    async def answer(self, approval: Approval, answer: Answer) -> None:
        self.answers.put_nowait((approval, answer))

    async def interrupt(self) -> None:
        self.interrupts.put_nowait(None)
        if self.answers_after is not None:
            await self.answers_after

    async def set_permission_mode(self, mode: PermissionMode) -> None:
        if self.mode_error is not None:
            raise self.mode_error
        self.modes.append(mode)

    async def steer(self, prompt: Prompt) -> None:
        if self.steer_error is not None:
            raise self.steer_error
        self.steered.append(prompt)
        if self.steer_hangs:
            await self.release.wait()

    async def restore_files(self, message_id: str, after: str | None) -> FilesRestored:
        self.restored.append((message_id, after))
        if self.restore_error is not None:
            raise self.restore_error
        return FilesRestored(status=FileRestore.FULL, restored=("a.txt",))

    async def stop(self, grace: float = 3.0) -> None:
        await self.exit(0, "stopped")

    async def exit(self, code: int, reason: str) -> None:
        if not self.gone:
            self.gone = True
            await self.sink.put([Exited(exit_code=code, reason=reason)])

    async def emit(self, *outputs: Output) -> None:
        await self.sink.put(outputs)

    async def prompt(self) -> Prompt:
        async with asyncio.timeout(SECONDS):
            return await self.prompts.get()

    async def finish(self, prompt: Prompt, reason: TurnEndReason = TurnEndReason.END_TURN) -> None:
        await self.emit(TurnEnded(turn_id=prompt.turn_id, reason=reason))


class ScriptedAdapter(Adapter):
    """Starts `ScriptedLaunch`es, while `gate` is set."""

    name = "scripted"
    title = "Scripted"
    capabilities = Capabilities(caller_chosen_id=True, resume=True, approvals=True, live_mode=True)

    def __init__(self) -> None:
        self.launches: asyncio.Queue[ScriptedLaunch] = asyncio.Queue()
        self.plans: list[LaunchPlan] = []
        self.start_error: Exception | None = None
        self.start_errors: list[Exception] = []
        """The errors of the next starts, one each."""
        self.reported_id: str | None = None
        self.at_start: Output | None = None
        """What each launch emits when it has started."""
        self.gate = asyncio.Event()
        self.gate.set()

    async def detect(self) -> AgentInfo:
        return AgentInfo(name=self.name, title=self.title, available=True, capabilities=self.capabilities)

    async def start(self, plan: LaunchPlan, sink: Sink) -> Launch:
        self.plans.append(plan)
        await self.gate.wait()
        if self.start_errors:
            raise self.start_errors.pop(0)
        if self.start_error is not None:
            raise self.start_error
        launch = ScriptedLaunch(plan, sink)
        launch.reported_id = self.reported_id
        self.launches.put_nowait(launch)
        if self.at_start is not None:
            await launch.emit(self.at_start)
        return launch

    async def launch(self) -> ScriptedLaunch:
        async with asyncio.timeout(SECONDS):
            return await self.launches.get()


class Recorder:
    """A publisher that records what was published and lets a test wait for it."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.states: list[SessionState] = []
        self.deltas: list[Delta] = []
        self._published = asyncio.Event()

    def publish(self, state: SessionState, entries: Sequence[EncodedEntry], *, state_changed: bool) -> None:
        self.entries += [decode_entry(bytes(entry.body)) for entry in entries]
        if state_changed:
            self.states.append(state)
        self._published.set()

    def publish_deltas(self, session: str, deltas: list[Delta]) -> None:
        self.deltas += deltas
        self._published.set()

    def kinds(self) -> list[str]:
        return [kind_of(entry.content) for entry in self.entries]

    def of(self, kind: type[E]) -> list[E]:
        return [entry.content for entry in self.entries if isinstance(entry.content, kind)]

    async def until(self, kind: type[E], count: int = 1, **fields: object) -> E:
        """Wait for the `count`th event of this kind whose fields match, and return it."""
        async with asyncio.timeout(SECONDS):
            while True:
                found = [e for e in self.of(kind) if all(getattr(e, k) == v for k, v in fields.items())]
                if len(found) >= count:
                    return found[count - 1]
                self._published.clear()
                await self._published.wait()


class CountingJournal(Journal):
    """A journal that counts commits. They wait until `writable` is set."""

    def __init__(self, journal: Journal, *, writable: bool = False) -> None:
        self._inner = journal
        self.appends = 0
        self.writable = asyncio.Event()
        if writable:
            self.writable.set()

    async def append(
        self, state: SessionState, batch: JournalBatch, draft_deltas: Sequence[DraftDelta] = ()
    ) -> None:
        self.appends += 1
        await self.writable.wait()
        await self._inner.append(state, batch, draft_deltas)

    def find_outcome(self, session: str, item: str) -> ItemOutcome | None:
        return self._inner.find_outcome(session, item)
