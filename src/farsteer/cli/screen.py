"""A terminal with a log that grows and a few lines below it that change: what streams in, the state, the input."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from farsteer.cli.editor import PASTE_OFF, PASTE_ON, LineEditor
from farsteer.cli.view import Line

_FRAME_SECONDS = 0.03
_TAIL = 2000


class Screen:
    """Draws at most once per frame, however much changes."""

    def __init__(self, editor: LineEditor) -> None:
        self.partial: list[Line] = []
        """What is still being written."""
        self.status = ""
        self.prompt: list[Line] = []
        self._editor = editor
        self._console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False)
        self._live = Live(
            console=self._console, auto_refresh=False, transient=True, vertical_overflow="visible"
        )
        self._due: asyncio.TimerHandle | None = None

    @contextmanager
    def shown(self) -> Generator[None]:
        sys.stdout.write(PASTE_ON)
        try:
            with self._live:
                self._draw()
                yield
        finally:
            if self._due is not None:
                self._due.cancel()
            sys.stdout.write(PASTE_OFF)
            sys.stdout.flush()

    def add(self, lines: Iterable[Line]) -> None:
        """Lines for good."""
        for line in lines:
            # Wrapped by the terminal itself, so that a long line is copied as one.
            self._console.print(Text(line.text, style=line.style), soft_wrap=True)
        self.changed()

    def changed(self) -> None:
        if self._due is None:
            self._due = asyncio.get_running_loop().call_later(_FRAME_SECONDS, self._draw)

    def _draw(self) -> None:
        self._due = None
        self._live.update(self._below(), refresh=True)

    def _below(self) -> RenderableType:
        rows = [Text(line.text[-_TAIL:], style=line.style) for line in self.partial if line.text]
        rows += [Text(line.text, style=line.style) for line in self.prompt]
        rows += [self._input(), Text(self.status, style="dim", no_wrap=True, overflow="ellipsis")]
        return Group(*rows)

    def _input(self) -> Text:
        shown = self._editor.text.replace("\n", "⏎")
        cursor = self._editor.cursor
        text = Text("> ", style="bold cyan")
        text.append(shown[:cursor], style="default")
        text.append(shown[cursor : cursor + 1] or " ", style="reverse")
        text.append(shown[cursor + 1 :], style="default")
        return text
