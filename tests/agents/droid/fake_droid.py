"""A Droid without a process, played by the test: it reads what the adapter writes and sends what the test says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from farsteer.agents.base import ApprovalAsked, EventEmitted, LaunchPlan, Prompt, TurnEnded
from farsteer.agents.conformance.harness import RecordingSink
from farsteer.agents.droid.launch import DroidLaunch
from farsteer.agents.process import OnExit, OnLines, ProcessExit
from farsteer.core.approvals import Approval
from farsteer.core.errors import AgentError, ErrorCode
from farsteer.core.launch import LaunchDecision, LaunchMode
from farsteer.core.modes import PermissionMode

TIMEOUT = 10.0
SESSION = "11111111-1111-4111-8111-111111111111"
NEW, OLD = "1.206.0", "1.15.0"
"""Protocol versions."""
UNUSED_PID = 2**22 + 1


class FakeDroid:
    """Stands in for `AgentProcess` and has the same methods."""

    pid = UNUSED_PID
    stderr = ""

    def __init__(self, on_lines: OnLines, on_exit: OnExit, environment: Mapping[str, str]) -> None:
        self._on_lines = on_lines
        self._on_exit = on_exit
        self.environment = environment
        self.protocol: str | None = NEW
        self.written: list[dict[str, Any]] = []
        """Every line that the adapter has written."""
        self.read_count = 0
        """How many of them the test has read."""
        self._changed = asyncio.Condition()
        self._exited = asyncio.Event()
        self._asked: str | None = None
        self.blocks_writes = False

    # -- what the launch calls

    async def write(self, data: bytes, timeout: float = 10.0) -> None:
        if self._exited.is_set():
            raise AgentError("the agent reads no more", code=ErrorCode.AGENT_DIED)
        if self.blocks_writes:
            raise AgentError("the agent did not take its input", code=ErrorCode.TIMEOUT)
        async with self._changed:
            self.written += [json.loads(line) for line in data.splitlines()]
            self._changed.notify_all()

    def handing_over(self) -> AbstractContextManager[None]:
        return nullcontext()

    async def stop(self, grace: float = 3.0) -> None:
        self._asked = self._asked or "stopped"
        if self.running:
            await self.exit(0)

    def kill(self, reason: str) -> None:
        self._asked = self._asked or reason
        if self.running:
            self._killing = asyncio.create_task(self.exit(-9))

    async def wait_reaped(self) -> None:
        await self._exited.wait()

    async def wait(self) -> None:
        await self._exited.wait()

    @property
    def running(self) -> bool:
        return not self._exited.is_set()

    # -- what a test does

    async def next_line(self) -> dict[str, Any]:
        """Return the next line that the adapter writes."""
        async with asyncio.timeout(TIMEOUT), self._changed:
            await self._changed.wait_for(lambda: len(self.written) > self.read_count)
        self.read_count += 1
        return self.written[self.read_count - 1]

    async def next_request(self, method: str) -> dict[str, Any]:
        """Return the next request, which must have this method."""
        line = await self.next_line()
        while line["type"] == "response":
            line = await self.next_line()
        assert line.get("method") == f"droid.{method}", line
        return line

    @property
    def responses(self) -> list[dict[str, Any]]:
        """The adapter's responses to Droid's own requests."""
        return [line for line in self.written if line["type"] == "response"]

    async def send(self, *messages: dict[str, Any]) -> None:
        """Send messages to the adapter in one batch."""
        envelope = {"jsonrpc": "2.0", "factoryApiVersion": "1.0.0"}
        if self.protocol is not None:
            envelope["factoryProtocolVersion"] = self.protocol
        await self.send_raw(*(json.dumps({**envelope, **message}).encode() for message in messages))

    async def send_raw(self, *lines: Any) -> None:
        await self._on_lines(list(lines))

    async def notify(self, *payloads: dict[str, Any], session: str | None = SESSION) -> None:
        await self.send(*(notification_line(payload, session) for payload in payloads))

    async def respond(self, request: dict[str, Any], result: dict[str, Any] | None = None) -> None:
        await self.send({"type": "response", "id": request["id"], "result": result or {}})

    async def respond_error(self, request_id: str | None, code: int, message: str) -> None:
        await self.send({"type": "response", "id": request_id, "error": {"code": code, "message": message}})

    async def exit(self, code: int) -> None:
        if self.running:
            self._exited.set()
            await self._on_exit(ProcessExit(code, self.stderr, self._asked))


# -- what Droid sends


def notification(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, **fields}


def notification_line(payload: dict[str, Any], session: str | None = SESSION) -> dict[str, Any]:
    params: dict[str, Any] = {"notification": payload}
    if session is not None:
        params["sessionId"] = session
    return {"type": "notification", "method": "droid.session_notification", "params": params}


def state(new: str) -> dict[str, Any]:
    return notification("droid_working_state_changed", newState=new)


def message(role: str, *content: dict[str, Any], id: str, **more: Any) -> dict[str, Any]:
    return notification("create_message", message={"id": id, "role": role, "content": list(content), **more})


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def delta(message_id: str, said: str, block: int = 0) -> dict[str, Any]:
    return notification("assistant_text_delta", messageId=message_id, blockIndex=block, textDelta=said)


def completed(reason: str = "completed", turn: str = "user-1") -> dict[str, Any]:
    return notification("agent_turn_completed", reason=reason, turnId=turn)


def tool(call: str = "call-1", name: str = "Execute", **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call, "name": name, "input": given}


SETTINGS = {
    "modelId": "model-a",
    "reasoningEffort": "none",
    "interactionMode": "auto",
    "autonomyLevel": "off",
}


def opened_session(**settings: Any) -> dict[str, Any]:
    """Return the result of `initialize_session`."""
    return {
        "sessionId": SESSION,
        "session": {"messages": []},
        "settings": {**SETTINGS, **settings},
        "availableModels": [
            {"id": "model-a"},
            {"id": "model-b", "supportedReasoningEfforts": ["none", "high"]},
            {"id": "custom:Mine-0"},
        ],
    }


# -- the launch


class OutputRecorder(RecordingSink):
    """A sink with the outputs of a launch by kind."""

    async def wait_until(self, condition: Callable[[], bool], seconds: float = TIMEOUT) -> None:
        await super().wait_until(condition, seconds)

    def outputs_of(self, kind: type[Any]) -> list[Any]:
        return [output for output in self.outputs if isinstance(output, kind)]

    def events_of(self, kind: type[Any] = object) -> list[Any]:
        events = [output.event for output in self.outputs_of(EventEmitted)]
        return [event for event in events if isinstance(event, kind)]

    @property
    def turn_ends(self) -> list[TurnEnded]:
        return self.outputs_of(TurnEnded)

    @property
    def approvals(self) -> list[Approval]:
        return [asked.approval for asked in self.outputs_of(ApprovalAsked)]


def plan(
    resume: str | None = None,
    mode: PermissionMode = PermissionMode.DEFAULT,
    model: str | None = "model-a",
    **more: Any,
) -> LaunchPlan:
    decision = LaunchDecision(start=LaunchMode.RESUME if resume else LaunchMode.CREATE, native_id=resume)
    return LaunchPlan(
        session_id="22222222-2222-4222-8222-222222222222", directory="/", generation=1, decision=decision,
        permission_mode=mode, model=model, startup_timeout=TIMEOUT, **more,
    )  # fmt: skip


class StartingLaunch:
    """A launch that is being started, while the test plays Droid."""

    def __init__(self, droids: list[FakeDroid], **fields: Any) -> None:
        self._droids = droids
        self.sink = OutputRecorder()
        self.task = asyncio.create_task(DroidLaunch.start(("droid",), plan(**fields), self.sink))

    async def droid(self) -> FakeDroid:
        while not self._droids:  # noqa: ASYNC110
            await asyncio.sleep(0)
        return self._droids[-1]


class LaunchHarness:
    """A running launch, its Droid and its outputs."""

    def __init__(self, launch: DroidLaunch, droid: FakeDroid, sink: OutputRecorder) -> None:
        self.launch = launch
        self.droid = droid
        self.sink = sink
        self._turns = 0

    async def begin_turn(self, said: str = "hello", *, user: str | None = None) -> str:
        """Begin a turn as Droid does: confirmed, at work, with the user message as `user-1` and so on."""
        self._turns += 1
        turn_id = f"turn-{self._turns}"
        sending = asyncio.create_task(self.launch.send(Prompt(turn_id=turn_id, text=said)))
        request = await self.droid.next_request("add_user_message")
        await self.droid.respond(request)
        await sending
        shown = message("user", text(said), id=user or f"user-{self._turns}")
        await self.droid.notify(state("streaming_assistant_message"), {**shown, "requestId": request["id"]})
        return turn_id

    async def request_permission(
        self, *uses: dict[str, Any], id: str, kind: str = "exec", details: Any = None, options: Any = None
    ) -> Approval:
        """Let Droid request a permission; return the approval that the adapter asks for."""
        chosen = options or [("proceed_once", "Yes"), ("proceed_always", "Always"), ("cancel", "No")]
        params = {
            "toolUses": [
                {"toolUse": use, "confirmationType": kind, "details": details or {}} for use in uses
            ],
            "options": [{"value": value, "label": label} for value, label in chosen],
        }
        await self.droid.send(
            {"type": "request", "id": id, "method": "droid.request_permission", "params": params}
        )
        return self.sink.approvals[-1]
