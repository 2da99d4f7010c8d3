"""The one table of what can be typed: it parses a message, finds what to do and writes the help."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from farsteer.agents.demo.turn import Turn

Perform = Callable[["Turn", str], None]


class Misuse(Exception):
    """The person typed something the command cannot take; the message says what it takes."""


class Command:
    def __init__(self, usage: str, summary: str, perform: Perform) -> None:
        self.usage = usage
        self.summary = summary
        self.perform = perform
        self.name = re.split(r"\s*[<\[]", usage, maxsplit=1)[0]

    def argument(self, line: str) -> str | None:
        """What follows the name in `line`, or None if it is not this command."""
        head, rest = line[: len(self.name)], line[len(self.name) :]
        if head.lower() != self.name or (rest and not rest[0].isspace()):
            return None
        return rest.strip()


class Commands:
    """Commands by group, in the order in which they were added."""

    def __init__(self) -> None:
        self._groups: dict[str, list[Command]] = {}
        self._appendix: list[tuple[str, list[tuple[str, str]]]] = []

    def group(self, title: str) -> Callable[[str, str], Callable[[Perform], Perform]]:
        """A decorator maker for one group: `@talk("say <text>", "says it")`."""
        members = self._groups.setdefault(title, [])

        def add(usage: str, summary: str) -> Callable[[Perform], Perform]:
            def keep(perform: Perform) -> Perform:
                members.append(Command(usage, summary, perform))
                return perform

            return keep

        return add

    def append(self, title: str, rows: list[tuple[str, str]]) -> None:
        """Something else worth knowing, at the end of the help."""
        self._appendix.append((title, rows))

    def __iter__(self) -> Iterator[Command]:
        return (command for members in self._groups.values() for command in members)

    def parse(self, text: str) -> list[tuple[Command, str]]:
        """The commands in a message, one per line; a line that is none belongs to the command before it.

        Empty if the message does not begin with a command.
        """
        script: list[tuple[Command, str]] = []
        for line in text.strip().split("\n"):
            # Editors offer commands behind a slash.
            found = self._find(line.strip().removeprefix("/"))
            if found is not None:
                script.append(found)
            elif not script:
                return []
            else:
                command, argument = script[-1]
                script[-1] = (command, f"{argument}\n{line}")
        return [(command, argument.rstrip()) for command, argument in script]

    def help(self) -> str:
        """All of it, as a person reads it in a terminal."""
        width = max(len(command.usage) for command in self)
        parts = [_INTRODUCTION]
        for title, members in self._groups.items():
            parts.append(f"\n{title}:")
            parts += [f"  {command.usage:<{width}}  {command.summary}" for command in members]
        for title, rows in self._appendix:
            parts.append(f"\n{title}:")
            parts += [f"  {name:<{width}}  {summary}" for name, summary in rows]
        parts.append(f"\n{_CLOSING}")
        return "\n".join(parts)

    def _find(self, line: str) -> tuple[Command, str] | None:
        found: tuple[Command, str] | None = None
        for command in self:
            argument = command.argument(line)
            # The longest name wins: `ask many` over `ask`.
            if argument is not None and (found is None or len(command.name) > len(found[0].name)):
                found = command, argument
        return found


def number(argument: str, default: float, low: float, high: float) -> float:
    """A number a person typed, within bounds."""
    if not argument:
        return default
    try:
        value = float(argument)
    except ValueError:
        raise Misuse(f"{argument!r} is no number") from None
    if not low <= value <= high:
        raise Misuse(f"a number from {low:g} to {high:g}, please")
    return value


_INTRODUCTION = """\
The demo agent needs no key and no network, and it always does the same. What you type decides what it does; anything
that is no command gets a friendly answer. It remembers: `what did I say?`, `what password did I tell you?`. Several
commands may stand in one message, one per line."""
_CLOSING = """\
The permission mode decides what is asked first. `default` asks before running, writing and deleting, `acceptEdits`
before running and deleting, `safe-yolo` before deleting, `yolo` never; `plan` and `read-only` refuse all of it.

It copies a file before it writes, edits or deletes it, so that a rewind brings it back: not what `run` changes, no
links, nothing outside of the directory, no file above 4 MiB. A fork leaves alone what was changed before it."""

COMMANDS = Commands()
talking = COMMANDS.group("Talk to it")
working = COMMANDS.group("Let it work")
asking = COMMANDS.group("Be asked")
misbehaving = COMMANDS.group("Let it misbehave")
