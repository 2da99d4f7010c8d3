"""A person and a session at one terminal: what arrives is shown, what is typed is sent or answers what was asked."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from farsteer.cli.asking import Again, Asking, describe
from farsteer.cli.attach import header
from farsteer.cli.editor import Ended, Interrupted, LineEditor, Submitted
from farsteer.cli.failure import explain
from farsteer.cli.follower import Follower
from farsteer.cli.lifetime import end
from farsteer.cli.main import DONE
from farsteer.cli.screen import Screen
from farsteer.cli.terminal import keys
from farsteer.cli.text import clean, one_line
from farsteer.cli.view import ASK, BAD, DIM, Line, lines_of
from farsteer.cli.writing import Writing
from farsteer.client.text import LiveText
from farsteer.core import events as ev
from farsteer.core.api import SessionView
from farsteer.core.errors import AlreadyAnswered, FarsteerError
from farsteer.core.events import Delta, DeltaKind, Entry

if TYPE_CHECKING:
    from farsteer.client import AsyncClient

_TICK_SECONDS = 1.0


class Conversation:
    def __init__(self, client: AsyncClient, session: SessionView, follower: Follower) -> None:
        self._client = client
        self._session = session
        self._follower = follower
        self._editor = LineEditor()
        self._screen = Screen(self._editor)
        self._left = asyncio.Event()
        self._work: asyncio.Queue[Callable[[], Awaitable[None]]] = asyncio.Queue()
        self._asked: dict[str, Asking] = {approval.id: Asking(approval) for approval in session.approvals}
        self._typed_for: str | None = None
        """What was being asked when the line was begun: a yes must not answer what appeared meanwhile."""
        self._working_since: float | None = time.time() if session.thinking else None
        self._interrupted = False
        self._text = LiveText()
        self._tools: dict[str, str] = {}
        self._open: dict[str, Writing] = {}
        self._last_shown: str | None = None
        self._modes = _modes(session.permission_mode, session.model, session.model_reasoning_effort)

    async def run(self) -> int:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._left.set)
        lives = [asyncio.create_task(life) for life in (self._follow(), self._talk(), self._tick())]
        left = asyncio.create_task(self._left.wait())
        try:
            with keys(sys.stdin, self._pressed), self._screen.shown():
                self._screen.add([Line(header(self._session), DIM)])
                done, _ = await asyncio.wait({left, *lives}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await end(left, *lives)
        for task in done - {left}:
            task.result()
        if left not in done:
            return DONE
        short = self._session.id[:8]
        print(f"detached; `farsteer attach {short}` comes back", file=sys.stderr)
        return DONE

    async def _tick(self) -> None:
        while True:
            self._update()
            await asyncio.sleep(_TICK_SECONDS)

    # -- what arrives

    async def _follow(self) -> None:
        async for update in self._follower.updates():
            if isinstance(update, Delta):
                self._fragment(update)
            else:
                self._entry(update)
        self._screen.add([Line("the session was deleted", BAD)])

    def _fragment(self, delta: Delta) -> None:
        if delta.kind is DeltaKind.TOOL_OUTPUT:
            return
        new = self._text.fragment(delta)
        if new:
            thought = delta.kind is DeltaKind.THOUGHT
            self._open.setdefault(delta.message_id, Writing(thought=thought)).add(new)
            self._advance()

    def _entry(self, entry: Entry) -> None:
        content = entry.content
        if isinstance(content, (ev.AgentMessage, ev.AgentThought)):
            self._message(entry, content)
        else:
            self._screen.add(lines_of(entry, self._tools))
        match content:
            case ev.TurnStart():
                self._working_since = entry.created_at / 1000
                self._interrupted = False
            case ev.TurnEnd():
                self._working_since = None
                self._asked.clear()
            case ev.ApprovalRequested():
                self._asked.setdefault(content.approval.id, Asking(content.approval))
                self._last_shown = content.approval.id
            case ev.ApprovalResolved():
                self._asked.pop(content.approval_id, None)
            case ev.ModeUpdate():
                self._modes = _modes(content.permission_mode, content.model, content.effort) or self._modes
            case _:
                pass
        self._update()

    def _message(self, entry: Entry, content: ev.AgentMessage | ev.AgentThought) -> None:
        rest = self._text.whole(content.message_id, content.text)
        writing = self._open.pop(content.message_id, None)
        if writing is None:
            self._screen.add(lines_of(entry))
        else:
            writing.add(rest)
            self._screen.add(writing.finish())
        self._advance()

    def _advance(self) -> None:
        """Only the oldest message that is still written goes into the log: the next may begin before it is stored."""
        first = next(iter(self._open.values()), None)
        if first is not None:
            self._screen.add(first.lines())
        self._screen.partial = [Line(writing.text, writing.style) for writing in self._open.values()]
        self._screen.changed()

    # -- what is typed

    def _pressed(self, data: bytes) -> None:
        if not data:
            self._left.set()
        if not self._editor.text:
            self._typed_for = next(iter(self._asked), None)
        for action in self._editor.feed(data):
            match action:
                case Ended():
                    self._left.set()
                case Interrupted():
                    self._interrupt()
                case Submitted() if action.text.strip():
                    self._interrupted = False
                    self._work.put_nowait(partial(self._say, action.text, self._typed_for))
                case Submitted():
                    pass
        self._update()

    def _interrupt(self) -> None:
        if self._interrupted:
            self._left.set()
            return
        self._interrupted = True
        if self._working_since is not None:
            self._work.put_nowait(partial(self._client.abort, self._session.id))
        self._tell(
            "interrupting" if self._working_since is not None else "nothing runs", "Ctrl-C again detaches"
        )

    async def _talk(self) -> None:
        """Does what was typed, one after the other."""
        while True:
            work = await self._work.get()
            try:
                await work()
            except AlreadyAnswered as error:
                self._tell(error.message)
            except FarsteerError as error:
                self._screen.add([Line(f"! {clean(explain(error))}", BAD)])
            self._update()

    async def _say(self, text: str, asked: str | None) -> None:
        if asked is None:
            accepted = await self._client.send(self._session.id, text)
            if accepted.position:
                self._tell(f"queued, {accepted.position} before it")
            return
        asking = self._asked.get(asked)
        if asking is None or asked != next(iter(self._asked)):
            self._tell("what was asked has changed meanwhile; your line was not sent", one_line(text, 60))
            return
        decision = asking.reply(text)
        if isinstance(decision, Again):
            self._tell(decision.why)
        elif decision is not None:
            await self._client.answer(self._session.id, asked, decision)

    def _tell(self, *parts: str) -> None:
        self._screen.add([Line(f"· {'; '.join(clean(part) for part in parts)}", DIM)])

    # -- what stands below

    def _update(self) -> None:
        prompt: list[Line] = []
        for asking in list(self._asked.values())[:1]:
            if asking.approval.id != self._last_shown:
                # Another one was asked since, or it was asked before we came.
                prompt.append(Line(f"? {describe(asking.approval)[0]} (1 of {len(self._asked)})", ASK))
            prompt += [Line(f"  {line}", ASK) for line in asking.prompt.split("\n")]
        self._screen.prompt = prompt
        self._screen.status = " · ".join(
            [self._state(), clean(self._session.agent), *self._modes, "Ctrl-D detaches"]
        )
        self._screen.changed()

    def _state(self) -> str:
        if not self._follower.connected:
            return "connecting…"
        if self._asked:
            return "waiting for you"
        if self._working_since is None:
            return "idle"
        return f"working {max(0, int(time.time() - self._working_since))}s"


def _modes(*values: str | None) -> list[str]:
    return [clean(str(value)) for value in values if value]
