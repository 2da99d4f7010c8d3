"""What a person can do with a session besides writing: settings, the queue, rewind, fork; each with its dialog."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from farsteer.cli.fullscreen.composer import Composer
from farsteer.cli.fullscreen.dialogs import Chosen, Item, ListDialog, ListOptions, TextDialog
from farsteer.cli.fullscreen.rendering import markdown
from farsteer.cli.terminal.text import ago, one_line
from farsteer.core.errors import FarsteerError
from farsteer.core.events import UserMessage
from farsteer.core.modes import PermissionMode, ReasoningEffort

if TYPE_CHECKING:
    from farsteer.cli.fullscreen.conversation_screen import ConversationScreen

HELP = """\
| key | what it does |
|---|---|
| Enter | sends the message |
| Alt-Enter, Ctrl-J | begins a new line |
| Ctrl-S | sends it now: interrupts the turn and goes before the queue |
| Up, Down | brings back earlier messages |
| Ctrl-C | interrupts the turn; pressed again, leaves |
| Ctrl-D | leaves; the session goes on |
| PgUp, PgDn, wheel | scrolls; Ctrl-Home and Ctrl-End go to the ends |
| Ctrl-O | unfolds all tool calls, or folds them again |
| Tab | goes to the question, the log (arrows choose, Enter unfolds), and back |
| Shift-Tab | permission mode |
| Ctrl-T | model |
| Ctrl-Q | waiting messages: edit, cancel, send now |
| Ctrl-R | rewind to a message, or fork there |
| Ctrl-P | menu with all of this and more |
| Ctrl-Z | suspends this program |

What an agent asks is answered by one key, which is shown beside each answer. A mouse selects text; Ctrl-C copies it.
"""
_MODES = {
    PermissionMode.DEFAULT: "asks before it changes anything",
    PermissionMode.ACCEPT_EDITS: "edits files without asking",
    PermissionMode.PLAN: "only reads, and proposes a plan",
    PermissionMode.READ_ONLY: "only reads",
    PermissionMode.SAFE_YOLO: "edits and runs commands without asking; deletes only after asking",
    PermissionMode.YOLO: "does everything without asking",
    PermissionMode.BYPASS: "does everything without asking",
}
_MAX_MESSAGES = 300
_MAX_ENTRIES = 20_000


class SessionActions:
    """The dialogs of a `ConversationScreen`."""

    def __init__(self, screen: ConversationScreen) -> None:
        self._screen = screen

    def menu(self) -> None:
        items: dict[str, tuple[str, str, Callable[[], None]]] = {
            "mode": ("permission mode", self._screen.session.permission_mode.value, self.mode),
            "model": ("model", self._screen.session.model or "the agent's default", self.model),
            "effort": (
                "reasoning effort",
                self._screen.session.model_reasoning_effort or "default",
                self.effort,
            ),
            "queue": ("waiting messages", str(len(self._screen.conversation.waiting)), self.queue),
            "rewind": ("rewind or fork", "from a list of your messages", self.rewind),
            "fork": ("fork the whole conversation", "into a new session", self.fork_here),
            "commands": ("commands of the agent", "", self.commands),
            "stop": ("stop the agent's process", "the next message starts it again", self.stop),
            "sessions": ("other sessions", "", self._screen.app.show_picker),
            "help": ("keys", "F1", self.help),
            "leave": ("leave", "the session goes on", self._screen.app.leave),
        }

        async def run() -> None:
            chosen = await self._choose(
                "Menu", [Item(name, text, detail) for name, (text, detail, _) in items.items()]
            )
            if chosen is not None:
                items[chosen.value][2]()

        self._start(run())

    def help(self) -> None:
        self._screen.app.push_screen(TextDialog("Keys", markdown(HELP)))

    def mode(self) -> None:
        async def run() -> None:
            items = [Item(mode.value, mode.value, what) for mode, what in _MODES.items()]
            options = ListOptions(initial=self._screen.session.permission_mode.value)
            chosen = await self._choose("Permission mode", items, options)
            if chosen is not None:
                mode = PermissionMode(chosen.value)
                await self._screen.client.set_permission_mode(self._screen.session.id, mode)

        self._start(run())

    def model(self) -> None:
        async def run() -> None:
            session = self._screen.session
            models = await self._screen.app.models(session.machine_id, session.agent)
            if session.model and session.model not in models:
                models = (session.model, *models)
            options = ListOptions(initial=session.model, free_text=True)
            chosen = await self._choose("Model", [Item(model, model) for model in models], options)
            if chosen is not None:
                await self._screen.client.set_model(session.id, chosen.value)

        self._start(run())

    def effort(self) -> None:
        async def run() -> None:
            session = self._screen.session
            if session.model is None:
                self._screen.show_note("choose a model first: an effort belongs to a model")
                return
            items = [Item(effort.value, effort.value) for effort in ReasoningEffort]
            chosen = await self._choose(
                "Reasoning effort", items, ListOptions(initial=session.model_reasoning_effort)
            )
            if chosen is not None:
                effort = ReasoningEffort(chosen.value)
                await self._screen.client.set_model(session.id, session.model, effort=effort)

        self._start(run())

    def commands(self) -> None:
        async def run() -> None:
            items = [
                Item(command.name, f"/{command.name.removeprefix('/')}", command.description)
                for command in self._screen.session.commands
            ]
            chosen = await self._choose("Commands of the agent", items)
            if chosen is not None:
                self._screen.query_one(Composer).put(f"/{chosen.value.removeprefix('/')} ")

        self._start(run())

    def stop(self) -> None:
        self._screen.request(self._screen.client.stop(self._screen.session.id))

    def queue(self) -> None:
        """Edit, cancel or send a waiting message."""

        async def run() -> None:
            screen = self._screen
            unsent = {message.local_id: message for message in screen.outbox.waiting}
            items = [Item(item.id, item.text, "queued") for item in screen.conversation.waiting]
            items += [Item(id, message.text, "not sent yet") for id, message in unsent.items()]
            if not items:
                screen.show_note("no message waits")
                return
            options = ListOptions(
                keys={"d": "cancels", "s": "sends now"}, filtered=False, hint="Enter cancels and edits"
            )
            chosen = await self._choose("Waiting messages", items, options)
            if chosen is None:
                return
            if chosen.value in unsent:
                text = unsent[chosen.value].text
                screen.outbox.remove(unsent[chosen.value])
            elif chosen.key == "s":
                await screen.client.send_now(screen.session.id, chosen.value)
                return
            else:
                text = await self._cancel(chosen.value)
            if chosen.key == "enter":
                screen.query_one(Composer).put(text)

        self._start(run())

    async def _cancel(self, item_id: str) -> str:
        """Cancel a waiting message and return its text."""
        session_id = self._screen.session.id
        texts = {item.id: item.text for item in await self._screen.client.queue(session_id)}
        await self._screen.client.cancel(session_id, item_id)
        return texts.get(item_id, "")

    def rewind(self) -> None:
        """Rewind the conversation to a message of a person, or fork it there."""

        async def run() -> None:
            messages = await self._messages()
            if not messages:
                self._screen.show_note("nothing was said yet")
                return
            items = [
                Item(str(seq), one_line(text, 120), f"{ago(created_at)} ago")
                for seq, created_at, text in messages
            ]
            options = ListOptions(
                keys={"k": "keeps the files", "f": "forks before it"},
                filtered=False,
                hint="Enter rewinds",
            )
            chosen = await self._choose("Remove a message and everything after it", items, options)
            if chosen is None:
                return
            if chosen.key == "f":
                await self._fork(int(chosen.value), {str(seq): text for seq, _, text in messages})
                return
            await self._rewind(int(chosen.value), restore_files=chosen.key == "enter")

        self._start(run())

    async def _rewind(self, seq: int, *, restore_files: bool) -> None:
        screen = self._screen
        result = await screen.client.rewind(screen.session.id, seq, restore_files=restore_files)
        composer = screen.query_one(Composer)
        if not composer.text:
            composer.put(result.text)
        left = f"; not restored: {', '.join(result.files.skipped)}" if result.files.skipped else ""
        screen.show_note(f"rewound; files: {result.files.status}{left}; the message is in the input field")

    async def _messages(self) -> list[tuple[int, int, str]]:
        """Return what people have said, the last one first, with its number and time."""
        found: list[tuple[int, int, str]] = []
        count = 0
        async for entry in self._screen.client.history(self._screen.session.id):
            count += 1
            if isinstance(entry.content, UserMessage):
                found.append((entry.seq, entry.created_at, entry.content.text))
            if len(found) >= _MAX_MESSAGES or count >= _MAX_ENTRIES:
                break
        return found

    def fork_here(self) -> None:
        self._start(self._fork(None, {}))

    async def _fork(self, seq: int | None, texts: dict[str, str]) -> None:
        screen = self._screen
        branch = await screen.client.fork(screen.session.id, seq=seq)
        await screen.app.open_session(branch.id, draft=texts.get(str(seq), ""))

    def _start(self, work: Awaitable[None]) -> None:
        if self._screen.app.screen is self._screen:
            self._screen.run_worker(self._guard(work))
        else:
            # A dialog is open already.
            close = getattr(work, "close", None)
            if close is not None:
                close()

    async def _guard(self, work: Awaitable[None]) -> None:
        try:
            await work
        except FarsteerError as error:
            self._screen.show_error(error)

    async def _choose(
        self, title: str, items: list[Item], options: ListOptions | None = None
    ) -> Chosen | None:
        return await self._screen.app.push_screen_wait(ListDialog(title, items, options))
