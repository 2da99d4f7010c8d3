"""Writes the table of scopes into docs/security.md: `python -m tests.docs.scope_table`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from farsteer.faces.rest.app import TABLE
from farsteer.faces.rest.endpoint import AnyEndpoint
from farsteer.hub import Scope

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
BEGIN = "<!-- scopes: written by `python -m tests.docs.scope_table` -->\n\n"
END = "\n\n<!-- end of scopes -->"

_OTHER_OPERATIONS = {
    "Socket.IO `/events`, `GET /api/events`": Scope.READ,
    "websocket `/link`, the connection of a runner": Scope.RUNNER,
}
"""Operations that are served beside the endpoint table."""
_MARK = "x"


def render(endpoints: Iterable[AnyEndpoint]) -> str:
    """Return the table in Markdown: a row for each operation, a column for each scope."""
    lines = [_row("operation", Scope), "|---" * (len(Scope) + 1) + "|"]
    lines += (
        _row(f"`{endpoint.method} {endpoint.path}`", _cells(endpoint))
        for endpoint in endpoints
        if endpoint.scope is not None
    )
    lines += (
        _row(operation, (_MARK if column is scope else "" for column in Scope))
        for operation, scope in _OTHER_OPERATIONS.items()
    )
    return "\n".join(lines)


def _cells(endpoint: AnyEndpoint) -> Iterator[str]:
    for scope in Scope:
        if endpoint.scope is scope:
            yield _MARK
        else:
            cases = [needed.case for needed in endpoint.also if needed.scope is scope]
            yield f"for {'; '.join(cases)}" if cases else ""


def _row(first: str, cells: Iterable[str]) -> str:
    return " ".join(f"| {cell}" if cell else "|" for cell in (first, *cells)) + " |"


def with_table(page: str) -> str:
    """Return the page with the table that the code has now."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert end, "the page has lost the marks around its table of scopes"
    return before + begin + render(TABLE) + end + after


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))
