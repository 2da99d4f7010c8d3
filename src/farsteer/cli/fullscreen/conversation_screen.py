"""The screen of one session: its log, what waits, what the agent asks, the input field and the status line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import Static

from farsteer.cli.errors import message_with_hint
from farsteer.cli.fullscreen.actions import SessionActions
from farsteer.cli.fullscreen.approval_panel import ApprovalPanel
from farsteer.cli.fullscreen.composer import Composer
from farsteer.cli.fullscreen.dialogs import TextDialog
from farsteer.cli.fullscreen.log_widget import LogWidget
from farsteer.cli.fullscreen.status_line import status_line
from farsteer.cli.terminal.approval_prompt import ApprovalPrompt, InvalidReply, ShowWhole
from farsteer.cli.terminal.conversation import Conversation
from farsteer.cli.terminal.follower import Follower
from farsteer.cli.terminal.outbox import Outbox, Outgoing
from farsteer.cli.terminal.text import Style, one_line, short_path
from farsteer.core.errors import AlreadyAnswered, FarsteerError
from farsteer.core.queue import Delivery
from farsteer.core.text import clean_line

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from farsteer.cli.fullscreen.app import FarsteerApp
    from farsteer.client import AsyncClient
    from farsteer.core.api import SessionView

_FRAME_SECONDS = 0.04
_STATUS_SECONDS = 0.5
_PAGE = 200
_MAX_QUEUE_LINES = 4


class ConversationScreen(Screen[None]):
    """Shows a session and steers it. Leaving it never ends the session."""

    DEFAULT_CSS = """
    ConversationScreen #title { height: 1; padding: 0 1; }
    ConversationScreen #queue { height: auto; padding: 0 1; display: none; }
    ConversationScreen #queue.filled { display: block; }
    ConversationScreen #status { height: 1; padding: 0 1; }
    """
    BINDINGS = [
        Binding("ctrl+c", "interrupt", show=False, priority=True),
        Binding("ctrl+d", "leave_or_delete", show=False, priority=True),
        Binding("escape", "switch_focus(True)", show=False),
        Binding("tab", "switch_focus", show=False, priority=True),
        Binding("ctrl+o", "unfold", show=False, priority=True),
        Binding("pageup", "scroll_log('page_up')", show=False, priority=True),
        Binding("pagedown", "scroll_log('page_down')", show=False, priority=True),
        Binding("ctrl+home", "scroll_log('home')", show=False, priority=True),
        Binding("ctrl+end", "scroll_log('end')", show=False, priority=True),
        Binding("f1", "help", show=False, priority=True),
        Binding("ctrl+p", "menu", show=False, priority=True),
        Binding("ctrl+q", "queue", show=False, priority=True),
        Binding("ctrl+r", "rewind", show=False, priority=True),
        Binding("shift+tab", "mode", show=False, priority=True),
        Binding("ctrl+t", "model", show=False, priority=True),
        # Without priority: what was typed before it must be in the field.
        Binding("ctrl+s", "send_now", show=False),
    ]

    app: FarsteerApp

    def __init__(self, client: AsyncClient, session: SessionView, tail: int, draft: str = "") -> None:
        super().__init__()
        self._draft = draft
        self.client = client
        self.conversation = Conversation(session)
        self.follower = Follower(client, session.id, tail)
        self.outbox = Outbox(client, session.id, self.update_below, self._refused)
        self.actions = SessionActions(self)
        self._frame: Timer | None = None
        self._is_loading = False
        self._wants_older = False
        """The person has scrolled up at the top of what is loaded."""
        self._interrupted = False
        self._unread = False
        self._answering: tuple[ApprovalPrompt, str] | None = None
        """The approval that the input field answers, and how the answer begins."""

    @property
    def session(self) -> SessionView:
        return self.conversation.session

    def compose(self) -> ComposeResult:
        yield Static(id="title", markup=False)
        yield LogWidget()
        yield Static(id="queue", markup=False)
        yield ApprovalPanel()
        yield Composer()
        yield Static(id="status", markup=False)

    def on_mount(self) -> None:
        composer = self.query_one(Composer)
        composer.put(self._draft)
        composer.focus()
        self._set_purpose()
        self.run_worker(self._follow())
        self.run_worker(self.outbox.run())
        self.set_interval(_STATUS_SECONDS, self._update_status)
        self.update_below()

    # -- what happens in the session

    async def _follow(self) -> None:
        try:
            async for change in self.follower.changes():
                was_working = self.conversation.working
                self.conversation.apply(change)
                if self.conversation.working and not was_working:
                    self._interrupted = False
                self._unread = not self.query_one(LogWidget).following
                self._refresh_soon()
        except FarsteerError as error:
            self.app.fail(error)
        else:
            self.app.leave("the session was deleted")

    def _refresh_soon(self) -> None:
        """Draw once per frame, however much happens."""
        if self._frame is None:
            self._frame = self.set_timer(_FRAME_SECONDS, self._draw)

    def _draw(self) -> None:
        self._frame = None
        log = self.query_one(LogWidget)
        if log.following and self.conversation.trim():
            self.follower.forget_older(self.conversation.log.first_seq)
        log.show(self.conversation.log.blocks)
        self.query_one(Composer).set_history(self.conversation.sent_texts)
        self.update_below()
        if self._wants_older and not self._is_loading:
            self._wants_older = False
            log.scroll_page_up(animate=False)
        if log.is_short or log.scroll_y == 0:
            self.on_log_widget_near_top()

    def on_log_widget_near_top(self) -> None:
        if not self._is_loading and self.follower.has_older:
            self._is_loading = True
            self.run_worker(self._load_older())

    async def _load_older(self) -> None:
        try:
            entries = await self.follower.older(_PAGE)
            self.conversation.log.prepend(entries)
            self._refresh_soon()
        except FarsteerError as error:
            self.show_error(error)
        finally:
            self._is_loading = False

    # -- the lines around the log

    def update_below(self) -> None:
        """Show the queue, the approval and the status as they are now."""
        if not self.is_mounted:
            return
        self._update_title()
        self._update_queue()
        self._update_approval()
        self._update_status()

    def _update_title(self) -> None:
        session = self.session
        title = Text(one_line(session.title or "no title yet", 60), style="bold", no_wrap=True)
        title.append(f"  {short_path(session.directory)}", style=Style.DIM)
        title.truncate(max(10, self.size.width - 2), overflow="ellipsis")
        self.query_one("#title", Static).update(title)

    def _update_queue(self) -> None:
        width = max(20, self.size.width - 20)
        texts = [("queued", item.text) for item in self.conversation.waiting]
        texts += [("not sent yet", message.text) for message in self.outbox.waiting if self._is_late(message)]
        rows = [
            Text(f"⋯ {what}: {one_line(text, width)}", style=Style.DIM)
            for what, text in texts[:_MAX_QUEUE_LINES]
        ]
        if texts:
            more = f"{len(texts) - _MAX_QUEUE_LINES} more, " if len(texts) > _MAX_QUEUE_LINES else ""
            rows.append(Text(f"  {more}Ctrl-Q changes them", style=Style.DIM))
        queue = self.query_one("#queue", Static)
        queue.set_class(bool(rows), "filled")
        queue.update(Text("\n").join(rows))

    def _is_late(self, message: Outgoing) -> bool:
        return message is not self.outbox.waiting[0] or not self.follower.connected

    def _update_approval(self) -> None:
        panel, composer = self.query_one(ApprovalPanel), self.query_one(Composer)
        prompt = self.conversation.prompt
        tool = None if prompt is None else self.conversation.log.tool(prompt.approval.tool_call_id)
        described = tool is not None and tool.has_diff
        is_new = panel.show(prompt, len(self.conversation.prompts), described=described)
        if self._answering is not None and self._answering[0] is not prompt:
            self._set_purpose()
            if composer.text.strip():
                self.show_note("the question was answered elsewhere; your text was not sent")
        if prompt is None and panel.has_focus:
            composer.focus()
        elif is_new and prompt is not None and not composer.text and self.focused is composer:
            panel.focus()

    def _update_status(self) -> None:
        line = status_line(
            self.conversation,
            self.app.machine_name(self.session.machine_id),
            connected=self.follower.connected,
            unread=self._unread and not self.query_one(LogWidget).following,
            width=max(10, self.size.width - 2),
        )
        self.query_one("#status", Static).update(line)

    # -- what is typed

    def _set_purpose(self, prompt: ApprovalPrompt | None = None, prefix: str = "", label: str = "") -> None:
        """Let the input field write a message, or the answer to an approval."""
        self._answering = None if prompt is None else (prompt, prefix)
        composer = self.query_one(Composer)
        composer.set_class(prompt is not None, "answer")
        composer.border_title = label or None
        composer.placeholder = "" if prompt is not None else "Write a message · Enter sends · Ctrl-P menu"

    def on_composer_submitted(self, event: Composer.Submitted) -> None:
        self._interrupted = False
        if self._answering is not None:
            prompt, prefix = self._answering
            self._set_purpose()
            self._reply(prompt, prefix + event.text)
            return
        self.outbox.put(event.text)
        self.query_one(LogWidget).go_to_end()

    def action_send_now(self) -> None:
        """Send what is typed before everything else, and interrupt the turn for it."""
        text = self.query_one(Composer).text
        if text.strip() and self._answering is None:
            self.query_one(Composer).text = ""
            self.outbox.put(text, Delivery.NOW)

    def _refused(self, message: Outgoing, error: FarsteerError) -> None:
        composer = self.query_one(Composer)
        if not composer.text:
            composer.put(message.text)
        self.show_error(error, "not sent: ")

    # -- approvals

    def on_approval_panel_replied(self, event: ApprovalPanel.Replied) -> None:
        self._reply(event.prompt, event.line)

    def on_approval_panel_words_wanted(self, event: ApprovalPanel.WordsWanted) -> None:
        self._set_purpose(event.prompt, event.prefix, event.label)
        self.query_one(Composer).focus()

    def on_approval_panel_typed(self, event: ApprovalPanel.Typed) -> None:
        composer = self.query_one(Composer)
        composer.focus()
        composer.insert(event.character)

    def _reply(self, prompt: ApprovalPrompt, line: str) -> None:
        if prompt is not self.conversation.prompt:
            self.show_note("another approval is shown now; your answer was not sent")
            return
        decision = prompt.reply(line)
        if isinstance(decision, InvalidReply):
            self.show_note(decision.reason)
        elif isinstance(decision, ShowWhole):
            self.app.push_screen(TextDialog("What the agent asks", Text("\n".join(decision.lines))))
        elif decision is not None:
            approval_id = prompt.approval.id
            self.request(self.client.answer(self.session.id, approval_id, decision))
        self.update_below()

    # -- requests and notes

    def request(self, call: Awaitable[Any]) -> None:
        """Send a request in the background. An error is shown."""
        self.run_worker(self._request(call))

    async def _request(self, call: Awaitable[Any]) -> None:
        try:
            await call
        except AlreadyAnswered as error:
            self.show_note(error.message)
        except FarsteerError as error:
            self.show_error(error)

    def show_note(self, text: str) -> None:
        self.notify(clean_line(text), markup=False, timeout=4)

    def show_error(self, error: FarsteerError, what: str = "") -> None:
        text = clean_line(f"{what}{message_with_hint(error)}")
        self.notify(text, severity="error", markup=False, timeout=10)

    # -- keys

    def action_interrupt(self) -> None:
        if self.get_selected_text():
            self.action_copy_text()
            self.clear_selection()
            return
        if self._interrupted:
            self.app.leave()
            return
        self._interrupted = True
        if self.conversation.working:
            self.request(self.client.abort(self.session.id))
            self.show_note("interrupting the turn; Ctrl-C again leaves")
        else:
            self.show_note("no turn is running; Ctrl-C again leaves")

    def action_leave_or_delete(self) -> None:
        composer = self.query_one(Composer)
        if composer.has_focus and composer.text:
            composer.action_delete_right()
        else:
            self.app.leave()

    def action_switch_focus(self, back: bool = False) -> None:
        """Go round: the input field, what the agent asks, the log. Escape goes to the input field or the approval."""
        composer, panel, log = (
            self.query_one(Composer),
            self.query_one(ApprovalPanel),
            self.query_one(LogWidget),
        )
        if back and self._answering is not None:
            self._set_purpose()
        if self.focused is composer and panel.is_open:
            panel.focus()
        elif self.focused is log or back or (self.focused is panel and self._answering is None):
            (log if self.focused is panel and not back else composer).focus()
        else:
            log.focus()

    def action_unfold(self) -> None:
        self.query_one(LogWidget).action_toggle_all()

    def action_scroll_log(self, where: str) -> None:
        log = self.query_one(LogWidget)
        match where:
            case "page_up":
                if log.scroll_y == 0:
                    self.on_log_widget_near_top()
                    self._wants_older = self._is_loading or self._frame is not None
                log.scroll_page_up(animate=False)
            case "page_down":
                log.scroll_page_down(animate=False)
            case "home":
                log.scroll_home(animate=False)
            case _:
                log.go_to_end()

    def action_help(self) -> None:
        self.actions.help()

    def action_menu(self) -> None:
        self.actions.menu()

    def action_queue(self) -> None:
        self.actions.queue()

    def action_rewind(self) -> None:
        self.actions.rewind()

    def action_mode(self) -> None:
        self.actions.mode()

    def action_model(self) -> None:
        self.actions.model()
