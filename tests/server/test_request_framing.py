"""Bytes of a connection are cut into the same requests however they arrive."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farsteer.core.errors import BadRequest, HeadersTooLarge
from farsteer.server.request_framing import MAX_FIELDS, MAX_HEAD_BYTES, RequestFraming

HEAD = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


def pieces(framing: RequestFraming) -> bytes:
    taken = b""
    while (piece := framing.take()) is not None:
        taken += piece
    return taken


@given(cuts=st.lists(st.integers(0, 60), max_size=10))
def test_a_chunked_body_ends_where_its_last_chunk_ends(cuts: list[int]) -> None:
    body = b"3;a=b\r\nabc\r\nA\r\n0123456789\r\n0\r\nX: y\r\n\r\n"
    data = body + HEAD
    framing = RequestFraming()
    framing.expect_body(None)
    taken = b""
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(data)], strict=True):
        framing.add(data[start:end])
        while not framing.is_in_head and (piece := framing.take()) is not None:
            taken += piece
    assert taken == body
    assert framing.take() == HEAD
    assert framing.take() is None


def test_a_head_is_taken_only_when_it_is_complete() -> None:
    framing = RequestFraming()
    for byte in HEAD[:-1]:
        framing.add(bytes([byte]))
        assert framing.take() is None
    framing.add(HEAD[-1:] + b"rest")
    assert framing.take() == HEAD
    framing.expect_body(4)
    assert framing.take() == b"rest"
    assert framing.is_in_head


def test_the_limits_are_exact() -> None:
    framing = RequestFraming()
    fields = b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * MAX_FIELDS
    framing.add(fields + b"\r\n")
    assert framing.take() == fields + b"\r\n"
    framing.add(fields + b"A: b\r\n\r\n")
    with pytest.raises(HeadersTooLarge):
        framing.take()
    start = b"GET / HTTP/1.1\r\nA: "
    framing = RequestFraming()
    framing.add(start + b"x" * (MAX_HEAD_BYTES - len(start) - 4) + b"\r\n\r\n")
    assert len(pieces(framing)) == MAX_HEAD_BYTES
    framing.add(start + b"x" * (MAX_HEAD_BYTES - len(start) - 3) + b"\r\n\r\n")
    with pytest.raises(HeadersTooLarge):
        framing.take()


@pytest.mark.parametrize("line", [b"\r\n", b"x\r\n", b"-1\r\n", b"1" * 300])
def test_an_invalid_chunk_size_is_refused(line: bytes) -> None:
    framing = RequestFraming()
    framing.expect_body(None)
    framing.add(line)
    with pytest.raises(BadRequest):
        framing.take()
