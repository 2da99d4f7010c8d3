"""One run of the worker, and the conversation it has open."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from farsteer.agents.aider import protocol
from farsteer.agents.aider.approvals import PendingApprovals
from farsteer.agents.aider.translator import translate
from farsteer.agents.base import LaunchPlan, Prompt, Registered, Sink
from farsteer.agents.process_launch import ProcessLaunch
from farsteer.agents.rpc import Failure, Response, RpcClient
from farsteer.core.approvals import Answer, Approval
from farsteer.core.errors import AgentError, BadRequest, Conflict, ErrorCode, FarsteerError, NotCapable
from farsteer.core.events import CommandsUpdate, ModeUpdate, TurnEndReason
from farsteer.core.ids import new_id
from farsteer.core.launch import LaunchMode
from farsteer.core.modes import PermissionMode, ReasoningEffort

_CONFIRM_TIMEOUT = 60.0
"""Seconds within which the worker must have stored a message. After that its fate is unknown."""
_SET_TIMEOUT = 30.0
_READ_ONLY = (PermissionMode.PLAN, PermissionMode.READ_ONLY)
_START_ERRORS = {
    "not_found": ErrorCode.CONVERSATION_MISSING,
    "already_in_use": ErrorCode.CONVERSATION_IN_USE,
    "unknown_anchor": ErrorCode.ANCHOR_UNKNOWN,
}


class AiderLaunch(ProcessLaunch):
    agent = "aider"
    start_errors = tuple(_START_ERRORS.values())

    def __init__(self, plan: LaunchPlan, sink: Sink) -> None:
        super().__init__(plan, sink)
        self._native_id = plan.decision.native_id or plan.session_id
        self._hello: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._approvals = PendingApprovals(self._output, plan.permission_mode, self._write_soon)
        self._rpc = RpcClient(self.agent, self._write, protocol.encode_request, _to_error)
        self._registered = False
        self._anchor: str | None = None
        """The message that the worker works on."""
        self._confirming = False

    @classmethod
    async def start(cls, argv: Sequence[str], plan: LaunchPlan, sink: Sink) -> AiderLaunch:
        """Start the worker and open the plan's conversation. Raises AgentError; then no process is left."""
        launch = cls(plan, sink)
        await launch._start(argv, plan.environment)
        return launch

    async def _open(self) -> None:
        plan = self._plan
        resumes = plan.decision.start is LaunchMode.RESUME
        fields: dict[str, Any] = {
            "session": self._native_id, "state": plan.agent_dir or plan.state_dir,
            "start": "resume" if resumes else "create", "forkOf": plan.fork_of, "cutAt": plan.cut_at,
            "model": plan.model, "effort": plan.effort, "readOnly": plan.permission_mode in _READ_ONLY,
        }  # fmt: skip
        await self._write(protocol.encode_line("open", **fields))
        await self._hello

    # -- the contract of a launch

    @property
    def native_id(self) -> str:
        return self._native_id

    async def send(self, prompt: Prompt) -> None:
        if self._output.turn_id is not None:
            raise Conflict("a turn is running")
        for attachment in prompt.attachments:
            if attachment.data is None:
                raise BadRequest(f"attachment {attachment.name} has no content")
        anchor = prompt.message_id or new_id()
        self._output.begin(prompt.turn_id)
        self._anchor, self._confirming = anchor, True
        fields = {"anchor": anchor, "text": prompt.text, "attachments": prompt.attachments}
        try:
            with self._process.handing_over():
                await self._rpc.call("prompt", fields, _CONFIRM_TIMEOUT)
        except BaseException as error:
            self._approvals.clear()
            self._anchor = None
            self._output.abandon()
            if not isinstance(error, FarsteerError) or error.code is ErrorCode.TIMEOUT:
                self._process.kill("it did not confirm a message")
            raise
        finally:
            self._confirming = False

    async def answer(self, approval: Approval, answer: Answer) -> None:
        await self._write(self._approvals.answer(approval, answer))

    async def interrupt(self) -> None:
        if self._output.turn_id is None:
            return
        # The open questions end with the turn; an answer must not reach aider any more.
        self._approvals.clear()
        with suppress(AgentError):  # the end of the process ends the turn too
            await self._write(protocol.encode_line("interrupt"))

    async def set_permission_mode(self, mode: PermissionMode) -> None:
        self._approvals.mode = mode
        await self._set(readOnly=mode in _READ_ONLY)

    async def set_model(self, model: str) -> None:
        await self._set(model=model)

    async def set_effort(self, effort: ReasoningEffort) -> None:
        await self._set(effort=effort)

    async def _set(self, **settings: Any) -> None:
        """Change settings of the worker. They apply from the next message on."""
        await self._rpc.call("set", {"settings": settings}, _SET_TIMEOUT)

    # -- output

    def _handle_line(self, line: bytes) -> None:
        message = protocol.decode_line(line)
        match message:
            case protocol.Hello():
                self._handle_hello(message)
            case protocol.Failed():
                code = _START_ERRORS.get(message.reason, ErrorCode.AGENT_START_FAILED)
                self._fail_start(AgentError(message.message, code=code, reason=message.reason))
            case protocol.Reply():
                self._handle_reply(message)
            case protocol.Ask():
                self._approvals.handle_ask(message)
            case protocol.End():
                if message.anchor == self._anchor:
                    self._anchor = None
                    self._approvals.clear()
                    self._output.end(message.reason, message.error)
            case _:
                translate(message, self._output)

    def _handle_hello(self, hello: protocol.Hello) -> None:
        if hello.stored:
            self._register()
        self._output.add_event(CommandsUpdate(commands=hello.commands))
        if self._plan.model is None:
            self._output.add_event(ModeUpdate(model=hello.model))
        if not self._hello.done():
            self._hello.set_result(None)

    def _handle_reply(self, reply: protocol.Reply) -> None:
        if reply.error is None:
            if self._confirming:
                self._register()
            response = Response(reply.id)
        else:
            response = Response(reply.id, error=Failure(message=reply.error, data=reply.reason))
        if not self._rpc.handle_response(response):
            self._output.add_notice("aider's worker answered what nobody asked", ErrorCode.AGENT_PROTOCOL)

    def _register(self) -> None:
        if not self._registered:
            self._registered = True
            self._output.add(Registered(native_id=self._native_id))

    def _fail_start(self, error: AgentError) -> None:
        if not self._hello.done():
            self._hello.set_exception(error)

    def _handle_end(self, reason: TurnEndReason, error: str | None, died: AgentError) -> None:
        self._fail_start(died)
        if not self._hello.cancelled():
            self._hello.exception()  # Mark it as retrieved: nobody may wait for it any more.
        self._approvals.clear()
        if not self._confirming:
            self._output.end(reason, error)
        self._rpc.close(died)


def _to_error(method: str, failure: Failure) -> FarsteerError:
    match failure.data:
        case "not_capable":
            return NotCapable(failure.message)
        case "model_unknown":
            return BadRequest(failure.message, code=ErrorCode.MODEL_UNKNOWN, field="model")
        case "effort_unknown":
            return BadRequest(failure.message, code=ErrorCode.EFFORT_UNKNOWN, field="modelReasoningEffort")
        case _:
            return AgentError(failure.message, code=ErrorCode.AGENT_FAILED)
