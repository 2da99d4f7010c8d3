"""The limits on JSON from outside: exact about nesting, and never fooled by what strings contain."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farsteer.core import json_limits, wire
from farsteer.core.json_limits import INPUT_LIMITS, JsonLimits, JsonTooComplex, check_limits, scan

# Characters that could be taken for structure, or hide the end of a string.
_texts = st.text(alphabet='a"\\[]{},\n\u20ac', max_size=8)
_values = st.recursive(
    st.none() | st.booleans() | st.integers() | _texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_texts, inner, max_size=4),
    max_leaves=30,
)


def depth_of(value: Any) -> int:
    if isinstance(value, dict):
        value = [*value.values()]
    return 1 + max(map(depth_of, value), default=0) if isinstance(value, list) else 0


def count_of(value: Any) -> int:
    if isinstance(value, dict):
        value = [*value.values()]
    return 1 + sum(map(count_of, value)) if isinstance(value, list) else 1


def passes(data: bytes, limits: JsonLimits) -> bool:
    try:
        check_limits(data, limits)
    except JsonTooComplex:
        return False
    return True


@given(_values, st.integers(1, 9))
def test_limits_hold_however_the_json_is_cut_into_pieces(value: Any, piece: int) -> None:
    data = json.dumps(value, ensure_ascii=False).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_limits, "_SCANNED_BYTES", piece)
        patch.setattr(json_limits, "_COUNTED_BYTES", piece)
        for limit in (1, 3):
            assert passes(data, JsonLimits(limit, 10_000)) == (depth_of(value) <= limit)
        for limit in (4, 12):
            if count_of(value) > limit:
                assert not passes(data, JsonLimits(100, limit))
            if 2 * count_of(value) <= limit:
                assert passes(data, JsonLimits(100, limit))


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'[{"a":['])
def test_nesting_is_refused_above_the_limit(opening: bytes) -> None:
    with pytest.raises(JsonTooComplex, match="nested"):
        check_limits(opening * (INPUT_LIMITS.depth + 1))


def test_a_text_full_of_brackets_and_commas_is_one_value() -> None:
    text = '[{",\\' * 200_000
    data = wire.encode({"text": text})
    assert wire.decode_input(msgspec.json.Decoder(), data) == {"text": text}


@pytest.mark.parametrize(
    "data",
    [b"[" + b"1," * 200_000 + b"1]", b"[" + b"[]," * 200_000, b'{"":0,' * 100_001, b'"",' * 200_000],
    ids=["numbers", "arrays", "keys", "strings"],
)
def test_many_values_are_refused(data: bytes) -> None:
    with pytest.raises(JsonTooComplex):
        check_limits(data)


@pytest.mark.parametrize(
    "data", [b'"' + b'\\"' * 500_000, b'"' * 199_999, b"\\" * 500_000, b"[" + b" " * 500_000]
)
def test_what_is_not_json_takes_linear_time(data: bytes) -> None:
    with suppress(JsonTooComplex):
        for _ in scan(data + b"," * INPUT_LIMITS.values):
            pass


@pytest.mark.parametrize(
    "data", [b"[" * 100_000, b'"\xff"', b'"\xed\xa0\x80"', b'"\\ud800"', b"\xef\xbb\xbf{}", b"\0", b""]
)
def test_decoding_raises_one_kind_of_error(data: bytes) -> None:
    for decode in (
        lambda: wire.decode(data, object),
        lambda: wire.decode_with(msgspec.json.Decoder(), data),
        lambda: wire.decode_input(msgspec.json.Decoder(), data),
    ):
        with pytest.raises(msgspec.DecodeError):
            decode()
