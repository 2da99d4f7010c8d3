"""Text is aligned and coloured for a terminal. How it is cleaned: tests/core/test_text.py."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farsteer.cli.terminal.text import (
    Style,
    StyledText,
    ago,
    columns,
    facts_table,
    one_line,
    print_styled,
    table,
)


@given(st.text(), st.integers(2, 60))
def test_one_line_fits(text: str, width: int) -> None:
    line = one_line(text, width)
    assert "\n" not in line
    assert columns(line) <= width


def test_tables_line_up_with_wide_characters() -> None:
    lines = table([("ID", "NAME", "TITLE"), ("1", "漢字", "x" * 100), ("22", "ab", "")], 40).splitlines()
    assert [columns(line[: line.index(mark)]) for line, mark in zip(lines, ("TITLE", "x"), strict=False)] == [
        10,
        10,
    ]
    assert all(columns(line) <= 40 for line in lines)


def test_cells_and_facts_are_cleaned() -> None:
    evil = "a\x1b[2J\nb\u202ec"
    assert table([("NAME", "NOTE", "X"), (evil, evil, evil)], 80).splitlines()[1:] == [
        "a[2J bc  a[2J bc  a[2J bc"
    ]
    assert facts_table({"name": evil}, 80) == "name:  a[2J bc"


def test_facts_wrap_beside_their_names() -> None:
    text = facts_table({"id": "1", "empty": "", "last": "word " * 20}, 40)
    assert "empty" not in text
    first, second, *_ = text.splitlines()
    assert first == "id:     1"
    assert second.startswith("last:   word")
    assert all(len(line) <= 40 for line in text.splitlines())


def test_how_long_ago() -> None:
    assert [ago(0, now) for now in (5, 65, 3700, 90_000)] == ["5s", "1m", "1h", "1d"]
    assert ago(10_000, 5) == "0s", "a clock that is wrong is no reason for nonsense"


class TerminalStream(io.StringIO):
    def isatty(self) -> bool:
        return True


def printed(stream: io.StringIO) -> str:
    print_styled(stream, StyledText("ok", Style.GOOD), StyledText(" [bold]:smile: " + "long " * 50))
    return stream.getvalue()


PLAIN = "ok [bold]:smile: " + "long " * 50 + "\n"


def test_colours_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert printed(TerminalStream()) == PLAIN.replace("ok", "\x1b[32mok\x1b[0m")


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colours_can_be_switched_off(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    assert printed(TerminalStream()) == PLAIN


def test_no_colours_in_a_pipe() -> None:
    assert printed(io.StringIO()) == PLAIN
