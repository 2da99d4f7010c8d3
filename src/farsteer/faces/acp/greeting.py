"""The first exchange: what the client can do, what we can do, how one logs in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from farsteer import __version__
from farsteer.jsonrpc.messages import as_object

PROTOCOL = 1
LOGIN = "farsteer-login"
_ARGS = ["login"]
_LEGACY = "terminal-auth"
"""Where clients looked for a command to log in before the protocol had a word for it."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What was said on the command line, or by the road to this face."""

    agent: str | None = None
    machine: str | None = None
    session_id: str | None = None
    """The session that the first `session/new` gives, instead of a new one."""
    lenient: bool = False
    """What an agent cannot be given, such as tool servers, is left out instead of refused."""
    forget: Callable[[], object] | None = None
    """Logs out; None: who came by this road cannot."""


class Client(msgspec.Struct, frozen=True):
    forms: bool = False
    """It can show a form."""
    terminal: bool = False
    """It runs us once more, in a terminal, for somebody to log in."""
    legacy_terminal: bool = False

    @classmethod
    def of(cls, params: dict[str, Any]) -> Client:
        can = as_object(params.get("clientCapabilities")) or {}
        elicitation = as_object(can.get("elicitation")) or {}
        return cls(
            forms=as_object(elicitation.get("form")) is not None,
            terminal=(as_object(can.get("auth")) or {}).get("terminal") is True,
            legacy_terminal=(as_object(can.get("_meta")) or {}).get(_LEGACY) is True,
        )


def greeting(client: Client, *, local: bool) -> dict[str, Any]:
    """`local`: the client has started us; one that came to a hub has shown its token already."""
    return {
        "protocolVersion": PROTOCOL,
        "agentCapabilities": {
            "loadSession": True,
            "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
            "mcpCapabilities": {"http": True, "sse": True},
            "sessionCapabilities": {
                "list": {}, "resume": {}, "close": {}, "delete": {}, "fork": {}, "additionalDirectories": {},
            },
            "auth": {"logout": {}} if local else {},
        },
        "agentInfo": {"name": "farsteer", "title": "Farsteer", "version": __version__},
        "authMethods": [_login(client)] if local else [],
    }  # fmt: skip


def _login(client: Client) -> dict[str, Any]:
    """Only who can run a terminal is offered one; the others are told what to type."""
    method: dict[str, Any] = {
        "id": LOGIN,
        "name": "Log in to a hub",
        "description": "Asks for the hub's address and its access token",
    }
    if client.terminal:
        return {**method, "type": "terminal", "args": _ARGS}
    method["description"] = "Type `farsteer login` in a terminal, then come back"
    if client.legacy_terminal:
        import sys

        command = {"command": sys.executable, "args": ["-m", "farsteer", *_ARGS], "label": "farsteer login"}
        method["_meta"] = {_LEGACY: command}
    return method
