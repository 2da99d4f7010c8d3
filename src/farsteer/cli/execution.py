"""One turn at a terminal or in a pipe: what is printed, what is asked, and the exit code."""

from __future__ import annotations

import argparse
import asyncio
import socket
import sys
from functools import partial

from farsteer.cli.asking import Again, Asking, Decision, describe
from farsteer.cli.context import find_session
from farsteer.cli.interrupts import Interrupts
from farsteer.cli.main import DONE, FAILED, INTERRUPTED, UNANSWERED
from farsteer.cli.paint import coloured, painted
from farsteer.cli.terminal import read_line
from farsteer.cli.text import clean
from farsteer.cli.view import Line, lines_of
from farsteer.client.access import absolute
from farsteer.client.hub_client import HubClient
from farsteer.client.machines import choose_machine
from farsteer.client.turn import Turn, TurnResult, TurnUpdate
from farsteer.core import events as ev
from farsteer.core.api import CreateSession, Deny
from farsteer.core.approvals import Approval
from farsteer.core.errors import BadRequest, FarsteerError
from farsteer.core.events import Entry, TurnEndReason
from farsteer.core.modes import PermissionMode, ReasoningEffort
from farsteer.core.session import Usage
from farsteer.core.wire import WireStruct, encode

_SETTLE_SECONDS = 0.1
_PROGRESS = (ev.ToolCall, ev.ToolCallUpdate, ev.Plan, ev.Notice, ev.ApprovalResolved)


class EntryLine(WireStruct, tag_field="type", tag="message-received"):
    """A line of JSON: the entry as live events show it."""

    session_id: str
    message: Entry


class ResultLine(WireStruct, tag_field="type", tag="result", omit_defaults=False):
    """The last line."""

    session_id: str
    turn_id: str | None
    reason: TurnEndReason
    text: str
    error: str | None
    denied: int
    """How many approvals were denied because nobody was there."""
    usage: Usage


class Execution:
    def __init__(
        self, steering: HubClient, arguments: argparse.Namespace, interrupts: Interrupts, *, remote: bool
    ) -> None:
        self._steering = steering
        self._interrupts = interrupts
        self._arguments = arguments
        self._remote = remote
        self._json = arguments.output_format == "json"
        self._tty = sys.stdin.isatty() and sys.stderr.isatty()
        self._approvals = arguments.approvals or ("ask" if self._tty else "deny")
        self._progress = sys.stderr.isatty() and not arguments.quiet
        self._colour = coloured(sys.stderr)
        self._tools: dict[str, str] = {}
        self._denied = 0
        self._at_line_start = True
        self._writing = False
        self._held = ""
        self._release_due: asyncio.TimerHandle | None = None

    async def run(self) -> int:
        session_id = await self._session()
        self._interrupts.abort = partial(self._steering.abort, session_id)
        prompt = self._arguments.prompt
        async with Turn(self._steering, session_id, prompt, on_approval=self._decide) as turn:
            async for update in turn:
                self._show(session_id, update)
            result = await turn.finish()
        self._interrupts.done = True
        await self._conclude(result)
        return self._exit_code(result)

    async def _session(self) -> str:
        given = self._arguments
        if given.session:
            return (await find_session(self._steering, given.session)).id
        machine = choose_machine(await self._steering.machines(), given.machine)
        if given.cwd is None and machine.host != socket.gethostname():
            where = clean(machine.name or machine.host)
            raise BadRequest(f"it would run on {where}, where this directory means nothing: say --cwd DIR")
        request = CreateSession(
            machine_id=machine.id,
            directory=absolute(given.cwd or "."),
            agent=given.agent,
            model=given.model,
            model_reasoning_effort=ReasoningEffort(given.effort) if given.effort else None,
            permission_mode=PermissionMode(given.permission_mode) if given.permission_mode else None,
            yolo=given.yolo or None,
            source="cli",
        )
        return (await self._steering.create_session(request)).session_id

    def _show(self, session_id: str, update: TurnUpdate) -> None:
        entry = update.entry
        if self._json:
            if entry is not None:
                self._print(encode(EntryLine(session_id=session_id, message=entry)).decode() + "\n")
            return
        if update.text:
            self._write(clean(update.text) if sys.stdout.isatty() else update.text)
        if entry is None:
            return
        if isinstance(entry.content, ev.AgentMessage):
            self._release()
            self._finish_line()
            self._writing = False
        elif isinstance(entry.content, _PROGRESS) and self._progress:
            self._tell(*lines_of(entry, self._tools))

    def _write(self, text: str) -> None:
        """Fragments overtake the log: beside progress the first ones of a message wait for what came before it."""
        if self._writing or not self._progress:
            self._print(text)
            return
        self._held += text
        if self._release_due is None:
            self._release_due = asyncio.get_running_loop().call_later(_SETTLE_SECONDS, self._release)

    def _release(self) -> None:
        if self._release_due is not None:
            self._release_due.cancel()
            self._release_due = None
        if self._held:
            self._print(self._held)
            self._held = ""
            self._writing = True

    def _print(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()
        self._at_line_start = text.endswith("\n")

    def _finish_line(self) -> None:
        if not self._at_line_start:
            self._print("\n")

    def _tell(self, *lines: Line) -> None:
        self._finish_line()
        for line in lines:
            print(painted(line, self._colour), file=sys.stderr, flush=True)

    async def _decide(self, approval: Approval) -> Decision | None:
        if self._approvals == "wait":
            self._tell(*(Line(line, "bold yellow") for line in describe(approval)))
            return None
        if self._approvals == "ask":
            return await self._ask(approval)
        self._denied += 1
        asked = describe(approval)[0]
        self._tell(
            Line(
                f"farsteer: denied, nobody is here to answer ({asked}); see --permission-mode and --approvals"
            )
        )
        return Deny(message="nobody was there to answer")

    async def _ask(self, approval: Approval) -> Decision:
        asking = Asking(approval)
        self._tell(*(Line(line, "bold yellow") for line in describe(approval)))
        while True:
            self._tell(Line(asking.prompt))
            print("> ", end="", file=sys.stderr, flush=True)
            line = await read_line(sys.stdin)
            if line is None:
                return Deny(message="the terminal was closed")
            decision = asking.reply(line)
            if isinstance(decision, Again):
                self._tell(Line(decision.why))
            elif decision is not None:
                return decision

    async def _conclude(self, result: TurnResult) -> None:
        self._release()
        if self._json:
            view = await self._steering.session(result.session_id)
            line = ResultLine(
                session_id=result.session_id,
                turn_id=result.turn_id,
                reason=result.reason,
                text=result.text,
                error=result.error,
                denied=self._denied,
                usage=view.usage,
            )
            self._print(encode(line).decode() + "\n")
        self._finish_line()
        if result.reason not in (TurnEndReason.END_TURN, TurnEndReason.CANCELLED):
            self._tell(
                Line(
                    f"farsteer: the turn ended as {result.reason.value}: {clean(result.error or 'no reason given')}"
                )
            )
        if self._remote and not self._arguments.session:
            # The session stays; its process, which nobody else asked for, need not.
            try:
                await self._steering.stop(result.session_id)
            except FarsteerError as error:
                self._tell(Line(f"farsteer: its agent still runs: {clean(error.message)}"))
        if self._progress:
            self._tell(Line(f"session {result.session_id}", "dim"))

    def _exit_code(self, result: TurnResult) -> int:
        match result.reason:
            case TurnEndReason.END_TURN:
                return UNANSWERED if self._denied else DONE
            case TurnEndReason.CANCELLED:
                return INTERRUPTED
            case _:
                return FAILED
