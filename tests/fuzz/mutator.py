"""Seeded mutations of JSON values, JSON texts and bytes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import deepcopy
from random import Random
from typing import Any, TypeVar

T = TypeVar("T")

_ODD_TEXTS = (
    "", " ", "\0", "a\0b", "\n", "\r\n", "\x1b[31m", "\u202eabc", "\ufeff", "\ud800", "a\udfff", "é" * 3, "🦄" * 40,
    "../../etc", "/", "~", "%00", "{}", "[]", "null", "-1", "1e999", "__proto__", "x" * 300, "x" * 70_000,
    "00000000-0000-4000-8000-000000000000", "0" * 36, "default", "yolo", "now", "http://127.0.0.1:1/",
)  # fmt: skip
_ODD_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**63) - 1, 0.5, -0.0, 1e308, [], {},
    [[]], [None], {"": {}}, {"a": {"a": {"a": None}}}, [1] * 1000, ["x"] * 200,
)  # fmt: skip
_ODD_BYTES = (
    b"\0", b"\xff", b"\xc3(", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\r\n", b"\n", b"\x1e", b'"', b"{", b"]", b",",
    b":", b"\\", b"\\u", b"\xef\xbb\xbf", b" " * 100, b"9" * 400, b"-",
)  # fmt: skip
_MARK = "@@RAW{}@@"
_DEPTHS = (20, 100, 101, 200, 500, 1000, 5000, 100_000)
_BIG = (1000, 50_000, 500_000)


class Mutator:
    """Everything it makes follows from its seed."""

    def __init__(self, seed: str) -> None:
        self.random = Random(seed)
        self._raw: dict[str, str] = {}

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def pick(self, choices: Sequence[T]) -> T:
        return self.random.choice(choices)

    def uuid(self) -> str:
        digits = f"{self.random.getrandbits(128):032x}"
        return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-8{digits[17:20]}-{digits[20:]}"

    def text(self) -> str:
        return self.pick(_ODD_TEXTS)

    def value(self) -> Any:
        """An odd JSON value. Some of them only `encode` can write."""
        kind = self.random.random()
        if kind < 0.4:
            return self.text()
        if kind < 0.9:
            return deepcopy(self.pick(_ODD_VALUES))
        return self._mark(self._raw_json())

    def mutate(self, value: Any, times: int | None = None) -> Any:
        """Return a changed copy: other types, missing and unknown keys, repetition, swapped and nested parts."""
        changed = deepcopy(value)
        for _ in range(times if times is not None else self.pick((0, 1, 1, 1, 2, 3, 6))):
            changed = self._mutate_once(changed)
        return changed

    def encode(self, value: Any, *, ascii_only: bool | None = None) -> bytes:
        """Return JSON, now and then broken on its way."""
        escape = self.chance(0.5) if ascii_only is None else ascii_only
        text = json.dumps(value, ensure_ascii=escape)
        for mark, raw in self._raw.items():
            text = text.replace(f'"{mark}"', raw)
        self._raw.clear()
        data = text.encode("utf-8", "surrogatepass")
        return self.bytes(data) if self.chance(0.1) else data

    def message(self, value: Any) -> bytes:
        """Return `value` as JSON with any mutation."""
        return self.encode(self.mutate(value))

    def bytes(self, data: bytes) -> bytes:
        """Cut, flip, repeat, remove and insert."""
        changed = bytearray(data)
        for _ in range(self.pick((1, 1, 2, 4))):
            at, end = sorted((self.random.randint(0, len(changed)), self.random.randint(0, len(changed))))
            kind = self.random.randrange(6)
            if kind == 0:
                del changed[at:]
            elif kind == 1 and changed:
                changed[min(at, len(changed) - 1)] ^= 1 << self.random.randrange(8)
            elif kind == 2:
                changed[at:at] = changed[at : min(end, at + 4096)] * self.pick((1, 2, 10))
            elif kind == 3:
                del changed[at : min(end, at + 64)]
            elif kind == 4:
                changed[at:at] = self.pick(_ODD_BYTES)
            else:
                changed[at:at] = self.random.randbytes(self.pick((1, 4, 32)))
        return bytes(changed)

    def _mutate_once(self, value: Any) -> Any:
        parent, key = self._place(value)
        if parent is None:
            return self._replace(value)
        kind = self.random.randrange(8)
        if kind <= 2:
            parent[key] = self._replace(parent[key])
        elif kind == 3:
            del parent[key]
        elif kind == 4 and isinstance(parent, dict):
            parent[self.text() if self.chance(0.5) else f"{key}x"] = deepcopy(parent[key])
        elif kind == 4:
            parent[key:key] = [deepcopy(parent[key])] * self.pick((1, 2, 50))
        elif kind == 5:
            parent[key] = [parent[key]] if self.chance(0.5) else {str(key): parent[key]}
        elif kind == 6:
            other_parent, other = self._place(value)
            if other_parent is not None and isinstance(parent[key], str | int | float | None):
                parent[key] = deepcopy(other_parent[other])
        elif isinstance(parent, dict):
            parent[self.text()] = self.value()
        return value

    def _place(self, value: Any) -> tuple[Any, Any]:
        """A random place in the tree as its container and its key, or None for the whole."""
        places: list[tuple[Any, Any]] = [(None, None)]

        def walk(node: Any) -> None:
            keys = (
                [*node] if isinstance(node, dict) else [*range(len(node))] if isinstance(node, list) else []
            )
            for key in keys[:50]:
                places.append((node, key))
                walk(node[key])

        walk(value)
        return self.pick(places[1:]) if len(places) > 1 and not self.chance(0.03) else places[0]

    def _replace(self, value: Any) -> Any:
        if isinstance(value, str) and self.chance(0.4):
            at = self.random.randint(0, len(value))
            return value[:at] + self.text() + value[at:]
        if isinstance(value, int | float) and self.chance(0.4):
            return value + self.pick((-1, 1, 1000, -(2**40)))
        return self.value()

    def _mark(self, raw: str) -> str:
        mark = _MARK.format(len(self._raw))
        self._raw[mark] = raw
        return mark

    def _raw_json(self) -> str:
        """JSON, or nearly, that Python's encoder does not write."""
        kind = self.random.randrange(7)
        if kind == 0:
            depth = self.pick(_DEPTHS)
            return "[" * depth + "]" * depth
        if kind == 1:
            depth = self.pick(_DEPTHS)
            return '{"a":' * depth + "1" + "}" * depth
        if kind == 2:
            return "[" + ",".join(["1"] * self.pick(_BIG)) + "]"
        if kind == 3:
            return self.pick(("1e999", "-1e-999", "9" * 400, "1." + "0" * 400, "0" * 10, "1e99999999"))
        if kind == 4:
            return '{"a":1,"a":2,"' + "b" * 100 + '":3}'
        if kind == 5:
            return self.pick(
                ('"\\ud800"', '"\\u0000"', '"\\ud83d\\ude00"', '"\\x"', "NaN", "Infinity", "nul", "'a'")
            )
        return '"' + "x" * self.pick(_BIG) + '"'
