"""Limits on JSON from outside, checked on its bytes before any object is made of it.

A few megabytes of JSON can become gigabytes of objects, and deep nesting breaks whoever encodes or reads it later.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec


class JsonLimits(NamedTuple):
    depth: int
    """How deeply arrays and objects may be nested."""
    values: int
    """How many values there may be, those inside of others included. A key is not a value."""
    counted_depth: int | None = None
    """Values nested more deeply than this do not count, because no objects are made of them."""


INPUT_LIMITS = JsonLimits(depth=64, values=100_000)
"""For clients and agents. The hub and its clients add a few levels of their own."""

_COUNTED_BYTES = 4 * 1024 * 1024
_SCANNED_BYTES = 256 * 1024
# A piece may end inside of a string, even between a backslash and the character that it escapes.
_REST_OF_STRING = rb'[^"\\]*+(?:\\.[^"\\]*+)*+("|\\?\Z)'
_STRING_END = re.compile(_REST_OF_STRING, re.DOTALL)
_TOKEN = re.compile(rb'"' + _REST_OF_STRING + rb"|[\[\]{},]", re.DOTALL)


class JsonTooComplex(msgspec.DecodeError):
    """JSON that has too many values or is nested too deeply."""


def check_limits(data: bytes, limits: JsonLimits = INPUT_LIMITS) -> None:
    """Raise JsonTooComplex for JSON over the limits. Says nothing about bytes that are not JSON."""
    if not is_simple(data, limits):
        for _ in scan(data, limits):
            pass


def is_simple(data: bytes, limits: JsonLimits = INPUT_LIMITS) -> bool:
    """Return True for JSON that is surely within the limits. Most is: it is short and has few brackets."""
    return len(data) <= limits.values and data.count(b"[") + data.count(b"{") <= limits.depth


def scan(data: bytes, limits: JsonLimits = INPUT_LIMITS) -> Iterator[None]:
    """Do what `check_limits` does in short steps, between which an event loop can do something else."""
    opened = commas = 0
    for start in range(0, len(data), _COUNTED_BYTES):
        end = start + _COUNTED_BYTES
        opened += data.count(b"[", start, end) + data.count(b"{", start, end)
        commas += data.count(b",", start, end)
        yield
    if opened > limits.depth or opened + commas >= limits.values:
        # Too many, unless most of them are characters of strings.
        yield from _scan_tokens(data, limits)


def _scan_tokens(data: bytes, limits: JsonLimits) -> Iterator[None]:
    depth = values = strings = 0
    counted_depth = limits.depth if limits.counted_depth is None else limits.counted_depth
    string_end: bytes | None = None
    """What the last piece ended with if it ended inside of a string: nothing or a backslash."""
    for start in range(0, len(data), _SCANNED_BYTES):
        end = min(start + _SCANNED_BYTES, len(data))
        if string_end is not None:
            found = _STRING_END.match(data, start + len(string_end), end)
            assert found is not None
            start, string_end = found.end(), _if_cut(found)
        for token in _TOKEN.finditer(data, start, end):
            match token[0][:1]:
                case b'"':
                    strings += depth <= counted_depth
                    if token.end() == end:
                        string_end = _if_cut(token)
                case b",":
                    values += depth <= counted_depth
                case b"[" | b"{":
                    values += depth < counted_depth
                    depth += 1
                    if depth > limits.depth:
                        raise JsonTooComplex(f"JSON is nested more than {limits.depth} levels deep")
                case _:
                    depth -= 1
            if values >= limits.values or strings > 2 * limits.values:
                raise JsonTooComplex(f"JSON has more than {limits.values} values")
        yield


def _if_cut(string: re.Match[bytes]) -> bytes | None:
    """Return what a string ends with that goes on in the next piece, None for one that is complete."""
    return None if string[1] == b'"' else string[1]
