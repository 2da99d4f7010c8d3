"""Reading requests: strict, bounded, and every refusal says what is wrong and where."""

from __future__ import annotations

import asyncio
import re
from typing import TypeVar
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request

from farsteer.core.errors import BadRequest, ErrorCode, TooLarge, UnsupportedMedia

T = TypeVar("T", bound=msgspec.Struct)

BODY_SECONDS = 60.0
_UTF8 = ("", "charset=utf-8", 'charset="utf-8"')
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<field>.*?)`(?: - at `(?P<path>.*)`)?", re.DOTALL)
_AT = re.compile(r"(?P<problem>.*?)(?: - at `(?P<path>.*)`)?", re.DOTALL)


async def read_body(request: Request, limit: int) -> bytes:
    """The whole body, or a refusal as soon as it is known to be too large or too slow."""
    length = request.headers.get("content-length", "")
    if length.isdecimal() and (len(length) > 15 or int(length) > limit):
        raise TooLarge("the body is too large", limit=limit)
    chunks = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                chunks += chunk
                if len(chunks) > limit:
                    raise TooLarge("the body is too large", limit=limit)
    except TimeoutError:
        raise BadRequest(f"the body did not arrive within {BODY_SECONDS:.0f} seconds") from None
    return bytes(chunks)


def check_media_type(request: Request) -> None:
    given = request.headers.get("content-type", "")
    media_type, _, parameters = given.lower().partition(";")
    if media_type.strip() != "application/json" or parameters.strip() not in _UTF8:
        raise UnsupportedMedia("the body must be JSON in UTF-8: send Content-Type: application/json")


def decode_body(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise _refusal(error, "the body") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"the body is no JSON: {error}", code=ErrorCode.INVALID_JSON) from None


def decode_query(query: bytes, kind: type[T]) -> T:
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=50)
    except ValueError as error:
        raise BadRequest(f"the query cannot be read: {error}") from None
    given = dict(pairs)
    if len(given) < len(pairs):
        raise BadRequest("a query parameter is given twice")
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise _refusal(error, "the query") from None


def _refusal(error: msgspec.ValidationError, what: str) -> BadRequest:
    text = str(error)
    if unknown := _UNKNOWN.fullmatch(text):
        field = _clip(unknown["field"])
        path = unknown["path"] or "$"
        return BadRequest(
            f"{what} has an unknown field: {field}", code=ErrorCode.UNKNOWN_FIELD, field=field, path=path
        )
    found = _AT.fullmatch(text)
    assert found is not None
    path = found["path"] or "$"
    return BadRequest(f"{what} is invalid at {path}: {_clip(found['problem'])}", path=path)


def _clip(text: str) -> str:
    """What the caller sent comes back in the message, so it is kept short."""
    return text if len(text) <= 200 else text[:199] + "…"
