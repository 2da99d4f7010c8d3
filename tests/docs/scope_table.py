"""Writes the table of scopes into docs/security.md: `python -m tests.docs.scope_table`."""

from __future__ import annotations

from pathlib import Path

from farsteer.faces.rest.app import TABLE
from farsteer.faces.rest.scope_table import render

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
BEGIN = "<!-- scopes: written by `python -m tests.docs.scope_table` -->\n\n"
END = "\n\n<!-- end of scopes -->"


def with_table(page: str) -> str:
    """Return the page with the table that the code has now."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert end, "the page has lost the marks around its table of scopes"
    return before + begin + render(TABLE) + end + after


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))
