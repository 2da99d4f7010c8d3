"""The REST face as one ASGI application."""

from __future__ import annotations

from itertools import groupby

from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from farsteer.core.errors import NotFound
from farsteer.faces.rest import (
    approvals,
    branching,
    exports,
    imports,
    machines,
    messages,
    people,
    sessions,
    signin,
    system,
    tokens,
    usage,
)
from farsteer.faces.rest.documents import document_endpoints
from farsteer.faces.rest.endpoint import AnyEndpoint
from farsteer.faces.rest.events import event_endpoints
from farsteer.faces.rest.resource import Resource
from farsteer.hub import Hub
from farsteer.server.responses import error_reply

TABLE: tuple[AnyEndpoint, ...] = (
    *signin.ENDPOINTS,
    *machines.ENDPOINTS,
    *imports.ENDPOINTS,
    *sessions.ENDPOINTS,
    *branching.ENDPOINTS,
    *messages.ENDPOINTS,
    *exports.ENDPOINTS,
    *approvals.ENDPOINTS,
    *people.ENDPOINTS,
    *usage.ENDPOINTS,
    *tokens.ENDPOINTS,
    *system.ENDPOINTS,
)


def routes(hub: Hub, stream: ASGIApp) -> list[BaseRoute]:
    """Every address of the API; `stream` serves the live events."""
    table = (*TABLE, *event_endpoints(stream))
    by_path = sorted((*table, *document_endpoints(table)), key=lambda endpoint: endpoint.path)
    return [
        Route(path, Resource(hub, endpoints))
        for path, endpoints in groupby(by_path, key=lambda endpoint: endpoint.path)
    ]


async def not_found(scope: Scope, receive: Receive, send: Send) -> None:
    """What no face knows."""
    await error_reply(NotFound("no such address"))(scope, receive, send)
