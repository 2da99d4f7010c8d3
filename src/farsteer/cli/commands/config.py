"""`farsteer config`: shows every setting with its value and where the value comes from."""

from __future__ import annotations

import argparse
import json
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import msgspec

from farsteer.cli import context
from farsteer.cli.exit_codes import SUCCESS
from farsteer.cli.terminal.text import table
from farsteer.client.config import find_url, running_hub, stored_login, token_source
from farsteer.client.settings import SETTINGS, Found, Setting, Value, find
from farsteer.core.errors import FarsteerError

DESCRIPTION = """\
Show every setting with its value and where the value comes from: a flag of this
call, an environment variable, a file of the home directory, or the default. Of a
secret it says only whether it is set. Nothing is changed.

config.toml in the home directory has settings of commands, such as `port = 8080`;
hub.toml those of a hub, runner.toml those of a runner. `farsteer help config` lists
the names, flags and variables.
"""

EXAMPLES = """\
  farsteer config
  farsteer config --json | jq -r 'select(.source != "default").name'
  FARSTEER_LOG_LEVEL=debug farsteer config
"""

_UNLIMITED = 10_000
"""A width that cuts no value off."""


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    value: str
    source: str


def config_command(argv: Sequence[str]) -> int:
    parser = context.command_parser("config", DESCRIPTION, EXAMPLES)
    context.add_hub_option(parser)
    context.add_log_option(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object per setting and line")
    arguments = parser.parse_args(argv)
    found_home = find("home", arguments.home)
    home = context.home_directory(arguments)
    rows = [Row("home", str(home), found_home.source), *_command_rows(arguments), *_provider_rows(home)]
    rows += _file_rows(home)
    if arguments.json:
        for row in rows:
            print(json.dumps(asdict(row)))
    else:
        cells = [(row.name, row.source, row.value) for row in rows]
        print(table([("SETTING", "FROM", "VALUE"), *cells], _UNLIMITED))
    return SUCCESS


def _command_rows(arguments: argparse.Namespace) -> Iterator[Row]:
    hub = _hub_row(arguments.hub)
    for setting in SETTINGS:
        match setting.name:
            case "home":
                continue
            case "hub":
                yield hub
            case "token":
                source = token_source(hub.value)
                yield Row("token", "not set" if source is None else "set", source or "default")
            case "log_level":
                yield _row(setting, _log_level(arguments.log_level))
            case _:
                yield _row(setting, find(setting.name))


def _hub_row(given: str | None) -> Row:
    found, home = find("hub", given), context.home_dir()
    if found.is_set:
        source = found.source
    elif running_hub(home) is not None:
        source = "hub.json"
    else:
        source = "default" if stored_login(home) is None else "farsteer login"
    return Row("hub", _without_password(find_url(given, allow_insecure=True)), source)


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _log_level(given: str | None) -> Found:
    found, debug = find("log_level", given), find("debug")
    return Found("debug", debug.source) if not found.is_set and debug.value else found


def _row(setting: Setting, found: Found) -> Row:
    value = ("set" if found.is_set else "not set") if setting.secret else _text(found.value)
    return Row(setting.name, value, found.source)


def _text(value: Value | Sequence[object]) -> str:
    match value:
        case None | () | []:
            return "-"
        case bool():
            return "yes" if value else "no"
        case str() | int():
            return str(value)
        case _:
            return ", ".join(map(str, value))


def _provider_rows(home: Path) -> Iterator[Row]:
    """The keys of model providers, whose files name their variables."""
    from farsteer.agents.providers.keys import read_key
    from farsteer.agents.providers.provider import load_provider, provider_names

    for name in provider_names(home):
        try:
            variable = load_provider(home, name).key_variable
            if os.environ.get(variable):
                yield Row(f"{name}.key", "set", f"${variable}")
            else:
                is_stored = read_key(home, name) is not None
                yield Row(
                    f"{name}.key",
                    "set" if is_stored else "not set",
                    f"keys/{name}" if is_stored else "default",
                )
        except FarsteerError as error:
            yield Row(f"{name}.key", error.message, "-")


def _file_rows(home: Path) -> Iterator[Row]:
    from farsteer.hub.settings import load_settings as load_hub_settings
    from farsteer.runner.machine import load_settings as load_runner_settings

    for name, load in (("hub.toml", load_hub_settings), ("runner.toml", load_runner_settings)):
        try:
            settings: Mapping[str, Any] = msgspec.to_builtins(load(home))
            path = home / name
            written = tomllib.loads(path.read_text(encoding="utf-8-sig")) if path.exists() else {}
        except FarsteerError as error:
            yield Row(name, error.message, name)
            continue
        for key, value, is_written in _flattened(settings, written):
            yield Row(f"{name.removesuffix('.toml')}.{key}", _text(value), name if is_written else "default")


def _flattened(
    settings: Mapping[str, Any], written: Mapping[str, Any], prefix: str = ""
) -> Iterator[tuple[str, Any, bool]]:
    """Return the name of each setting, its value and whether the file has it."""
    for key, value in settings.items():
        if isinstance(value, dict) and value:
            yield from _flattened(value, written.get(key, {}), f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", None if value == {} else value, key in written
