"""`farsteer completion`: prints a script that completes commands, options and values in a shell.

The scripts are made from the parsers of the commands, so that no command is described twice. What only the machine or
the hub knows (agents, sessions, machines) is asked for at the time, with `farsteer completion --list KIND`.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from farsteer.cli import context
from farsteer.cli.exit_codes import SUCCESS

DESCRIPTION = """\
Print a script that completes commands, options, agents, machines and session ids
in your shell. It is made for this version: load it when the shell starts, or
write it to a file again after an update.
"""

EXAMPLES = """\
  source <(farsteer completion bash)      # in ~/.bashrc
  source <(farsteer completion zsh)       # in ~/.zshrc, after compinit
  farsteer completion fish > ~/.config/fish/completions/farsteer.fish
"""

_SHELLS = ("bash", "zsh", "fish")
_HUB_SECONDS = 0.5
"""How long a key press may wait for a hub."""
_SAFE_WORD = re.compile(r"[A-Za-z0-9][\w.@-]*", re.ASCII)


def completion_command(argv: Sequence[str]) -> int:
    parser = context.command_parser("completion", DESCRIPTION, EXAMPLES)
    parser.add_argument("shell", nargs="?", choices=_SHELLS, metavar="SHELL", help=", ".join(_SHELLS))
    parser.add_argument("--list", choices=[*_LISTS], help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.list:
        for word, note in _list_quietly(arguments.list, context.home_directory(arguments)):
            print(f"{word}\t{note}" if note else word)
        return SUCCESS
    if arguments.shell is None:
        parser.error(f"name a shell: {', '.join(_SHELLS)}")
    from farsteer.cli.completion_scripts import SCRIPTS
    from farsteer.cli.parsers import all_commands

    print(SCRIPTS[arguments.shell](all_commands()))
    return SUCCESS


# The values that are asked for


def _list_quietly(kind: str, home: Path) -> list[tuple[str, str]]:
    """Return the words of a kind with a note on each. Whatever fails, a key press prints no error."""
    try:
        return [(word, note) for word, note in _LISTS[kind](home) if _SAFE_WORD.fullmatch(word)]
    except Exception:  # noqa: BLE001
        return []


def _agents(home: Path) -> Iterator[tuple[str, str]]:
    from farsteer.agents.registry import AgentRegistry

    return ((name, "") for name in AgentRegistry(home).names())


def _providers(home: Path) -> Iterator[tuple[str, str]]:
    from farsteer.agents.providers.provider import provider_names

    return ((name, "") for name in provider_names(home))


def _sessions(_: Path) -> Iterator[tuple[str, str]]:
    from farsteer.cli.terminal.text import one_line

    for session in _ask_hub("/api/sessions?limit=100", "sessions"):
        yield session["id"], one_line(f"{session.get('agent')}: {session.get('title') or ''}", 50)


def _machines(_: Path) -> Iterator[tuple[str, str]]:
    from farsteer.cli.terminal.text import one_line

    for machine in _ask_hub("/api/machines", "machines"):
        yield machine["id"], one_line(machine.get("name") or machine.get("host") or "", 50)


def _approvals(_: Path) -> Iterator[tuple[str, str]]:
    from farsteer.cli.terminal.text import one_line

    for waiting in _ask_hub("/api/approvals", "approvals"):
        yield waiting["approval"]["id"], one_line(waiting["approval"].get("title") or "", 50)


def _ask_hub(path: str, field: str) -> list[dict[str, Any]]:
    """Return a list of the hub that commands use. The SDK would take longer to import than this to answer."""
    from http.client import HTTPConnection, HTTPSConnection
    from urllib.parse import urlsplit

    from farsteer.client.config import find_token, find_url

    url = find_url()
    parts = urlsplit(url)
    body = json.dumps({"accessToken": find_token(url)})
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=_HUB_SECONDS)
    try:
        connection.request("POST", f"{parts.path}/api/auth", body, {"Content-Type": "application/json"})
        token = json.loads(connection.getresponse().read())["token"]
        connection.request("GET", f"{parts.path}{path}", headers={"Authorization": f"Bearer {token}"})
        return json.loads(connection.getresponse().read())[field]
    finally:
        connection.close()


_LISTS: dict[str, Callable[[Path], Iterator[tuple[str, str]]]] = {
    "agents": _agents,
    "approvals": _approvals,
    "machines": _machines,
    "providers": _providers,
    "sessions": _sessions,
}
