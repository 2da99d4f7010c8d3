"""The fields of a form, given as a JSON schema, as questions, and the answers as values."""

from __future__ import annotations

from typing import Any, cast

from farsteer.core.approvals import Question
from farsteer.jsonrpc.messages import as_object


def form_fields(schema: dict[str, Any] | None) -> dict[str, dict[str, Any]]:
    """Return the schema of each field of a form."""
    found = (schema or {}).get("properties")
    if not isinstance(found, dict):
        return {}
    return {name: one for name, one in cast("dict[str, Any]", found).items() if isinstance(one, dict)}


def field_question(name: str, schema: dict[str, Any]) -> Question:
    text = str(schema.get("title") or name)
    if schema.get("description"):
        text = f"{text}: {schema['description']}"
    choices = _choices(schema)
    return Question(
        id=name,
        text=text,
        choices=tuple(choices),
        multiple=schema.get("type") == "array",
        free_text=not choices,
    )


def field_value(schema: dict[str, Any], given: list[str]) -> Any:
    choices = _choices(schema)
    values = [choices.get(text, text) for text in given]
    if schema.get("type") == "array":
        return values
    value = values[0] if values else ""
    if schema.get("type") in ("integer", "number") and isinstance(value, str):
        try:
            return int(value) if schema["type"] == "integer" else float(value)
        except ValueError:
            return value
    return value


def _choices(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the value of each choice by its title."""
    if schema.get("type") == "boolean":
        return {"Yes": True, "No": False}
    source = schema.get("items") if schema.get("type") == "array" else schema
    entries = cast("dict[str, Any]", source) if isinstance(source, dict) else {}
    titled = entries.get("oneOf") or entries.get("anyOf")
    if isinstance(titled, list):
        found = [as_object(one) or {} for one in cast("list[Any]", titled)]
        return {str(one.get("title") or one.get("const")): one.get("const") for one in found}
    values = entries.get("enum")
    if not isinstance(values, list):
        return {}
    names = entries.get("enumNames")
    titles = cast("list[Any]", names) if isinstance(names, list) else []
    listed = cast("list[Any]", values)
    return {
        str(title): value
        for title, value in zip(titles if len(titles) == len(listed) else listed, listed, strict=True)
    }
