"""The API documentation as one HTML page made from the OpenAPI document, without scripts or external resources."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from html import escape
from importlib import resources
from typing import Any

import msgspec

from farsteer.core.wire import encode

Json = dict[str, Any]

_CSS = resources.files("farsteer.faces.rest").joinpath("docs_page.css").read_text("utf-8")
_CSS_HASH = base64.b64encode(hashlib.sha256(_CSS.encode()).digest()).decode()
CSP = f"default-src 'none'; style-src 'sha256-{_CSS_HASH}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_FIRST_STEPS = """\
TOKEN=$(curl -sS "$HUB/api/auth" -H 'Content-Type: application/json' \\
    -d '{"accessToken": "<CLI_API_TOKEN[:namespace]>"}' |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["token"])')"""


def render(document: Json) -> str:
    """Return the page for an OpenAPI document."""
    return "".join(_Page(document).html())


class _Page:
    def __init__(self, document: Json) -> None:
        self._info = document["info"]
        self._address: str = document["servers"][0]["url"]
        self._schemas: dict[str, Json] = document["components"]["schemas"]
        self._operations: dict[str, list[tuple[str, str, Json]]] = {
            tag["name"]: [] for tag in document["tags"]
        }
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                self._operations[operation["tags"][0]].append((method, path, operation))

    def html(self) -> Iterator[str]:
        yield '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
        yield f"<title>{escape(self._info['title'])} API</title><style>{_CSS}</style></head><body>"
        yield from self._contents()
        yield "<main>"
        yield f"<h1>{escape(self._info['title'])} API <small>{escape(self._info['version'])}</small></h1>"
        yield _prose(self._info["description"])
        yield f"<pre>{escape(f'HUB={self._address}')}\n{escape(_FIRST_STEPS)}</pre>"
        yield '<p class="soft">For programs: <a href="/openapi.json">openapi.json</a>, and for live events '
        yield '<a href="/asyncapi.json">asyncapi.json</a></p>'
        for tag, operations in self._operations.items():
            yield f"<h2>{escape(tag)}</h2>"
            for method, path, operation in operations:
                yield from self._article(method, path, operation)
        yield '<h2 id="schemas">Schemas</h2>'
        for name, schema in sorted(self._schemas.items()):
            yield f'<article id="schema-{name}"><h3>{escape(name)}</h3>'
            yield f"{_prose(schema.get('description', ''))}{_schema_table(schema)}</article>"
        yield "</main></body></html>"

    def _contents(self) -> Iterator[str]:
        yield "<nav>"
        for tag, operations in self._operations.items():
            yield f"<h2>{escape(tag)}</h2><ul>"
            for _, _, operation in operations:
                yield f'<li><a href="#{operation["operationId"]}">{escape(operation["summary"])}</a></li>'
            yield "</ul>"
        yield '<h2>Schemas</h2><ul><li><a href="#schemas">All schemas</a></li></ul></nav>'

    def _article(self, method: str, path: str, operation: Json) -> Iterator[str]:
        yield f'<article id="{operation["operationId"]}"><h3>{escape(operation["summary"])}</h3><div class="address">'
        yield f'<span class="method {method}">{method.upper()}</span>{escape(path)}</div>'
        yield _prose(operation.get("description", ""))
        if parameters := operation.get("parameters"):
            yield "<h4>Parameters</h4><table>"
            for parameter in parameters:
                note = parameter["in"] + (", required" if parameter["required"] else "")
                about = {name: parameter[name] for name in ("description",) if name in parameter}
                yield _row(parameter["name"], {**parameter["schema"], **about}, note)
            yield "</table>"
        if body := operation.get("requestBody"):
            schema = self._schemas[_name(body["content"]["application/json"]["schema"])]
            if schema.get("properties"):
                yield f"<h4>Body{'' if body['required'] else ' (optional)'}</h4>{_schema_table(schema)}"
        yield f"<pre>{escape(_curl(method, path, operation))}</pre>"
        yield from _responses(operation["responses"])
        yield "</article>"


def _responses(responses: Json) -> Iterator[str]:
    successes = {status: response for status, response in responses.items() if status < "400"}
    for status, response in successes.items():
        for media_type, content in response["content"].items():
            body = _type(content["schema"]) if media_type == "application/json" else escape(media_type)
            yield f"<p>{status} {escape(response['description'])}: {body}</p>"
            for name, schema in content.get("x-events", {}).items():
                yield f"<p>Event <code>{escape(name)}</code>: {_type(schema)}</p>"
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
        body_text = encode(example)
        if len(body_text) > 70:
            body_text = msgspec.json.format(body_text, indent=4)
        parts.append(f"-d '{body_text.decode()}'")
    return " \\\n    ".join(parts)


def _schema_table(schema: Json) -> str:
    if "enum" in schema:
        return "<p>" + ", ".join(f"<code>{escape(str(value))}</code>" for value in schema["enum"]) + "</p>"
    if "anyOf" in schema:
        return f"<p>{_type(schema)}</p>"
    required = schema.get("required", ())
    rows = (
        _row(name, field, "required" if name in required else "")
        for name, field in schema.get("properties", {}).items()
    )
    return f"<table>{''.join(rows)}</table>"


def _row(name: str, schema: Json, note: str) -> str:
    notes = [note] if note else []
    for option in schema.get("anyOf", [schema]):
        notes += _limits(option)
    about = _marked(schema.get("description", ""))
    return (
        f"<tr><td><code>{escape(name)}</code></td><td>{_type(schema)}</td>"
        f"<td>{'. '.join(part for part in (escape(', '.join(notes)), about) if part)}</td></tr>"
    )


def _limits(schema: Json) -> Iterator[str]:
    for least, most, unit in _BOUNDS:
        if least in schema and most in schema:
            yield f"{schema[least]:,} to {schema[most]:,}{unit}"
        elif least in schema:
            yield f"at least {schema[least]:,}{unit}"
        elif most in schema:
            yield f"up to {schema[most]:,}{unit}"


_BOUNDS = (
    ("minLength", "maxLength", " characters"),
    ("minimum", "maximum", ""),
    ("minItems", "maxItems", " items"),
)


def _type(schema: Json) -> str:
    if "$ref" in schema:
        return f'<a href="#schema-{_name(schema)}">{escape(_name(schema))}</a>'
    if options := schema.get("anyOf"):
        return " or ".join(_type(option) for option in options if option != {"type": "null"})
    if "const" in schema:
        return f"<code>{escape(encode(schema['const']).decode())}</code>"
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


def _name(reference: Json) -> str:
    return reference["$ref"].rpartition("/")[2]


def _prose(text: str) -> str:
    """Convert text to HTML paragraphs; text in backquotes becomes code."""
    return "".join(f"<p>{paragraph}</p>" for paragraph in _marked(text).split("\n\n") if paragraph.strip())


def _marked(text: str) -> str:
    """Convert text to HTML; text in backquotes becomes code."""
    return re.sub("`(.+?)`", r"<code>\1</code>", escape(text))
