"""The API as a page for people: plain HTML made from the OpenAPI document, no script, nothing from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from html import escape
from importlib import resources
from typing import Any

from farsteer.core.wire import encode

Json = dict[str, Any]

_CSS = resources.files("farsteer.faces.rest").joinpath("page.css").read_text("utf-8")
_CSS_HASH = base64.b64encode(hashlib.sha256(_CSS.encode()).digest()).decode()
CSP = f"default-src 'none'; style-src 'sha256-{_CSS_HASH}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_FIRST_STEPS = """\
HUB=http://localhost:3006
TOKEN=$(curl -sS "$HUB/api/auth" -H 'Content-Type: application/json' \\
    -d '{"accessToken": "<CLI_API_TOKEN[:namespace]>"}' |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["token"])')"""


def render(document: Json) -> str:
    return "".join(_page(document))


def _page(document: Json) -> Iterator[str]:
    info = document["info"]
    operations = [*_operations(document)]
    tags = [tag["name"] for tag in document["tags"]]
    yield '<!doctype html><html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{escape(info['title'])} API</title><style>{_CSS}</style></head><body><nav>"
    for tag in tags:
        yield f"<h2>{escape(tag)}</h2><ul>"
        for _, _, operation in _of_tag(operations, tag):
            yield f'<li><a href="#{operation["operationId"]}">{escape(operation["summary"])}</a></li>'
        yield "</ul>"
    yield '<h2>Shapes</h2><ul><li><a href="#shapes">All shapes</a></li></ul></nav><main>'
    yield f"<h1>{escape(info['title'])} API <small>{escape(info['version'])}</small></h1>"
    yield _prose(info["description"])
    yield f"<pre>{escape(_FIRST_STEPS)}</pre>"
    yield '<p class="soft">The same for programs: <a href="/openapi.json">openapi.json</a></p>'
    for tag in tags:
        yield f"<h2>{escape(tag)}</h2>"
        for method, path, operation in _of_tag(operations, tag):
            yield from _article(method, path, operation)
    yield '<h2 id="shapes">Shapes</h2>'
    for name, schema in sorted(document["components"]["schemas"].items()):
        yield f'<article id="shape-{name}"><h3>{escape(name)}</h3>'
        yield _prose(schema.get("description", "")) + _shape(schema) + "</article>"
    yield "</main></body></html>"


def _operations(document: Json) -> Iterator[tuple[str, str, Json]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method, path, operation


def _of_tag(operations: list[tuple[str, str, Json]], tag: str) -> Iterator[tuple[str, str, Json]]:
    return (item for item in operations if tag in item[2]["tags"])


def _article(method: str, path: str, operation: Json) -> Iterator[str]:
    yield f'<article id="{operation["operationId"]}"><h3>{escape(operation["summary"])}</h3><div class="address">'
    yield f'<span class="method {method}">{method.upper()}</span>{escape(path)}</div>'
    yield _prose(operation.get("description", ""))
    if parameters := operation.get("parameters"):
        yield "<h4>Parameters</h4><table>"
        for parameter in parameters:
            note = parameter["in"] + (", required" if parameter["required"] else "")
            yield _row(parameter["name"], parameter["schema"], note)
        yield "</table>"
    if body := operation.get("requestBody"):
        yield f"<h4>Body</h4><p>{_type(body['content']['application/json']['schema'])}</p>"
    yield f"<pre>{escape(_curl(method, path, operation))}</pre>"
    yield from _answers(operation["responses"])
    yield "</article>"


def _answers(responses: Json) -> Iterator[str]:
    successes = {status: answer for status, answer in responses.items() if status < "400"}
    for status, answer in successes.items():
        for media_type, content in answer["content"].items():
            shape = _type(content["schema"]) if media_type == "application/json" else escape(media_type)
            yield f"<p>{status} {escape(answer['description'])}: {shape}</p>"
    yield f'<p class="soft">Errors: {", ".join(status for status in responses if status not in successes)}</p>'


def _curl(method: str, path: str, operation: Json) -> str:
    address = re.sub(r"{(\w+)}", lambda name: "$" + re.sub(r"(?<!^)([A-Z])", r"_\1", name[1]).upper(), path)
    parts = [f'curl -sS "$HUB{address}"']
    example = None
    if body := operation.get("requestBody"):
        example = body["content"]["application/json"].get("example")
    if method.upper() != ("GET" if example is None else "POST"):
        parts[0] = f'curl -sS -X {method.upper()} "$HUB{address}"'
    if operation["security"]:
        parts.append('-H "Authorization: Bearer $TOKEN"')
    if example is not None:
        parts.append("-H 'Content-Type: application/json'")
        parts.append(f"-d '{encode(example).decode()}'")
    return " \\\n    ".join(parts)


def _shape(schema: Json) -> str:
    if "enum" in schema:
        return "<p>" + ", ".join(f"<code>{escape(str(value))}</code>" for value in schema["enum"]) + "</p>"
    required = schema.get("required", ())
    rows = (
        _row(name, field, "required" if name in required else "")
        for name, field in schema.get("properties", {}).items()
    )
    return f"<table>{''.join(rows)}</table>"


def _row(name: str, schema: Json, note: str) -> str:
    limits = [note] if note else []
    for plain in schema.get("anyOf", [schema]):
        for key, words in _LIMITS.items():
            if key in plain:
                limits.append(f"{words} {plain[key]}")
    if schema.get("default") not in (None, [], {}, ""):
        limits.append(f"default {encode(schema['default']).decode()}")
    return f"<tr><td><code>{escape(name)}</code></td><td>{_type(schema)}</td><td>{escape(', '.join(limits))}</td></tr>"


_LIMITS = {
    "minLength": "at least", "maxLength": "up to", "minimum": "from", "exclusiveMinimum": "above",
    "maximum": "up to", "maxItems": "items up to",
}  # fmt: skip


def _type(schema: Json) -> str:
    if reference := schema.get("$ref"):
        name = reference.rpartition("/")[2]
        return f'<a href="#shape-{name}">{escape(name)}</a>'
    if options := schema.get("anyOf"):
        return " or ".join(_type(option) for option in options if option != {"type": "null"})
    if values := schema.get("enum"):
        return " | ".join(f"<code>{escape(str(value))}</code>" for value in values)
    match schema.get("type"):
        case "array":
            return f"list of {_type(schema.get('items', {}))}"
        case "object":
            inner = schema.get("additionalProperties")
            return f"object of {_type(inner)}" if isinstance(inner, dict) and inner else "object"
        case str(name):
            return escape(schema.get("format", name))
        case _:
            return "any value"


def _prose(text: str) -> str:
    """Paragraphs, with `code` in back quotes."""
    marked = re.sub("`(.+?)`", r"<code>\1</code>", escape(text))
    return "".join(f"<p>{paragraph}</p>" for paragraph in marked.split("\n\n") if paragraph.strip())
