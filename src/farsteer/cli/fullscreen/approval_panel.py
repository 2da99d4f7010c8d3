"""The panel that shows what an agent asks, and takes the answer by one key."""

from __future__ import annotations

import time

from rich.console import Group, RenderableType
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.events import Key
from textual.message import Message
from textual.widgets import Static

from farsteer.cli.terminal.approval_prompt import ApprovalPrompt, Choice, describe_approval
from farsteer.cli.terminal.text import Style
from farsteer.core.approvals import ApprovalKind
from farsteer.core.text import clean

DEAF_SECONDS = 0.5
"""Keys that are pressed so soon after a question has appeared were not meant for it."""
_MAX_KEYS = 9


class ApprovalPanel(VerticalScroll, can_focus=True):
    """Shows one approval. Which answers it takes, `ApprovalPrompt` says."""

    DEFAULT_CSS = """
    ApprovalPanel {
        height: auto; max-height: 50%; border: round $warning; padding: 0 1; display: none;
        background: transparent; scrollbar-size-vertical: 1;
    }
    ApprovalPanel:focus { border: heavy $warning; }
    ApprovalPanel.open { display: block; }
    """

    class Replied(Message):
        """The person has answered with this line."""

        def __init__(self, prompt: ApprovalPrompt, line: str) -> None:
            super().__init__()
            self.prompt = prompt
            self.line = line

    class WordsWanted(Message):
        """The answer is to be typed; the line begins with `prefix`."""

        def __init__(self, prompt: ApprovalPrompt, prefix: str, label: str) -> None:
            super().__init__()
            self.prompt = prompt
            self.prefix = prefix
            self.label = label

    class Typed(Message):
        """A key that is no answer: the person writes a message."""

        def __init__(self, character: str) -> None:
            super().__init__()
            self.character = character

    def __init__(self) -> None:
        super().__init__()
        self._prompt: ApprovalPrompt | None = None
        self._shown: tuple[object, ...] | None = None
        self._marked: set[str] = set()
        self._deaf_until = 0.0

    def compose(self) -> ComposeResult:
        yield Static(markup=False)

    @property
    def is_open(self) -> bool:
        return self._prompt is not None

    def show(self, prompt: ApprovalPrompt | None, count: int, *, described: bool) -> bool:
        """Show an approval, or none. Returns whether it is another one than before.

        Args:
            prompt: The approval.
            count: How many are open.
            described: What it is about is visible already, in the log.
        """
        key = None if prompt is None else (prompt, prompt.question)
        is_new = key != self._shown
        if is_new:
            self._marked = set()
            self._deaf_until = time.monotonic() + DEAF_SECONDS
        self._shown, self._prompt = key, prompt
        self.set_class(prompt is not None, "open")
        if prompt is not None:
            self.border_title = "the agent asks" if count == 1 else f"the agent asks (1 of {count})"
            self.query_one(Static).update(self._content(prompt, described=described))
        return is_new

    def _content(self, prompt: ApprovalPrompt, *, described: bool) -> RenderableType:
        question = prompt.question
        first, *rest = describe_approval(prompt.approval)
        rows: list[Text] = []
        if question is None or len(prompt.approval.questions) > 1 or question.text != prompt.approval.title:
            rows.append(Text(first, style=Style.ASK))
        if not described and prompt.approval.kind is not ApprovalKind.PLAN:
            rows += [Text(line) for line in rest]
        if question is not None:
            rows.append(Text(clean(question.text), style="bold"))
        rows += [self._choice_row(choice, marks=question is not None) for choice in prompt.choices]
        rows.append(Text(self._hint(prompt), style=Style.DIM))
        return Group(*rows)

    def _choice_row(self, choice: Choice, *, marks: bool) -> Text:
        multiple = (
            self._prompt is not None and self._prompt.question is not None and self._prompt.question.multiple
        )
        box = (
            ("[x] " if choice.key in self._marked else "[ ] ")
            if marks and multiple and choice.key != "-"
            else ""
        )
        return Text.assemble(("  "), (choice.key, Style.ASK), (f"  {box}{choice.text}"))

    def _hint(self, prompt: ApprovalPrompt) -> str:
        question = prompt.question
        if question is None:
            return "one key answers · r no, with a reason · Tab to write a message"
        parts = ["the number answers"] if question.choices and not question.multiple else []
        if question.multiple:
            parts = ["numbers mark, Enter answers"]
        if self._takes_words(prompt):
            parts.append("o your own words" if question.choices else "type the answer")
        return " · ".join([*parts, "Tab to write a message"])

    def _takes_words(self, prompt: ApprovalPrompt) -> bool:
        question = prompt.question
        return question is not None and (
            question.free_text or not question.choices or len(question.choices) > _MAX_KEYS
        )

    def on_key(self, event: Key) -> None:
        prompt, key = self._prompt, event.character or event.key
        if prompt is None or (not event.is_printable and event.key != "enter"):
            return
        event.stop()
        if time.monotonic() < self._deaf_until:
            if event.is_printable:
                self.post_message(self.Typed(key))
        elif event.key == "enter":
            self._confirm(prompt)
        else:
            self._press(prompt, key)

    def _confirm(self, prompt: ApprovalPrompt) -> None:
        if self._marked:
            self.post_message(self.Replied(prompt, ",".join(sorted(self._marked))))
        elif prompt.question is not None and not prompt.question.choices:
            self._ask_for_words(prompt)

    def _press(self, prompt: ApprovalPrompt, key: str) -> None:
        question = prompt.question
        keys = [choice.key for choice in prompt.choices]
        if key in keys and question is not None and question.multiple and key != "-":
            self._marked ^= {key}
            self.query_one(Static).update(self._content(prompt, described=False))
        elif key in keys or key == "v":
            self.post_message(self.Replied(prompt, key))
        elif question is not None and not question.choices:
            self._ask_for_words(prompt)
            self.post_message(self.Typed(key))
        elif key == "o" and self._takes_words(prompt):
            self._ask_for_words(prompt)
        elif key == "r" and question is None:
            self.post_message(self.WordsWanted(prompt, "n ", "why not, or what to do instead"))
        elif question is not None and prompt.approval.kind is ApprovalKind.PLAN and key in ("n", "x"):
            self.post_message(self.Replied(prompt, key))
        else:
            self.post_message(self.Typed(key))

    def _ask_for_words(self, prompt: ApprovalPrompt) -> None:
        self.post_message(self.WordsWanted(prompt, "", "your answer"))
