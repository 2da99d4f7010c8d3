"""`farsteer attach --plain`: a conversation line by line, without moving the cursor, for screen readers."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import TYPE_CHECKING

from farsteer.cli.daemon.process import cancel_tasks
from farsteer.cli.errors import message_with_hint
from farsteer.cli.exit_codes import SUCCESS
from farsteer.cli.terminal.approval_prompt import ApprovalPrompt, InvalidReply, ShowWhole
from farsteer.cli.terminal.conversation import Conversation
from farsteer.cli.terminal.follower import Follower
from farsteer.cli.terminal.keyboard import read_line
from farsteer.cli.terminal.log_view import session_header
from farsteer.cli.terminal.outbox import Outbox, Outgoing
from farsteer.cli.terminal.plain_commands import PlainCommands
from farsteer.cli.terminal.plain_log import PlainLog
from farsteer.cli.terminal.plain_picker import choose_session
from farsteer.core.api import SessionView
from farsteer.core.errors import FarsteerError
from farsteer.core.events import Delta, Entry
from farsteer.core.text import clean_line

if TYPE_CHECKING:
    from farsteer.client import AsyncClient

_STATUS_SECONDS = 0.5


async def talk_plainly(client: AsyncClient, session: SessionView | None, tail: int) -> int:
    """Talk with a session, or let the person choose one first. Returns the exit code."""
    if session is None:
        session = await choose_session(client)
    while session is not None:
        chat = PlainChat(client, session, tail)
        await chat.run()
        session = None if chat.next_session is None else await client.session(chat.next_session)
    return SUCCESS


class PlainChat:
    """One attached session. `run` returns when the person leaves or the session is deleted."""

    def __init__(self, client: AsyncClient, session: SessionView, tail: int) -> None:
        self.client = client
        self.conversation = Conversation(session)
        self.follower = Follower(client, session.id, tail)
        self.outbox = Outbox(client, session.id, lambda: None, self._refused)
        self.next_session: str | None = None
        """The session to go on with."""
        self._log = PlainLog()
        self._commands = PlainCommands(self)
        self._left = asyncio.Event()
        self._interrupted = False
        self._is_connected = True
        self._asked: ApprovalPrompt | None = None
        """The approval whose answers were printed last."""
        self._must_repeat = False
        """The approval has changed without an answer from here: a line that was begun before must not answer it."""

    @property
    def session(self) -> SessionView:
        return self.conversation.session

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        loop.add_signal_handler(signal.SIGTERM, self._left.set)
        self.say(session_header(self.session))
        self.say("Type a message and press Enter. :help lists the commands, Ctrl-D leaves.")
        work = (
            self._follow(),
            self.outbox.run(),
            self._watch_connection(),
            self._read_lines(),
            self._left.wait(),
        )
        tasks: list[asyncio.Task[object]] = [asyncio.create_task(one) for one in work]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel_tasks(*tasks)
            loop.remove_signal_handler(signal.SIGINT)
        for task in done:
            task.result()
        for message in self.outbox.waiting:
            self.say(f"not sent: {clean_line(message.text)}")
        if self.next_session is None:
            print(f"detached; attach again with `farsteer attach {self.session.id[:8]}`", file=sys.stderr)

    def leave(self, next_session: str | None = None) -> None:
        """End `run`. The session goes on."""
        self.next_session = next_session
        self._left.set()

    def say(self, *lines: str) -> None:
        for line in lines:
            print(line, flush=True)

    # -- what happens

    async def _follow(self) -> None:
        async for change in self.follower.changes():
            was_working = self.conversation.working
            self.conversation.apply(change)
            if isinstance(change, Entry | Delta):
                self.say(*self._log.add(change))
            if self.conversation.working and not was_working:
                self._interrupted = False
            self._ask()
            if was_working and not self.conversation.working:
                self.say("(ready)")
        self.say("the session was deleted")

    def _ask(self) -> None:
        """Print what can be answered, once for each question."""
        prompt = self.conversation.prompt
        if prompt is self._asked:
            return
        self._must_repeat = self._asked is not None and prompt is not None
        self._asked = prompt
        if prompt is not None:
            self.say(prompt.instructions)

    async def _watch_connection(self) -> None:
        while True:
            await asyncio.sleep(_STATUS_SECONDS)
            if self.follower.connected != self._is_connected:
                self._is_connected = self.follower.connected
                self.say("(connected again)" if self._is_connected else "(not connected, trying again)")

    # -- what is typed

    async def _read_lines(self) -> None:
        while True:
            line = await read_line(sys.stdin)
            if line is None:
                return
            self._interrupted = False
            try:
                await self._handle(line.strip())
            except FarsteerError as error:
                self.say(f"! {clean_line(message_with_hint(error))}")

    async def _handle(self, line: str) -> None:
        prompt = self.conversation.prompt
        if not line:
            return
        if line.startswith(":"):
            await self._commands.run(line[1:])
        elif prompt is None:
            self.outbox.put(line)
        elif self._must_repeat:
            self._must_repeat = False
            self.say("another question is shown now; your line was not sent. " + prompt.instructions)
        else:
            await self._answer(prompt, line)

    async def _answer(self, prompt: ApprovalPrompt, line: str) -> None:
        decision = prompt.reply(line)
        if isinstance(decision, InvalidReply):
            self.say(decision.reason)
        elif isinstance(decision, ShowWhole):
            self.say(*decision.lines)
        elif decision is None:
            self.say(prompt.instructions)
        else:
            await self.client.answer(self.session.id, prompt.approval.id, decision)
            self._asked = None

    def _refused(self, message: Outgoing, error: FarsteerError) -> None:
        self.say(f"! not sent: {clean_line(message_with_hint(error))}: {clean_line(message.text)}")

    def _interrupt(self) -> None:
        if self._interrupted:
            self._left.set()
            return
        self._interrupted = True
        if self.conversation.working:
            self.say("(interrupting the turn; Ctrl-C again leaves)")
            asyncio.get_running_loop().create_task(self._abort())
        else:
            self.say("(no turn is running; Ctrl-C again leaves)")

    async def _abort(self) -> None:
        try:
            await self.client.abort(self.session.id)
        except FarsteerError as error:
            self.say(f"! {clean_line(message_with_hint(error))}")
