"""`farsteer help TOPIC`: short plain pages in the package."""

from __future__ import annotations

import pytest

from farsteer.cli.commands.help import page, page_title, topics
from farsteer.cli.main import COMMANDS, main

PROMISED = {
    "agents", "approvals", "permissions", "exec", "editors", "tokens", "machines", "troubleshooting", "config",
}  # fmt: skip


def test_the_topics_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert {*topics()} == PROMISED
    assert main(["help"]) == 0
    said = capsys.readouterr().out
    for topic in topics():
        assert f"farsteer help {topic} " in said
        assert page_title(topic)
    assert "`farsteer` lists the commands" in said


@pytest.mark.parametrize("topic", sorted(PROMISED))
def test_a_page_is_short_and_plain(topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", topic]) == 0
    text = capsys.readouterr().out
    assert text == page(topic) + "\n"
    assert len(text.splitlines()) <= (80 if topic == "config" else 40)
    assert max(map(len, text.splitlines())) <= 86
    assert "{" not in text.replace("${", "")


def test_a_command_without_a_topic_shows_its_own_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["help", "sessions"])
    assert "usage: farsteer sessions" in capsys.readouterr().out


def test_an_unknown_topic_names_a_similar_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "aproval"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "did you mean `farsteer help approvals`?" in said.err
    assert "help" in COMMANDS
