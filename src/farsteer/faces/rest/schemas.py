"""The JSON schemas of message and body types, in the form that the common generators of clients understand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import msgspec

from farsteer.core.api import ResponseBody
from farsteer.core.wire import encode

Json = dict[str, Any]

_REF_TEMPLATE = "#/components/schemas/{name}"
_TYPE_NAMES = {str: "string", bool: "boolean", int: "integer"}


class Schemas:
    """The schemas of `kinds` and, in `components`, of every type that they refer to.

    A name in `unions` makes that union of types a component too.
    """

    def __init__(self, kinds: Sequence[Any], unions: Mapping[str, Any] | None = None) -> None:
        unions = unions or {}
        every = [*kinds, *unions.values()]
        schemas, components = msgspec.json.schema_components(every, ref_template=_REF_TEMPLATE)
        self.components: dict[str, Json] = {name: _plain(schema) for name, schema in components.items()}
        self._schemas = [(kind, _plain(schema)) for kind, schema in zip(kinds, schemas, strict=False)]
        for name, schema in zip(unions, schemas[len(kinds) :], strict=True):
            self.components[name] = {"title": name, **_plain(schema)}
        for name in _complete_structs(every) & components.keys():
            fields = self.components[name]["properties"]
            self.components[name]["required"] = [*fields]
            for field in fields.values():
                field.pop("description", None)

    def of(self, kind: Any) -> Json:
        return next(schema for known, schema in self._schemas if known is kind)


def reference(name: str) -> Json:
    """Return the reference to a component."""
    return {"$ref": _REF_TEMPLATE.format(name=name)}


def _plain(schema: Json) -> Json:
    """Return the schema with a type for each enumeration, and defaults as descriptions.

    Generators need the type. From a default they conclude that the field is always there, while requests may leave it
    out, and what is sent leaves out what has its default.
    """
    result: Json = {}
    for key, value in schema.items():
        if key == "properties":
            result[key] = {name: _plain(field) for name, field in value.items()}
        elif key == "default":
            if value not in (None, [], {}, ""):
                result["description"] = f"Default: `{encode(value).decode()}`."
        elif key == "enum":
            result["type"] = _TYPE_NAMES[type(value[0])]
            result |= {"const": value[0]} if len(value) == 1 else {"enum": value}
        elif isinstance(value, dict):
            result[key] = _plain(cast("Json", value))
        elif isinstance(value, list):
            items = cast("list[Any]", value)
            result[key] = [_plain(cast("Json", item)) if isinstance(item, dict) else item for item in items]
        else:
            result[key] = value
    return result


def _complete_structs(kinds: Iterable[Any]) -> set[str]:
    """Return the names of all structs among the types, and inside them, whose fields are always present."""
    found: set[type] = set()
    waiting = [*msgspec.inspect.multi_type_info(kinds)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, msgspec.inspect.StructType):
            if node.cls in found:
                continue
            found.add(node.cls)
            waiting += [field.type for field in node.fields]
        else:
            inner = [getattr(node, name, ()) for name in ("types", "item_types")]
            waiting += [child for children in inner for child in children]
            waiting += [
                child
                for name in ("type", "item_type", "value_type")
                if (child := getattr(node, name, None)) is not None
            ]
    return {cls.__name__ for cls in found if issubclass(cls, ResponseBody)}
