"""Where a contract is played: directories of its own, launches whose every output is kept and audited at the end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import psutil

from farsteer.agents.base import (
    Adapter,
    ApprovalAsked,
    DeltaEmitted,
    EventEmitted,
    Exited,
    Launch,
    LaunchPlan,
    Output,
    Prompt,
    TurnEnded,
)
from farsteer.agents.conformance.audit import audit
from farsteer.agents.conformance.script import Script
from farsteer.agents.process.environment import scrub_environment
from farsteer.core.approvals import Answer, Approval, Outcome, check_answer
from farsteer.core.events import AgentMessage, AgentThought, SessionEvent, TextBlock, ToolCallUpdate
from farsteer.core.ids import new_id
from farsteer.core.launch import LaunchDecision, LaunchMode
from farsteer.core.modes import PermissionMode

Kind = TypeVar("Kind", bound=Output)
EventKind = TypeVar("EventKind", bound=SessionEvent)


class Recorder:
    """A sink that keeps everything and lets a contract wait for it."""

    def __init__(self) -> None:
        self.outputs: list[Output] = []
        self._news = asyncio.Condition()

    async def put(self, outputs: Sequence[Output]) -> None:
        self.outputs += outputs
        async with self._news:
            self._news.notify_all()

    async def until(self, condition: Callable[[], bool], seconds: float) -> None:
        async with self._news:
            async with asyncio.timeout(seconds):
                await self._news.wait_for(condition)


class Scene:
    """One launch and what it said."""

    def __init__(self, launch: Launch, recorder: Recorder, plan: LaunchPlan, patience: float) -> None:
        self.launch = launch
        self.plan = plan
        self.patience = patience
        self.sent: list[str] = []
        self.messages: list[str] = []
        """Our names for the messages that were sent."""
        self._recorder = recorder

    @property
    def outputs(self) -> list[Output]:
        return self._recorder.outputs

    def of(self, kind: type[Kind]) -> list[Kind]:
        return [output for output in self.outputs if isinstance(output, kind)]

    def events(self, kind: type[EventKind]) -> list[EventKind]:
        return [said.event for said in self.of(EventEmitted) if isinstance(said.event, kind)]

    async def until(self, condition: Callable[[], bool], seconds: float | None = None) -> None:
        await self._recorder.until(condition, seconds or self.patience)

    async def begin(self, text: str) -> str:
        """Send a message; its turn runs."""
        turn_id, message_id = new_id(), new_id()
        await self.launch.send(Prompt(turn_id=turn_id, text=text, message_id=message_id))
        self.sent.append(turn_id)
        self.messages.append(message_id)
        return turn_id

    def has_ended(self, turn_id: str) -> bool:
        return any(ended.turn_id == turn_id for ended in self.of(TurnEnded))

    async def end(self, turn_id: str) -> TurnEnded:
        await self.until(lambda: self.has_ended(turn_id))
        return next(ended for ended in self.of(TurnEnded) if ended.turn_id == turn_id)

    async def turn(self, text: str) -> TurnEnded:
        return await self.end(await self.begin(text))

    async def working(self, text: str) -> str:
        """Send a message and wait until the agent says something about it."""
        before = len(self._told())
        turn_id = await self.begin(text)
        await self.until(lambda: len(self._told()) > before)
        return turn_id

    async def asked(self, count: int = 1) -> list[Approval]:
        await self.until(lambda: len(self.of(ApprovalAsked)) >= count)
        return [asked.approval for asked in self.of(ApprovalAsked)]

    async def answer(
        self, approval: Approval, outcome: Outcome, answers: dict[str, list[str]] | None = None
    ) -> None:
        await self.launch.answer(approval, check_answer(approval, Answer(outcome=outcome, answers=answers)))

    async def exited(self) -> Exited:
        await self.until(lambda: bool(self.of(Exited)))
        return self.of(Exited)[0]

    def words(self) -> str:
        """All that can be read of it: messages, thoughts, results of tools."""
        texts = [event.text for event in (*self.events(AgentMessage), *self.events(AgentThought))]
        for update in self.events(ToolCallUpdate):
            texts += [block.text for block in update.content if isinstance(block, TextBlock)]
            texts.append(str(update.output or ""))
        return "\n".join(texts)

    def _told(self) -> list[Output]:
        return [
            output
            for output in self.outputs
            if isinstance(output, EventEmitted | DeltaEmitted | ApprovalAsked)
        ]


class Stage:
    def __init__(self, adapter: Adapter, script: Script, folder: Path, patience: float) -> None:
        self.adapter = adapter
        self.script = script
        self.patience = patience
        self.directory = folder / "project"
        self.directory.mkdir()
        state = folder / "state"
        state.mkdir(mode=0o700)
        self.state_dir = str(state)
        self._scenes: list[Scene] = []
        self._processes_before = set(psutil.Process().children(recursive=True))

    def plan(
        self, *, session_id: str | None = None, resume: str | None = None, cut_at: str | None = None,
        fork_of: str | None = None, mode: PermissionMode = PermissionMode.DEFAULT, directory: Path | None = None,
        machine: Mapping[str, str] = os.environ, startup_timeout: float | None = None,
    ) -> LaunchPlan:  # fmt: skip
        """A plan as the runner makes it. `resume` is a native id; `machine` is the runner's own environment."""
        session = session_id or new_id()
        chosen = session if self.adapter.capabilities.caller_chosen_id else None
        start = LaunchMode.RESUME if resume else LaunchMode.CREATE
        return LaunchPlan(
            session_id=session, directory=str(directory or self.directory), generation=len(self._scenes) + 1,
            decision=LaunchDecision(start=start, native_id=resume or chosen), permission_mode=mode, cut_at=cut_at,
            fork_of=fork_of, state_dir=self.state_dir,
            environment=scrub_environment(machine, self.adapter.environment_names),
            startup_timeout=startup_timeout or max(self.patience, 60.0),
        )  # fmt: skip

    async def launch(self, plan: LaunchPlan | None = None) -> Scene:
        plan = plan or self.plan()
        recorder = Recorder()
        launch = await self.adapter.start(plan, recorder)
        scene = Scene(launch, recorder, plan, self.patience)
        self._scenes.append(scene)
        return scene

    async def again(
        self, scene: Scene, *, cut_at: str | None = None, mode: PermissionMode = PermissionMode.DEFAULT
    ) -> Scene:
        """End the launch and resume its conversation in a new one."""
        await scene.launch.stop()
        native_id = scene.launch.native_id
        assert native_id is not None, "a conversation that is to be resumed must have a native id"
        session_id = scene.plan.session_id
        return await self.launch(self.plan(session_id=session_id, resume=native_id, cut_at=cut_at, mode=mode))

    def has_transcript(self, session_id: str) -> bool:
        return self.adapter.has_transcript(session_id, self.state_dir)

    def leftovers(self) -> list[psutil.Process]:
        """Living processes that were started here since the stage was set."""
        found = set(psutil.Process().children(recursive=True)) - self._processes_before
        return [process for process in found if _alive(process)]

    async def abandon(self) -> None:
        """End every launch of a play that has failed already."""
        for scene in self._scenes:
            await scene.launch.stop(0.2)

    async def close(self) -> None:
        """End every launch and hold it to the rules."""
        for scene in self._scenes:
            await scene.launch.stop(0.5)
        for scene in self._scenes:
            await scene.exited()
            audit(scene.outputs, scene.sent)
        assert self.leftovers() == [], "a launch that was stopped left processes"


def _alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
