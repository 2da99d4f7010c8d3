"""The prompt among a person's arguments, which is said once."""

from __future__ import annotations

import pytest

from farsteer.agents.terminal_arguments import without_prompt


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ((), ()),
        (("do it",), ()),
        (("--model", "opus", "do it"), ("--model", "opus")),
        (("do it", "--model", "opus"), ("--model", "opus")),
        (("--model=opus", "do it"), ("--model=opus",)),
        (("--verbose", "do it"), ("--verbose",)),
        (("-m", "x", "--search", "do it"), ("-m", "x", "--search")),
        (("--model", "opus", "--", "-do it"), ("--model", "opus")),
        (("--tools", "Read", "Edit", "--verbose", "do it"), ("--tools", "Read", "Edit", "--verbose")),
    ],
)
def test_the_prompt_is_told_from_the_options(given: tuple[str, ...], kept: tuple[str, ...]) -> None:
    assert without_prompt(given) == kept
