"""The REST API as an ASGI application."""

from __future__ import annotations

from itertools import groupby

from starlette.types import ASGIApp

from farsteer.faces.events.sse import EventStreams
from farsteer.faces.rest import (
    activity,
    approvals,
    drafts,
    files,
    foreign_sessions,
    machines,
    messages,
    pairings,
    sessions,
    storage,
    system,
    tokens,
    worktrees,
)
from farsteer.faces.rest.endpoint import AnyEndpoint
from farsteer.faces.rest.paths import Paths
from farsteer.faces.rest.resource import Resource
from farsteer.hub import Hub

# In the order of the documentation.
TABLE: tuple[AnyEndpoint, ...] = (
    *tokens.SIGN_IN_ENDPOINTS,
    *machines.ENDPOINTS,
    *foreign_sessions.ENDPOINTS,
    *sessions.ENDPOINTS,
    *worktrees.ENDPOINTS,
    *messages.ENDPOINTS,
    *drafts.ENDPOINTS,
    *files.ENDPOINTS,
    *approvals.ENDPOINTS,
    *activity.ENDPOINTS,
    *pairings.ENDPOINTS,
    *tokens.TOKEN_ENDPOINTS,
    *storage.ENDPOINTS,
    *system.ENDPOINTS,
)


def rest_app(hub: Hub, streams: EventStreams, default: ASGIApp) -> Paths:
    """Return the application that serves every path of the API, and leaves any other to `default`."""
    table = (*TABLE, *activity.event_endpoints(streams))
    by_path = sorted((*table, *system.document_endpoints(table)), key=lambda endpoint: endpoint.path)
    resources = groupby(by_path, key=lambda endpoint: endpoint.path)
    return Paths(((path, Resource(hub, endpoints)) for path, endpoints in resources), default)
