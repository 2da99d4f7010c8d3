"""Makes docs/attach.svg and docs/recording.svg: `python -m tests.docs.terminal_pictures`.

Both show the real program in a pseudo-terminal, with a real hub, runner and demo agent.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from pyte.screens import Char

from tests.support.pty_screen import ENTER, PtyProgram, Screen
from tests.support.stack import Stack, announce, farsteer

DOCS = Path(__file__).parents[2] / "docs"
ROWS, COLUMNS = 26, 88
MAX_BYTES = 200_000

_CELL_WIDTH, _CELL_HEIGHT, _MARGIN = 8.4, 18, 12
_BACKGROUND, _FOREGROUND = "#16181d", "#d7dae0"
_COLOURS = {
    "black": "#16181d", "red": "#f07178", "green": "#8fd17f", "brown": "#e6c15c", "blue": "#7aa2f7",
    "magenta": "#c792ea", "cyan": "#6fd3e0", "white": "#d7dae0", "brightblack": "#7d8590",
}  # fmt: skip
_STYLE = f"""\
text {{ font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: {_FOREGROUND};
white-space: pre; }} .b {{ font-weight: bold; }} .i {{ font-style: italic; }}"""
_LONGEST_SECONDS = 1.6
_LAST_SECONDS = 4.0
_FRAME_SECONDS = 0.09

Row = tuple[tuple[str, str, str, str], ...]
"""Runs of characters with the same look: text, classes, colour, background."""


class DimScreen(Screen):
    """A screen that shows dim text as grey, which pyte does not know."""

    def select_graphic_rendition(self, *attributes: int, private: bool = False) -> None:
        if 2 in attributes and not any(30 <= one <= 37 for one in attributes):
            attributes = (*attributes, 90)
        super().select_graphic_rendition(*attributes, private=private)


@dataclass(frozen=True, slots=True)
class Frame:
    rows: tuple[Row, ...]
    seconds: float


def screen_rows(screen: Screen) -> tuple[Row, ...]:
    """Return what a screen shows."""
    return tuple(_runs([screen.buffer[y][x] for x in range(screen.columns)]) for y in range(screen.lines))


def _runs(cells: Sequence[Char]) -> Row:
    runs: list[list[str]] = []
    for cell in cells:
        classes = " ".join(name for name, on in (("b", cell.bold), ("i", cell.italics)) if on)
        colour = _COLOURS.get(cell.fg, _FOREGROUND)
        background = _COLOURS.get(cell.bg, "")
        if cell.reverse:
            colour, background = background or _BACKGROUND, colour
        look = [
            classes,
            "" if colour == _FOREGROUND else colour,
            "" if background == _BACKGROUND else background,
        ]
        if runs and runs[-1][1:] == look:
            runs[-1][0] += cell.data
        else:
            runs.append([cell.data, *look])
    if runs and not runs[-1][3]:
        runs[-1][0] = runs[-1][0].rstrip()
    return tuple((text, classes, colour, background) for text, classes, colour, background in runs if text)


def svg(frames: Sequence[Frame]) -> str:
    """Return frames as a picture, which is animated if there are several. Each row is drawn once."""
    width = COLUMNS * _CELL_WIDTH + 2 * _MARGIN
    height = ROWS * _CELL_HEIGHT + 2 * _MARGIN
    numbers: dict[Row, int] = {}
    for frame in frames:
        for row in frame.rows:
            numbers.setdefault(row, len(numbers))
    rows = "\n".join(f'<g id="r{number}">{_row_svg(row)}</g>' for row, number in numbers.items() if row)
    total = sum(frame.seconds for frame in frames)
    last = len(frames) - 1
    style, groups, begin = _STYLE, "", 0.0
    for index, frame in enumerate(frames):
        uses = "".join(
            f'<use href="#r{numbers[row]}" y="{y * _CELL_HEIGHT}"/>'
            for y, row in enumerate(frame.rows)
            if row
        )
        groups += f'<g class="f f{index}">{uses}</g>\n'
        if len(frames) > 1:
            end = 1.0 if index == last else (begin + frame.seconds) / total
            style += _keyframes(index, begin / total, end, total)
        begin += frame.seconds
    if len(frames) > 1:
        style += "\n@media (prefers-reduced-motion: reduce) { .f { animation: none; } }"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img" xml:space="preserve">\n'
        f"<title>A conversation with an agent in farsteer attach</title>\n<style>{style}</style>\n"
        f'<rect width="100%" height="100%" rx="8" fill="{_BACKGROUND}"/>\n<defs>\n{rows}\n</defs>\n'
        f'<g transform="translate({_MARGIN} {_MARGIN})">\n{groups}</g>\n</svg>\n'
    )


def _keyframes(index: int, begin: float, end: float, total: float) -> str:
    """Return when a frame is shown. Where pictures do not move, only the last one is."""
    hidden = "" if begin == 0 else f"0% {{ visibility: hidden; }} {begin:.3%} {{ visibility: visible; }} "
    shown = "0% { visibility: visible; } " if begin == 0 else ""
    after = "" if end > 0.9999 else f"{end:.3%} {{ visibility: hidden; }}"
    last = "" if end <= 0.9999 else "100% { visibility: visible; }"
    look = "visibility: hidden; " if after else ""
    return (
        f"\n@keyframes k{index} {{ {shown}{hidden}{after}{last} }}"
        f"\n.f{index} {{ {look}animation: k{index} {total:.2f}s step-end infinite; }}"
    )


def _row_svg(row: Row) -> str:
    boxes, spans, column = "", "", 0
    for text, classes, colour, background in row:
        x, size = column * _CELL_WIDTH, len(text) * _CELL_WIDTH
        if background:
            boxes += f'<rect x="{x:g}" width="{size:g}" height="{_CELL_HEIGHT}" fill="{background}"/>'
        look = (f' class="{classes}"' if classes else "") + (f' style="fill:{colour}"' if colour else "")
        if text.strip():
            spans += f'<tspan x="{x:g}" textLength="{size:g}"{look}>{escape(text, quote=False)}</tspan>'
        column += len(text)
    return f'{boxes}<text y="13">{spans}</text>'


class Recorder:
    """A terminal whose screen is kept whenever it has changed."""

    def __init__(self, terminal: PtyProgram) -> None:
        self.terminal = terminal
        self.frames: list[Frame] = []
        self._since = time.monotonic()
        self._rows: tuple[Row, ...] | None = None

    async def run(self) -> None:
        """Record until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(_FRAME_SECONDS)

    def look(self, seconds: float | None = None) -> None:
        rows, now = screen_rows(self.terminal.screen), time.monotonic()
        if rows == self._rows and seconds is None:
            return
        if self._rows is not None:
            self.frames.append(Frame(self._rows, seconds or min(now - self._since, _LONGEST_SECONDS)))
        self._rows, self._since = rows, now

    async def type(self, text: str) -> None:
        for character in text:
            self.terminal.press(character.encode())
            await asyncio.sleep(0.05)
        await self.terminal.shows(text[-20:])
        self.terminal.press(ENTER)


async def _open(stack: Stack, home: Path, **options: Any) -> PtyProgram:
    announce(stack)
    account = await stack.sign_in()
    project = home.parent / "shop"
    project.mkdir()
    (project / "prices.py").write_text("def total(prices):\n    return sum(prices)\n")
    session = await stack.create(account, directory=str(project), title="Round the total", **options)
    environment = {**os.environ, "HOME": str(home.parent), "FARSTEER_HOME": str(home)}
    argv = [sys.executable, "-m", "farsteer", "attach", session]
    terminal = PtyProgram(argv, cwd=project, environment=environment, rows=ROWS, columns=COLUMNS)
    terminal.use_screen(DimScreen(COLUMNS, ROWS))
    return terminal


async def play(home: Path, recorder: list[Recorder] | None = None) -> tuple[Row, ...]:
    """Play a conversation. Returns the screen at its question; all of it is recorded if a list is given."""
    (home / "runner.toml").write_text('name = "laptop"\n')
    async with farsteer(home, seconds=120) as stack, await _open(stack, home) as terminal:
        await terminal.shows("F1 help")
        film = Recorder(terminal)
        task = asyncio.create_task(film.run())
        await film.type("hello, who are you?")
        await terminal.shows("lists everything")
        await terminal.shows("idle")
        await asyncio.sleep(1.0)
        await film.type("edit prices.py sum(prices) -> round(sum(prices), 2)")
        await terminal.shows("one key answers")
        await terminal.shows("waits for you")
        await asyncio.sleep(1.0)
        still = screen_rows(terminal.screen)
        if recorder is not None:
            terminal.press(b"y")
            await terminal.shows("prices.py is done")
            await terminal.shows("idle")
            await asyncio.sleep(1.0)
            await film.type("run sleep 3 && grep -n round prices.py")
            await terminal.shows("one key answers")
            await asyncio.sleep(1.0)
            terminal.press(b"y")
            await terminal.shows("working")
            await film.type("say thank you")
            await terminal.until(lambda: "\n thank you" in terminal.shown)
            await asyncio.sleep(0.5)
            film.look(_LAST_SECONDS)
            film.look(_LAST_SECONDS)
            recorder.append(film)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    return still


def texts(rows: Sequence[Row]) -> list[str]:
    """Return the text of each row."""
    return ["".join(run[0] for run in row).rstrip() for row in rows]


def main() -> None:
    films: list[Recorder] = []
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory) / "home"
        home.mkdir(mode=0o700)
        still = asyncio.run(play(home, films))
    (DOCS / "attach.svg").write_text(svg([Frame(still, 1.0)]))
    recording = svg(films[0].frames)
    assert len(recording.encode()) < MAX_BYTES, len(recording)
    (DOCS / "recording.svg").write_text(recording)


if __name__ == "__main__":
    main()
