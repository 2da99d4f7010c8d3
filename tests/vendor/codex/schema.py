"""The lines between the adapter and Codex, checked against the schema that Codex itself generates."""

from __future__ import annotations

import json
import subprocess
from functools import cached_property
from pathlib import Path
from typing import Any

import jsonschema_rs

from tests.support.wire.recording import Exchange, Json


class Schema:
    """The schema of `codex app-server`, with the experimental methods that the adapter uses."""

    def __init__(self, program: Path, folder: Path) -> None:
        command = [str(program), "app-server", "generate-json-schema", "--experimental", "--out", str(folder)]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True)
        self._folder = folder
        self._validators: dict[str, jsonschema_rs.Draft7Validator] = {}

    def check(self, exchange: Exchange) -> set[str]:
        """Raise AssertionError for a message that does not fit. Returns the methods that were seen."""
        asked: dict[tuple[str, Any], str] = {}
        seen: set[str] = set()
        for entry in exchange:
            ((direction, message),) = entry.items()
            if direction not in ("in", "out"):
                continue
            method = message.get("method")
            if method is None:
                other = "out" if direction == "in" else "in"
                name = asked.pop((other, message["id"]))
                if "result" in message:
                    self._validate(self._answer(name, direction), message["result"])
                continue
            seen.add(method)
            if "id" in message:
                asked[direction, message["id"]] = method
                if direction == "in":
                    known = self._parameters[method]
                    unknown = set(message["params"]) - known
                    assert not unknown, f"{method} has no parameters {unknown}"
            kind = "Request" if "id" in message else "Notification"
            self._validate(f"{'Client' if direction == 'in' else 'Server'}{kind}", message)
        return seen

    def _answer(self, method: str, direction: str) -> str:
        parts = [part[0].upper() + part[1:] for part in method.split("/")]
        if direction == "in":
            # An answer to Codex: `item/fileChange/requestApproval` has `FileChangeRequestApprovalResponse`.
            return f"{''.join(parts[1:] if parts[0] == 'Item' else parts)}Response"
        return f"{'v1' if method == 'initialize' else 'v2'}/{''.join(parts)}Response"

    def _validate(self, name: str, value: Any) -> None:
        validator = self._validators.get(name)
        if validator is None:
            validator = self._validators[name] = jsonschema_rs.Draft7Validator(self._load(name))
        wrong = [
            f"{list(error.instance_path)}: {error.message}"[:500] for error in validator.iter_errors(value)
        ]
        assert not wrong, f"{name}: {wrong}\n{json.dumps(value)[:2000]}"

    def _load(self, name: str) -> Json:
        return json.loads((self._folder / f"{name}.json").read_text())

    @cached_property
    def _parameters(self) -> dict[str, set[str]]:
        """The names of the parameters of each method."""
        schema = self._load("ClientRequest")
        found: dict[str, set[str]] = {}
        for variant in schema["oneOf"]:
            properties = variant["properties"]
            reference = properties["params"].get("$ref", "").rpartition("/")[2]
            known = schema["definitions"].get(reference, {}).get("properties", {})
            found[properties["method"]["enum"][0]] = {*known}
        return found

    def notifications(self) -> set[str]:
        """Return the methods of all notifications that Codex may send."""
        variants = self._load("ServerNotification")["oneOf"]
        return {variant["properties"]["method"]["enum"][0] for variant in variants}
