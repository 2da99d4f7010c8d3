"""What the pages and help texts name exists: commands, options, environment variables, files and REST paths."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from farsteer.agents.providers.provider import load_provider, provider_names
from farsteer.cli.commands.help import page, topics
from farsteer.cli.main import COMMANDS, overview
from farsteer.cli.parsers import Command, all_commands
from farsteer.client.settings import SETTINGS
from farsteer.faces.rest.app import TABLE
from tests.docs.test_api import NOT_IN_THE_TABLE

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")]
PAGES += sorted((ROOT / "docs").glob("*.md"))
SOURCES = sorted((ROOT / "src" / "farsteer").rglob("*.py"))

GENERAL = {"-V", "--version", "-h", "--help", "COMMAND", "NAME"}
HIDDEN_OPTIONS = {"exec": {"--input-format", "--droid-version"}, "completion": {"--list"}}
"""Of `exec` in Droid's format, which has a parser of its own; and what only the completion scripts call."""
FOREIGN_OPTIONS = {"--ask-for-approval", "--permission-mode", "--sandbox", "--settings"}
"""Options of agents' own programs, in docs/terminal.md."""
OTHER_PATHS = {"/socket.io", "/events", "/acp", "/link", "/metrics"}
EXAMPLES = {"farsteer_echo/agent.py", "farsteer_echo/adapter.py", "tests/test_adapter.py", "dist/files.txt"}
"""Files that a reader makes by following a page."""

_END = re.compile(r"[|>;&#)]|\s—|  +")
_FILE = re.compile(r"`([\w.-]+/[\w./-]+\.(?:py|md|toml|txt|json|conf|service|ya?ml|sh|css))(?:::\w+)?`")
_VARIABLE = re.compile(r"\b(?:FARSTEER_[A-Z_]*[A-Z]|CLI_API_TOKEN|[A-Z]+_EXECUTABLE)\b")


def texts() -> Iterator[tuple[str, str]]:
    """Everything that users read, by where it is."""
    for path in PAGES:
        yield path.name, path.read_text()
    for topic in topics():
        yield f"farsteer help {topic}", page(topic)
    yield "farsteer --help", overview()


@cache
def commands() -> dict[str, Command]:
    return {command.name: command for command in all_commands()}


def command_lines(text: str) -> Iterator[str]:
    """What follows `farsteer` in code spans and in lines of code."""
    yield from re.findall(r"`farsteer ([^`\n]+)`", text)
    for block in re.findall(r"^```(?:sh|shell|bash|console)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield from re.findall(
            r"(?:^|[|(] ?|exec hub |\bfarsteer env \S+ )farsteer ([^\n]+)", block, re.MULTILINE
        )
    yield from re.findall(r"^  (?:\S+=\S+ |.*\| )?farsteer ([^\n]+)", text, re.MULTILINE)


def wrong_part(line: str) -> str | None:
    """Return the part of a command line that does not exist."""
    quoted = re.sub(r"\"[^\"]*\"|'[^']*'", "TEXT", line)
    words = re.sub(r"[\[\]…]", " ", _END.split(quoted)[0]).split()
    if not words or words[0] in GENERAL:
        return None
    command = commands().get(words[0].rstrip(",.:"))
    if command is None:
        return words[0]
    # What follows the name of the agent is for the agent.
    rest = words[1 : words.index("claude") + 1] if command.name == "run" and "claude" in words else words[1:]
    options = {flag for option in command.options for flag in option.flags}
    options |= HIDDEN_OPTIONS.get(command.name, set())
    for word in rest:
        if word.startswith("-") and word != "-" and word.partition("=")[0] not in options:
            return word
    first = next(iter(rest), "-")
    choices = command.arguments[0] if command.arguments else None
    if (
        choices
        and choices.kind == "none"
        and choices.words
        and first.islower()
        and first not in choices.words
    ):
        return first if first[0].isalpha() else None
    return None


def test_every_command_line_of_a_page_exists() -> None:
    lines = [(where, line) for where, text in texts() for line in command_lines(text)]
    assert len(lines) > 150
    assert [(where, line, wrong) for where, line in lines if (wrong := wrong_part(line))] == []


def test_every_command_line_of_a_message_or_a_help_text_exists() -> None:
    lines = [
        (path.name, line)
        for path in SOURCES
        for line in re.findall(r"`farsteer ([^`{}\"]+)`", path.read_text())
    ]
    assert len(lines) > 80
    assert [(where, line, wrong) for where, line in lines if (wrong := wrong_part(line))] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_the_examples_of_a_command_exist(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    from farsteer.cli.main import main

    with pytest.raises(SystemExit):
        main([command, "--help"])
    examples = capsys.readouterr().out.partition("examples:\n")[2]
    lines = [*command_lines(examples)]
    assert lines
    assert [(line, wrong) for line in lines if (wrong := wrong_part(line))] == []


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("sesions", "sesions"),
        ("exec --agnet demo", "--agnet"),
        ("sessions lst", "lst"),
        ("sessions show 3f2a | less --foo", None),
        ('exec --agent demo "say --this"', None),
        ("run claude --model opus", None),
    ],
)
def test_the_check_sees(line: str, wrong: str | None) -> None:
    assert wrong_part(line) == wrong


def test_every_option_of_a_page_exists() -> None:
    known = {flag for command in commands().values() for option in command.options for flag in option.flags}
    known |= {"--version"}.union(*HIDDEN_OPTIONS.values())
    named = {(where, flag) for where, text in texts() for flag in re.findall(r"`(--[a-z][\w-]*)", text)}
    assert len(named) > 20
    named -= {("terminal.md", flag) for flag in FOREIGN_OPTIONS}
    assert sorted((where, flag) for where, flag in named if flag not in known) == []


def test_every_environment_variable_of_a_page_exists(tmp_path: Path) -> None:
    known = {variable for setting in SETTINGS for variable in setting.variables}
    known |= {load_provider(tmp_path, name).key_variable for name in provider_names(tmp_path)}
    elsewhere = "".join(
        path.read_text(errors="replace")
        for folder in ("deploy", "tests/vendor", "src/farsteer/agents/process")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    )
    named = {(where, name) for where, text in texts() for name in _VARIABLE.findall(text)}
    named |= {
        (path.name, name)
        for path in SOURCES
        if "cli" in path.parts
        for name in re.findall(r"\$(" + _VARIABLE.pattern + ")", path.read_text())
    }
    assert sorted((where, name) for where, name in named if name not in known and name not in elsewhere) == []


def test_every_file_of_a_page_exists() -> None:
    places = (
        ROOT,
        ROOT / "src",
        ROOT / "src" / "farsteer",
        ROOT / "src" / "farsteer" / "agents",
        ROOT / "tests",
    )
    named = {(where, path) for where, text in texts() for path in _FILE.findall(text)} | {
        (where, path) for where, text in texts() for path in re.findall(r"\b(docs/[\w-]+\.md)\b", text)
    }
    assert len(named) > 50
    missing = [
        (where, path)
        for where, path in named
        if path not in EXAMPLES
        and not path.startswith((".", "~"))
        and not any([*at.glob(re.sub(r"/[A-Z]+/", "/*/", path))] for at in places)
    ]
    assert sorted(missing) == []


def segments(path: str) -> list[str]:
    """The parts of a path; one that stands for a value is empty."""
    return [
        "" if re.match(r"[{$:]|[A-Z]+$|[0-9a-f]{4,}", part) else part for part in path.strip("/").split("/")
    ]


def test_every_rest_path_of_a_page_exists() -> None:
    known = [endpoint.path for endpoint in TABLE]
    known += [request.partition(" ")[2] for request in NOT_IN_THE_TABLE] + sorted(OTHER_PATHS)
    served = [segments(path) for path in known]
    whole = re.compile(r"(?<![\w.}])(/(?:api|health|openapi\.json|socket\.io|metrics)(?:/[\w{}$-]+)*)")
    named = {(where, path) for where, text in texts() for path in whole.findall(text)}
    assert len(named) > 40
    assert (
        sorted((where, path) for where, path in named if path != "/api" and segments(path) not in served)
        == []
    )
    ends = {(where, path) for where, text in texts() for path in re.findall(r"…(/[\w{}/-]+)", text)}
    unknown = [
        (where, path)
        for where, path in ends
        if not any(parts[-len(segments(path)) :] == segments(path) for parts in served)
    ]
    assert sorted(unknown) == []
