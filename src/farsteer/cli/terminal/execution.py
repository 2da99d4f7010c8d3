"""Runs one turn for `farsteer exec`: prints the answer, asks for approvals and chooses the exit code."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import socket
import stat
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING

from farsteer.agents.process.sweeper import SWEEPER
from farsteer.cli.context import find_session
from farsteer.cli.daemon.process import cancel_tasks
from farsteer.cli.exit_codes import APPROVAL_DENIED, FAILURE, INTERRUPTED, SUCCESS
from farsteer.cli.terminal.approval_prompt import (
    ApprovalPrompt,
    Decision,
    InvalidReply,
    ShowWhole,
    describe_approval,
)
from farsteer.cli.terminal.keyboard import read_line
from farsteer.cli.terminal.log_view import entry_lines
from farsteer.cli.terminal.text import Style, StyledText, print_styled
from farsteer.client.config import absolute_path
from farsteer.client.hub_client import HubClient
from farsteer.client.machines import choose_machine
from farsteer.client.turn import AsyncTurn, TurnResult, TurnUpdate
from farsteer.core import events as ev
from farsteer.core.api import CreateSession, Deny, SessionView
from farsteer.core.approvals import Approval
from farsteer.core.droid import permission_mode
from farsteer.core.errors import BadRequest, FarsteerError
from farsteer.core.events import TurnEndReason
from farsteer.core.modes import PermissionMode, ReasoningEffort
from farsteer.core.text import clean, clean_line, printable_json

if TYPE_CHECKING:
    from farsteer.cli.terminal.droid_lines import DroidLines

_REORDER_SECONDS = 0.1
_PROGRESS_EVENTS = (ev.ToolCall, ev.ToolCallUpdate, ev.Plan, ev.Notice, ev.ApprovalResolved)


class InterruptHandler:
    """Turns SIGINT and SIGTERM into an abort of the turn, and a second signal into the end of this process.

    The first signal calls `abort` if that is set, and cancels the task that entered the context manager if it is not.
    The next one kills the agents of this process and exits at once. Stored data is safe: it survives a kill at any
    moment.
    """

    _SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self) -> None:
        self.abort: Callable[[], Awaitable[None]] | None = None
        self.ignore_signals = False
        """Set when the turn has ended and only short cleanup is left: the first signal has no effect then."""
        self._received = 0
        self._task: asyncio.Task[object] | None = None
        self._aborting: asyncio.Task[None] | None = None
        self._watched: int | None = None
        self.output_closed = False
        """Nobody reads the answer any more, as after `farsteer exec ... | head`. The task was cancelled for this."""

    async def __aenter__(self) -> InterruptHandler:
        self._task = asyncio.current_task()
        for number in self._SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, self._handle_signal)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in self._SIGNALS:
            asyncio.get_running_loop().remove_signal_handler(number)
        self._unwatch_output()
        if self._aborting is not None:
            await cancel_tasks(self._aborting)

    def _handle_signal(self) -> None:
        self._received += 1
        if self._received > 1:
            _exit_now()
        elif self.ignore_signals:
            return
        elif self.abort is not None:
            self._aborting = asyncio.create_task(self._abort(self.abort))
        elif self._task is not None:
            self._task.cancel()

    def watch_output(self) -> None:
        """Cancel the task once the reader of a pipe has gone, also while the agent is silent and nothing is written."""
        with suppress(OSError, ValueError):
            number = sys.stdout.fileno()
            if stat.S_ISFIFO(os.fstat(number).st_mode):
                # The end that is written to never becomes readable, except when the other end is closed.
                asyncio.get_running_loop().add_reader(number, self._handle_closed_output)
                self._watched = number

    def _unwatch_output(self) -> None:
        if self._watched is not None:
            asyncio.get_running_loop().remove_reader(self._watched)
            self._watched = None

    def _handle_closed_output(self) -> None:
        self._unwatch_output()
        self.output_closed = True
        if self._task is not None and not self.ignore_signals:
            self._task.cancel()

    async def _abort(self, abort: Callable[[], Awaitable[None]]) -> None:
        print("farsteer: interrupting the turn; interrupt again to exit at once", file=sys.stderr)
        try:
            await abort()
        except FarsteerError as error:
            print(f"farsteer: cannot interrupt the turn: {clean_line(error.message)}", file=sys.stderr)


def _exit_now() -> None:
    """Kill the agents that this process has started, and end it without further cleanup."""
    SWEEPER.kill_all()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(INTERRUPTED)


class Execution:
    """One run of `farsteer exec`.

    Args:
        hub: The hub to use.
        arguments: The parsed arguments of `farsteer exec`.
        interrupts: Gets the abort of the turn once the session exists.
        external_hub: Whether the hub keeps running after this process. If so, the agent of a new session is stopped
            at the end.
    """

    def __init__(
        self,
        hub: HubClient,
        arguments: argparse.Namespace,
        interrupts: InterruptHandler,
        *,
        external_hub: bool,
    ) -> None:
        self._hub = hub
        self._interrupts = interrupts
        self._arguments = arguments
        self._external_hub = external_hub
        self._format = arguments.output_format
        self._droid_lines: DroidLines | None = None
        self._started = time.monotonic()
        self._printed_message: str | None = None
        interactive = sys.stdin.isatty() and sys.stderr.isatty()
        self._approvals = arguments.approvals or ("ask" if interactive else "deny")
        self._progress = sys.stderr.isatty() and not arguments.quiet
        self._titles: dict[str, str] = {}
        self._denied = 0
        self._at_line_start = True
        self._writing_message = False
        self._held_text = ""
        self._release_timer: asyncio.TimerHandle | None = None

    async def run(self) -> int:
        """Run the turn and return the exit code."""
        session_id = await self._open_session()
        self._interrupts.abort = partial(self._hub.abort, session_id)
        turn = AsyncTurn(self._hub, session_id, self._arguments.prompt, on_approval=self._decide)
        try:
            # Not before there is a session: one that is being created could not be stopped.
            self._interrupts.watch_output()
            if self._format != "text":
                await self._begin_droid_lines(session_id)
            async with turn:
                async for update in turn:
                    self._show(update)
                result = await turn.finish()
            self._interrupts.ignore_signals = True
            await self._finish(result)
        except (BrokenPipeError, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and not self._interrupts.output_closed:
                raise
            await self._end_unread(turn)
            raise BrokenPipeError from error
        return self._exit_code(result)

    async def _end_unread(self, turn: AsyncTurn) -> None:
        """End a turn whose answer nobody reads any more. A hub of this process ends its agents by itself."""
        if not self._external_hub:
            return
        with suppress(FarsteerError):
            if turn.result is None and turn.turn_id is None and turn.item_id:
                await self._hub.cancel(turn.session_id, turn.item_id)
            elif turn.result is None and turn.item_id:
                await self._hub.abort(turn.session_id)
        if not self._arguments.session:
            with suppress(FarsteerError):
                await self._hub.stop(turn.session_id)

    async def _begin_droid_lines(self, session_id: str) -> None:
        from farsteer.cli.terminal.droid_lines import DroidLines

        self._droid_lines = DroidLines(await self._hub.session(session_id))
        if self._format == "stream-json":
            self._print_json(self._droid_lines.first())

    async def _open_session(self) -> str:
        given = self._arguments
        mode = _permission_mode(given)
        if given.session:
            session = await find_session(self._hub, given.session)
            await self._configure(session, mode)
            return session.id
        machine = choose_machine(await self._hub.machines(), given.machine)
        if given.cwd is None and machine.host != socket.gethostname():
            name = clean_line(machine.name or machine.host)
            raise BadRequest(f"the session would run on {name}: pass --cwd DIR, a directory of that machine")
        request = CreateSession(
            machine_id=machine.id,
            directory=absolute_path(given.cwd or "."),
            agent=given.agent,
            model=given.model,
            model_reasoning_effort=ReasoningEffort(given.effort) if given.effort else None,
            permission_mode=mode,
            yolo=given.yolo or None,
            source="cli",
        )
        return (await self._hub.create_session(request)).session_id

    async def _configure(self, session: SessionView, mode: PermissionMode | None) -> None:
        """Give a session that is continued the settings of this call; they stay."""
        given = self._arguments
        if given.yolo:
            mode = PermissionMode.YOLO
        if mode is not None and mode is not session.permission_mode:
            await self._hub.set_permission_mode(session.id, mode)
        model, effort = given.model or session.model, ReasoningEffort(given.effort) if given.effort else None
        if effort is not None and model is None:
            raise BadRequest("--effort needs --model here: the session has no model that Farsteer knows")
        if model is not None and (model, effort or session.model_reasoning_effort) != (
            session.model, session.model_reasoning_effort,
        ):  # fmt: skip
            await self._hub.set_model(session.id, model, effort=effort)

    # -- output

    def _show(self, update: TurnUpdate) -> None:
        entry = update.entry
        if self._droid_lines is not None:
            line = None if entry is None else self._droid_lines.of(entry)
            if line is not None and self._format == "stream-json":
                self._print_json(line)
            return
        if update.text:
            self._separate_message(update)
            self._print_message(clean(update.text) if sys.stdout.isatty() else update.text)
        if entry is None:
            return
        if isinstance(entry.content, ev.AgentMessage):
            self._release_held_text()
            self._finish_line()
            self._writing_message = False
        elif isinstance(entry.content, _PROGRESS_EVENTS) and self._progress:
            self._print_status(*entry_lines(entry, self._titles))

    def _print_json(self, value: object) -> None:
        self._print(printable_json(value) + "\n")

    def _separate_message(self, update: TurnUpdate) -> None:
        """Print an empty line between two messages, as between paragraphs."""
        content = update.delta if update.entry is None else update.entry.content
        message_id = content.message_id if isinstance(content, ev.Delta | ev.AgentMessage) else None
        if self._printed_message not in (None, message_id):
            self._release_held_text()
            self._finish_line()
            self._print("\n")
        self._printed_message = message_id

    def _print_message(self, text: str) -> None:
        """Print text of the answer.

        Deltas arrive before entries that precede them in the log. If progress is shown too, the first deltas of a
        message are held back for a moment, so that those entries are printed first.
        """
        if self._writing_message or not self._progress:
            self._print(text)
            return
        self._held_text += text
        if self._release_timer is None:
            loop = asyncio.get_running_loop()
            self._release_timer = loop.call_later(_REORDER_SECONDS, self._release_held_text)

    def _release_held_text(self) -> None:
        if self._release_timer is not None:
            self._release_timer.cancel()
            self._release_timer = None
        if self._held_text:
            self._print(self._held_text)
            self._held_text = ""
            self._writing_message = True

    def _print(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()
        self._at_line_start = text.endswith("\n")

    def _finish_line(self) -> None:
        if not self._at_line_start:
            self._print("\n")

    def _print_status(self, *lines: StyledText) -> None:
        """Print lines to stderr, which may show the same terminal as stdout."""
        self._finish_line()
        for line in lines:
            print_styled(sys.stderr, line)

    # -- approvals

    async def _decide(self, approval: Approval) -> Decision | None:
        if self._approvals == "wait":
            self._print_approval(approval)
            return None
        if self._approvals == "ask":
            return await self._ask(approval)
        self._denied += 1
        self._print_status(
            StyledText(
                f"farsteer: denied, because nobody can answer here: {describe_approval(approval)[0]} "
                "(see --permission-mode and --approvals)"
            )
        )
        return Deny(message="nobody was there to answer")

    async def _ask(self, approval: Approval) -> Decision:
        prompt = ApprovalPrompt(approval)
        self._print_approval(approval)
        while True:
            self._print_status(StyledText(prompt.instructions))
            print("> ", end="", file=sys.stderr, flush=True)
            line = await read_line(sys.stdin)
            if line is None:
                return Deny(message="the terminal was closed")
            decision = prompt.reply(line)
            if isinstance(decision, InvalidReply):
                self._print_status(StyledText(decision.reason))
            elif isinstance(decision, ShowWhole):
                self._print_status(*(StyledText(line, Style.ASK) for line in decision.lines))
            elif decision is not None:
                return decision

    def _print_approval(self, approval: Approval) -> None:
        self._print_status(*(StyledText(line, Style.ASK) for line in describe_approval(approval)))

    # -- the end

    async def _finish(self, result: TurnResult) -> None:
        self._release_held_text()
        if self._droid_lines is not None:
            await self._print_result(self._droid_lines, result)
        self._finish_line()
        if result.reason not in (TurnEndReason.END_TURN, TurnEndReason.CANCELLED):
            error = clean_line(result.error or "no reason given")
            self._print_status(StyledText(f"farsteer: the turn ended as {result.reason.value}: {error}"))
            await self._print_login_hint(result.session_id)
        if self._external_hub and not self._arguments.session:
            # The session stays at the hub, but its agent process was only started for this turn.
            try:
                await self._hub.stop(result.session_id)
            except FarsteerError as error:
                message = clean_line(error.message)
                self._print_status(StyledText(f"farsteer: the agent could not be stopped: {message}"))
        if self._progress:
            self._print_status(StyledText(f"session {result.session_id}", Style.DIM))

    async def _print_login_hint(self, session_id: str) -> None:
        """If the agent is not logged in, say how to: that is the likely reason of a failure."""
        with suppress(FarsteerError):
            session = await self._hub.session(session_id)
            for machine in await self._hub.machines():
                for agent in machine.agents:
                    if machine.id == session.machine_id and agent.name == session.agent and agent.login:
                        text = f"farsteer: {agent.title} is not logged in: {agent.login}"
                        self._print_status(StyledText(clean_line(text)))

    async def _print_result(self, lines: DroidLines, result: TurnResult) -> None:
        usage = (await self._hub.session(result.session_id)).usage
        duration = int((time.monotonic() - self._started) * 1000)
        error = None if result.reason is TurnEndReason.END_TURN else result.error or result.reason.value
        if self._format == "json":
            failed = self._exit_code(result) != SUCCESS
            self._print_json(lines.result(error or result.text, duration, usage, failed=failed))
        elif error is None:
            self._print_json(lines.completed(result.text, duration, usage))
        else:
            self._print_json(lines.failed(error))

    def _exit_code(self, result: TurnResult) -> int:
        match result.reason:
            case TurnEndReason.END_TURN:
                return APPROVAL_DENIED if self._denied else SUCCESS
            case TurnEndReason.CANCELLED:
                return INTERRUPTED
            case _:
                return FAILURE


def _permission_mode(given: argparse.Namespace) -> PermissionMode | None:
    """Return the mode of `--permission-mode` or `--auto`."""
    if given.auto:
        return permission_mode(autonomy_level=given.auto)
    return PermissionMode(given.permission_mode) if given.permission_mode else None
