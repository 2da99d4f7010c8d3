"""An agent that does what its messages say: `m17 accept-slow message,ask crash`.

The first word names the message, the second says how it is accepted, the third what the agent does, the fourth how the
turn ends. The "process" is a task that is not killed with the runner. Its memory survives everything, as a file would.
"""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import ClassVar

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
    Registered,
    Sink,
    TurnEnded,
)
from farsteer.core import events as ev
from farsteer.core.approvals import Answer, Approval, ApprovalKind, Option, OptionKind
from farsteer.core.capabilities import AgentInfo, Capabilities
from farsteer.core.errors import AgentError, Conflict, ErrorCode, NotCapable
from farsteer.core.events import FileRestore, FilesRestored, ToolStatus, TurnEndReason
from farsteer.core.launch import LaunchMode
from farsteer.core.modes import PermissionMode, ToolKind
from farsteer.core.session import StoredConversation
from tests.endurance.log_checker import IMPORTED
from tests.endurance.virtual_time import spawn_outside

ACCEPT_MODES = (
    "accept", "accept-slow", "accept-and-write", "accept-and-end", "refuse", "refuse-late", "die", "accept-and-die",
    "timeout", "accept-and-timeout", "bug", "accept-and-bug",
)  # fmt: skip
ACTIONS = (
    "message", "thought", "delta", "tool", "ask", "ask-two", "ask-and-withdraw", "pause", "long", "usage", "mode",
    "title", "other", "much-output",
)  # fmt: skip
TURN_ENDINGS = (
    "end", "fail", "crash", "vanish", "end-twice", "wrong-turn", "hang", "ignore-interrupt", "block-interrupt", "stray",
    "late-usage",
)  # fmt: skip
START_MODES = ("fail", "slow", "hang", "exit", "bug", "write", "ignore-stop", "slow-stop", "stop-bug")
RESTORE_MODES = ("full", "fail", "hang", "bug")


@dataclass(slots=True)
class Record:
    name: str
    """A message's first word, or what the agent said."""
    anchor: str
    by_user: bool


@dataclass
class AgentMemory:
    """What the agents of one machine keep, and what a test wants to know of them."""

    conversations: dict[str, list[Record]] = field(default_factory=dict)
    wiped: bool = False
    """Conversations were deleted behind our back."""
    received: Counter[str] = field(default_factory=Counter)
    running: dict[RandomLaunch, None] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    """What an agent has seen that it must never see."""
    starts: deque[str] = field(default_factory=deque)
    """How the next processes start."""
    restores: deque[str] = field(default_factory=deque)
    generations: dict[str, int] = field(default_factory=dict)
    ids: itertools.count[int] = field(default_factory=itertools.count)
    directory: str = ""
    may_repeat: set[str] = field(default_factory=set)
    """Messages of which hub and runner have lost every trace."""

    def converse(self) -> str:
        """Make a conversation without any session, as somebody does in a terminal. Returns its native id."""
        native_id = str(uuid.UUID(int=next(self.ids) + (4 << 76) + (2 << 62)))
        said = [f"t{next(self.ids)}", f"a{next(self.ids)}"]
        self.conversations[native_id] = [Record(name, name, by_user=name.startswith("t")) for name in said]
        return native_id

    def wipe(self) -> None:
        self.wiped = self.wiped or bool(self.conversations)
        self.conversations.clear()


class RandomLaunch(Launch):
    def __init__(self, memory: AgentMemory, plan: LaunchPlan, sink: Sink, start_mode: str) -> None:
        self.plan = plan
        self._memory = memory
        self._sink = sink
        self._start_mode = start_mode
        self._native_id = plan.decision.native_id or plan.session_id
        loop = asyncio.get_running_loop()
        self._gone: asyncio.Future[tuple[int, str]] = loop.create_future()
        self._asked_to_stop = False
        self._pipe: asyncio.Queue[list[Output] | None] = asyncio.Queue()
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._turn: str | None = None
        self._confirmed = False
        self._ignores_interrupt = self._blocks_interrupt = self._reported_lost = False
        self._interrupted = asyncio.Event()
        self._open_approvals: dict[str, asyncio.Future[Answer]] = {}
        self._registered = False
        self.records: list[Record] = []
        others = [one.plan.generation for one in memory.running if one.plan.session_id == plan.session_id]
        if others:
            memory.violations.append(f"a second process beside {others}")
        if plan.generation <= memory.generations.get(plan.session_id, 0):
            memory.violations.append(f"generation {plan.generation} twice")
        memory.generations[plan.session_id] = plan.generation
        memory.running[self] = None
        # Its outputs are read by whoever started it, and no longer when that one is dead.
        self._reader = asyncio.create_task(self._read())

    # -- the process

    def kill(self, code: int = -9, reason: str = "killed by SIGKILL") -> None:
        if self._gone.done():
            return
        self._gone.set_result((code, reason))
        self._memory.running.pop(self, None)
        for task in [*self._tasks]:
            task.cancel()
        self._pipe.put_nowait(None)

    async def open(self) -> None:
        plan, store = self.plan, self._memory.conversations
        kept = store.get(self._native_id, [])
        if plan.decision.start is LaunchMode.CREATE and kept:
            raise AgentError("it is in use", code=ErrorCode.CONVERSATION_IN_USE)
        if plan.fork_of is not None:
            kept = store.get(plan.fork_of, [])
        if (plan.decision.start is LaunchMode.RESUME or plan.fork_of is not None) and not kept:
            raise AgentError("there is none", code=ErrorCode.CONVERSATION_MISSING)
        if plan.cut_at is not None:
            at = [record.anchor for record in kept]
            if plan.cut_at not in at:
                raise AgentError("no such place", code=ErrorCode.ANCHOR_UNKNOWN)
            kept = kept[: at.index(plan.cut_at) + 1]
        self.records = [*kept]
        match self._start_mode:
            case "fail":
                raise AgentError("it does not want to")
            case "slow":
                await asyncio.sleep(2)
            case "hang":
                await asyncio.sleep(plan.startup_timeout)
                raise AgentError("it was not ready in time")
            case "bug":
                raise RuntimeError("a defect of the adapter")
            case "exit":
                self.kill(1, "it ended right after it was ready")
            case "write":
                self._emit(ev.Notice(text="hello"), ev.CommandsUpdate(commands=(ev.SlashCommand(name="x"),)))
            case _:
                await asyncio.sleep(0.05)
        if kept and plan.fork_of is None:
            self._register()

    async def _read(self) -> None:
        while (outputs := await self._pipe.get()) is not None:
            await self._sink.put(outputs)
        code, reason = self._gone.result()
        last: list[Output] = []
        if self._turn is not None and self._confirmed:
            how = TurnEndReason.CANCELLED if self._asked_to_stop else TurnEndReason.CRASHED
            last.append(TurnEnded(turn_id=self._turn, reason=how, error=reason))
        await self._sink.put([*last, Exited(exit_code=code, reason=reason)])
        # What a dead launch says counts for nothing.
        await self._sink.put([EventEmitted(event=ev.Notice(text="ghost"))])

    def _write(self, *outputs: Output) -> None:
        if not self._gone.done():
            self._pipe.put_nowait([*outputs])

    def _emit(self, *events: ev.SessionEvent) -> None:
        self._write(*(EventEmitted(event=event) for event in events))

    def _register(self) -> None:
        if not self._registered:
            self._registered = True
            self._write(Registered(native_id=self._native_id))

    def _store(self, record: Record) -> None:
        self.records.append(record)
        self._memory.conversations[self._native_id] = [*self.records]

    # -- the contract

    @property
    def native_id(self) -> str | None:
        return self._native_id

    @property
    def pid(self) -> int:
        return 0

    async def send(self, prompt: Prompt) -> None:
        self._check_alive()
        if self._turn is not None:
            self._memory.violations.append("a message inside a turn")
        self._turn, self._confirmed = prompt.turn_id, False
        self._ignores_interrupt = self._blocks_interrupt = False
        self._interrupted.clear()
        try:
            await self._hand_over(self._accept(prompt, *_script(prompt.text)))
        except Exception:
            self._turn = None
            raise

    async def steer(self, prompt: Prompt) -> None:
        self._check_alive()
        if self._turn != prompt.turn_id:
            raise Conflict("that turn is over")
        await self._hand_over(self._accept_steering(prompt))

    def _check_alive(self) -> None:
        if self._reported_lost:
            self._memory.violations.append("a message for an agent that is known to be lost")
        if self._gone.done():
            self._reported_lost = True
            raise AgentError("it is dead", code=ErrorCode.AGENT_DIED)

    async def _hand_over(self, work: asyncio.Future[None]) -> None:
        await asyncio.wait((work, self._gone), return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            self._reported_lost = True
            raise AgentError("it died", code=ErrorCode.AGENT_DIED)
        work.result()

    async def answer(self, approval: Approval, answer: Answer) -> None:
        asked = self._open_approvals.pop(approval.id, None)
        if asked is not None and not asked.done():
            asked.set_result(answer)

    async def interrupt(self) -> None:
        if self._blocks_interrupt:
            await asyncio.sleep(3600)
        if not self._ignores_interrupt:
            self._interrupted.set()

    async def stop(self, grace: float = 3.0) -> None:
        self._asked_to_stop = True
        if not self._gone.done():
            await asyncio.sleep({"ignore-stop": 2 * grace, "slow-stop": grace / 2}.get(self._start_mode, 0))
        self.kill(0, "stopped")
        with suppress(TimeoutError):
            async with asyncio.timeout(max(grace, 1.0)):
                await asyncio.shield(self._reader)
        if self._start_mode == "stop-bug":
            raise RuntimeError("a defect of the adapter")

    async def restore_files(self, message_id: str, after: str | None) -> FilesRestored:
        match self._memory.restores.popleft() if self._memory.restores else "full":
            case "fail":
                raise AgentError("no copy of that")
            case "hang":
                await asyncio.sleep(3600)
            case "bug":
                raise RuntimeError("a defect of the adapter")
            case _:
                pass
        return FilesRestored(status=FileRestore.FULL)

    async def set_permission_mode(self, mode: PermissionMode) -> None:
        if self._gone.done():
            raise AgentError("it is gone", code=ErrorCode.AGENT_DIED)

    # -- what it does with a message

    def _add_task(self, work: asyncio.Task[None]) -> None:
        self._tasks[work] = None
        work.add_done_callback(lambda ended: self._tasks.pop(ended, None))

    def _accept(self, prompt: Prompt, how: str, actions: list[str], ending: str) -> asyncio.Future[None]:
        reply: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._add_task(spawn_outside(self._run_turn(prompt, how, actions, ending, reply)))
        return reply

    async def _run_turn(
        self, prompt: Prompt, how: str, actions: list[str], ending: str, reply: asyncio.Future[None]
    ) -> None:
        await asyncio.sleep(0)
        match how:
            case "refuse" | "refuse-late":
                await asyncio.sleep(1 if how == "refuse-late" else 0)
                _fail(reply, AgentError("no", code=ErrorCode.AGENT_FAILED))
                return
            case "die":
                self.kill(1, "exit code 1")
                return
            case "timeout":
                await asyncio.sleep(10)
                self._time_out(reply)
                return
            case "bug":
                _fail(reply, RuntimeError("a defect of the adapter"))
                return
            case "accept-slow":
                await asyncio.sleep(0.5)
            case _:
                pass
        self._store_message(prompt)
        match how:
            case "accept-and-die":
                self.kill(1, "exit code 1")
                return
            case "accept-and-timeout":
                await asyncio.sleep(10)
                self._time_out(reply)
                return
            case "accept-and-bug":
                _fail(reply, RuntimeError("a defect of the adapter"))
                return
            case "accept-and-write":
                self._message("before it confirms")
                await asyncio.sleep(0.1)
            case "accept-slow":
                await asyncio.sleep(0.5)
            case "accept-and-end":
                self._message("at once")
                self._end(TurnEndReason.END_TURN)
                await asyncio.sleep(0.1)
                _succeed(reply)
                return
            case _:
                pass
        self._confirmed = True
        _succeed(reply)
        try:
            for what in actions:
                await self._perform(what)
            await self._finish(ending)
        except InterruptedError:
            self._end(TurnEndReason.CANCELLED)

    def _time_out(self, reply: asyncio.Future[None]) -> None:
        _fail(reply, AgentError("no answer", code=ErrorCode.TIMEOUT))
        self.kill(-9, "it did not confirm a message")

    def _accept_steering(self, prompt: Prompt) -> asyncio.Future[None]:
        reply: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def accept() -> None:
            how = _script(prompt.text)[0]
            await asyncio.sleep(0.1)
            if self._turn != prompt.turn_id:
                _fail(reply, Conflict("that turn is over"))
            elif how in ("refuse", "refuse-late", "bug", "timeout"):
                _fail(reply, NotCapable("not now"))
            elif how == "die":
                self.kill(1, "exit code 1")
            else:
                self._store_message(prompt)
                if how == "accept-and-die":
                    self.kill(1, "exit code 1")
                    return
                _succeed(reply)

        self._add_task(spawn_outside(accept()))
        return reply

    def _store_message(self, prompt: Prompt) -> None:
        name = prompt.text.split()[0]
        self._memory.received[name] += 1
        if self._memory.received[name] > 1 and name not in self._memory.may_repeat:
            self._memory.violations.append(f"{name} was delivered twice")
        self._store(Record(name, prompt.message_id, by_user=True))
        self._register()

    def _message(self, text: str) -> None:
        name = f"a{next(self._memory.ids)}"
        self._store(Record(name, name, by_user=False))
        self._emit(ev.AgentMessage(message_id=name, text=text, anchor=name, meta=self._meta()))

    def _meta(self) -> dict[str, str]:
        return {"turn": str(self._turn)}

    def _end(self, reason: TurnEndReason, error: str | None = None) -> None:
        assert self._turn is not None
        self._write(TurnEnded(turn_id=self._turn, reason=reason, error=error))
        self._turn = None

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._interrupted.wait()
        if self._interrupted.is_set():
            raise InterruptedError

    async def _perform(self, what: str) -> None:
        name = f"a{next(self._memory.ids)}"
        match what:
            case "message":
                self._message("something")
            case "thought":
                self._emit(ev.AgentThought(message_id=name, text="hm", anchor=name, meta=self._meta()))
                await self._pause(0.01)
            case "delta":
                delta = ev.Delta(message_id=name, kind=ev.DeltaKind.MESSAGE, text="some")
                self._write(DeltaEmitted(delta=delta), DeltaEmitted(delta=delta))
            case "tool":
                tool = ev.ToolCall(
                    tool_call_id=name, title="work", tool_kind=ToolKind.EXECUTE, status=ToolStatus.PENDING,
                    meta=self._meta(),
                )  # fmt: skip
                self._emit(tool)
                await self._pause(0.2)
                self._emit(
                    ev.ToolCallUpdate(tool_call_id=name, status=ToolStatus.COMPLETED, meta=self._meta())
                )
            case "ask":
                await self._ask(name)
            case "ask-two":
                await asyncio.gather(self._ask(f"{name}-one"), self._ask(f"{name}-two"))
            case "ask-and-withdraw":
                with suppress(TimeoutError):
                    async with asyncio.timeout(0.5):
                        await self._ask(name)
                self._write(ApprovalWithdrawn(approval_id=name))
            case "long":
                await self._pause(700)
            case "usage":
                self._emit(ev.UsageUpdate(input_tokens=3, output_tokens=5, cost_usd=0.5, context_used=9))
            case "mode":
                self._emit(ev.ModeUpdate(permission_mode=PermissionMode.PLAN))
            case "title":
                self._emit(ev.TitleUpdate(title=name))
            case "other":
                self._emit(ev.Other(native_kind="odd", data={"x": 1}, meta=self._meta()))
            case "much-output":
                for _ in range(40):
                    self._emit(ev.AgentThought(message_id=name, text="much", meta=self._meta()))
            case _:
                await self._pause(0.5)

    async def _ask(self, name: str) -> None:
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._open_approvals[name] = answered
        options = (
            Option(id="yes", name="Yes", kind=OptionKind.ALLOW_ONCE),
            Option(id="no", name="No", kind=OptionKind.REJECT_ONCE),
        )
        approval = Approval(
            id=name, kind=ApprovalKind.PERMISSION, title="may I?", created_at=0, turn_id=self._turn, options=options
        )  # fmt: skip
        self._write(ApprovalAsked(approval=approval))
        interrupted = asyncio.create_task(self._interrupted.wait())
        try:
            await asyncio.wait((answered, interrupted), return_when=asyncio.FIRST_COMPLETED)
        finally:
            interrupted.cancel()
            self._open_approvals.pop(name, None)
        if not answered.done():
            raise InterruptedError

    async def _finish(self, ending: str) -> None:
        turn = str(self._turn)
        match ending:
            case "fail":
                self._end(TurnEndReason.FAILED, "it did not work")
            case "crash":
                self.kill(-11, "killed by SIGSEGV")
            case "vanish":
                self._turn = None
                self.kill(1, "exit code 1")
            case "end-twice":
                self._message("the last word")
                self._end(TurnEndReason.END_TURN)
                self._write(TurnEnded(turn_id=turn, reason=TurnEndReason.FAILED))
            case "wrong-turn":
                self._write(TurnEnded(turn_id="another", reason=TurnEndReason.END_TURN))
                self._end(TurnEndReason.END_TURN)
            case "hang":
                await self._pause(100_000)
            case "ignore-interrupt" | "block-interrupt":
                self._ignores_interrupt, self._blocks_interrupt = (
                    ending == "ignore-interrupt",
                    ending == "block-interrupt",
                )
                await asyncio.sleep(100_000)
            case "stray":
                self._end(TurnEndReason.END_TURN)
                self._emit(ev.Notice(text="stray"))
            case "late-usage":
                self._end(TurnEndReason.MAX_TOKENS)
                self._emit(ev.UsageUpdate(input_tokens=1))
            case _:
                self._message("the last word")
                self._end(TurnEndReason.END_TURN)


class RandomAdapter(Adapter):
    name: ClassVar[str] = "random"
    title: ClassVar[str] = "Random"
    capabilities = Capabilities(
        caller_chosen_id=True, resume=True, rewind=True, fork=True, steer=True, live_mode=True, file_restore=True,
        approvals=True, usage=True, import_history=True,
    )  # fmt: skip

    def __init__(self, memory: AgentMemory) -> None:
        self._memory = memory

    async def detect(self) -> AgentInfo:
        return AgentInfo(name=self.name, title=self.title, available=True, capabilities=self.capabilities)

    async def start(self, plan: LaunchPlan, sink: Sink) -> Launch:
        self.check_plan(plan)
        starts = self._memory.starts
        launch = RandomLaunch(self._memory, plan, sink, starts.popleft() if starts else "")
        try:
            await launch.open()
        except BaseException:
            launch._reader.cancel()
            launch.kill()
            raise
        return launch

    def has_transcript(self, native_id: str, state_dir: str) -> bool:
        return bool(self._memory.conversations.get(native_id))

    async def read_history(
        self, native_id: str, state_dir: str
    ) -> tuple[StoredConversation, list[ev.SessionEvent]]:
        records = self._memory.conversations.get(native_id)
        if not records:
            raise AgentError("there is none", code=ErrorCode.CONVERSATION_MISSING)
        found = StoredConversation(
            native_id=native_id, agent=self.name, directory=self._memory.directory, updated_at=0
        )
        return found, [_event(record) for record in records]

    async def delete_conversation(self, native_id: str, state_dir: str) -> None:
        self._memory.conversations.pop(native_id, None)


def _event(record: Record) -> ev.SessionEvent:
    if record.by_user:
        return ev.UserMessage(item_id=f"{IMPORTED}{record.anchor}", text=record.name, anchor=record.anchor)
    return ev.AgentMessage(message_id=record.name, text="something", anchor=record.anchor)


def _script(text: str) -> tuple[str, list[str], str]:
    _, how, actions, ending = text.split()
    return how, [one for one in actions.split(",") if one != "-"], ending


def _succeed(reply: asyncio.Future[None]) -> None:
    if not reply.done():
        reply.set_result(None)


def _fail(reply: asyncio.Future[None], error: Exception) -> None:
    if not reply.done():
        reply.set_exception(error)
        reply.exception()  # whoever waited may be dead
