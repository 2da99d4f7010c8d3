"""Finding the resource of a path."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from starlette.types import ASGIApp, Receive, Scope, Send


@dataclass(slots=True)
class _Node:
    """What may follow a part of a path."""

    app: ASGIApp | None = None
    """What serves the path that ends here."""
    literals: dict[str, _Node] = field(default_factory=dict[str, "_Node"])
    name: str = ""
    """The parameter that any other segment is the value of."""
    other: _Node | None = None


class Paths:
    """An ASGI application that passes a request on by its path: one look-up per segment, however many paths there are.

    A segment in braces is a parameter, which any segment that is not empty matches, unless a literal one does.
    """

    def __init__(self, resources: Iterable[tuple[str, ASGIApp]], default: ASGIApp) -> None:
        self._root = _Node()
        self._default = default
        for path, app in resources:
            node = self._root
            for segment in path.split("/")[1:]:
                if segment.startswith("{"):
                    node.name = segment[1:-1]
                    node.other = node.other or _Node()
                    node = node.other
                else:
                    node = node.literals.setdefault(segment, _Node())
            node.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._find(scope) if scope["type"] == "http" else None
        await (app or self._default)(scope, receive, send)

    def _find(self, scope: Scope) -> ASGIApp | None:
        node, parameters = self._root, {}
        for segment in scope["path"].split("/")[1:]:
            found = node.literals.get(segment)
            if found is None:
                if node.other is None or not segment:
                    return None
                parameters[node.name] = segment
                found = node.other
            node = found
        scope["path_params"] = parameters
        return node.app
