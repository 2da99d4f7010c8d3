"""The AsyncAPI document describes every live event, and follows the specification."""

import json
from typing import Any

import jsonschema_rs
import pytest

from farsteer.core.live_events import SENT
from farsteer.faces.rest.asyncapi import document
from tests.faces.rest.test_openapi import DOCUMENT as OPENAPI
from tests.faces.rest.test_openapi import references
from tests.support.node import JS

ADDRESS = "https://farsteer.example.com:8443"
DOCUMENT = document(ADDRESS)


def test_it_follows_the_specification() -> None:
    specification = JS / "node_modules/@asyncapi/specs/schemas/3.0.0-without-$id.json"
    jsonschema_rs.validator_for(json.loads(specification.read_text())).validate(DOCUMENT)


def test_every_reference_resolves() -> None:
    for reference in set(references(DOCUMENT)):
        place: Any = DOCUMENT
        for step in reference.removeprefix("#/").split("/"):
            place = place[step]


@pytest.mark.parametrize("channel", ["socketio", "sse"])
def test_every_event_is_a_message_of_both_channels(channel: str) -> None:
    messages = {
        name: DOCUMENT["components"]["messages"][name] for name in DOCUMENT["channels"][channel]["messages"]
    }
    assert [message["title"] for message in messages.values()] == ["ready", "closed", *SENT]
    assert {message["name"] for message in messages.values()} == {"ready", "closed", "event"}
    assert all(message["summary"] for message in messages.values())


def test_the_schemas_are_those_of_the_openapi_document() -> None:
    for name, schema in DOCUMENT["components"]["schemas"].items():
        if "discriminator" not in json.dumps(schema):
            assert schema == OPENAPI["components"]["schemas"][name]


def test_the_servers_are_the_hub() -> None:
    servers = DOCUMENT["servers"]
    assert {(server["protocol"], server["host"]) for server in servers.values()} == {
        ("wss", "farsteer.example.com:8443"), ("https", "farsteer.example.com:8443"),
    }  # fmt: skip
    assert document("http://127.0.0.1:3006")["servers"]["socketio"]["protocol"] == "ws"
