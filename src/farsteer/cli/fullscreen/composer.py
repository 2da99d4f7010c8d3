"""The input field of a conversation."""

from __future__ import annotations

from textual.binding import Binding
from textual.events import Key
from textual.message import Message
from textual.widgets import TextArea

_NEW_LINE = ("alt+enter", "shift+enter", "ctrl+j")


class Composer(TextArea):
    """A text field of up to eight lines. Enter sends, Alt-Enter or Ctrl-J begins a new line."""

    DEFAULT_CSS = """
    Composer {
        height: auto; max-height: 10; min-height: 3; border: round $primary; padding: 0 1; background: transparent;
        scrollbar-size-vertical: 1;
    }
    Composer:focus { border: round $secondary; }
    Composer.answer { border: round $warning; }
    """
    BINDINGS = [
        Binding("up", "earlier", show=False),
        Binding("down", "later", show=False),
    ]

    class Submitted(Message):
        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self) -> None:
        super().__init__(
            soft_wrap=True, show_line_numbers=False, tab_behavior="focus", highlight_cursor_line=False
        )
        self._history: list[str] = []
        self._back = 0
        """How many messages back in the history the field is; 0: at what is being typed."""
        self._draft = ""

    def set_history(self, texts: list[str]) -> None:
        """Set what the keys Up and Down bring back, the last one last."""
        self._history = texts

    def put(self, text: str) -> None:
        """Replace the content, with the cursor at its end."""
        self.text = text
        self.move_cursor(self.document.end)

    def submit(self) -> None:
        text = self.text
        if text.strip():
            self._back, self._draft = 0, ""
            self.text = ""
            self.post_message(self.Submitted(text))

    def action_earlier(self) -> None:
        if self.cursor_location[0] == 0 and self._back < len(self._history):
            self._step(1)
        else:
            self.action_cursor_up()

    def action_later(self) -> None:
        if self._back and self.cursor_location[0] == self.document.line_count - 1:
            self._step(-1)
        else:
            self.action_cursor_down()

    def _step(self, step: int) -> None:
        if not self._back:
            self._draft = self.text
        self._back += step
        self.put(self._history[-self._back] if self._back else self._draft)

    async def _on_key(self, event: Key) -> None:
        # Not bindings: those with priority would run before the keys that were pressed earlier are in the field.
        if event.key in _NEW_LINE or event.key == "enter":
            event.stop()
            event.prevent_default()
            if event.key == "enter":
                self.submit()
            else:
                self.insert("\n")
            return
        if event.is_printable or event.key in ("backspace", "delete"):
            self._back = 0
        await super()._on_key(event)
