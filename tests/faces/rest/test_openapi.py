"""The OpenAPI document describes the table of endpoints completely and consistently."""

import re
from collections.abc import Iterator
from typing import Any, cast

import msgspec
import pytest

from farsteer.core.errors import ErrorCode
from farsteer.core.live_events import SENT
from farsteer.faces.events.sse import EventStreams
from farsteer.faces.rest.activity import event_endpoints
from farsteer.faces.rest.app import TABLE
from farsteer.faces.rest.openapi import document, error_statuses

ADDRESS = "https://farsteer.example.com"
EVENTS = event_endpoints(cast("EventStreams", None))
DOCUMENT = document((*TABLE, *EVENTS), ADDRESS)


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            yield method, path, operation


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for inner in value.values():
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def test_every_endpoint_is_described_once() -> None:
    assert DOCUMENT["openapi"] == "3.1.0"
    found = [(method.upper(), path) for method, path, _ in operations()]
    assert sorted(found) == sorted((endpoint.method, endpoint.path) for endpoint in (*TABLE, *EVENTS))
    names = [operation["operationId"] for _, _, operation in operations()]
    assert len(set(names)) == len(names)


def test_every_reference_resolves() -> None:
    for reference in set(references(DOCUMENT)):
        place: Any = DOCUMENT
        for step in reference.removeprefix("#/").split("/"):
            place = place[step]


def test_every_schema_is_used() -> None:
    used = {reference.rpartition("/")[2] for reference in references(DOCUMENT)}
    components = DOCUMENT["components"]
    assert used == components["schemas"].keys() | components["responses"].keys()


def test_every_error_code_is_listed() -> None:
    assert DOCUMENT["components"]["schemas"]["ErrorCode"]["enum"] == sorted(code.value for code in ErrorCode)


@pytest.mark.parametrize("endpoint", TABLE, ids=lambda endpoint: f"{endpoint.method} {endpoint.path}")
def test_an_operation_describes_its_request_and_responses(endpoint: Any) -> None:
    operation = DOCUMENT["paths"][endpoint.path][endpoint.method.lower()]
    assert operation["summary"]
    assert operation["security"] == ([] if endpoint.scope is None else [{"bearer": []}])
    assert operation["responses"].keys() == {str(endpoint.status), *map(str, error_statuses(endpoint))}
    parameters = operation.get("parameters", [])
    in_path = [parameter["name"] for parameter in parameters if parameter["in"] == "path"]
    assert in_path == re.findall(r"{(\w+)}", endpoint.path)
    assert ("requestBody" in operation) == (endpoint.body is not None)
    if endpoint.body is not None and not endpoint.body_optional:
        assert endpoint.example is not None, "a required body needs an example"


@pytest.mark.parametrize(
    "endpoint",
    [endpoint for endpoint in TABLE if endpoint.example is not None],
    ids=lambda endpoint: f"{endpoint.method} {endpoint.path}",
)
def test_every_example_is_a_valid_body(endpoint: Any) -> None:
    assert msgspec.convert(endpoint.example, endpoint.body)


def test_requests_refuse_unknown_fields_and_responses_may_gain_some() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    assert schemas["CreateSession"]["additionalProperties"] is False
    assert "additionalProperties" not in schemas["SessionView"]


def test_the_server_is_the_address_of_the_hub() -> None:
    assert DOCUMENT["servers"] == [{"url": ADDRESS}]


def test_every_type_of_event_is_a_schema_of_the_stream() -> None:
    content = DOCUMENT["paths"]["/api/events"]["get"]["responses"]["200"]["content"]["text/event-stream"]
    assert content["x-events"].keys() == {"message", "ready", "closed"}
    mapping = DOCUMENT["components"]["schemas"]["SyncEvent"]["discriminator"]["mapping"]
    assert mapping == {type: f"#/components/schemas/{kind.__name__}" for type, kind in SENT.items()}
    for type, kind in SENT.items():
        schema = DOCUMENT["components"]["schemas"][kind.__name__]
        assert schema["properties"]["type"] == {"type": "string", "const": type}
        assert schema["description"]


def test_what_a_request_may_leave_out_is_not_required_and_what_a_response_always_has_is() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    assert schemas["SendMessage"]["required"] == ["text"]
    assert schemas["SendMessage"]["properties"]["delivery"]["description"] == 'Default: `"queue"`.'
    assert schemas["MachineView"]["required"] == [*schemas["MachineView"]["properties"]]
    assert schemas["Done"]["properties"]["ok"] == {"type": "boolean", "const": True}


def test_no_schema_has_what_generators_misread() -> None:
    def check(schema: Any) -> None:
        if isinstance(schema, dict):
            assert "default" not in schema
            assert ("enum" in schema) <= ("type" in schema)
            for inner in schema.get("properties", {}).values():
                check(inner)
            for name in ("items", "anyOf", "additionalProperties"):
                check(schema.get(name))
        elif isinstance(schema, list):
            for inner in schema:
                check(inner)

    for schema in DOCUMENT["components"]["schemas"].values():
        check(schema)
