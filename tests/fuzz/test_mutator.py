"""Mutations are repeatable, and there are enough kinds of them."""

from __future__ import annotations

import json

from tests.fuzz.mutator import Mutator

VALUE = {"a": 1, "b": ["x", {"c": None, "d": "text"}], "e": {"f": 2.5, "g": True}}


def _messages(seed: str, count: int = 300) -> list[bytes]:
    mutator = Mutator(seed)
    return [mutator.message(VALUE) for _ in range(count)]


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def test_a_seed_always_makes_the_same_messages() -> None:
    assert _messages("7 acp 1") == _messages("7 acp 1")
    assert _messages("7 acp 1") != _messages("7 acp 2")


def test_the_original_stays_as_it_is() -> None:
    before = json.dumps(VALUE)
    _messages("1")
    assert json.dumps(VALUE) == before


def test_messages_are_valid_and_invalid_deep_and_large_and_not_unicode() -> None:
    messages = _messages("1", 2000)
    valid = [_is_json(message) for message in messages]
    assert 0.5 < sum(valid) / len(valid) < 0.99
    assert any(message.count(b"[") > 1000 for message in messages)
    assert any(len(message) > 100_000 for message in messages)
    assert any(b"\\ud800" in message for message in messages)
    assert any(b"\xed\xa0\x80" in message for message in messages)
