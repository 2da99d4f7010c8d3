"""Every command with its options and arguments, read from the parsers of the commands."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

from farsteer.cli import context
from farsteer.cli.commands.help import topics
from farsteer.cli.main import COMMANDS

_SHORT_HELP = re.compile(r"[^;(]*")


@dataclass(frozen=True, slots=True)
class Values:
    """What may stand in one place of a command line."""

    kind: str = "none"
    """A kind of `--list`, or `directories`, `files` or `none`."""
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Option:
    flags: tuple[str, ...]
    help: str
    values: Values | None
    """None if the option takes no value."""


@dataclass(frozen=True, slots=True)
class Command:
    name: str
    summary: str
    options: tuple[Option, ...]
    arguments: tuple[Values, ...]
    repeats: bool
    """Whether the last argument may be given several times."""

    def valued_flags(self) -> list[str]:
        return [flag for option in self.options if option.values for flag in option.flags]


_SUBCOMMANDS = {"hub": ("compact",)}
"""First words that have a parser of their own, which the parser of the command does not show."""

_PLACES = {
    ("help", "topic"): Values("none", (*topics(), *COMMANDS)),
    ("agents", "name"): Values("agents", ("login", "logout")),
    ("agents", "provider"): Values("providers"),
    ("hub", "subcommand"): Values("none", _SUBCOMMANDS["hub"]),
}
"""Values of an argument that its parser does not tell, by command and name."""

_KINDS = {"agent": "agents", "machine": "machines", "session": "sessions", "session_id": "sessions"}
_PHRASES = {"id of a session": "sessions", "id of an approval": "approvals"}
"""What the help of an argument says if it is an id."""
_METAVARS = {"DIR": "directories", "FILE": "files"}


class _ActionRecorder(argparse.HelpFormatter):
    """Gets the actions of a parser, as every help formatter does, and prints nothing."""

    actions: list[argparse.Action] = []

    def add_usage(
        self,
        usage: str | None,
        actions: Iterable[argparse.Action],
        groups: Iterable[Any],
        prefix: str | None = None,
    ) -> None:
        # parse_intermixed_args asks for the usage first, before --help does.
        _ActionRecorder.actions = list(actions)

    def format_help(self) -> str:
        return ""


def all_commands() -> list[Command]:
    """Return every command of `farsteer` with its options and arguments."""
    return [_command(name, summary) for name, summary in COMMANDS.items()]


def _command(name: str, summary: str) -> Command:
    subcommands = _SUBCOMMANDS.get(name, ())
    actions = _actions(name)
    for subcommand in subcommands:
        actions += [action for action in _actions(name, subcommand) if action.option_strings]
    options: dict[tuple[str, ...], Option] = {}
    arguments = [_PLACES[name, "subcommand"]] if subcommands else []
    repeats = False
    for action in actions:
        if action.help == argparse.SUPPRESS:
            continue
        if action.option_strings:
            flags = tuple(action.option_strings)
            values = None if action.nargs == 0 else _values(name, action)
            options.setdefault(flags, Option(flags, _short_help(action), values))
        else:
            arguments.append(_values(name, action))
            repeats = action.nargs in ("*", "+")
    return Command(name, summary, tuple(options.values()), tuple(arguments), repeats)


def _actions(*command: str) -> list[argparse.Action]:
    """Return the actions of a command's parser: the command is run with --help and a formatter that records them."""
    from farsteer.cli.main import run_command

    original = context.command_parser

    def recording_parser(name: str, description: str, examples: str) -> argparse.ArgumentParser:
        parser = original(name, description, examples)
        parser.formatter_class = _ActionRecorder
        return parser

    _ActionRecorder.actions = []
    context.command_parser = recording_parser
    try:
        run_command(command[0], [*command[1:], "--help"])
    except SystemExit:
        return _ActionRecorder.actions
    finally:
        context.command_parser = original
    raise AssertionError(f"farsteer {' '.join(command)} --help did not exit")


def _values(command: str, action: argparse.Action) -> Values:
    if (command, action.dest) in _PLACES:
        return _PLACES[command, action.dest]
    if action.choices is not None:
        return Values("none", tuple(str(choice) for choice in cast("Iterable[object]", action.choices)))
    if action.metavar in _METAVARS:
        return Values(_METAVARS[action.metavar])
    for phrase, kind in _PHRASES.items():
        if phrase in (action.help or ""):
            return Values(kind)
    return Values(_KINDS.get(action.dest, "none"))


def _short_help(action: argparse.Action) -> str:
    match = _SHORT_HELP.match((action.help or "").replace("`", ""))
    return match[0].strip() if match else ""
