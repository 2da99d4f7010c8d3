"""Dialogs over the conversation: a list to choose from, a line to type, a text to read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rich.console import RenderableType
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.events import Key
from textual.screen import ModalScreen
from textual.widgets import Input, Label, OptionList, Static
from textual.widgets.option_list import Option

from farsteer.core.text import clean_line

_CSS = """
{name} {{ align: center middle; }}
{name} > Vertical {{
    width: 90%; max-width: 100; height: auto; max-height: 90%; border: round $primary; padding: 0 1;
    background: $background;
}}
{name} OptionList, {name} OptionList:focus {{
    height: auto; max-height: 20; border: none; padding: 0; background: transparent;
}}
{name} Input, {name} Input:focus {{ border: none; height: 1; padding: 0; background: transparent; }}
{name} .title {{ text-style: bold; color: $secondary; }}
{name} .hint {{ color: $foreground 60%; text-style: dim; }}
{name} VerticalScroll {{ height: auto; max-height: 30; }}
"""


@dataclass(frozen=True, slots=True)
class Item:
    """A line of a list."""

    value: str
    text: str
    """Not trusted: it is cleaned before it is shown."""
    detail: str = ""
    enabled: bool = True
    style: str = ""

    def prompt(self) -> Text:
        shown = Text(clean_line(self.text, 200), style=self.style, no_wrap=True, overflow="ellipsis")
        return shown.append(f"  {clean_line(self.detail, 200)}", style="dim") if self.detail else shown


@dataclass(frozen=True, slots=True)
class Chosen:
    """What the person chose, and by which key."""

    value: str
    key: str = "enter"


@dataclass(frozen=True, slots=True)
class ListOptions:
    """How a list behaves."""

    keys: Mapping[str, str] = field(default_factory=dict[str, str])
    """More keys that choose, with what they do. Not together with a filter, which takes the letters."""
    filtered: bool = True
    free_text: bool = False
    """What is typed may be chosen itself."""
    initial: str | None = None
    """The item that is highlighted first."""
    hint: str = "Enter chooses"


class ListDialog(ModalScreen[Chosen | None]):
    """A list. Typing filters it, Enter chooses, Escape closes it."""

    DEFAULT_CSS = _CSS.format(name="ListDialog")
    BINDINGS = [
        Binding("escape,ctrl+c", "close", show=False, priority=True),
        Binding("down", "move(1)", show=False, priority=True),
        Binding("up", "move(-1)", show=False, priority=True),
        Binding("pagedown", "move(10)", show=False, priority=True),
        Binding("pageup", "move(-10)", show=False, priority=True),
    ]

    def __init__(self, title: str, items: Sequence[Item], options: ListOptions | None = None) -> None:
        super().__init__()
        self._title = title
        self._items = list(items)
        self._filter = ""
        self._shown = self._items
        """Those that the filter leaves."""
        self._options = options or ListOptions()

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Label(clean_line(self._title), classes="title", markup=False)
            if self._options.filtered:
                yield Input(placeholder="type to filter" if not self._options.free_text else "type or choose")
            yield OptionList(markup=False)
            keys = [f"{key} {what}" for key, what in self._options.keys.items()]
            hint = " · ".join([self._options.hint, *keys, "Esc closes"])
            yield Label(hint, classes="hint", markup=False)

    def on_mount(self) -> None:
        self._fill("")
        if self._options.filtered:
            self.query_one(Input).focus()

    def _fill(self, wanted: str) -> None:
        self._filter = wanted
        shown = self.query_one(OptionList)
        shown.clear_options()
        words = wanted.lower().split()
        items = [
            item
            for item in self._items
            if all(word in f"{item.text} {item.detail}".lower() for word in words)
        ]
        typed = wanted.strip()
        if self._options.free_text and typed and typed not in [item.value for item in items]:
            # A path that was typed is meant; other words rather look for something.
            items.insert(0 if typed[0] in "/~." else len(items), Item(typed, typed, "as typed"))
        self._shown = items
        shown.add_options(Option(item.prompt(), disabled=not item.enabled) for item in items)
        values = [item.value for item in items]
        first = next((index for index, item in enumerate(items) if item.enabled), None)
        initial = self._options.initial
        shown.highlighted = values.index(initial) if not words and initial in values else first

    def on_input_changed(self, event: Input.Changed) -> None:
        self._fill(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if event.value != self._filter:
            # More was typed before this was handled.
            self._fill(event.value)
        item = self._highlighted()
        if item is not None:
            self.dismiss(Chosen(item.value))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(Chosen(self._shown[event.option_index].value))

    def on_key(self, event: Key) -> None:
        item = self._highlighted()
        if event.key in self._options.keys and item is not None:
            event.stop()
            self.dismiss(Chosen(item.value, event.key))

    def _highlighted(self) -> Item | None:
        highlighted = self.query_one(OptionList).highlighted
        return None if highlighted is None else self._shown[highlighted]

    def action_move(self, step: int) -> None:
        shown = self.query_one(OptionList)
        move = shown.action_cursor_down if step > 0 else shown.action_cursor_up
        for _ in range(abs(step)):
            if abs(step) > 1 and shown.highlighted in (0 if step < 0 else shown.option_count - 1, None):
                break
            move()

    def action_close(self) -> None:
        self.dismiss(None)


class TextDialog(ModalScreen[None]):
    """A text to read."""

    DEFAULT_CSS = _CSS.format(name="TextDialog")
    BINDINGS = [
        Binding("escape,ctrl+c,q,enter,f1", "close", show=False, priority=True),
    ]

    def __init__(self, title: str, content: RenderableType) -> None:
        super().__init__()
        self._title = title
        self._content = content

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Label(clean_line(self._title), classes="title", markup=False)
            with VerticalScroll():
                yield Static(self._content, markup=False)
            yield Label("arrow keys scroll · Esc closes", classes="hint", markup=False)

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()

    def action_close(self) -> None:
        self.dismiss(None)
