"""Which prompt provokes which behaviour of the agent under test."""

from __future__ import annotations

import msgspec


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """Give as much as your agent can be brought to do; what is None is not checked."""

    answer: str
    """A short answer in words."""
    long: str
    """Says something at once and then works for at least half a minute, unless it is interrupted."""
    tool: str | None = None
    """Creates `tool_file` in its directory, for which it needs a permission in mode `default`."""
    tool_file: str = ""
    two_tools: str | None = None
    """Creates both `two_files`, asking for the two permissions at once."""
    two_files: tuple[str, str] = ("", "")
    question: str | None = None
    plan: str | None = None
    shell: str | None = None
    """Runs `{command}` in a shell; its output must come back. Used in mode `yolo`."""
    remember: str | None = None
    """A message that holds `{word}` and is answered shortly."""
    recall: str | None = None
    """Is answered with all that was remembered."""
    thinks: str | None = None
    """Thinks first and then answers."""
    transcript: str | None = None
    """Is answered with all that was said before, by both sides."""
    overwrite: str | None = None
    """Writes `{text}` into `tool_file`, whatever it had. Used in mode `yolo`."""
    crash: str | None = None
    """The process dies in the turn."""
    crash_mid: str | None = None
    """The process dies in the middle of a message."""
    stubborn: str | None = None
    """Says something and then ignores interrupts, the end of its input and SIGTERM."""
    ends_early: str | None = None
    """Says that the turn is over and then says more."""
    repeats: str | None = None
    """Says the same message more than once."""
    unknown: str | None = None
    """Sends an event of a kind that the adapter has no word for."""
    garbage: str | None = None
    """Writes what is no line of its protocol."""
