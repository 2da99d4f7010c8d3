"""The test harness of the conformance suite: starts launches, records their outputs and checks them at the end."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec
import psutil

from farsteer.agents.base import (
    Adapter,
    ApprovalAsked,
    ApprovalWithdrawn,
    DeltaEmitted,
    EventEmitted,
    Exited,
    Launch,
    LaunchPlan,
    Output,
    Prompt,
    TurnBegun,
    TurnEnded,
)
from farsteer.agents.process import posix
from farsteer.agents.process.environment import scrub_environment
from farsteer.core.approvals import Answer, Approval, Outcome, check_answer
from farsteer.core.events import AgentMessage, AgentThought, SessionEvent, TextBlock, ToolCallUpdate
from farsteer.core.ids import new_id
from farsteer.core.launch import LaunchDecision, LaunchMode
from farsteer.core.modes import PermissionMode

OutputKind = TypeVar("OutputKind", bound=Output)
EventKind = TypeVar("EventKind", bound=SessionEvent)


class Prompts(msgspec.Struct, frozen=True, kw_only=True):
    """The prompts that make the agent under test behave in a certain way.

    Give as many as your agent supports. A contract whose prompt is None is skipped.
    """

    answer: str
    """The agent gives a short answer."""
    long: str
    """The agent emits something at once and then works for at least half a minute, unless it is interrupted."""
    tool: str | None = None
    """The agent creates `tool_file` in its directory, which needs a permission in mode `default`."""
    tool_file: str = ""
    two_tools: str | None = None
    """The agent creates both `two_files` and asks for the two permissions at once."""
    two_files: tuple[str, str] = ("", "")
    question: str | None = None
    """The agent asks a question."""
    plan: str | None = None
    """The agent proposes a plan. Used in mode `plan`."""
    shell: str | None = None
    """The agent runs `{command}` in a shell and shows its output. Used in mode `yolo`."""
    remember: str | None = None
    """A message that contains `{word}` and gets a short answer."""
    recall: str | None = None
    """The agent answers with every remembered word."""
    thinks: str | None = None
    """The agent emits a thought and then a message."""
    transcript: str | None = None
    """The agent answers with everything that both sides said before."""
    overwrite: str | None = None
    """The agent writes `{text}` into `tool_file`, replacing its content. Used in mode `yolo`."""
    crash: str | None = None
    """The process dies during the turn."""
    crash_mid: str | None = None
    """The process dies in the middle of a message."""
    stubborn: str | None = None
    """The agent emits something and then ignores interrupts, the end of its input and SIGTERM."""
    loosen: str | None = None
    """The agent loosens its permission mode without having been asked, and ends its turn."""
    ends_early: str | None = None
    """The agent reports the end of the turn and then emits more."""
    repeats: str | None = None
    """The agent sends the same message more than once."""
    unknown: str | None = None
    """The agent sends an event of a kind that the adapter does not know."""
    garbage: str | None = None
    """The agent writes lines that are not part of its protocol."""


class RecordingSink:
    """A sink that keeps every output and wakes up those who wait for one."""

    def __init__(self) -> None:
        self.outputs: list[Output] = []
        self._changed = asyncio.Condition()

    async def put(self, outputs: Sequence[Output]) -> None:
        self.outputs += outputs
        async with self._changed:
            self._changed.notify_all()

    async def wait_until(self, condition: Callable[[], bool], seconds: float) -> None:
        async with self._changed:
            async with asyncio.timeout(seconds):
                await self._changed.wait_for(condition)


class RecordedLaunch:
    """A launch with all its outputs, and helpers to run turns on it."""

    def __init__(self, launch: Launch, sink: RecordingSink, plan: LaunchPlan, step_timeout: float) -> None:
        self.launch = launch
        self.plan = plan
        self.step_timeout = step_timeout
        self.turn_ids: list[str] = []
        """The turns whose `Launch.send` returned."""
        self.message_ids: list[str] = []
        """The `Prompt.message_id` of each sent message."""
        self._sink = sink

    @property
    def outputs(self) -> list[Output]:
        return self._sink.outputs

    def outputs_of(self, kind: type[OutputKind]) -> list[OutputKind]:
        return [output for output in self.outputs if isinstance(output, kind)]

    def events_of(self, kind: type[EventKind]) -> list[EventKind]:
        return [output.event for output in self.outputs_of(EventEmitted) if isinstance(output.event, kind)]

    async def wait_until(self, condition: Callable[[], bool], seconds: float | None = None) -> None:
        """Wait for an output that makes `condition` true. Raises TimeoutError."""
        await self._sink.wait_until(condition, seconds or self.step_timeout)

    async def send(self, text: str) -> str:
        """Send a message. Returns the id of its turn, which is running."""
        turn_id, message_id = new_id(), new_id()
        await self.launch.send(Prompt(turn_id=turn_id, text=text, message_id=message_id))
        self.turn_ids.append(turn_id)
        self.message_ids.append(message_id)
        return turn_id

    async def send_and_wait(self, text: str) -> str:
        """Send a message and wait for the first output of its turn. Returns the id of the turn."""
        before = len(self._turn_outputs())
        turn_id = await self.send(text)
        await self.wait_until(lambda: len(self._turn_outputs()) > before)
        return turn_id

    async def run_turn(self, text: str) -> TurnEnded:
        """Send a message and wait for the end of its turn."""
        return await self.wait_for_end(await self.send(text))

    def has_ended(self, turn_id: str) -> bool:
        return any(ended.turn_id == turn_id for ended in self.outputs_of(TurnEnded))

    async def wait_for_end(self, turn_id: str) -> TurnEnded:
        await self.wait_until(lambda: self.has_ended(turn_id))
        return next(ended for ended in self.outputs_of(TurnEnded) if ended.turn_id == turn_id)

    async def wait_for_approvals(self, count: int = 1) -> list[Approval]:
        """Wait until `count` approvals were asked since the start. Returns all of them."""
        await self.wait_until(lambda: len(self.outputs_of(ApprovalAsked)) >= count)
        return [asked.approval for asked in self.outputs_of(ApprovalAsked)]

    async def answer(
        self, approval: Approval, outcome: Outcome, answers: dict[str, list[str]] | None = None
    ) -> None:
        await self.launch.answer(approval, check_answer(approval, Answer(outcome=outcome, answers=answers)))

    async def wait_for_exit(self) -> Exited:
        await self.wait_until(lambda: bool(self.outputs_of(Exited)))
        return self.outputs_of(Exited)[0]

    def text(self) -> str:
        """Return all text of the launch: messages, thoughts and results of tools."""
        texts = [event.text for event in (*self.events_of(AgentMessage), *self.events_of(AgentThought))]
        for update in self.events_of(ToolCallUpdate):
            texts += [block.text for block in update.content if isinstance(block, TextBlock)]
            texts.append(str(update.output or ""))
        return "\n".join(texts)

    def _turn_outputs(self) -> list[Output]:
        return [
            output
            for output in self.outputs
            if isinstance(output, EventEmitted | DeltaEmitted | ApprovalAsked)
        ]


class Harness:
    """A project directory, a state directory and all launches of one test."""

    def __init__(self, adapter: Adapter, prompts: Prompts, folder: Path, step_timeout: float) -> None:
        self.adapter = adapter
        self.prompts = prompts
        self.step_timeout = step_timeout
        """Seconds that one step of the agent may take."""
        self.directory = folder / "project"
        self.directory.mkdir()
        self.real_directory = os.path.realpath(self.directory)
        state = folder / "state"
        state.mkdir(mode=0o700)
        self.state_dir = str(state)
        self._launches: list[RecordedLaunch] = []
        self._processes_before = set(psutil.Process().children(recursive=True))

    def plan(
        self, *, session_id: str | None = None, resume: str | None = None, cut_at: str | None = None,
        fork_of: str | None = None, mode: PermissionMode = PermissionMode.DEFAULT, directory: Path | None = None,
        machine: Mapping[str, str] = os.environ, startup_timeout: float | None = None,
    ) -> LaunchPlan:  # fmt: skip
        """Return a plan as the runner makes it.

        Args:
            session_id: The session; a new one by default.
            resume: The native id of the conversation to resume. Without it a conversation is created.
            cut_at: The anchor to cut the history at.
            fork_of: The native id of the conversation to fork.
            mode: The permission mode.
            directory: The working directory; the harness's project directory by default.
            machine: The environment of the runner, of which the agent sees the allowed part.
            startup_timeout: Seconds until `start` must have returned.
        """
        session = session_id or new_id()
        chosen = session if self.adapter.capabilities.caller_chosen_id else None
        start = LaunchMode.RESUME if resume else LaunchMode.CREATE
        return LaunchPlan(
            session_id=session, directory=str(directory or self.directory), generation=len(self._launches) + 1,
            decision=LaunchDecision(start=start, native_id=resume or chosen), permission_mode=mode, cut_at=cut_at,
            fork_of=fork_of, state_dir=self.state_dir,
            environment=scrub_environment(machine, self.adapter.environment_names),
            startup_timeout=startup_timeout or max(self.step_timeout, 60.0),
        )  # fmt: skip

    async def launch(self, plan: LaunchPlan | None = None) -> RecordedLaunch:
        """Start the agent; without a plan, with a new conversation."""
        plan = plan or self.plan()
        sink = RecordingSink()
        recorded = RecordedLaunch(await self.adapter.start(plan, sink), sink, plan, self.step_timeout)
        self._launches.append(recorded)
        return recorded

    async def relaunch(
        self,
        previous: RecordedLaunch,
        *,
        cut_at: str | None = None,
        mode: PermissionMode = PermissionMode.DEFAULT,
    ) -> RecordedLaunch:
        """Stop a launch and resume its conversation in a new one."""
        await previous.launch.stop()
        native_id = previous.launch.native_id
        assert native_id is not None, "a conversation must have a native id to be resumed"
        session_id = previous.plan.session_id
        return await self.launch(self.plan(session_id=session_id, resume=native_id, cut_at=cut_at, mode=mode))

    def has_transcript(self, native_id: str) -> bool:
        return self.adapter.has_transcript(native_id, self.state_dir)

    def leftover_processes(self) -> list[psutil.Process]:
        """Return the running processes that were started since the harness was created."""
        found = set(psutil.Process().children(recursive=True)) - self._processes_before
        return [process for process in found if posix.is_running(process)]

    async def stop_all(self) -> None:
        """Stop every launch without checking anything, for a test that has failed."""
        for recorded in self._launches:
            await recorded.launch.stop(0.2)

    async def close(self) -> None:
        """Stop every launch and check that it kept the rules and left no process."""
        for recorded in self._launches:
            await recorded.launch.stop(0.5)
        for recorded in self._launches:
            await recorded.wait_for_exit()
            check_output_rules(recorded.outputs, recorded.turn_ids)
        assert self.leftover_processes() == [], "a stopped launch left processes running"


def check_output_rules(outputs: Sequence[Output], turn_ids: Sequence[str]) -> None:
    """Check the rules that hold for every launch, whatever happened in it. Raises AssertionError.

    Args:
        outputs: All outputs of a launch that has exited.
        turn_ids: The turns whose `send` returned.
    """
    _check_turn_ends(outputs, turn_ids)
    _check_exit(outputs)
    _check_deltas(outputs)
    _check_approvals(outputs)


def _check_turn_ends(outputs: Sequence[Output], turn_ids: Sequence[str]) -> None:
    ended = Counter(output.turn_id for output in outputs if isinstance(output, TurnEnded))
    begun = [output.turn_id for output in outputs if isinstance(output, TurnBegun)]
    assert ended == Counter([*turn_ids, *begun]), (
        f"each turn ends exactly once: sent {list(turn_ids)}, begun {begun}, ended {dict(ended)}"
    )


def _check_exit(outputs: Sequence[Output]) -> None:
    exits = [index for index, output in enumerate(outputs) if isinstance(output, Exited)]
    assert exits == [len(outputs) - 1], "`Exited` must be emitted exactly once, as the last output"


def _check_deltas(outputs: Sequence[Output]) -> None:
    streamed: dict[str, str] = {}
    finished: set[str] = set()
    for output in outputs:
        if isinstance(output, DeltaEmitted):
            delta = output.delta
            # Offset 0 starts again: the agent retracted what it had streamed.
            known = streamed.get(delta.message_id, "") if delta.offset else ""
            assert delta.message_id not in finished, (
                f"a delta of {delta.message_id} follows the whole message"
            )
            assert delta.offset == len(known), f"a delta of {delta.message_id} has a wrong offset"
            streamed[delta.message_id] = known + delta.text
        elif isinstance(output, EventEmitted) and isinstance(output.event, AgentMessage | AgentThought):
            event = output.event
            assert event.message_id not in finished, f"message {event.message_id} is emitted twice"
            finished.add(event.message_id)
            known = streamed.get(event.message_id, event.text)
            assert known == event.text, f"message {event.message_id} differs from its deltas"


def _check_approvals(outputs: Sequence[Output]) -> None:
    asked: set[str] = set()
    for output in outputs:
        if isinstance(output, ApprovalAsked):
            assert output.approval.id not in asked, f"approval {output.approval.id} is asked twice"
            asked.add(output.approval.id)
        elif isinstance(output, ApprovalWithdrawn):
            assert output.approval_id in asked, (
                f"approval {output.approval_id} is withdrawn but was never asked"
            )
