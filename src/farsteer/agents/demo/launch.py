"""One launch of the demo agent."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from farsteer.agents.base import Exited, Launch, LaunchPlan, Prompt, Registered, Sink
from farsteer.agents.demo import protocol
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
"""Seconds within which the agent must confirm a message. After that its fate is unknown and the agent is ended."""
_RESTORE_TIMEOUT = 60.0
_RECOVERABLE: Final = {
    "already_in_use": ErrorCode.CONVERSATION_IN_USE,
    "not_found": ErrorCode.CONVERSATION_MISSING,
    "unknown_anchor": ErrorCode.ANCHOR_UNKNOWN,
}
"""The agent's reasons for a failed start that the runner can recover from."""


class DemoLaunch(Launch):
    def __init__(self, argv: Sequence[str], plan: LaunchPlan, sink: Sink) -> None:
        """Start the process. Raises AgentError."""
        self._native_id = plan.decision.native_id or plan.session_id
        self._sink = sink
        self._output = TurnOutput()
        self._hello: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._hello_received = False
        self._ready = False
        self._registered = False
        self._last_line = 0
        """The number of the last line. A line with a number that is not above it is a repetition."""
        self._asks: dict[str, str] = {}
        """The agent's id of each open approval."""
        self._last_request = 0
        self._replies: dict[int, asyncio.Future[Any]] = {}
        self._unconfirmed: int | None = None
        """The request with the message of the running turn, until the agent has confirmed it."""
        self._process = AgentProcess.start(
            argv, cwd=plan.directory, environment=plan.environment, on_lines=self._receive,
            on_exit=self._handle_exit,
        )  # fmt: skip

    @classmethod
    async def start(cls, argv: Sequence[str], plan: LaunchPlan, sink: Sink) -> DemoLaunch:
        """Start the process and wait until it is ready. Raises AgentError; then no process is left."""
        launch = cls(argv, plan, sink)
        try:
            await launch._open(plan)
        except BaseException as failure:
            launch._hello.cancel()
            launch._process.kill("it did not start")
            await launch._process.wait_reaped()
            if isinstance(failure, AgentError):
                recoverable = failure.code in _RECOVERABLE.values()
                raise AgentError(
                    f"the demo agent did not start: {failure.message}",
                    code=failure.code if recoverable else ErrorCode.AGENT_START_FAILED,
                    stderr=launch._process.stderr or None,
                    **failure.details,
                ) from None
            raise
        return launch

    async def _open(self, plan: LaunchPlan) -> None:
        try:
            async with asyncio.timeout(plan.startup_timeout):
                await self._write("open", **_open_fields(plan, self._native_id))
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
        self._output.begin(prompt.turn_id)
        self._unconfirmed = self._last_request + 1
        try:
            await self._send_prompt("prompt", prompt)
        except BaseException:
            self._output.abandon()
            raise
        finally:
            self._unconfirmed = None

    async def steer(self, prompt: Prompt) -> None:
        if self._output.turn_id is None:
            raise Conflict("no turn is running")
        await self._send_prompt("steer", prompt)

    async def answer(self, approval: Approval, answer: Answer) -> None:
        self._output.close_approval(approval.id)
        await self._write(
            "answer", ask=self._asks.pop(approval.id), allow=answer.outcome.allows, answers=answer.answers,
            always=answer.outcome is Outcome.APPROVED_FOR_SESSION, abort=answer.outcome is Outcome.ABORT,
            tools=answer.allow_tools, mode=answer.mode, message=answer.message,
        )  # fmt: skip

    async def interrupt(self) -> None:
        """Return when the agent has acknowledged the interrupt. It may still ignore it."""
        if self._output.turn_id is None:
            return
        try:
            await self._request("interrupt", _CONFIRM_TIMEOUT)
        except TimeoutError:
            raise AgentError("it did not acknowledge the interrupt", code=ErrorCode.TIMEOUT) from None
        except AgentError as error:
            # The end of the process ended the turn too.
            if error.code is not ErrorCode.AGENT_DIED:
                raise

    async def restore_files(self, message_id: str, after: str | None) -> FilesRestored:
        try:
            return await self._request("restore", _RESTORE_TIMEOUT, message=message_id, after=after)
        except TimeoutError:
            raise AgentError("it did not restore the files in time", code=ErrorCode.TIMEOUT) from None

    # The agent does not confirm these three. A confirmation would come after everything the agent has sent before, and
    # the receiver of that output may be waiting here. They stay in order with every later message.

    async def set_permission_mode(self, mode: PermissionMode) -> None:
        await self._write("set", mode=mode)

    async def set_model(self, model: str) -> None:
        await self._write("set", model=model)

    async def set_effort(self, effort: ReasoningEffort) -> None:
        await self._write("set", effort=effort)

    async def stop(self, grace: float = 3.0) -> None:
        await self._process.stop(grace)
        # Bounded, because the receiver of the last outputs may be waiting for this call.
        with suppress(TimeoutError):
            async with asyncio.timeout(max(grace, 1.0)):
                await self._process.wait()

    async def _write(self, do: str, **fields: Any) -> None:
        known = {name: value for name, value in fields.items() if value is not None}
        await self._process.write(encode({"do": do, **known}) + b"\n")

    async def _send_prompt(self, do: str, prompt: Prompt) -> None:
        """Send a message. Returns when the agent has stored it on disk."""
        try:
            with self._process.handing_over():
                await self._request(
                    do, _CONFIRM_TIMEOUT, turn=prompt.turn_id, message=prompt.message_id or None, text=prompt.text,
                    attachments=prompt.attachments,
                )  # fmt: skip
        except TimeoutError:
            self._process.kill("it did not confirm a message")
            raise AgentError("the agent did not confirm the message", code=ErrorCode.TIMEOUT) from None

    async def _request(self, do: str, timeout: float, **fields: Any) -> Any:
        """Send a request and return the agent's reply. Raises TimeoutError."""
        self._last_request += 1
        number = self._last_request
        reply = self._replies[number] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(timeout):
                await self._write(do, id=number, **fields)
                return await reply
        finally:
            del self._replies[number]

    # Lines of the agent

    async def _receive(self, lines: list[Line]) -> None:
        for line in lines:
            if isinstance(line, Oversized):
                head = line.head.decode(errors="replace")
                text = f"a line of {line.size} bytes was skipped ({line.reason}): {head}"
                self._output.add_notice(text, ErrorCode.AGENT_PROTOCOL)
            else:
                self._handle(protocol.decode_line(line))
        await self._deliver()
        # Set after the delivery, so that the outputs of the start come before those of the first turn.
        if self._hello_received and not self._hello.done():
            self._hello.set_result(None)

    def _handle(self, line: protocol.Known | protocol.Unknown | protocol.Garbage) -> None:
        if line.n is not None:
            if line.n <= self._last_line:
                return
            self._last_line = line.n
        match line:
            case protocol.MessageLine() | protocol.DeltaLine():
                protocol.translate(line, self._output)
            case protocol.ReplyLine():
                self._handle_reply(line)
            case protocol.DoneLine():
                self._resolve(line.id, None)
            case protocol.Restored():
                restored = FilesRestored(
                    status=line.status, restored=line.restored, skipped=line.skipped, reason=line.reason
                )
                self._resolve(line.id, restored)
            case protocol.Ask():
                approval = protocol.make_approval(line, self._output.turn_id)
                self._asks[approval.id] = line.ask
                self._output.ask_approval(approval)
            case protocol.Withdraw():
                for approval_id in [known for known, ask in self._asks.items() if ask == line.ask]:
                    self._output.withdraw_approval(approval_id)
                    del self._asks[approval_id]
            case protocol.End():
                if line.turn == self._output.turn_id:
                    self._output.end(line.reason, line.error)
                    self._asks.clear()
            case protocol.HelloLine():
                self._handle_hello(line)
            case protocol.Failed():
                code = _RECOVERABLE.get(line.reason)
                self._fail_start(AgentError(line.message, code=code, reason=line.reason))
            case _:
                protocol.translate(line, self._output)

    def _handle_hello(self, hello: protocol.HelloLine) -> None:
        if hello.own and is_uuid(hello.session):
            self._native_id = hello.session
        elif hello.session != self._native_id:
            self._fail_start(AgentError(f"it opened session {hello.session} instead", reason="wrong_session"))
            return
        if hello.messages:
            self._register()
        self._output.add_event(protocol.commands_update(hello))
        self._hello_received = True

    def _fail_start(self, error: AgentError) -> None:
        if not self._hello.done():
            self._hello.set_exception(error)

    def _handle_reply(self, reply: protocol.ReplyLine) -> None:
        if reply.error is not None:
            self._resolve(reply.id, Conflict(reply.error))
            return
        self._register()
        if reply.id == self._unconfirmed:
            self._unconfirmed = None
        self._resolve(reply.id, None)

    def _resolve(self, number: int, result: FilesRestored | Conflict | None) -> None:
        reply = self._replies.get(number)
        if reply is None or reply.done():
            return
        if isinstance(result, Conflict):
            reply.set_exception(result)
        else:
            reply.set_result(result)

    def _register(self) -> None:
        if not self._registered:
            self._registered = True
            self._output.add(Registered(native_id=self._native_id))

    async def _deliver(self) -> None:
        if outputs := self._output.drain():
            await self._sink.put(outputs)

    async def _handle_exit(self, ended: ProcessExit) -> None:
        died = AgentError(f"it ended: {ended.reason}", code=ErrorCode.AGENT_DIED)
        self._fail_start(died)
        if not self._ready:
            return
        if self._unconfirmed is not None:
            self._output.abandon()
        for reply in self._replies.values():
            if not reply.done():
                reply.set_exception(died)
        reason = TurnEndReason.CANCELLED if ended.asked else TurnEndReason.CRASHED
        self._output.end(reason, f"the agent's process ended: {ended.reason}")
        self._output.add(Exited(exit_code=ended.code, reason=ended.reason, stderr=ended.stderr or None))
        await self._deliver()


def _open_fields(plan: LaunchPlan, native_id: str) -> Mapping[str, Any]:
    return {
        "session": native_id,
        "state": plan.agent_dir or plan.state_dir,
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
