"""The one way our values become JSON: camelCase, absent instead of null, unknown fields tolerated on input."""

from __future__ import annotations

from typing import Any, TypeVar, dataclass_transform

import msgspec

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class WireStruct(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """Base of every immutable value that is stored or sent. It is in no cycle, so the collector need not know it."""


_encoder = msgspec.json.Encoder()
encode = _encoder.encode


def decode(data: bytes | str, kind: type[T]) -> T:
    return msgspec.json.decode(data, type=kind)


def to_builtins(value: Any) -> Any:
    """The value as JSON-ready builtins."""
    return msgspec.to_builtins(value)
