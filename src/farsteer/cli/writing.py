"""A message while it is written: its finished lines go into the log, its last line waits."""

from __future__ import annotations

from farsteer.cli.text import clean
from farsteer.cli.view import DIM, Line


class Writing:
    def __init__(self, *, thought: bool = False) -> None:
        self.style = DIM if thought else ""
        self.text = "∴ " if thought else ""
        """What is not in the log yet."""
        self._indent = "  " if thought else ""

    def add(self, text: str) -> None:
        self.text += clean(text).replace("\n", f"\n{self._indent}")

    def lines(self) -> list[Line]:
        """The lines that were finished since."""
        *finished, self.text = self.text.split("\n")
        return [Line(text, self.style) for text in finished]

    def finish(self) -> list[Line]:
        return [*self.lines(), Line(self.text, self.style)]
