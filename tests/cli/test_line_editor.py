"""Typed bytes edit a line."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farsteer.cli.terminal.line_editor import Action, Ended, Interrupted, LineEditor, Submitted

KEYS = [
    b"a",
    b"\xc3\xa9",
    b"\xf0\x9f\x91\x8d",
    b"\x7f",
    b"\x1b[D",
    b"\x1b[C",
    b"\x1b[A",
    b"\x01",
    b"\x05",
    b"\x17",
    b"\r",
]


def typed(data: bytes) -> tuple[list[Action], str]:
    editor = LineEditor()
    return editor.feed(data), editor.text


def test_enter_submits() -> None:
    assert typed("schöne Grüße 👍\r".encode()) == ([Submitted("schöne Grüße 👍")], "")


@given(st.lists(st.sampled_from(KEYS), max_size=30).map(b"".join), st.lists(st.integers(0, 100), max_size=10))
def test_the_bytes_may_be_cut_anywhere(data: bytes, cuts: list[int]) -> None:
    whole, pieces = LineEditor(), LineEditor()
    marks = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    parts = [action for a, b in pairwise(marks) for action in pieces.feed(data[a:b])]
    assert parts == whole.feed(data)
    assert (pieces.text, pieces.cursor) == (whole.text, whole.cursor)


@given(st.binary(max_size=200))
def test_any_bytes_are_accepted(data: bytes) -> None:
    editor = LineEditor()
    editor.feed(data)
    editor.feed(b"\x1b[201~")
    editor.clear()
    assert 0 <= editor.cursor <= len(editor.text)


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        (b"abc\x7f", "ab"),
        (b"abc\x1b[D\x1b[DX", "aXbc"),
        (b"abc\x01X\x05Y", "XabcY"),
        (b"one two\x17", "one "),
        (b"one two\x15", ""),
        (b"one two\x01\x0b", ""),
        (b"abc\x1b[H\x1b[3~", "bc"),
        (b"ab\x1b\rcd", "ab\ncd"),
        (b"a\x1b[38;5;1mb\x07c", "abc"),
    ],
)
def test_editing(keys: bytes, text: str) -> None:
    assert typed(keys) == ([], text)


def test_a_paste_does_not_submit() -> None:
    actions, text = typed(b"\x1b[200~first\r\nsecond\x03\x1b[201~")
    assert actions == []
    assert text.startswith("first\n")
    assert "second" in text


def test_history() -> None:
    editor = LineEditor()
    editor.feed(b"one\rtwo\r")
    editor.feed(b"\x1b[A")
    assert editor.text == "two"
    editor.feed(b"\x1b[A\x1b[A")
    assert editor.text == "one"
    editor.feed(b"\x1b[B\x1b[B")
    assert editor.text == ""


def test_control_keys() -> None:
    assert typed(b"abc\x03") == ([Interrupted()], "abc")
    assert typed(b"\x04") == ([Ended()], "")
    assert typed(b"abc\x04") == ([], "abc")
    assert typed(b"  \r") == ([Submitted("")], "")
