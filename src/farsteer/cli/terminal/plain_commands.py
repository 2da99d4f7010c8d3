"""The commands of `farsteer attach --plain`, which begin with a colon."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from farsteer.cli.terminal.conversation import token_text
from farsteer.cli.terminal.plain_log import PlainLog
from farsteer.cli.terminal.text import one_line
from farsteer.core.events import UserMessage
from farsteer.core.modes import PermissionMode, ReasoningEffort
from farsteer.core.queue import Delivery

if TYPE_CHECKING:
    from farsteer.cli.terminal.plain_chat import PlainChat

HELP = """\
:say TEXT       send a message, also while a question is open
:now TEXT       send a message before all others, and interrupt the turn for it
:queue          list the messages that wait
:cancel N       cancel the message with that number in the list
:mode M         permission mode: default, acceptEdits, plan, read-only, safe-yolo, yolo
:model M        model
:effort E       reasoning effort: low, medium, high, xhigh
:rewind [SEQ]   remove a message and everything after it; alone, list the messages
:fork [SEQ]     go on in a copy that ends before that message, or in one of everything
:older          print what came before
:status         agent, model, mode, tokens, machine, connection
:stop           end the agent's process; the next message starts it again
:leave          leave, as Ctrl-D does; the session goes on"""
_PAGE = 50
_MAX_MESSAGES = 50


class PlainCommands:
    def __init__(self, chat: PlainChat) -> None:
        self._chat = chat
        self._client = chat.client

    async def run(self, line: str) -> None:
        """Run a command, without its colon. Raises FarsteerError if the hub refuses it."""
        name, _, argument = line.strip().partition(" ")
        commands: dict[str, Callable[[str], Awaitable[None]]] = {
            "say": self._say, "now": self._now, "queue": self._queue, "cancel": self._cancel, "mode": self._mode,
            "model": self._model, "effort": self._effort, "rewind": self._rewind, "fork": self._fork,
            "older": self._older, "status": self._status, "stop": self._stop, "leave": self._leave,
        }  # fmt: skip
        command = commands.get(name)
        if command is None:
            self._chat.say(*HELP.splitlines())
        else:
            await command(argument.strip())

    @property
    def _id(self) -> str:
        return self._chat.session.id

    async def _say(self, text: str) -> None:
        if text:
            self._chat.outbox.put(text)

    async def _now(self, text: str) -> None:
        if text:
            self._chat.outbox.put(text, Delivery.NOW)

    async def _queue(self, _: str) -> None:
        waiting = self._chat.conversation.waiting
        self._chat.say(*(f"{number}. {one_line(item.text, 200)}" for number, item in enumerate(waiting, 1)))
        if not waiting:
            self._chat.say("no message waits")

    async def _cancel(self, number: str) -> None:
        waiting = self._chat.conversation.waiting
        if number.isascii() and number.isdigit() and 1 <= int(number) <= len(waiting):
            await self._client.cancel(self._id, waiting[int(number) - 1].id)
        else:
            self._chat.say(":cancel needs a number from :queue")

    async def _mode(self, mode: str) -> None:
        if mode in [one.value for one in PermissionMode]:
            await self._client.set_permission_mode(self._id, mode)
        else:
            self._chat.say(f"the modes are {', '.join(PermissionMode)}")

    async def _model(self, model: str) -> None:
        if model:
            await self._client.set_model(self._id, model)
        else:
            self._chat.say(":model needs the name of a model")

    async def _effort(self, effort: str) -> None:
        model = self._chat.session.model
        if effort not in [one.value for one in ReasoningEffort]:
            self._chat.say(f"the efforts are {', '.join(ReasoningEffort)}")
        elif model is None:
            self._chat.say("choose a model first: an effort belongs to a model")
        else:
            await self._client.set_model(self._id, model, effort=effort)

    async def _rewind(self, seq: str) -> None:
        if not seq.isascii() or not seq.isdigit():
            await self._list_messages()
            return
        result = await self._client.rewind(self._id, int(seq))
        self._chat.say(
            f"rewound; files: {result.files.status}", f"the message was: {one_line(result.text, 500)}"
        )

    async def _list_messages(self) -> None:
        found: list[str] = []
        async for entry in self._client.history(self._id):
            if isinstance(entry.content, UserMessage):
                found.append(f"{entry.seq}. {one_line(entry.content.text, 200)}")
            if len(found) >= _MAX_MESSAGES:
                break
        self._chat.say(*reversed(found))

    async def _fork(self, seq: str) -> None:
        branch = await self._client.fork(self._id, seq=int(seq) if seq.isascii() and seq.isdigit() else None)
        self._chat.leave(branch.id)

    async def _older(self, _: str) -> None:
        entries = await self._chat.follower.older(_PAGE)
        log = PlainLog()
        self._chat.say(
            "(earlier)", *(line for entry in entries for line in log.add(entry)), "(end of earlier)"
        )

    async def _status(self, _: str) -> None:
        session = self._chat.session
        facts = [
            self._chat.conversation.state_text,
            session.agent,
            session.model or "",
            session.permission_mode.value,
            session.model_reasoning_effort or "",
            token_text(session),
            f"on {(await self._client.machine(session.machine_id)).host}",
            "connected" if self._chat.follower.connected else "not connected",
        ]
        self._chat.say(", ".join(one_line(fact, 80) for fact in facts if fact))

    async def _stop(self, _: str) -> None:
        await self._client.stop(self._id)

    async def _leave(self, _: str) -> None:
        self._chat.leave()
