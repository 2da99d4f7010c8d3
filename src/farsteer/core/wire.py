"""JSON encoding of stored and sent values: camelCase names, defaults omitted, unknown fields ignored on input."""

from __future__ import annotations

from typing import Any, TypeVar, dataclass_transform

import msgspec

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class WireStruct(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """Base of immutable values that are stored or sent.

    The values hold no reference cycles, so the garbage collector does not track them (`gc=False`).
    """


_encoder = msgspec.json.Encoder()
encode = _encoder.encode


def decode(data: bytes | str, kind: type[T]) -> T:
    return msgspec.json.decode(data, type=kind)


def to_builtins(value: Any) -> Any:
    """Return the value as dicts, lists and scalars that can be encoded as JSON."""
    return msgspec.to_builtins(value)
