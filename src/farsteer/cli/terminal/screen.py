"""The screen of `farsteer attach`: a log that grows, and below it lines that change: approvals, input and status."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from farsteer.cli.terminal.line_editor import PASTE_MODE_OFF, PASTE_MODE_ON, LineEditor
from farsteer.cli.terminal.text import Style, StyledText

_FRAME_SECONDS = 0.03
_MAX_UNFINISHED = 2000


class Screen:
    """Draws the changing lines at most once per frame, however often they change."""

    def __init__(self, editor: LineEditor) -> None:
        self.unfinished: list[StyledText] = []
        """The last lines of messages that are still being streamed."""
        self.prompt: list[StyledText] = []
        self.status = ""
        self._editor = editor
        self._console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False)
        self._live = Live(
            console=self._console, auto_refresh=False, transient=True, vertical_overflow="visible"
        )
        self._next_frame: asyncio.TimerHandle | None = None

    @contextmanager
    def show(self) -> Generator[None]:
        """Draw for the duration of the block, and remove the changing lines afterwards."""
        sys.stdout.write(PASTE_MODE_ON)
        try:
            with self._live:
                self._draw()
                yield
        finally:
            if self._next_frame is not None:
                self._next_frame.cancel()
            sys.stdout.write(PASTE_MODE_OFF)
            sys.stdout.flush()

    def append(self, lines: Iterable[StyledText]) -> None:
        """Add lines to the log."""
        for line in lines:
            # The terminal wraps long lines itself, so that they are copied as one line.
            self._console.print(Text(line.text, style=line.style), soft_wrap=True)
        self.refresh()

    def refresh(self) -> None:
        """Schedule a redraw of the changing lines."""
        if self._next_frame is None:
            self._next_frame = asyncio.get_running_loop().call_later(_FRAME_SECONDS, self._draw)

    def _draw(self) -> None:
        self._next_frame = None
        self._live.update(self._changing_lines(), refresh=True)

    def _changing_lines(self) -> RenderableType:
        rows = [Text(line.text[-_MAX_UNFINISHED:], style=line.style) for line in self.unfinished if line.text]
        rows += [Text(line.text, style=line.style) for line in self.prompt]
        rows += [self._input_line(), Text(self.status, style=Style.DIM, no_wrap=True, overflow="ellipsis")]
        return Group(*rows)

    def _input_line(self) -> Text:
        shown = self._editor.text.replace("\n", "⏎")
        cursor = self._editor.cursor
        text = Text("> ", style=Style.USER)
        text.append(shown[:cursor], style="default")
        text.append(shown[cursor : cursor + 1] or " ", style="reverse")
        text.append(shown[cursor + 1 :], style="default")
        return text
