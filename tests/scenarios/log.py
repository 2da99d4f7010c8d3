"""Helpers to read a session's log as REST returns it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def of(log: Sequence[Any], *kinds: str) -> list[Any]:
    """Return the events of these kinds, in order."""
    return [entry["content"] for entry in log if entry["content"]["kind"] in kinds]


def texts(log: Sequence[Any], *kinds: str) -> list[str]:
    return [content["text"] for content in of(log, *kinds)]


def said(log: Sequence[Any]) -> list[str]:
    """Return the texts of the user messages."""
    return texts(log, "user_message")


def answers(log: Sequence[Any]) -> list[str]:
    return texts(log, "agent_message")


def ends(log: Sequence[Any]) -> list[str]:
    """Return the end reason of each turn."""
    return [content["reason"] for content in of(log, "turn_end")]


def outcomes(log: Sequence[Any]) -> dict[str, list[str]]:
    """Return the states of each queued message, in order."""
    found: dict[str, list[str]] = {}
    for content in of(log, "queue_update"):
        found.setdefault(content["itemId"], []).append(content["state"])
    return found


def whole(log: Sequence[Any]) -> bool:
    """Return whether the log is numbered from 1 without gaps or repeats."""
    return [entry["seq"] for entry in log] == list(range(1, len(log) + 1))
