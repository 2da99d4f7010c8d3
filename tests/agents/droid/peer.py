"""A Droid without a process: what the adapter writes is read here, and what is said here the adapter hears."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from farsteer.agents.base import ApprovalAsked, EventEmitted, LaunchPlan, Output, Prompt, TurnEnded
from farsteer.agents.droid.launch import DroidLaunch
from farsteer.agents.process import OnExit, OnLines, ProcessExit
from farsteer.core.approvals import Approval
from farsteer.core.errors import AgentError, ErrorCode
from farsteer.core.events import SessionEvent
from farsteer.core.launch import LaunchDecision, LaunchMode
from farsteer.core.modes import PermissionMode

SECONDS = 10.0
SESSION = "11111111-1111-4111-8111-111111111111"
NEW, OLD = "1.206.0", "1.15.0"
NOBODY = 2**22 + 1
"""No process has this id."""


class Peer:
    """Takes the place of `AgentProcess`, of which it has the same methods."""

    pid = NOBODY
    stderr = ""

    def __init__(self, on_lines: OnLines, on_exit: OnExit, environment: Mapping[str, str]) -> None:
        self._on_lines = on_lines
        self._on_exit = on_exit
        self.environment = environment
        self.protocol: str | None = NEW
        self.written: list[dict[str, Any]] = []
        self.taken = 0
        self._news = asyncio.Condition()
        self._gone = asyncio.Event()
        self._asked: str | None = None
        self.deaf = False
        self.stops_at_end_of_input = True

    # -- what the launch calls

    async def write(self, data: bytes, timeout: float = 10.0) -> None:
        if self._gone.is_set():
            raise AgentError("the agent reads no more", code=ErrorCode.AGENT_DIED)
        if self.deaf:
            raise AgentError("the agent did not take its input", code=ErrorCode.TIMEOUT)
        async with self._news:
            self.written += [json.loads(line) for line in data.splitlines()]
            self._news.notify_all()

    async def stop(self, grace: float = 3.0) -> None:
        self._asked = self._asked or "stopped"
        if self.running:
            await self.exit(0)

    def kill(self, reason: str) -> None:
        self._asked = self._asked or reason
        if self.running:
            self._killing = asyncio.create_task(self.exit(-9))

    async def wait_reaped(self) -> None:
        await self._gone.wait()

    async def wait(self) -> None:
        await self._gone.wait()

    @property
    def running(self) -> bool:
        return not self._gone.is_set()

    # -- what a test does

    async def next(self) -> dict[str, Any]:
        """The next line that the adapter wrote."""
        async with asyncio.timeout(SECONDS), self._news:
            await self._news.wait_for(lambda: len(self.written) > self.taken)
        self.taken += 1
        return self.written[self.taken - 1]

    async def request(self, method: str) -> dict[str, Any]:
        """The next request, which is this one."""
        line = await self.next()
        while line["type"] == "response":
            line = await self.next()
        assert line.get("method") == f"droid.{method}", line
        return line

    @property
    def replies(self) -> list[dict[str, Any]]:
        """What the adapter answered to Droid's own requests."""
        return [line for line in self.written if line["type"] == "response"]

    async def hear(self, *messages: dict[str, Any]) -> None:
        """The adapter hears these in one batch."""
        envelope = {"jsonrpc": "2.0", "factoryApiVersion": "1.0.0"}
        if self.protocol is not None:
            envelope["factoryProtocolVersion"] = self.protocol
        await self.hear_raw(*(json.dumps({**envelope, **message}).encode() for message in messages))

    async def hear_raw(self, *lines: Any) -> None:
        await self._on_lines(list(lines))

    async def notes(self, *notes: dict[str, Any], session: str | None = SESSION) -> None:
        await self.hear(*(note_line(one, session) for one in notes))

    async def answer(self, request: dict[str, Any], result: dict[str, Any] | None = None) -> None:
        await self.hear({"type": "response", "id": request["id"], "result": result or {}})

    async def fail(self, request_id: str | None, code: int, message: str) -> None:
        await self.hear({"type": "response", "id": request_id, "error": {"code": code, "message": message}})

    async def exit(self, code: int) -> None:
        if self.running:
            self._gone.set()
            await self._on_exit(ProcessExit(code, self.stderr, self._asked))


def note(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, **fields}


def note_line(payload: dict[str, Any], session: str | None = SESSION) -> dict[str, Any]:
    params: dict[str, Any] = {"notification": payload}
    if session is not None:
        params["sessionId"] = session
    return {"type": "notification", "method": "droid.session_notification", "params": params}


def state(new: str) -> dict[str, Any]:
    return note("droid_working_state_changed", newState=new)


def message(role: str, *content: dict[str, Any], id: str, **more: Any) -> dict[str, Any]:
    return note("create_message", message={"id": id, "role": role, "content": list(content), **more})


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def delta(message_id: str, said: str, block: int = 0) -> dict[str, Any]:
    return note("assistant_text_delta", messageId=message_id, blockIndex=block, textDelta=said)


def completed(reason: str = "completed", turn: str = "user-1") -> dict[str, Any]:
    return note("agent_turn_completed", reason=reason, turnId=turn)


def tool(call: str = "call-1", name: str = "Execute", **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call, "name": name, "input": given}


class Recorder:
    """A sink that keeps what was said and lets a test wait for it."""

    def __init__(self) -> None:
        self.outputs: list[Output] = []
        self._news = asyncio.Condition()

    async def put(self, outputs: Sequence[Output]) -> None:
        async with self._news:
            self.outputs += outputs
            self._news.notify_all()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(SECONDS), self._news:
            await self._news.wait_for(condition)

    def of(self, kind: type[Any]) -> list[Any]:
        return [output for output in self.outputs if isinstance(output, kind)]

    def events(self, kind: type[Any] | None = None) -> list[Any]:
        said: list[SessionEvent] = [output.event for output in self.of(EventEmitted)]
        return [event for event in said if kind is None or isinstance(event, kind)]

    @property
    def ends(self) -> list[TurnEnded]:
        return self.of(TurnEnded)

    @property
    def approvals(self) -> list[Approval]:
        return [asked.approval for asked in self.of(ApprovalAsked)]


SETTINGS = {
    "modelId": "model-a",
    "reasoningEffort": "none",
    "interactionMode": "auto",
    "autonomyLevel": "off",
}


def opened(**settings: Any) -> dict[str, Any]:
    """What Droid answers when a session begins."""
    return {
        "sessionId": SESSION,
        "session": {"messages": []},
        "settings": {**SETTINGS, **settings},
        "availableModels": [{"id": "model-a"}, {"id": "model-b"}],
    }


def plan(
    resume: str | None = None,
    mode: PermissionMode = PermissionMode.DEFAULT,
    model: str | None = "model-a",
    **more: Any,
) -> LaunchPlan:
    decision = LaunchDecision(start=LaunchMode.RESUME if resume else LaunchMode.CREATE, native_id=resume)
    return LaunchPlan(
        session_id="22222222-2222-4222-8222-222222222222", directory="/", generation=1, decision=decision,
        permission_mode=mode, model=model, startup_timeout=SECONDS, **more,
    )  # fmt: skip


class Stage:
    """A launch and its peer."""

    def __init__(self, launch: DroidLaunch, peer: Peer, sink: Recorder) -> None:
        self.launch = launch
        self.peer = peer
        self.sink = sink
        self._turns = 0

    async def begin(self, said: str = "hello", *, user: str | None = None) -> str:
        """Begin a turn as Droid does: confirmed, at work, the message shown. Droid's id for it is `user-N`."""
        self._turns += 1
        turn_id = f"turn-{self._turns}"
        sending = asyncio.create_task(self.launch.send(Prompt(turn_id=turn_id, text=said)))
        request = await self.peer.request("add_user_message")
        await self.peer.answer(request)
        await sending
        shown = message("user", text(said), id=user or f"user-{self._turns}")
        await self.peer.notes(state("streaming_assistant_message"), {**shown, "requestId": request["id"]})
        return turn_id

    async def ask(
        self, *uses: dict[str, Any], id: str, kind: str = "exec", details: Any = None, options: Any = None
    ) -> Approval:
        """Droid asks for a permission."""
        chosen = options or [("proceed_once", "Yes"), ("proceed_always", "Always"), ("cancel", "No")]
        params = {
            "toolUses": [
                {"toolUse": use, "confirmationType": kind, "details": details or {}} for use in uses
            ],
            "options": [{"value": value, "label": label} for value, label in chosen],
        }
        await self.peer.hear(
            {"type": "request", "id": id, "method": "droid.request_permission", "params": params}
        )
        return self.sink.approvals[-1]
