"""Invalid requests are refused with a stable code, the field and its path."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

import pytest
from msgspec import Meta
from starlette.requests import Request

from farsteer.core.api import CreateSession, SendMessage
from farsteer.core.api import RequestBody as Body
from farsteer.core.errors import BadRequest, ErrorCode, TooLarge, UnsupportedMedia
from farsteer.faces.rest import resource
from farsteer.faces.rest.resource import check_media_type, decode_body, decode_query, read_body


class Query(Body):
    limit: Annotated[int, Meta(ge=1, le=200)] = 50
    before_seq: int | None = None
    text: str | None = None


def request(headers: dict[str, str] | None = None, chunks: AsyncIterator[bytes] | None = None) -> Request:
    async def receive() -> dict[str, Any]:
        assert chunks is not None
        chunk = await anext(chunks, None)
        return {"type": "http.request", "body": chunk or b"", "more_body": chunk is not None}

    raw = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
    return Request({"type": "http", "headers": raw}, receive)


@pytest.mark.parametrize(
    ("body", "code", "details"),
    [
        (b'{"machineId":"m","directory":"/","colour":1}', ErrorCode.UNKNOWN_FIELD, {"field": "colour", "path": "$"}),
        (b'{"machineId":"m"}', ErrorCode.BAD_REQUEST, {"path": "$"}),
        (b'{"machineId":1,"directory":"/"}', ErrorCode.BAD_REQUEST, {"path": "$.machineId"}),
        (b'{"machineId":"m","directory":"/","yolo":"yes"}', ErrorCode.BAD_REQUEST, {"path": "$.yolo"}),
        (b'{"machineId":"m","directory":"/","sessionType":"x"}', ErrorCode.BAD_REQUEST, {"path": "$.sessionType"}),
        (b'{"machineId":"m","directory":""}', ErrorCode.BAD_REQUEST, {"path": "$.directory"}),
        (b"[]", ErrorCode.BAD_REQUEST, {"path": "$"}),
        (b"null", ErrorCode.BAD_REQUEST, {"path": "$"}),
        (b"", ErrorCode.INVALID_JSON, {}),
        (b"{", ErrorCode.INVALID_JSON, {}),
        (b'{"machineId":"m","directory":"/"} x', ErrorCode.INVALID_JSON, {}),
        (b'{"machineId":"\xff","directory":"/"}', ErrorCode.INVALID_JSON, {}),
        (b"\xef\xbb\xbf{}", ErrorCode.INVALID_JSON, {}),
    ],
    ids=str,
)  # fmt: skip
def test_invalid_bodies_are_refused(body: bytes, code: ErrorCode, details: dict[str, str]) -> None:
    with pytest.raises(BadRequest) as refused:
        decode_body(body, CreateSession)
    assert refused.value.code is code
    assert refused.value.details == details


def test_an_unknown_nested_field_is_reported_with_its_path() -> None:
    body = b'{"text":"x","attachments":[{"name":"a","data":""},{"name":"b","data":"","size":1}]}'
    with pytest.raises(BadRequest, match="unknown field: size") as refused:
        decode_body(body, SendMessage)
    assert refused.value.details == {"field": "size", "path": "$.attachments[1]"}


@pytest.mark.parametrize("name", ["a`b", "a\\nb", "` - at `$.x", "x" * 100_000], ids=lambda name: name[:20])
def test_any_field_name_is_reported_as_it_is(name: str) -> None:
    with pytest.raises(BadRequest) as refused:
        decode_body(f'{{"text":"x","{name}":1}}'.encode(), SendMessage)
    assert refused.value.code is ErrorCode.UNKNOWN_FIELD
    assert len(refused.value.message) < 300


def test_long_texts_are_shortened_in_the_message() -> None:
    body = b'{"machineId":"m","directory":"/","permissionMode":"' + b"x" * 100_000 + b'"}'
    with pytest.raises(BadRequest) as refused:
        decode_body(body, CreateSession)
    assert len(refused.value.message) < 400


def test_deep_nesting_is_refused() -> None:
    class Anything(Body):
        x: Any

    with pytest.raises(BadRequest) as refused:
        decode_body(b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}", Anything)
    assert refused.value.code is ErrorCode.INVALID_JSON


def test_valid_queries_are_decoded() -> None:
    assert decode_query(b"", Query) == Query()
    assert decode_query(b"limit=200&beforeSeq=7&text=a%20b", Query) == Query(200, 7, "a b")
    assert decode_query(b"text=null", Query) == Query(text="null")
    assert decode_query(b"text=", Query) == Query(text="")


@pytest.mark.parametrize(
    ("query", "code"),
    [
        (b"limit=0", ErrorCode.BAD_REQUEST),
        (b"limit=201", ErrorCode.BAD_REQUEST),
        (b"limit=x", ErrorCode.BAD_REQUEST),
        (b"limit=", ErrorCode.BAD_REQUEST),
        (b"limit=1&limit=2", ErrorCode.BAD_REQUEST),
        (b"before_seq=1", ErrorCode.UNKNOWN_FIELD),
        (b"token=secret", ErrorCode.UNKNOWN_FIELD),
        (b"x", ErrorCode.UNKNOWN_FIELD),
        (b"text=%ff", ErrorCode.BAD_REQUEST),
        (b"text=\xff", ErrorCode.BAD_REQUEST),
        (b"&".join(b"a%d=" % n for n in range(51)), ErrorCode.BAD_REQUEST),
    ],
    ids=lambda value: str(value)[:30],
)
def test_invalid_queries_are_refused(query: bytes, code: ErrorCode) -> None:
    with pytest.raises(BadRequest) as refused:
        decode_query(query, Query)
    assert refused.value.code is code


@pytest.mark.parametrize(
    "given",
    [
        "application/json",
        "Application/JSON",
        "application/json; charset=utf-8",
        'application/json;charset="UTF-8"',
    ],
)
def test_json_is_accepted(given: str) -> None:
    check_media_type(request({"content-type": given}))


@pytest.mark.parametrize(
    "given",
    [
        "",
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/json; charset=latin-1",
        "application/jsonx",
    ],
)
def test_other_media_types_are_refused(given: str) -> None:
    with pytest.raises(UnsupportedMedia):
        check_media_type(request({"content-type": given}))


async def chunks(count: int, size: int) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield b"x" * size


async def test_a_body_is_read_in_chunks() -> None:
    assert await read_body(request(chunks=chunks(3, 10)), 30) == b"x" * 30


async def test_a_body_is_refused_at_the_first_byte_over_the_limit() -> None:
    source = chunks(1000, 10)
    with pytest.raises(TooLarge):
        await read_body(request(chunks=source), 30)
    assert len([chunk async for chunk in source]) == 1000 - 4


@pytest.mark.parametrize("length", ["31", "9" * 16, "9" * 5000], ids=len)
async def test_a_body_with_a_too_large_content_length_is_not_read(length: str) -> None:
    with pytest.raises(TooLarge):
        await read_body(request({"content-length": length}), 30)


async def test_a_body_that_does_not_arrive_in_time_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def stalled() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    monkeypatch.setattr(resource, "BODY_SECONDS", 0.01)
    with pytest.raises(BadRequest, match="did not arrive"):
        await read_body(request(chunks=stalled()), 30)


def test_the_message_says_what_is_wrong_and_where() -> None:
    with pytest.raises(BadRequest) as refused:
        decode_body(b'{"text":1}', SendMessage)
    assert refused.value.message == "the body is invalid at $.text: Expected `str`, got `int`"
