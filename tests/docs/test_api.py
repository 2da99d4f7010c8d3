"""docs/api.md agrees with the endpoint table, the request bodies, the event types and the error codes."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from farsteer.core.api import Approve, AuthRequest, CreateSession, Deny, SendMessage
from farsteer.core.errors import ErrorCode
from farsteer.core.live_events import EVENT_TYPES
from farsteer.core.modes import PermissionMode, ReasoningEffort
from farsteer.faces.rest.app import TABLE

PAGE = (Path(__file__).parents[2] / "docs" / "api.md").read_text()
NOT_IN_THE_TABLE = {"GET /api/events", "GET /openapi.json", "GET /asyncapi.json", "GET /docs"}
"""Requests that are served beside the endpoint table."""


def section(title: str) -> str:
    return PAGE.split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]


def test_every_request_and_its_scope_is_on_the_page_and_no_other() -> None:
    rows = re.findall(r"^\| (`[A-Z]+ /.*?) \| (\w*) ?\|", section("Requests"), re.MULTILINE)
    documented = {request: scope for cell, scope in rows for request in re.findall(r"`([A-Z]+ /\S+)`", cell)}
    for request in NOT_IN_THE_TABLE:
        del documented[request]
    table = {f"{endpoint.method} {endpoint.path}": endpoint.scope for endpoint in TABLE}
    assert documented == {request: scope.value if scope else "" for request, scope in table.items()}


def test_every_scope_that_a_request_needs_in_some_cases_is_on_the_page() -> None:
    requests = section("Requests")
    for endpoint in TABLE:
        row = next(
            line
            for line in requests.splitlines()
            if line.startswith(f"| `{endpoint.method} {endpoint.path}`")
        )
        for needed in endpoint.also:
            assert f"also `{needed.scope}`" in row, endpoint.path


@pytest.mark.parametrize(
    ("title", "body"),
    [
        ("Sign in", AuthRequest),
        ("Create a session", CreateSession),
        ("Send a message", SendMessage),
        ("Answer an approval", Approve),
        ("Answer an approval", Deny),
    ],
)
def test_every_field_of_a_request_is_on_the_page(title: str, body: type[msgspec.Struct]) -> None:
    for field in msgspec.structs.fields(body):
        assert f"`{field.encode_name}`" in section(title), field.encode_name


def test_every_permission_mode_and_effort_is_on_the_page() -> None:
    for value in (*PermissionMode, *ReasoningEffort):
        assert f"`{value}`" in section("Create a session")


def test_every_event_type_is_on_the_page_and_no_other() -> None:
    events = section("Live events")
    sent = set(re.findall(r"^\| `([a-z-]+)` \|", events, re.MULTILINE)) - {"type"}
    reserved = {"advisor-alert", "advisor-idle-suggestion", "group-message"}
    assert all(f"`{type}`" in events for type in reserved)
    assert sent | reserved == EVENT_TYPES


def test_every_error_code_is_on_the_page_and_no_other() -> None:
    codes = re.findall(r"`([a-z_]+)`", section("Errors").split("The codes:")[1])
    assert codes == list(ErrorCode)
