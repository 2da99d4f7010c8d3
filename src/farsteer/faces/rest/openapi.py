"""The OpenAPI 3.1 document, made from the table of endpoints."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Any

from farsteer import __version__
from farsteer.core.api import ErrorResponse
from farsteer.core.live_events import CONNECTION_EVENTS, SyncEvent
from farsteer.faces.rest.endpoint import AGENT_ASSIGNED_IDS, MAX_AGENT_ID_LENGTH, AnyEndpoint
from farsteer.faces.rest.schemas import Json, Schemas, reference

_INTRODUCTION = """\
Exchange an access token for a JWT with `POST /api/auth` and send it as `Authorization: Bearer <JWT>`. It is valid for
15 minutes. Ids are UUIDs. An object of another namespace is answered with 404.

Requests with unknown fields are refused; responses may gain fields. Every error is
`{"error": {"code", "message", "details"?}}`, and its `code` is stable.

Live events are sent over Socket.IO, `io(HUB + "/events", {auth: {token: JWT}})` with the event name `event`, and with
the same content as Server-Sent Events. Each is a `SyncEvent`; `/asyncapi.json` describes both ways."""


def document(endpoints: Sequence[AnyEndpoint], address: str = "/") -> Json:
    """Return the document of a hub at `address` as JSON-serializable objects."""
    schemas = _TableSchemas(endpoints)
    paths: dict[str, Json] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, schemas)
    used = sorted({status for endpoint in endpoints for status in error_statuses(endpoint)})
    return {
        "openapi": "3.1.0",
        "info": {"title": "Farsteer", "version": __version__, "description": _INTRODUCTION},
        "servers": servers(address),
        "tags": [{"name": tag} for tag in dict.fromkeys(endpoint.tag for endpoint in endpoints)],
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "responses": {_status_name(status): _common_error_response(status, schemas) for status in used},
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}},
        },
    }


def servers(address: str) -> list[Json]:
    return [{"url": address}]


def error_statuses(endpoint: AnyEndpoint) -> list[int]:
    """Return the statuses of an endpoint's own errors and of those that follow from its declaration."""
    statuses = {400, 405, *endpoint.errors}
    if endpoint.scope is not None:
        statuses |= {401, 403}
    if endpoint.body is not None:
        statuses |= {413, 415}
    if "{" in endpoint.path:
        statuses |= {404}
    return sorted(statuses)


class _TableSchemas(Schemas):
    """The schemas of every type in the table. Queries are no components: their fields are listed as parameters."""

    def __init__(self, endpoints: Iterable[AnyEndpoint]) -> None:
        kinds: list[Any] = [ErrorResponse]
        has_events = False
        for endpoint in endpoints:
            has_events |= endpoint.sends_events
            kinds += [
                kind
                for kind in (endpoint.body, endpoint.response, endpoint.query, endpoint.error_type)
                if kind is not None and kind not in kinds
            ]
        if has_events:
            kinds += CONNECTION_EVENTS.values()
        super().__init__(kinds, unions={"SyncEvent": SyncEvent} if has_events else {})
        self._queries = {
            endpoint.query: self.components.pop(endpoint.query.__name__)
            for endpoint in endpoints
            if endpoint.query is not None and endpoint.query.__name__ in self.components
        }

    def query(self, kind: Any) -> Json:
        return self._queries[kind]


def _operation(endpoint: AnyEndpoint, schemas: _TableSchemas) -> Json:
    operation: Json = {
        "operationId": endpoint.handler.__name__,
        "summary": endpoint.summary,
        "tags": [endpoint.tag],
        "security": [] if endpoint.scope is None else [{"bearer": []}],
        "responses": {str(endpoint.status): _success_response(endpoint, schemas)},
    }
    notes = [endpoint.description] if endpoint.description else []
    if endpoint.scope is not None:
        notes.append(f"Scope: `{endpoint.scope}`.")
    notes += [f"It also needs the scope `{needed.scope}` for {needed.case}." for needed in endpoint.also]
    if notes:
        operation["description"] = "\n\n".join(notes)
    if parameters := [*_parameters(endpoint, schemas)]:
        operation["parameters"] = parameters
    if endpoint.body is not None:
        content: Json = {"schema": schemas.of(endpoint.body)}
        if endpoint.example is not None:
            content["example"] = endpoint.example
        operation["requestBody"] = {
            "required": not endpoint.body_optional,
            "content": {"application/json": content},
        }
    for status in error_statuses(endpoint):
        operation["responses"][str(status)] = _endpoint_error_response(endpoint, status, schemas)
    return operation


def _success_response(endpoint: AnyEndpoint, schemas: _TableSchemas) -> Json:
    content: Json = {
        "schema": {"type": "string"} if endpoint.response is None else schemas.of(endpoint.response)
    }
    if endpoint.sends_events:
        names = {name: reference(kind.__name__) for name, kind in CONNECTION_EVENTS.items()}
        content["x-events"] = {"message": reference("SyncEvent"), **names}
    return {
        "description": HTTPStatus(endpoint.status).phrase,
        "content": dict.fromkeys((endpoint.media_type, *endpoint.other_media_types), content),
    }


def _endpoint_error_response(endpoint: AnyEndpoint, status: int, schemas: _TableSchemas) -> Json:
    # Authentication and method errors always have the common form.
    if endpoint.error_type is None or status in (401, 403, 405):
        return {"$ref": f"#/components/responses/{_status_name(status)}"}
    return {
        "description": HTTPStatus(status).phrase,
        "content": {"application/json": {"schema": schemas.of(endpoint.error_type)}},
    }


def _parameters(endpoint: AnyEndpoint, schemas: _TableSchemas) -> Iterable[Json]:
    for name in re.findall(r"{(\w+)}", endpoint.path):
        schema = {"maxLength": MAX_AGENT_ID_LENGTH} if name in AGENT_ASSIGNED_IDS else {"format": "uuid"}
        yield {"name": name, "in": "path", "required": True, "schema": {"type": "string", **schema}}
    if endpoint.query is not None:
        query = schemas.query(endpoint.query)
        for name, schema in query["properties"].items():
            described = {"description": schema["description"]} if "description" in schema else {}
            yield {
                "name": name,
                "in": "query",
                "required": name in query.get("required", ()),
                **described,
                "schema": _without_null(schema),
            }
    for name, schema in endpoint.headers.items():
        yield {"name": name, "in": "header", "required": False, "schema": schema}


def _without_null(schema: Json) -> Json:
    """Return the schema without null: a parameter is left out instead."""
    kinds = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
    if len(kinds) == 1:
        return kinds[0]
    return {name: value for name, value in schema.items() if name != "description"}


def _common_error_response(status: int, schemas: _TableSchemas) -> Json:
    return {
        "description": HTTPStatus(status).phrase,
        "content": {"application/json": {"schema": schemas.of(ErrorResponse)}},
    }


def _status_name(status: int) -> str:
    return HTTPStatus(status).phrase.title().replace(" ", "")
