"""The AsyncAPI 3 document of the live events, made from the table of their types."""

from __future__ import annotations

from typing import Any, cast
from urllib.parse import urlsplit

from farsteer import __version__
from farsteer.core.live_events import CONNECTION_EVENTS, SENT, SyncEvent
from farsteer.faces.rest.schemas import Json, Schemas, reference

_INTRODUCTION = """\
Everything that happens in a namespace, in one order. Socket.IO and Server-Sent Events carry the same events; the
OpenAPI document describes the requests. A connection is opened with a JWT and lives as long as the access token behind
it. After `closed` a client connects again, with a new JWT and the last `cursor` as `since`, and misses nothing."""


def document(address: str) -> Json:
    """Return the document of a hub at `address` as JSON-serializable objects."""
    schemas = Schemas([*CONNECTION_EVENTS.values()], unions={"SyncEvent": SyncEvent})
    messages = _messages(schemas)
    return {
        "asyncapi": "3.0.0",
        "info": {"title": "Farsteer live events", "version": __version__, "description": _INTRODUCTION},
        "defaultContentType": "application/json",
        "servers": servers(address),
        "channels": {
            "socketio": _channel(
                "/events",
                "socketio",
                "The Socket.IO namespace `/events`. The `name` of a message is the name of its Socket.IO event.",
                messages,
            ),
            "sse": _channel(
                "/api/events",
                "http",
                "A response of the type text/event-stream. Messages with the name `event` have no `event` field; the "
                "`id` field of a stored one is its cursor.",
                messages,
            ),
        },
        "operations": {
            f"send{title}": {
                "action": "send",
                "channel": {"$ref": f"#/channels/{channel}"},
                "summary": f"What a client receives over {words}.",
            }
            for channel, title, words in (
                ("socketio", "OverSocketIO", "Socket.IO"),
                ("sse", "AsServerSentEvents", "Server-Sent Events"),
            )
        },
        "components": {
            "schemas": {name: _with_named_discriminators(part) for name, part in schemas.components.items()},
            "messages": messages,
            "securitySchemes": {
                "socketio": {
                    "type": "userPassword",
                    "description": "`auth: {token: <JWT>}` of the connection, with `since`, `sessionId` and `types` if "
                    "needed.",
                },
                "http": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
            },
        },
    }


def servers(address: str) -> Json:
    url = urlsplit(address)
    return {
        "socketio": {
            "host": url.netloc,
            "protocol": "wss" if url.scheme == "https" else "ws",
            "pathname": "/socket.io/",
            "description": "Socket.IO 4, by websocket or polling.",
            "security": [{"$ref": "#/components/securitySchemes/socketio"}],
        },
        "http": {
            "host": url.netloc,
            "protocol": url.scheme,
            "description": "Server-Sent Events.",
            "security": [{"$ref": "#/components/securitySchemes/http"}],
        },
    }


def _messages(schemas: Schemas) -> dict[str, Json]:
    """Return the messages by the names of their schemas: first those about the connection, then every live event."""
    kinds = [(name, name, kind) for name, kind in CONNECTION_EVENTS.items()]
    kinds += [("event", type, kind) for type, kind in SENT.items()]
    return {
        kind.__name__: {
            "name": name,
            "title": title,
            "summary": schemas.components[kind.__name__]["description"],
            "payload": reference(kind.__name__),
        }
        for name, title, kind in kinds
    }


def _channel(address: str, server: str, description: str, messages: dict[str, Json]) -> Json:
    return {
        "address": address,
        "servers": [{"$ref": f"#/servers/{server}"}],
        "description": description,
        "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in messages},
    }


def _with_named_discriminators(value: Any) -> Any:
    """Return the schema with discriminators as AsyncAPI writes them: the name of a property alone."""
    if isinstance(value, list):
        return [_with_named_discriminators(item) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    schema: Json = {key: _with_named_discriminators(inner) for key, inner in cast("Json", value).items()}
    if isinstance(schema.get("discriminator"), dict):
        schema["discriminator"] = schema["discriminator"]["propertyName"]
    return schema
