"""The table of commands that can be typed: it parses a message and writes the help."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from farsteer.agents.demo.turn import DemoTurn

Handler = Callable[["DemoTurn", str], None]
"""Runs a command in a turn. The second argument is what follows the command's name."""


class UsageError(Exception):
    """A command was typed wrongly; the message says what it needs."""


class Command:
    def __init__(self, usage: str, summary: str, run: Handler) -> None:
        """`usage` is the name and its arguments, such as `say <text>`."""
        self.usage = usage
        self.summary = summary
        self.run = run
        self.name = re.split(r"\s*[<\[]", usage, maxsplit=1)[0]

    def match(self, line: str) -> str | None:
        """Return what follows the name in `line`, or None if the line is not this command."""
        head, rest = line[: len(self.name)], line[len(self.name) :]
        if head.lower() != self.name or (rest and not rest[0].isspace()):
            return None
        return rest.strip()


class CommandGroup:
    """Commands under one heading of the help."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.commands: list[Command] = []

    def command(self, usage: str, summary: str) -> Callable[[Handler], Handler]:
        """Return a decorator that adds its function as a command."""

        def add(run: Handler) -> Handler:
            self.commands.append(Command(usage, summary, run))
            return run

        return add


class CommandTable:
    def __init__(self, *groups: CommandGroup, appendix: tuple[str, list[tuple[str, str]]]) -> None:
        """`appendix` is a title and rows of name and summary that end the help."""
        self._groups = [*groups]
        self._appendix = appendix

    def add_group(self, title: str) -> CommandGroup:
        group = CommandGroup(title)
        self._groups.append(group)
        return group

    def __iter__(self) -> Iterator[Command]:
        return (command for group in self._groups for command in group.commands)

    def parse(self, text: str) -> list[tuple[Command, str]]:
        """Return the commands of a message with their arguments, one per line.

        A line that is not a command belongs to the argument before it. Returns an empty list if the message does not
        start with a command.
        """
        parsed: list[tuple[Command, str]] = []
        for line in text.strip().split("\n"):
            # Editors send commands with a leading slash.
            found = self._find(line.strip().removeprefix("/"))
            if found is not None:
                parsed.append(found)
            elif not parsed:
                return []
            else:
                command, argument = parsed[-1]
                parsed[-1] = (command, f"{argument}\n{line}")
        return [(command, argument.rstrip()) for command, argument in parsed]

    def help_text(self) -> str:
        """Return the help as it is shown in a terminal."""
        width = max(len(command.usage) for command in self)
        parts = [_INTRODUCTION]
        for group in self._groups:
            parts.append(f"\n{group.title}:")
            parts += [f"  {command.usage:<{width}}  {command.summary}" for command in group.commands]
        title, rows = self._appendix
        parts.append(f"\n{title}:")
        parts += [f"  {name:<{width}}  {summary}" for name, summary in rows]
        parts.append(f"\n{_CLOSING}")
        return "\n".join(parts)

    def _find(self, line: str) -> tuple[Command, str] | None:
        found: tuple[Command, str] | None = None
        for command in self:
            argument = command.match(line)
            # The longest name wins: `ask many` over `ask`.
            if argument is not None and (found is None or len(command.name) > len(found[0].name)):
                found = command, argument
        return found


def parse_number(argument: str, default: float, low: float, high: float) -> float:
    """Return the number a person typed, or the default for an empty argument. Raises UsageError."""
    if not argument:
        return default
    try:
        value = float(argument)
    except ValueError:
        raise UsageError(f"{argument!r} is not a number") from None
    if not low <= value <= high:
        raise UsageError(f"it needs a number from {low:g} to {high:g}")
    return value


_INTRODUCTION = """\
The demo agent needs no API key and no network, and it always behaves in the same way. Your message decides what it
does: type a command, or any other text for a friendly answer. It remembers what you say: ask it `what did I say?` or
`what password did I tell you?`. A message may contain several commands, one per line."""
_CLOSING = """\
The permission mode decides what needs your permission. `default` asks before running, writing and deleting,
`acceptEdits` before running and deleting, `safe-yolo` before deleting, `yolo` never; `plan` and `read-only` refuse all
of it.

Before it writes, edits or deletes a file, it copies the file, so that a rewind can restore it. It does not copy what
`run` changes, links, files outside of the directory and files above 4 MiB. A fork does not restore what was changed
before it."""
