"""The interactive mode of `farsteer attach`: shows a session, sends what is typed, and answers approvals."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from farsteer.cli.daemon.process import cancel_tasks
from farsteer.cli.errors import message_with_hint
from farsteer.cli.exit_codes import SUCCESS
from farsteer.cli.terminal.approval_prompt import ApprovalPrompt, InvalidReply, ShowWhole, describe_approval
from farsteer.cli.terminal.follower import Follower
from farsteer.cli.terminal.keyboard import raw_keys
from farsteer.cli.terminal.line_editor import Ended, Interrupted, LineEditor, Submitted
from farsteer.cli.terminal.log_view import StreamedLines, entry_lines, session_header
from farsteer.cli.terminal.screen import Screen
from farsteer.cli.terminal.text import Style, StyledText, one_line
from farsteer.client.live_events import StreamedText
from farsteer.core import events as ev
from farsteer.core.api import SessionView
from farsteer.core.errors import AlreadyAnswered, FarsteerError
from farsteer.core.events import Delta, DeltaKind, Entry
from farsteer.core.text import clean_line

if TYPE_CHECKING:
    from farsteer.client import AsyncClient

_STATUS_SECONDS = 1.0


class Chat:
    """One attached session. `run` returns when the person detaches or the session is deleted."""

    def __init__(self, client: AsyncClient, session: SessionView, follower: Follower) -> None:
        self._client = client
        self._session = session
        self._follower = follower
        self._editor = LineEditor()
        self._screen = Screen(self._editor)
        self._detached = asyncio.Event()
        self._requests: asyncio.Queue[Callable[[], Awaitable[None]]] = asyncio.Queue()
        self._prompts: dict[str, ApprovalPrompt] = {
            approval.id: ApprovalPrompt(approval) for approval in session.approvals
        }
        self._prompt_of_line: str | None = None
        """The approval that was shown when the current line was begun. The line answers that one only: a yes must
        not approve something that appeared while it was typed."""
        self._prompt_in_log: str | None = None
        """The approval whose description is the last one in the log above."""
        self._working_since: float | None = time.time() if session.thinking else None
        self._interrupted = False
        self._text = StreamedText()
        self._streams: dict[str, StreamedLines] = {}
        self._titles: dict[str, str] = {}
        self._modes = _mode_texts(session.permission_mode, session.model, session.model_reasoning_effort)

    async def run(self) -> int:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._detached.set)
        tasks = [
            asyncio.create_task(work)
            for work in (self._follow(), self._send_requests(), self._refresh_status())
        ]
        detached = asyncio.create_task(self._detached.wait())
        try:
            with raw_keys(sys.stdin, self._handle_keys), self._screen.show():
                self._screen.append([StyledText(session_header(self._session), Style.DIM)])
                done, _ = await asyncio.wait({detached, *tasks}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel_tasks(detached, *tasks)
        for task in done - {detached}:
            task.result()
        if detached in done:
            print(f"detached; attach again with `farsteer attach {self._session.id[:8]}`", file=sys.stderr)
        return SUCCESS

    async def _refresh_status(self) -> None:
        while True:
            self._update_footer()
            await asyncio.sleep(_STATUS_SECONDS)

    # -- entries and deltas of the session

    async def _follow(self) -> None:
        async for update in self._follower.updates():
            if isinstance(update, Delta):
                self._show_delta(update)
            else:
                self._show_entry(update)
        self._screen.append([StyledText("the session was deleted", Style.BAD)])

    def _show_delta(self, delta: Delta) -> None:
        if delta.kind not in (DeltaKind.MESSAGE, DeltaKind.THOUGHT):
            return
        new = self._text.add_delta(delta)
        if new:
            thought = delta.kind is DeltaKind.THOUGHT
            self._streams.setdefault(delta.message_id, StreamedLines(thought=thought)).add(new)
            self._show_streams()

    def _show_entry(self, entry: Entry) -> None:
        content = entry.content
        if isinstance(content, (ev.AgentMessage, ev.AgentThought)):
            self._show_message(entry, content)
        else:
            self._screen.append(entry_lines(entry, self._titles))
        match content:
            case ev.TurnStart():
                self._working_since = entry.created_at / 1000
                self._interrupted = False
            case ev.TurnEnd():
                self._working_since = None
                self._prompts.clear()
            case ev.ApprovalRequested():
                self._prompts.setdefault(content.approval.id, ApprovalPrompt(content.approval))
                self._prompt_in_log = content.approval.id
            case ev.ApprovalResolved():
                self._prompts.pop(content.approval_id, None)
            case ev.ModeUpdate():
                changed = _mode_texts(content.permission_mode, content.model, content.effort)
                self._modes = changed or self._modes
            case _:
                pass
        self._update_footer()

    def _show_message(self, entry: Entry, content: ev.AgentMessage | ev.AgentThought) -> None:
        rest = self._text.complete(content.message_id, content.text)
        stream = self._streams.pop(content.message_id, None)
        if stream is None:
            self._screen.append(entry_lines(entry, self._titles))
        else:
            stream.add(rest)
            self._screen.append(stream.take_all())
        self._show_streams()

    def _show_streams(self) -> None:
        """Move finished lines into the log, but only of the oldest message.

        The next message may begin before the oldest is complete, and its lines belong below it.
        """
        oldest = next(iter(self._streams.values()), None)
        if oldest is not None:
            self._screen.append(oldest.take_finished())
        self._screen.unfinished = [stream.unfinished for stream in self._streams.values()]
        self._screen.refresh()

    # -- keys

    def _handle_keys(self, data: bytes) -> None:
        if not data:
            self._detached.set()
        if not self._editor.text:
            self._prompt_of_line = next(iter(self._prompts), None)
        for action in self._editor.feed(data):
            match action:
                case Ended():
                    self._detached.set()
                case Interrupted():
                    self._interrupt()
                case Submitted() if action.text.strip():
                    self._interrupted = False
                    self._requests.put_nowait(partial(self._submit, action.text, self._prompt_of_line))
                case Submitted():
                    pass
        self._update_footer()

    def _interrupt(self) -> None:
        if self._interrupted:
            self._detached.set()
            return
        self._interrupted = True
        working = self._working_since is not None
        if working:
            self._requests.put_nowait(partial(self._client.abort, self._session.id))
        self._show_note("interrupting the turn" if working else "no turn is running", "Ctrl-C again detaches")

    async def _send_requests(self) -> None:
        """Send what was typed to the hub, one request after the other."""
        while True:
            request = await self._requests.get()
            try:
                await request()
            except AlreadyAnswered as error:
                self._show_note(error.message)
            except FarsteerError as error:
                self._screen.append([StyledText(f"! {clean_line(message_with_hint(error))}", Style.BAD)])
            self._update_footer()

    async def _submit(self, text: str, approval_id: str | None) -> None:
        if approval_id is None:
            accepted = await self._client.send(self._session.id, text)
            if accepted.position:
                self._show_note(f"queued behind {accepted.position} other messages")
            return
        prompt = self._prompts.get(approval_id)
        if prompt is None or approval_id != next(iter(self._prompts)):
            self._show_note("another approval is shown now; your line was not sent", one_line(text, 60))
            return
        decision = prompt.reply(text)
        if isinstance(decision, InvalidReply):
            self._show_note(decision.reason)
        elif isinstance(decision, ShowWhole):
            self._screen.append([StyledText(line, Style.ASK) for line in decision.lines])
        elif decision is not None:
            await self._client.answer(self._session.id, approval_id, decision)

    def _show_note(self, *parts: str) -> None:
        self._screen.append([StyledText(f"· {'; '.join(clean_line(part) for part in parts)}", Style.DIM)])

    # -- the lines below the log

    def _update_footer(self) -> None:
        self._screen.prompt = self._prompt_lines()
        self._screen.status = " · ".join(
            [self._state_text(), clean_line(self._session.agent), *self._modes, "Ctrl-D detaches"]
        )
        self._screen.refresh()

    def _prompt_lines(self) -> list[StyledText]:
        prompt = next(iter(self._prompts.values()), None)
        if prompt is None:
            return []
        lines = [f"  {line}" for line in prompt.instructions.split("\n")]
        if prompt.approval.id != self._prompt_in_log:
            # The log above does not end with this approval, so that its title is repeated here.
            lines.insert(0, f"? {describe_approval(prompt.approval)[0]} (1 of {len(self._prompts)})")
        return [StyledText(line, Style.ASK) for line in lines]

    def _state_text(self) -> str:
        if not self._follower.connected:
            return "connecting…"
        if self._prompts:
            return "waiting for you"
        if self._working_since is None:
            return "idle"
        return f"working {max(0, int(time.time() - self._working_since))}s"


def _mode_texts(*values: str | None) -> list[str]:
    return [clean_line(str(value)) for value in values if value]
