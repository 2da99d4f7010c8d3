"""Reading a session's log as REST gives it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def of(log: Sequence[Any], *kinds: str) -> list[Any]:
    """The contents of these kinds, in order."""
    return [entry["content"] for entry in log if entry["content"]["kind"] in kinds]


def texts(log: Sequence[Any], *kinds: str) -> list[str]:
    return [content["text"] for content in of(log, *kinds)]


def said(log: Sequence[Any]) -> list[str]:
    """What people said that the agent was given."""
    return texts(log, "user_message")


def answers(log: Sequence[Any]) -> list[str]:
    return texts(log, "agent_message")


def ends(log: Sequence[Any]) -> list[str]:
    """How each turn ended."""
    return [content["reason"] for content in of(log, "turn_end")]


def outcomes(log: Sequence[Any]) -> dict[str, list[str]]:
    """The states each message of a person went through."""
    found: dict[str, list[str]] = {}
    for content in of(log, "queue_update"):
        found.setdefault(content["itemId"], []).append(content["state"])
    return found


def whole(log: Sequence[Any]) -> bool:
    """Numbered from 1 without a gap or a repeat."""
    return [entry["seq"] for entry in log] == list(range(1, len(log) + 1))
