"""Decoding of single messages and batches, within limits."""

from __future__ import annotations

import json
from typing import Any

import pytest

from farsteer.core.json_limits import INPUT_LIMITS
from farsteer.core.lines import Oversized
from farsteer.jsonrpc.errors import INVALID_REQUEST, PARSE_ERROR
from farsteer.jsonrpc.messages import MAX_BATCH, InvalidMessage, RpcNotification, RpcRequest, decode_line


async def error_of(line: bytes) -> InvalidMessage:
    (message,) = await decode_line(line)
    assert isinstance(message, InvalidMessage)
    return message


def batch_of(count: int) -> bytes:
    return json.dumps([{"method": "x"}] * count).encode()


async def test_a_batch_is_capped_in_count() -> None:
    assert await decode_line(batch_of(MAX_BATCH)) == [RpcNotification("x", None)] * MAX_BATCH
    error = (await error_of(batch_of(MAX_BATCH + 1))).error
    assert error.code == INVALID_REQUEST
    assert error.message == "a batch has at most 100 messages, not 101"
    assert (await error_of(b"[]")).error.code == INVALID_REQUEST


async def test_a_batch_of_millions_gets_one_answer() -> None:
    error = (await error_of(b"  [" + b"1," * 2_000_000 + b"1]")).error
    assert (error.code, error.message) == (INVALID_REQUEST, "JSON has more than 100000 values")


async def test_members_of_a_batch_are_read_one_by_one() -> None:
    request, invalid = await decode_line(b'[{"id": 7, "method": "x", "params": [1]}, 5]')
    assert request == RpcRequest(7, "x", [1])
    assert isinstance(invalid, InvalidMessage)


@pytest.mark.parametrize("field", ["id", "method", "params", "extra"])
async def test_deep_nesting_is_refused_in_every_field(field: str) -> None:
    deep: Any = []
    for _ in range(INPUT_LIMITS.depth):
        deep = [deep]
    error = (await error_of(json.dumps({"id": 1, "method": "x", field: deep}).encode())).error
    assert (error.code, error.message) == (INVALID_REQUEST, "JSON is nested more than 64 levels deep")
    # Deeper than a decoder can follow.
    assert (await error_of(b'{"id":1,"%b":' % field.encode() + b"[" * 100_000)).error.code == INVALID_REQUEST


async def test_long_ids_and_methods_are_not_repeated_in_an_answer() -> None:
    long = "x" * 1001
    assert (await error_of(json.dumps({"id": long, "method": "x"}).encode())).id is None
    invalid = await error_of(json.dumps({"id": 5, "method": long}).encode())
    assert invalid.id == 5
    assert len(invalid.error.message) < 200


@pytest.mark.parametrize(
    "line", [b'{"id":1,"method":"\xff"}', b'{"method":"\\ud800"}', b"\xef\xbb\xbf{}", b"\0", b'{"id":']
)
async def test_what_is_not_json_is_a_parse_error(line: bytes) -> None:
    error = (await error_of(line)).error
    assert error.code == PARSE_ERROR
    assert len(error.data["line"]) <= 200


async def test_an_oversized_line_is_refused() -> None:
    (message,) = await decode_line(Oversized(40_000_000, b"{"))
    assert isinstance(message, InvalidMessage)
    assert message.error.message == "a line of 40000000 bytes is too long"
