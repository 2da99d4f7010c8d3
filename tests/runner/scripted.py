"""An adapter that does exactly what a test tells it, step by step."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar

import msgspec

from farsteer.agents.base import Adapter, Exited, Launch, LaunchPlan, Output, Prompt, Sink, TurnEnded
from farsteer.core.approvals import Answer, Approval
from farsteer.core.capabilities import AgentInfo, Capabilities
from farsteer.core.events import Delta, Entry, FileRestore, FilesRestored, TurnEndReason, decode_entry
from farsteer.core.modes import PermissionMode
from farsteer.core.session import SessionState
from farsteer.link.messages import EncodedEntry
from farsteer.runner.journal import Journal, Payloads
from farsteer.runner.session.drafts import DraftDelta, DraftKey

SECONDS = 10.0


class ScriptedLaunch(Launch):
    def __init__(self, plan: LaunchPlan, sink: Sink) -> None:
        self.plan = plan
        self.sink = sink
        self.prompts: asyncio.Queue[Prompt] = asyncio.Queue()
        self.answers: asyncio.Queue[tuple[Approval, Answer]] = asyncio.Queue()
        self.interrupts: asyncio.Queue[None] = asyncio.Queue()
        self.modes: list[PermissionMode] = []
        self.send_error: Exception | None = None
        self.steered: list[Prompt] = []
        self.steer_error: Exception | None = None
        self.steer_hangs = False
        self.restored: list[tuple[str, str | None]] = []
        self.reported_id: str | None = None
        """The native id the agent reports, if it is not the one it was given."""
        self.gone = False
        self.answers_after: asyncio.Task[None] | None = None
        """An interrupt is answered when this is done."""
        self.ends_in_send: TurnEndReason | None = None
        """How the turn ends before `send` returns, which it does at `release`."""
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
        self.modes.append(mode)

    async def steer(self, prompt: Prompt) -> None:
        if self.steer_error is not None:
            raise self.steer_error
        self.steered.append(prompt)
        if self.steer_hangs:
            await self.release.wait()

    async def restore_files(self, message_id: str, after: str | None) -> FilesRestored:
        self.restored.append((message_id, after))
        return FilesRestored(status=FileRestore.FULL, restored=("a.txt",))

    async def stop(self, grace: float = 3.0) -> None:
        await self.exit(0, "stopped")

    async def exit(self, code: int, reason: str) -> None:
        if not self.gone:
            self.gone = True
            await self.sink.put([Exited(exit_code=code, reason=reason)])

    async def say(self, *outputs: Output) -> None:
        await self.sink.put(outputs)

    async def prompt(self) -> Prompt:
        async with asyncio.timeout(SECONDS):
            return await self.prompts.get()

    async def finish(self, prompt: Prompt, reason: TurnEndReason = TurnEndReason.END_TURN) -> None:
        await self.say(TurnEnded(turn_id=prompt.turn_id, reason=reason))


class ScriptedAdapter(Adapter):
    name: ClassVar[str] = "scripted"
    title: ClassVar[str] = "Scripted"
    capabilities = Capabilities(caller_chosen_id=True, resume=True, approvals=True, live_mode=True)

    def __init__(self) -> None:
        self.launches: asyncio.Queue[ScriptedLaunch] = asyncio.Queue()
        self.plans: list[LaunchPlan] = []
        self.start_error: Exception | None = None
        self.start_errors: list[Exception] = []
        """What the next starts fail with, one each."""
        self.reported_id: str | None = None
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
        return launch

    async def launch(self) -> ScriptedLaunch:
        async with asyncio.timeout(SECONDS):
            return await self.launches.get()


class Recorder:
    """A publisher that keeps what was published and lets a test wait for it."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.states: list[SessionState] = []
        self.deltas: list[Delta] = []
        self._news = asyncio.Event()

    def publish(self, state: SessionState, items: Sequence[EncodedEntry], *, changed: bool) -> None:
        self.entries += [decode_entry(bytes(item.body)) for item in items]
        if changed:
            self.states.append(state)
        self._news.set()

    def fragments(self, session: str, deltas: list[Delta]) -> None:
        self.deltas += deltas
        self._news.set()

    def kinds(self) -> list[str]:
        return [str(type(entry.content).__struct_config__.tag) for entry in self.entries]

    def of(self, kind: type[msgspec.Struct]) -> list[msgspec.Struct]:
        return [entry.content for entry in self.entries if isinstance(entry.content, kind)]

    async def until(self, kind: type[msgspec.Struct], count: int = 1, **fields: object) -> msgspec.Struct:
        """The `count`th event of this kind whose fields match."""
        async with asyncio.timeout(SECONDS):
            while True:
                found = [e for e in self.of(kind) if all(getattr(e, k) == v for k, v in fields.items())]
                if len(found) >= count:
                    return found[count - 1]
                self._news.clear()
                await self._news.wait()


class WatchedDisk(Journal):
    """A journal that counts the commits it is asked for; they begin while it `spins`."""

    def __init__(self, journal: Journal, *, spins: bool = False) -> None:
        self._inner = journal
        self.appends = 0
        self.spin = asyncio.Event()
        if spins:
            self.spin.set()

    async def append(
        self,
        state: SessionState,
        items: Sequence[EncodedEntry],
        settled: Sequence[str] = (),
        payloads: Payloads | None = None,
        drafts: Sequence[DraftDelta] = (),
        finished: Sequence[DraftKey] = (),
    ) -> None:
        self.appends += 1
        await self.spin.wait()
        await self._inner.append(state, items, settled, payloads, drafts, finished)
