"""docs/attach.md and its pictures show the program as it is."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from farsteer.cli.fullscreen.actions import HELP
from farsteer.cli.terminal import plain_commands
from tests.docs import terminal_pictures
from tests.docs.terminal_pictures import DOCS, MAX_BYTES, play, texts

PAGE = (DOCS / "attach.md").read_text()


def test_the_page_lists_the_keys_and_commands() -> None:
    table = HELP[: HELP.index("\n\n")]
    assert table in PAGE
    for line in plain_commands.HELP.splitlines():
        name, text = re.split(r"  +", line, maxsplit=1)
        assert f"| `{name}` | {text} |" in PAGE


def rows_of(picture: str) -> list[str]:
    """Return the texts of a picture's rows, without spaces."""
    rows = re.findall(r'<g id="r\d+">(.*)</g>', picture)
    return ["".join(unescape(re.sub(r"<[^>]*>", "", row)).split()) for row in rows]


@pytest.mark.slow
async def test_the_picture_shows_what_the_program_shows(home: Path) -> None:
    now = ["".join(text.split()) for text in texts(await play(home))]
    shown = rows_of((DOCS / "attach.svg").read_text())
    # The last row counts tokens, and the scroll bar is drawn in parts of a row.
    missing = (
        {text.rstrip("▁▂▃▄▅▆▇█") for text in now[:-1]} - {text.rstrip("▁▂▃▄▅▆▇█") for text in shown} - {""}
    )
    assert not missing, f"`python -m {terminal_pictures.__name__}` makes it again"


def test_the_recording_shows_a_conversation() -> None:
    recording = (DOCS / "recording.svg").read_text()
    assert len(recording.encode()) < MAX_BYTES
    rows = "\n".join(rows_of(recording))
    for text in (
        "+returnround(sum(prices),2)",
        "yAllow",
        "approvedbyowner",
        "⋯queued:saythankyou",
        "working",
    ):
        assert text in rows
    # A viewer that does not animate shows the last frame.
    *others, last = re.findall(r"^\.f\d+ \{ (.*) \}$", recording, re.MULTILINE)
    assert all(style.startswith("visibility: hidden;") for style in others)
    assert "hidden" not in last
    assert "<script" not in recording
