"""Scripts: directives in a message that say what the model does.

    [[say:T]] [[think:T]]       text, thought
    [[slow:N:S]]                N words, S seconds apart
    [[clock:N:S]]               the same, and each word is the time of the monotonic clock in nanoseconds
    [[sleep:S]]                 silence
    [[bash:CMD]] [[write:PATH:TEXT]] [[read:PATH]] [[ask:QUESTION:A|B]] [[plan:TEXT]]
                                a tool call, by whichever tool the agent offers for it
    [[escalate:CMD]]            like bash, outside of the sandbox of Codex if it may be asked for that
    [[search:QUERY]]            a web search by the provider of the model itself (responses)
    [[tool:NAME:{json}]]        this very tool call; NAMESPACE/NAME for a tool of a namespace (responses)
    [[and]]                     the next tool call belongs to the same answer
    [[error:STATUS]] [[error:STATUS:N]]    an HTTP error, each time or the first N times
    [[drop]] [[drop:N]]         the connection breaks, each time or the first N times
    [[cut]]                     the stream ends cleanly, but too early
    [[hang]]                    nothing more until the agent goes away
    [[meet:NAME:N]]             silence until N have come to this point: requests, or the test by `meet`
    [[history]] [[info]]        what the model was shown: its messages; its model, effort, tools, images
    [[new]]                     what stands before is no part of the script

A text with no directive is echoed. Text around directives is ignored. A tool call ends a round; the next request
with its result goes on behind it, and past the end the model says `done: RESULT`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

_OPENING = re.compile(r"\[\[([a-z]+)(?::|(?=\]\]))")
ABSTRACT = frozenset({"bash", "escalate", "write", "read", "ask", "plan"})


class BadScript(ValueError):
    """The script is wrong. The agent gets a 400, and the server reports it to the test."""


@dataclass(frozen=True)
class Say:
    text: str


@dataclass(frozen=True)
class Think:
    text: str


@dataclass(frozen=True)
class SayTime:
    pass


@dataclass(frozen=True)
class Sleep:
    seconds: float


@dataclass(frozen=True)
class Use:
    """A tool call: an abstract tool with texts, or a named tool with its input."""

    tool: str
    texts: tuple[str, ...] = ()
    input: dict[str, Any] | None = None


@dataclass(frozen=True)
class Search:
    query: str


@dataclass(frozen=True)
class Fail:
    status: int
    times: int | None


@dataclass(frozen=True)
class Drop:
    times: int | None


@dataclass(frozen=True)
class Cut:
    pass


@dataclass(frozen=True)
class Hang:
    pass


@dataclass(frozen=True)
class Meet:
    name: str
    count: int


@dataclass(frozen=True)
class Tell:
    """`history` or `info`."""

    about: str


Step = Say | Think | SayTime | Sleep | Use | Search | Fail | Drop | Cut | Hang | Meet | Tell


def play(script: str, results: tuple[str, ...]) -> list[Step]:
    """Return what the model does next, given the tool results so far."""
    rounds = split(script)
    if not rounds:
        return [Say(f"done: {results[-1]}" if results else f"echo: {script}")]
    behind = 0
    for steps in rounds:
        if behind >= len(results):
            return steps
        behind += sum(isinstance(step, Use) for step in steps)
    return [Say(f"done: {results[-1] if results else ''}")]


def split(script: str) -> list[list[Step]]:
    """Split the script into rounds. Each round ends with its tool calls."""
    rounds: list[list[Step]] = [[]]
    joined = False
    for name, argument in _directives(script):
        if name == "and":
            joined = True
            continue
        if rounds[-1] and isinstance(rounds[-1][-1], Use) and not joined:
            rounds.append([])
        joined = False
        rounds[-1] += _steps(name, argument)
    return [steps for steps in rounds if steps]


def _directives(script: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    position = 0
    while opening := _OPENING.search(script, position):
        start = opening.end()
        end = script.find("]]", _after_json(script, start) if opening[1] == "tool" else start)
        if end < 0:
            raise BadScript(f"[[{opening[1]} is never closed")
        found.append((opening[1], script[start:end]))
        position = end + 2
    return found


def _after_json(script: str, start: int) -> int:
    """Return where the JSON of [[tool:NAME:{json}]] ends. It may contain `]]`."""
    brace = script.find("{", start)
    if brace < 0:
        raise BadScript("[[tool:NAME:{json}]] needs its JSON")
    try:
        return json.JSONDecoder().raw_decode(script, brace)[1]
    except ValueError as error:
        raise BadScript(f"[[tool]] has broken JSON: {error}") from error


def _steps(name: str, argument: str) -> list[Step]:
    try:
        return _read(name, argument)
    except (ValueError, TypeError) as error:
        raise BadScript(f"[[{name}:{argument[:80]}]]: {error}") from error


def _read(name: str, argument: str) -> list[Step]:
    first, _, rest = argument.partition(":")
    match name:
        case "say":
            return [Say(argument)]
        case "think":
            return [Think(argument)]
        case "search":
            return [Search(argument)]
        case "sleep":
            return [Sleep(float(argument))]
        case "slow":
            # No word twice: an agent may take repetition for a model that has gone mad.
            words = [[Say(f"word{number} "), Sleep(float(rest))] for number in range(1, int(first) + 1)]
            return [step for pair in words for step in pair]
        case "clock":
            return [SayTime(), Sleep(float(rest))] * int(first)
        case "error":
            return [Fail(int(first), int(rest) if rest else None)]
        case "drop":
            return [Drop(int(argument) if argument else None)]
        case "cut":
            return [Cut()]
        case "hang":
            return [Hang()]
        case "meet":
            return [Meet(first, int(rest))]
        case "history" | "info":
            return [Tell(name)]
        case "tool":
            return [Use(first, input=json.loads(rest))]
        case "write" | "ask":
            return [Use(name, (first, rest))]
        case "bash" | "escalate" | "read" | "plan":
            return [Use(name, (argument,))]
        case _:
            raise BadScript("no such directive")
