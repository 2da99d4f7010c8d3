"""JSON encoding of stored and sent values: camelCase names, defaults omitted, unknown fields ignored on input."""

from __future__ import annotations

from typing import Any, TypeVar, dataclass_transform

import msgspec

from farsteer.core.json_limits import INPUT_LIMITS, JsonLimits, check_limits

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class WireStruct(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """Base of immutable values that are stored or sent.

    The values hold no reference cycles, so the garbage collector does not track them (`gc=False`).
    """


_encoder = msgspec.json.Encoder()
encode = _encoder.encode


class InvalidJson(msgspec.DecodeError):
    """Bytes that are not UTF-8, or JSON that is nested too deeply to be read."""


def decode(data: bytes | str | msgspec.Raw, kind: type[T]) -> T:
    """Raises msgspec.DecodeError, and nothing else, for what cannot be decoded."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (RecursionError, UnicodeDecodeError) as error:
        raise _invalid(error) from None


def decode_with(decoder: msgspec.json.Decoder[T], data: bytes | str) -> T:
    """Do the same with a decoder that is used often."""
    try:
        return decoder.decode(data)
    except (RecursionError, UnicodeDecodeError) as error:
        raise _invalid(error) from None


def decode_input(decoder: msgspec.json.Decoder[T], data: bytes, limits: JsonLimits = INPUT_LIMITS) -> T:
    """Do the same with what a client or an agent has sent, within limits."""
    check_limits(data, limits)
    return decode_with(decoder, data)


def _invalid(error: RecursionError | UnicodeDecodeError) -> InvalidJson:
    if isinstance(error, UnicodeDecodeError):
        return InvalidJson(f"not UTF-8: {error.reason}")
    return InvalidJson("JSON is nested too deeply")


def to_builtins(value: Any) -> Any:
    """Return the value as dicts, lists and scalars that can be encoded as JSON."""
    return msgspec.to_builtins(value)


def is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
