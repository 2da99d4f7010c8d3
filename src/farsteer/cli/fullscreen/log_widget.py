"""The scrolling part of the screen: the blocks of a conversation, drawn line by line as far as they are visible."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from weakref import WeakKeyDictionary

from rich.segment import Segment
from textual.binding import Binding
from textual.events import Click, Resize
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from farsteer.cli.fullscreen.rendering import belongs_to, can_unfold, render_block
from farsteer.cli.terminal.blocks import Block

_MARGIN = 1


_Key = tuple[int, int, bool, bool, bool]
"""What the lines of a block depend on: version, width, unfolded, chosen, close to the one above."""


class LogWidget(ScrollView, can_focus=True):
    """Shows a list of blocks. It stays at the end while it is there, and otherwise where the person has scrolled to."""

    DEFAULT_CSS = """
    LogWidget { height: 1fr; overflow-x: hidden; overflow-y: scroll; scrollbar-size-vertical: 1; }
    """
    BINDINGS = [
        Binding("up", "choose(-1)", show=False),
        Binding("down", "choose(1)", show=False),
        Binding("enter,space", "toggle_chosen", show=False),
    ]

    class NearTop(Message):
        """The person has scrolled to what is loaded of the log."""

    def __init__(self) -> None:
        super().__init__()
        self._blocks: list[Block] = []
        self._drawn: WeakKeyDictionary[Block, tuple[_Key, list[Strip]]] = WeakKeyDictionary()
        self._ends: list[int] = []
        """For each block, the line behind its last one."""
        self._following = True
        self._unfold_all = False
        self._chosen: Block | None = None

    @property
    def following(self) -> bool:
        """Whether the end of the log is shown, and stays so."""
        return self._following

    @property
    def is_short(self) -> bool:
        """Whether what is loaded hardly fills the screen."""
        return self.virtual_size.height < 2 * self.size.height

    # -- content

    def show(self, blocks: list[Block]) -> None:
        """Show these blocks. What is at the top of the screen stays there, unless the end is shown."""
        top, offset = self._top_block()
        self._blocks = list(blocks)
        self._measure()
        if self._following:
            self._go_to(self.max_scroll_y)
        elif top is not None and top in self._blocks:
            index = self._blocks.index(top)
            self._go_to(self._start(index) + offset)
        self.refresh()

    def _measure(self) -> None:
        self._ends = [*accumulate(len(self._lines_at(index)) for index in range(len(self._blocks)))]
        # With an empty line at the end.
        self.virtual_size = Size(self._width, self._ends[-1] + 1 if self._ends else 0)

    @property
    def _width(self) -> int:
        return max(20, self.scrollable_content_region.width or self.size.width or 80)

    def _is_unfolded(self, block: Block) -> bool:
        return self._unfold_all if block.unfolded is None else block.unfolded

    def _lines_at(self, index: int) -> list[Strip]:
        block = self._blocks[index]
        close = index > 0 and belongs_to(block, self._blocks[index - 1])
        key = (block.version, self._width, self._is_unfolded(block), block is self._chosen, close)
        drawn = self._drawn.get(block)
        if drawn is None or drawn[0] != key:
            drawn = self._drawn[block] = (key, self._draw(block, close=close))
        return drawn[1]

    def _draw(self, block: Block, *, close: bool) -> list[Strip]:
        console = self.app.console
        options = console.options.update(width=self._width - 2 * _MARGIN, height=None, highlight=False)
        content = render_block(block, unfolded=self._is_unfolded(block))
        edge = Segment("▌" if block is self._chosen else " ")
        lines = [Strip([edge, *line]) for line in console.render_lines(content, options, pad=False)]
        return lines if close else [Strip.blank(1), *lines]

    # -- where it is

    def _go_to(self, y: float) -> None:
        self.scroll_to(y=y, animate=False, force=True, immediate=True)

    def _top_block(self) -> tuple[Block | None, int]:
        """Return the block at the top of the screen, and which of its lines is there."""
        y = int(self.scroll_y)
        index = bisect_right(self._ends, y)
        if index >= len(self._blocks):
            return None, 0
        return self._blocks[index], y - self._start(index)

    def _start(self, index: int) -> int:
        """Return the first line of a block."""
        return self._ends[index - 1] if index else 0

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._following = round(new_value) >= self.max_scroll_y
        if new_value < old_value and new_value <= self.size.height:
            self.post_message(self.NearTop())

    def go_to_end(self) -> None:
        self._following = True
        self._go_to(self.max_scroll_y)

    def on_resize(self, event: Resize) -> None:
        following = self._following
        top, offset = self._top_block()
        self._measure()
        if following:
            self.go_to_end()
        elif top is not None and top in self._blocks:
            index = self._blocks.index(top)
            self._go_to(self._start(index) + min(offset, len(self._lines_at(index)) - 1))

    # -- folding

    def action_toggle_all(self) -> None:
        """Unfold everything, or fold everything again."""
        self._unfold_all = not self._unfold_all
        for block in self._blocks:
            block.unfolded = None
        self.show(self._blocks)

    def action_choose(self, step: int) -> None:
        """Choose the next or previous block that can be unfolded."""
        able = [block for block in self._blocks if can_unfold(block) or block.unfolded]
        if not able:
            return
        place = able.index(self._chosen) + step if self._chosen in able else len(able) - 1
        self._chosen = able[max(0, min(len(able) - 1, place))]
        self._following = False
        self.show(self._blocks)
        place = self._blocks.index(self._chosen)
        start, end = self._start(place), self._ends[place]
        if not self.scroll_y <= start < end <= self.scroll_y + self.size.height:
            self._go_to(max(0, start - 2))

    def action_toggle_chosen(self) -> None:
        """Unfold the chosen block, or fold it again."""
        if self._chosen is not None:
            self._toggle(self._chosen)

    def _toggle(self, block: Block) -> None:
        block.unfolded = not self._is_unfolded(block)
        self.show(self._blocks)

    def on_blur(self) -> None:
        if self._chosen is not None:
            self._chosen = None
            self.show(self._blocks)

    def on_click(self, event: Click) -> None:
        index = bisect_right(self._ends, int(self.scroll_y) + event.y)
        if index < len(self._blocks):
            block = self._blocks[index]
            if (can_unfold(block) or block.unfolded) and not self.screen.selections:
                self._toggle(block)

    # -- drawing and selecting

    def render_line(self, y: int) -> Strip:
        line = int(self.scroll_y) + y
        width, style = self.size.width, self.rich_style
        strip = self._line(line)
        if strip is None:
            return Strip.blank(width, style)
        strip = strip.apply_style(style)
        selection = self.text_selection
        if selection is not None and (span := selection.get_span(line)) is not None:
            start, end = span
            end = strip.cell_length if end == -1 else end
            chosen = strip.crop(start, end).apply_style(
                self.screen.get_component_rich_style("screen--selection")
            )
            strip = Strip.join([strip.crop(0, start), chosen, strip.crop(end)])
        return strip.crop_extend(0, width, style).apply_offsets(0, line)

    def _line(self, y: int) -> Strip | None:
        index = bisect_right(self._ends, y)
        if index >= len(self._blocks):
            return None
        return self._lines_at(index)[y - self._start(index)]

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        lines = [strip.text.rstrip() for index in range(len(self._blocks)) for strip in self._lines_at(index)]
        return selection.extract("\n".join(lines)), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()
