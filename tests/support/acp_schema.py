"""Checks messages against the official JSON Schema of ACP v1."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import jsonschema_rs

from tests.support.node import JS

FOLDER = JS / "node_modules" / "@agentclientprotocol" / "sdk" / "schema" / "v1"
UNCHECKED = frozenset({"session/set_model"})
"""Methods that the schema no longer has but many clients still use."""


@cache
def _definitions(file: str) -> dict[str, Any]:
    return json.loads((FOLDER / file).read_text())["$defs"]


@cache
def _names(file: str) -> dict[tuple[str, str], str]:
    """Map methods to their definitions, by the suffix of the name."""
    found: dict[tuple[str, str], str] = {}
    for name, definition in _definitions(file).items():
        for kind in ("Request", "Response", "Notification"):
            if "x-method" in definition and name.endswith(kind):
                found[definition["x-method"], kind] = name
    return found


@cache
def _validator(file: str, name: str) -> Any:
    schema = {"$ref": f"#/$defs/{name}", "$defs": _definitions(file)}
    return jsonschema_rs.Draft202012Validator(schema)


def check(method: str, kind: str, value: Any) -> None:
    """Raise AssertionError unless the value matches the schema."""
    if method in UNCHECKED or method.startswith("_"):
        return
    for file in ("schema.json", "schema.unstable.json"):
        name = _names(file).get((method, kind))
        if name is not None:
            wrong = [
                f"{list(error.instance_path)}: {error.message}"
                for error in _validator(file, name).iter_errors(value)
            ]
            assert not wrong, f"{method} {kind}: {wrong}\n{json.dumps(value)[:2000]}"
            return
    raise AssertionError(f"{method} is not a {kind} of ACP")


def check_error(value: Any) -> None:
    _validator("schema.json", "Error").validate(value)


class WireChecker:
    """Checks both directions of a connection, message by message."""

    def __init__(self) -> None:
        self._methods: dict[tuple[bool, Any], str] = {}
        self.open_requests: set[tuple[bool, Any]] = set()
        """Requests without a response: whether the client sent it, and its id."""
        self.answered: list[tuple[bool, Any]] = []

    def check_message(self, message: dict[str, Any], *, from_client: bool, strict: bool = True) -> None:
        assert message["jsonrpc"] == "2.0"
        if "method" not in message:
            self._check_response(message, from_client=from_client)
            return
        method = message["method"]
        if "id" in message:
            key = (from_client, message["id"])
            assert key not in self.open_requests, f"two requests have the id {message['id']!r}"
            self.open_requests.add(key)
            self._methods[key] = method
        if strict:
            check(method, "Request" if "id" in message else "Notification", message.get("params"))

    def _check_response(self, message: dict[str, Any], *, from_client: bool) -> None:
        key = (not from_client, message["id"])
        if message["id"] is None:
            check_error(message["error"])
            return
        assert key in self.open_requests, f"response without a request: {message}"
        self.open_requests.discard(key)
        self.answered.append(key)
        if "error" in message:
            check_error(message["error"])
        elif not from_client:
            check(self._methods[key], "Response", message["result"])
