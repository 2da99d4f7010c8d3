"""What the bodies of the REST API have in common."""

from __future__ import annotations

from typing import Annotated, Any, Literal, dataclass_transform

import msgspec
from msgspec import Meta, Struct

from farsteer.core.errors import ErrorCode
from farsteer.core.wire import WireStruct

MAX_TEXT = 1_000_000
MAX_BODY = 32 * 1024 * 1024
Text = Annotated[str, Meta(min_length=1, max_length=MAX_TEXT)]
Name = Annotated[str, Meta(min_length=1, max_length=200)]
Path = Annotated[str, Meta(min_length=1, max_length=4096)]


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class RequestBody(Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """Base of request bodies."""


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class ResponseBody(Struct, frozen=True, rename="camel"):
    """Base of response bodies. Every field is always present, so clients need no defaults."""


Value = Annotated[str, Meta(max_length=100_000)]


class Page(ResponseBody):
    limit: int
    before_seq: int | None
    after_seq: int | None
    next_before_seq: int | None
    next_after_seq: int | None
    has_more: bool


class Done(ResponseBody):
    ok: Literal[True] = True


class ErrorBody(WireStruct):
    code: ErrorCode
    message: str
    details: dict[str, Any] | None = None


class ErrorResponse(WireStruct):
    error: ErrorBody


class Health(ResponseBody):
    status: str
    version: str
    protocol: int
    uptime: float


EntrySeq = Annotated[int, Meta(ge=1, le=2**53)]
