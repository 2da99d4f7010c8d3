"""Text of runners, agents and clients is cleaned before it reaches a log or a terminal."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farsteer.core.text import clean, clean_line, escape_json, printable_json

INVISIBLE = "\u061c\u200b\u200e\u200f\u2028\u2029\u202a\u202e\u2060\u2066\u2069\ufeff\U000e0041"


@given(st.text(st.characters()))
def test_no_control_characters_are_left(text: str) -> None:
    cleaned = clean(text)
    assert not [char for char in cleaned if unicodedata.category(char) in ("Cc", "Cs") and char not in "\n\t"]
    assert clean(cleaned) == cleaned


@given(st.text(st.characters()), st.integers(1, 60))
def test_a_line_stays_one_bounded_line(text: str, limit: int) -> None:
    line = clean_line(text, limit)
    assert len(line) <= limit
    assert not [char for char in line if unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp")]
    assert clean_line(line, limit) == line


def test_escape_sequences_are_broken() -> None:
    assert clean("\x1b]0;owned\x07\x1b[2Jhello\r\nworld\x9b31m") == "]0;owned[2Jhello\nworld31m"
    assert clean("abc\u202edcba") == "abcdcba"
    assert clean("half \ud800 pair") == "half ? pair"
    assert clean("schön 漢字 👍") == "schön 漢字 👍"


def test_a_line_cannot_become_two() -> None:
    assert clean_line("host\n12:00:00 INFO forged\r\x85x\u2028y\tz") == "host 12:00:00 INFO forged x y z"


@pytest.mark.parametrize("char", INVISIBLE)
def test_invisible_characters_are_removed(char: str) -> None:
    assert clean(f"a{char}b") == "ab"
    assert clean_line(f"a{char}b").replace(" ", "") == "ab"


def test_joiners_stay_where_a_script_needs_them() -> None:
    family, persian = "👨\u200d👩\u200d👧", "\u0645\u06cc\u200c\u062e\u0648"
    assert [clean(family), clean_line(persian)] == [family, persian]
    assert clean_line("roo\u200dt") == "root"


def test_a_huge_line_is_cut() -> None:
    assert clean_line("x" * 10_000_000, 10) == "x" * 9 + "…"
    assert clean_line("\x1b" * 10_000_000, 10) == "…"
    assert clean_line("x" * 10, 10) == "x" * 10


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_printed_json_has_the_same_value(text: str) -> None:
    printed = printable_json({"text": text})
    assert json.loads(printed) == {"text": text}
    assert (
        clean_line(printed, len(printed)) == printed
        or "  " in printed
        or "\xa0" in text
        or not text.isascii()
    )


def test_printed_json_escapes_what_a_terminal_must_not_get() -> None:
    evil = "\x1b[2J\x7f\x9b" + INVISIBLE
    printed = printable_json([evil])
    assert printed.isascii()
    assert printed.isprintable()
    assert json.loads(printed) == [evil]
    assert escape_json('{"a": "ö漢"}') == '{"a": "ö漢"}'
