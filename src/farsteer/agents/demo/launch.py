"""One life of the demo agent, as the runner sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from farsteer.agents.base import Exited, Launch, LaunchPlan, Prompt, Registered, Sink
from farsteer.agents.demo import protocol as wire
from farsteer.agents.demo import translation
from farsteer.agents.process import AgentProcess, ProcessExit
from farsteer.agents.turns import TurnOutput
from farsteer.core.approvals import Answer, Approval, Outcome
from farsteer.core.errors import AgentError, Conflict, ErrorCode
from farsteer.core.events import FilesRestored, TurnEndReason
from farsteer.core.ids import is_uuid
from farsteer.core.launch import LaunchMode
from farsteer.core.lines import Line, Oversized
from farsteer.core.modes import PermissionMode, ReasoningEffort
from farsteer.core.wire import encode

_CONFIRM_TIMEOUT = 10.0
"""A message that the agent has not confirmed by then has an unknown fate, and the agent is ended."""
_RESTORE_TIMEOUT = 60.0
_CODES: Final = {
    "already_in_use": ErrorCode.CONVERSATION_IN_USE,
    "not_found": ErrorCode.CONVERSATION_MISSING,
    "unknown_anchor": ErrorCode.ANCHOR_UNKNOWN,
}
"""Reasons of the agent that the runner can do something about."""


class DemoLaunch(Launch):
    def __init__(self, argv: Sequence[str], plan: LaunchPlan, sink: Sink) -> None:
        """Begins the process. Raises AgentError."""
        self._native_id = plan.decision.native_id or plan.session_id
        self._sink = sink
        self._turns = TurnOutput()
        self._hello: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._opened = False
        self._ready = False
        self._registered = False
        self._heard = 0
        """The number of the last line: what is not above it is a repetition."""
        self._asks: dict[str, str] = {}
        """What the agent calls each open approval."""
        self._request = 0
        self._replies: dict[int, asyncio.Future[Any]] = {}
        self._unconfirmed: int | None = None
        """The request that hands over the running turn's message, until the agent has it."""
        self._process = AgentProcess.start(
            argv, cwd=plan.directory, environment=plan.environment, on_lines=self._hear, on_exit=self._exited
        )

    @classmethod
    async def start(cls, argv: Sequence[str], plan: LaunchPlan, sink: Sink) -> DemoLaunch:
        """Raises AgentError, and then no process is left."""
        launch = cls(argv, plan, sink)
        try:
            await launch._open(plan)
        except BaseException as failure:
            launch._hello.cancel()
            launch._process.kill("it did not start")
            await launch._process.wait_reaped()
            if isinstance(failure, AgentError):
                stderr = launch._process.stderr or None
                code = failure.code if failure.code in _CODES.values() else ErrorCode.AGENT_START_FAILED
                raise AgentError(
                    f"the demo agent did not start: {failure.message}",
                    code=code,
                    stderr=stderr,
                    **failure.details,
                ) from None
            raise
        return launch

    async def _open(self, plan: LaunchPlan) -> None:
        try:
            async with asyncio.timeout(plan.startup_timeout):
                await self._tell("open", **_opening(plan, self._native_id))
                await self._hello
        except TimeoutError:
            raise AgentError(f"it was not ready within {plan.startup_timeout:g} s") from None
        if not self._process.running:
            raise AgentError("it ended right after it was ready")
        self._ready = True

    @property
    def native_id(self) -> str:
        return self._native_id

    @property
    def pid(self) -> int:
        return self._process.pid

    async def send(self, prompt: Prompt) -> None:
        self._turns.begin(prompt.turn_id)
        self._unconfirmed = self._request + 1
        try:
            await self._hand_over("prompt", prompt)
        except BaseException:
            self._turns.abandon()
            raise
        finally:
            self._unconfirmed = None

    async def steer(self, prompt: Prompt) -> None:
        if self._turns.turn_id is None:
            raise Conflict("no turn is running")
        await self._hand_over("steer", prompt)

    async def answer(self, approval: Approval, answer: Answer) -> None:
        self._turns.close_approval(approval.id)
        await self._tell(
            "answer", ask=self._asks.pop(approval.id), allow=answer.outcome.allows, answers=answer.answers,
            always=answer.outcome is Outcome.APPROVED_FOR_SESSION, abort=answer.outcome is Outcome.ABORT,
            tools=answer.allow_tools, mode=answer.mode, message=answer.message,
        )  # fmt: skip

    async def interrupt(self) -> None:
        """Returns when the agent has heard it, which does not mean that it obeys."""
        if self._turns.turn_id is None:
            return
        try:
            await self._ask("interrupt", _CONFIRM_TIMEOUT)
        except TimeoutError:
            raise AgentError("it did not acknowledge the interrupt", code=ErrorCode.TIMEOUT) from None
        except AgentError as error:
            # With its process the turn has ended too.
            if error.code is not ErrorCode.AGENT_DIED:
                raise

    async def restore_files(self, message_id: str, after: str | None) -> FilesRestored:
        try:
            return await self._ask("restore", _RESTORE_TIMEOUT, message=message_id, after=after)
        except TimeoutError:
            raise AgentError("it did not restore the files in time", code=ErrorCode.TIMEOUT) from None

    # These three are not confirmed: the confirmation would stand behind all that the agent has said before, and whoever
    # takes that may be the one who waits here. What is written is in order with every later message.

    async def set_permission_mode(self, mode: PermissionMode) -> None:
        await self._tell("set", mode=mode)

    async def set_model(self, model: str) -> None:
        await self._tell("set", model=model)

    async def set_effort(self, effort: ReasoningEffort) -> None:
        await self._tell("set", effort=effort)

    async def stop(self, grace: float = 3.0) -> None:
        await self._process.stop(grace)
        # Bounded, for the sink may be the one who waits for us.
        with suppress(TimeoutError):
            async with asyncio.timeout(max(grace, 1.0)):
                await self._process.wait()

    async def _tell(self, do: str, **fields: Any) -> None:
        known = {name: value for name, value in fields.items() if value is not None}
        await self._process.write(encode({"do": do, **known}) + b"\n")

    async def _hand_over(self, do: str, prompt: Prompt) -> None:
        """Returns when the agent has the message on its disk."""
        try:
            await self._ask(
                do, _CONFIRM_TIMEOUT, turn=prompt.turn_id, message=prompt.message_id or None, text=prompt.text,
                attachments=prompt.attachments,
            )  # fmt: skip
        except TimeoutError:
            self._process.kill("it did not confirm a message")
            raise AgentError("the agent did not confirm the message", code=ErrorCode.TIMEOUT) from None

    async def _ask(self, do: str, timeout: float, **fields: Any) -> Any:
        """Tell the agent something and wait for its answer. Raises TimeoutError."""
        self._request += 1
        number = self._request
        reply = self._replies[number] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(timeout):
                await self._tell(do, id=number, **fields)
                return await reply
        finally:
            del self._replies[number]

    # -- what the agent says

    async def _hear(self, lines: list[Line]) -> None:
        for line in lines:
            if isinstance(line, Oversized):
                head = line.head.decode(errors="replace")
                self._turns.add_notice(
                    f"a line of {line.size} bytes was skipped: {head}", ErrorCode.AGENT_PROTOCOL
                )
            else:
                self._take(wire.decode(line))
        await self._deliver()
        # Only now, so that what belongs to the launch stands before the first turn.
        if self._opened and not self._hello.done():
            self._hello.set_result(None)

    def _take(self, line: wire.Known | wire.Unknown | wire.Garbage) -> None:
        if line.n is not None:
            if line.n <= self._heard:
                return
            self._heard = line.n
        match line:
            case wire.Message() | wire.DeltaLine():
                translation.tell(self._turns, line)
            case wire.Reply():
                self._replied(line)
            case wire.Done():
                self._answer(line.id, None)
            case wire.Restored():
                restored = FilesRestored(
                    status=line.status, restored=line.restored, skipped=line.skipped, reason=line.reason
                )
                self._answer(line.id, restored)
            case wire.Ask():
                approval = translation.approval(line, self._turns.turn_id)
                self._asks[approval.id] = line.ask
                self._turns.ask_approval(approval)
            case wire.Withdraw():
                for approval_id in [known for known, ask in self._asks.items() if ask == line.ask]:
                    self._turns.withdraw_approval(approval_id)
                    del self._asks[approval_id]
            case wire.End():
                if line.turn == self._turns.turn_id:
                    self._turns.end(line.reason, line.error)
                    self._asks.clear()
            case wire.Hello():
                self._greeted(line)
            case wire.Failed():
                self._refuse(AgentError(line.message, code=_CODES.get(line.reason), reason=line.reason))
            case _:
                translation.tell(self._turns, line)

    def _greeted(self, hello: wire.Hello) -> None:
        if hello.own and is_uuid(hello.session):
            self._native_id = hello.session
        elif hello.session != self._native_id:
            self._refuse(AgentError(f"it opened session {hello.session} instead", reason="wrong_session"))
            return
        if hello.messages:
            self._register()
        self._turns.add_event(translation.commands(hello))
        self._opened = True

    def _refuse(self, error: AgentError) -> None:
        if not self._hello.done():
            self._hello.set_exception(error)

    def _replied(self, reply: wire.Reply) -> None:
        if reply.error is not None:
            self._answer(reply.id, Conflict(reply.error))
            return
        self._register()
        if reply.id == self._unconfirmed:
            self._unconfirmed = None
        self._answer(reply.id, None)

    def _answer(self, number: int, result: FilesRestored | Conflict | None) -> None:
        waiting = self._replies.get(number)
        if waiting is None or waiting.done():
            return
        if isinstance(result, Conflict):
            waiting.set_exception(result)
        else:
            waiting.set_result(result)

    def _register(self) -> None:
        if not self._registered:
            self._registered = True
            self._turns.add(Registered(native_id=self._native_id))

    async def _deliver(self) -> None:
        if outputs := self._turns.drain():
            await self._sink.put(outputs)

    async def _exited(self, ended: ProcessExit) -> None:
        died = AgentError(f"it ended: {ended.reason}", code=ErrorCode.AGENT_DIED)
        self._refuse(died)
        if not self._ready:
            return
        if self._unconfirmed is not None:
            self._turns.abandon()
        for reply in self._replies.values():
            if not reply.done():
                reply.set_exception(died)
        reason = TurnEndReason.CANCELLED if ended.asked else TurnEndReason.CRASHED
        self._turns.end(reason, f"the agent's process ended: {ended.reason}")
        self._turns.add(Exited(exit_code=ended.code, reason=ended.reason, stderr=ended.stderr or None))
        await self._deliver()


def _opening(plan: LaunchPlan, native_id: str) -> Mapping[str, Any]:
    return {
        "session": native_id,
        "state": plan.state_dir,
        "start": "resume" if plan.decision.start is LaunchMode.RESUME else "create",
        "forkOf": plan.fork_of,
        "cutAt": plan.cut_at,
        "mode": plan.permission_mode,
        "model": plan.model,
        "effort": plan.effort,
        "generation": plan.generation,
        "behave": plan.options.get("demo"),
        "mcpServers": plan.mcp_servers or None,
        "directories": plan.additional_directories or None,
    }
