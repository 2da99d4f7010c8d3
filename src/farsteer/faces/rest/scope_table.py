"""The table of scopes and operations in docs/security.md, made from the table of endpoints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from farsteer.faces.rest.endpoint import AnyEndpoint
from farsteer.hub import Scope

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
