"""Claude Code's own interface in a person's terminal.

Claude Code writes what happens there to its transcript, which is followed. Its hooks ask for permissions, so that they
can be answered from elsewhere while the terminal shows them; whoever answers first wins. Questions and plans are
answered in the same way. A message from elsewhere cannot reach it: the runner ends it and goes on with a process of its
own.

What Claude Code 2.1.326 makes impossible:
- It tells nobody that a permission was granted in the terminal before the tool has its result. Until then the approval
  stays open elsewhere, and an answer to it has no effect. (A denial closes the connection of the hook at once.)
- Text is in the transcript when the message is complete: there are no deltas. A sub-agent's own steps are not shown.
- After /clear the new conversation is known with its first message. A message from elsewhere before that goes on with
  the old one.
- A mode or model that the person chooses in the interface is not ours: what is driven from elsewhere has the session's.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from farsteer.agents.base import Exited, Launch, LaunchPlan, Prompt, Sink, Terminal, TerminalCommand
from farsteer.agents.claude import arguments, cli
from farsteer.agents.claude.approvals import PendingApprovals
from farsteer.agents.claude.follower import Follower, is_same_config
from farsteer.agents.claude.hooks import TOKEN_VARIABLE, HookServer
from farsteer.agents.claude.protocol import ControlRequest, ControlResponse, decode_line
from farsteer.agents.claude.settings import SettingsTracker
from farsteer.agents.process import posix
from farsteer.agents.process.environment import LAUNCH_VARIABLE
from farsteer.agents.turns import TurnOutput
from farsteer.core.approvals import Answer, Approval
from farsteer.core.errors import BadRequest, ErrorCode, NotCapable
from farsteer.core.events import TerminalUpdate, TurnEndReason
from farsteer.core.ids import is_uuid, new_id
from farsteer.core.launch import LaunchMode
from farsteer.core.modes import PermissionMode, ReasoningEffort

_TURN_SECONDS = 0.2
"""How often the transcript is looked at during a turn. Claude Code has no hook for an interrupt."""
_IDLE_SECONDS = 1.0
_EAGER_SECONDS = 0.05
_EAGER_TIME = 1.0
"""After a hook the transcript is looked at more often for this time: Claude Code writes to it a little later."""
_CALL_TIMEOUT = 3.0
"""How long a permission waits for its tool call to be in the transcript, before it is asked for without it."""
_STOP_SECONDS = 30.0
"""A turn has ended this long after the hook `Stop`, if the transcript does not show its end before. It does when the
hooks of the owner have ended too, which may let Claude Code go on."""
_FAILURE_SECONDS = 2.0
"""The same after the hook `StopFailure`, of which the transcript shows only the error."""
_KILL_SECONDS = 2.0
_RESERVED = frozenset(
    {
        "--session-id", "--resume", "-r", "--continue", "-c", "--fork-session", "--settings", "--print", "-p",
        "--input-format", "--output-format", "--background", "--bg", "--bare", "--safe-mode", "--from-pr", "--cloud",
        "--teleport", "--worktree", "-w",
    }
)  # fmt: skip
_IN_TERMINAL = "Claude Code runs in a terminal: change it there, or send a message, which ends that"

_logger = logging.getLogger(__name__)


class ClaudeTerminal(Launch):
    takes_messages = False

    def __init__(self, plan: LaunchPlan, sink: Sink, terminal: Terminal) -> None:
        self._plan = plan
        self._sink = sink
        self._terminal = terminal
        self._output = TurnOutput()
        self._settings = SettingsTracker(plan.permission_mode, plan.model, plan.effort)
        config = cli.config_dir(plan.environment)
        native_id = plan.decision.native_id or plan.session_id
        self._follower = Follower(self._output, config, native_id, plan.directory)
        self._approvals = PendingApprovals(
            self._output,
            self._settings,
            str(config / "plans"),
            self._follower.find_input,
            self._handle_answer,
        )
        self._hooks = HookServer(self._handle_hook)
        self._waiting: dict[str, asyncio.Future[dict[str, Any]]] = {}
        """The hooks that wait for an answer, by the id of their request."""
        self._calls: dict[str, str] = {}
        """The request of each tool call that waits for a permission."""
        self._called: list[dict[str, Any]] = []
        """The payloads of `PreToolUse` for which no permission was asked yet."""
        self._news = asyncio.Event()
        self._has_read = asyncio.Event()
        """Set and cleared at each look at the transcript."""
        self._eager_until = 0.0
        self._ends_at: float | None = None
        """When the turn ends if the transcript does not show its end before."""
        self._failure: str | None = None
        """What the hook `StopFailure` has told of the last prompt, of which the transcript may show nothing yet."""
        self._stopping = False
        self._pid = 0
        self._sink_lock = asyncio.Lock()
        self._finished: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls, path: str, plan: LaunchPlan, sink: Sink, terminal: Terminal) -> ClaudeTerminal:
        """Run Claude Code in the terminal.

        Raises:
            BadRequest: The person's arguments contradict what Farsteer does.
            NotCapable: Claude Code's interface cannot begin with this conversation.
            AgentError: It did not start.
        """
        _check(plan, terminal.arguments)
        launch = cls(plan, sink, terminal)
        await launch._start(path)
        return launch

    async def _start(self, path: str) -> None:
        self._follower.is_registered = self._plan.decision.start is LaunchMode.RESUME
        await self._follower.skip()
        # Before it runs: a runner that is killed now must know from where on the log lacks what is said.
        await self._deliver()
        await self._hooks.start()
        try:
            self._pid = await self._terminal.run(self._command(path))
        except BaseException:
            await self._hooks.close()
            raise
        self._output.add_event(TerminalUpdate(open=True))
        await self._deliver()
        self._finished = asyncio.create_task(self._follow(), name=f"follow {self._plan.session_id}")

    def _command(self, path: str) -> TerminalCommand:
        plan = self._plan
        argv = (path, *arguments.terminal_arguments(plan, self._hooks.settings()), *self._terminal.arguments)
        environment = arguments.environment(plan) | {TOKEN_VARIABLE: self._hooks.token}
        return TerminalCommand(argv=argv, environment=environment, directory=plan.directory)

    # -- the contract of a launch

    @property
    def native_id(self) -> str | None:
        return self._follower.native_id

    @property
    def pid(self) -> int:
        return self._pid

    async def send(self, prompt: Prompt) -> None:
        raise NotCapable("Claude Code runs in a terminal, where no message can reach it")

    async def answer(self, approval: Approval, answer: Answer) -> None:
        self._handle_answer(self._approvals.answer(approval, answer))
        await self._deliver()

    async def interrupt(self) -> None:
        raise NotCapable("a turn in a terminal can only be interrupted there")

    async def set_permission_mode(self, mode: PermissionMode) -> None:
        if mode is not self._settings.mode:
            raise NotCapable(_IN_TERMINAL)

    async def set_model(self, model: str) -> None:
        raise NotCapable(_IN_TERMINAL)

    async def set_effort(self, effort: ReasoningEffort) -> None:
        raise NotCapable(_IN_TERMINAL)

    async def stop(self, grace: float = 3.0) -> None:
        self._stopping = True
        await self._terminal.end(grace)
        if self._finished is not None:
            # Bounded, because the sink may be waiting for this call.
            await asyncio.wait((self._finished,), timeout=max(grace, 1.0))

    # -- the transcript

    async def _follow(self) -> None:
        """Take what the transcript gets until the program has ended."""
        ended = asyncio.create_task(self._terminal.wait())
        try:
            while not ended.done():
                await self._wait_for_news(ended)
                await self._take()
            while await self._read():
                pass
            exit_code = ended.result()
        finally:
            ended.cancel()
            await self._hooks.close()
        self._approvals.clear()
        self._follower.end_turn(TurnEndReason.CANCELLED)
        await asyncio.to_thread(_kill_left, self._plan.environment[LAUNCH_VARIABLE])
        reason = "stopped" if self._stopping else "the terminal was closed"
        self._output.add_event(TerminalUpdate(open=False))
        self._output.add(Exited(exit_code=exit_code, reason=reason))
        await self._deliver()

    async def _wait_for_news(self, ended: asyncio.Task[int | None]) -> None:
        news = asyncio.create_task(self._news.wait())
        seconds = _IDLE_SECONDS if self._output.turn_id is None else _TURN_SECONDS
        if time.monotonic() < self._eager_until:
            seconds = _EAGER_SECONDS
        await asyncio.wait((ended, news), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        news.cancel()
        self._news.clear()

    async def _take(self) -> None:
        in_turn = self._output.turn_id is not None
        changed = await self._read()
        if self._failure is None and (self._output.turn_id is None or self._follower.goes_on):
            # The transcript will show the end of the turn.
            self._ends_at = None
        if not changed:
            self._end_turn_if_over()
        for call in self._follower.finished_tools:
            # It was answered in the terminal.
            self._withdraw(self._calls.pop(call, ""))
        self._follower.finished_tools.clear()
        if in_turn and self._output.turn_id is None:
            for request_id in [*self._waiting]:
                self._withdraw(request_id)
        await self._deliver()
        self._has_read.set()
        self._has_read.clear()

    def _end_turn_if_over(self) -> None:
        """End the turn if hooks say that it has ended and the transcript does not show it."""
        if self._ends_at is None:
            return
        is_late = time.monotonic() > self._ends_at
        if self._failure is None and is_late:
            self._follower.end_turn(TurnEndReason.END_TURN)
        elif self._failure is not None and (is_late or self._follower.has_failed):
            self._follower.end_turn(TurnEndReason.FAILED, self._failure)

    async def _read(self) -> bool:
        """Take what was added to the transcript. A defect in that does not end the following."""
        try:
            return await self._follower.read()
        except OSError as error:
            _logger.warning("the transcript of %s cannot be read: %s", self._plan.session_id, error)
        except Exception as error:
            _logger.exception("a part of the transcript of %s is not in its log", self._plan.session_id)
            text = f"A part of what happened in the terminal is not shown: {type(error).__name__}"
            self._output.add_notice(text, ErrorCode.AGENT_PROTOCOL)
        return False

    async def _deliver(self) -> None:
        async with self._sink_lock:
            outputs = self._output.drain()
            if outputs:
                await self._sink.put(outputs)

    # -- hooks

    async def _handle_hook(self, payload: dict[str, Any]) -> dict[str, Any]:
        native_id = payload.get("session_id")
        if isinstance(native_id, str) and is_uuid(native_id) and native_id != self._follower.native_id:
            await self._follower.switch(native_id)
        name, now = payload.get("hook_event_name"), time.monotonic()
        self._failure, self._ends_at = None, None
        self._eager_until = now + _EAGER_TIME
        self._news.set()
        match name:
            case "Stop":
                self._ends_at = now + _STOP_SECONDS
                return {}
            case "StopFailure":
                self._failure = str(payload.get("last_assistant_message") or payload.get("error"))
                self._ends_at = now + _FAILURE_SECONDS
                return {}
            case "UserPromptSubmit":
                self._called.clear()
                return {}
            case "PreToolUse":
                self._called.append(payload)
                return await self._ask(
                    {"subtype": "hook_callback", "input": payload, "tool_use_id": payload.get("tool_use_id")}
                )
            case "PermissionRequest":
                request = self._permission(payload)
                await self._wait_for_call(request.get("tool_use_id"))
                decision = await self._ask(request)
                output = {"hookEventName": "PermissionRequest", "decision": decision}
                return {"hookSpecificOutput": output} if decision else {}
            case _:
                return {}

    def _permission(self, payload: dict[str, Any]) -> dict[str, Any]:
        """Return the request as Claude Code makes it to a program. The hook does not name the tool call."""
        fields = {name: payload[name] for name in ("tool_name", "permission_suggestions") if name in payload}
        request = {"subtype": "can_use_tool", **fields, "input": payload.get("tool_input", {})}
        named = [call for call in self._called if call.get("tool_name") == payload.get("tool_name")]
        # Claude Code completes the input of some tools before it asks.
        same = [call for call in named if call.get("tool_input") == payload.get("tool_input")] or named
        if same:
            self._called.remove(same[0])
            request["tool_use_id"] = same[0].get("tool_use_id")
        return request

    async def _wait_for_call(self, call: str | None) -> None:
        """Wait until the log has the tool call that a permission is asked for, so that it comes after it."""
        deadline = time.monotonic() + _CALL_TIMEOUT
        while not self._follower.has_call(call) and (left := deadline - time.monotonic()) > 0:
            self._eager_until = time.monotonic() + _EAGER_TIME
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._has_read.wait()

    async def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        request_id = new_id()
        waiting = self._waiting[request_id] = asyncio.get_running_loop().create_future()
        call = request.get("tool_use_id")
        if isinstance(call, str) and request["subtype"] == "can_use_tool":
            self._calls[call] = request_id
        try:
            self._approvals.handle_request(ControlRequest(request_id=request_id, request=request))
            await self._deliver()
            return await waiting
        finally:
            del self._waiting[request_id]
            # Claude Code may have closed the connection: it no longer waits.
            self._approvals.handle_cancel(request_id)
            self._news.set()

    def _handle_answer(self, line: bytes) -> None:
        """Pass on what would be the answer to a control request."""
        message = decode_line(line)
        assert isinstance(message, ControlResponse)
        waiting = self._waiting.get(message.response.request_id)
        if waiting is not None and not waiting.done():
            body = message.response.response
            waiting.set_result(body if isinstance(body, dict) else {})

    def _withdraw(self, request_id: str) -> None:
        self._approvals.handle_cancel(request_id)
        waiting = self._waiting.get(request_id)
        if waiting is not None and not waiting.done():
            waiting.set_result({})


def _kill_left(mark: str) -> None:
    """Kill what the interface has left running. Returns when it is gone."""
    posix.wait_gone(posix.kill_marked(mark.__eq__), _KILL_SECONDS)


def _check(plan: LaunchPlan, given: tuple[str, ...]) -> None:
    for argument in given:
        name = argument.partition("=")[0]
        if name in _RESERVED:
            raise BadRequest(f"{name} cannot be used with `farsteer run`: see `farsteer run --help`")
    if plan.cut_at is not None or plan.fork_of is not None:
        # The interface cannot begin at an earlier point, and copies the history of a fork into the new transcript.
        raise NotCapable(
            "this session was rewound or forked: send a message first, then open it in a terminal"
        )
    if plan.mcp_servers:
        raise NotCapable("this session has MCP servers of its client, which a terminal does not get")
    if not is_same_config(cli.config_dir(plan.environment), cli.config_dir()):
        ours: Path = cli.config_dir()
        raise NotCapable(
            f"this terminal uses other conversations of Claude Code than the runner, which uses {ours}"
        )
