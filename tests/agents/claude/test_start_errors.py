"""Why a start failed, by what Claude Code said."""

from __future__ import annotations

import pytest

from farsteer.agents.claude.start_errors import start_error
from farsteer.core.errors import ErrorCode


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("Error: Session ID 1111 is already in use.", ErrorCode.CONVERSATION_IN_USE),
        ("No conversation found with session ID: 1111", ErrorCode.CONVERSATION_MISSING),
        ("No message found with message.uuid of: 1111", ErrorCode.ANCHOR_UNKNOWN),
        ("Segmentation fault", ErrorCode.AGENT_START_FAILED),
        ("", ErrorCode.AGENT_START_FAILED),
    ],
)
def test_the_code_follows_from_the_words(said: str, code: ErrorCode) -> None:
    for error in (start_error("it ended", f"a warning\n{said}\n", []), start_error("it ended", "", [said])):
        assert error.code is code
        assert error.message == (
            "it ended" if code is ErrorCode.AGENT_START_FAILED else f"Claude Code: {said}"
        )


def test_what_it_wrote_to_stderr_is_kept() -> None:
    assert start_error("it ended", "Segmentation fault", []).details["stderr"] == "Segmentation fault"
