"""`farsteer help`: short pages about topics, and the help of commands."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from farsteer.cli.exit_codes import SUCCESS, USAGE_ERROR

DESCRIPTION = """\
Explain a topic on one page, or show the help of a command. Without a name, list
the topics. A name that is a topic and a command is the topic; the command's own
help is `farsteer COMMAND --help`.
"""

EXAMPLES = """\
  farsteer help
  farsteer help approvals
  farsteer help sessions          # the same as `farsteer sessions --help`
"""

_PAGES = Path(__file__).parents[1] / "topics"
_WIDTH = 80


def topics() -> list[str]:
    """Return the names of all topics."""
    return sorted(path.stem for path in _PAGES.glob("*.txt"))


def page(topic: str) -> str:
    """Return the text about a topic. Its first line is the title."""
    text = (_PAGES / f"{topic}.txt").read_text(encoding="utf-8").rstrip("\n")
    return text.replace("{settings}", _settings()) if "{settings}" in text else text


def help_command(argv: Sequence[str]) -> int:
    # argparse and the shared module of the commands are imported only if they are needed: this has to be fast.
    if not argv:
        _print_topics()
        return SUCCESS
    if len(argv) == 1 and argv[0] in topics():
        print(page(argv[0]))
        return SUCCESS
    from farsteer.cli import context
    from farsteer.cli.main import COMMANDS, run_command

    parser = context.command_parser("help", DESCRIPTION, EXAMPLES)
    parser.add_argument("topic", nargs="?", metavar="TOPIC", help=f"a command, or {', '.join(topics())}")
    name = parser.parse_args(argv).topic
    if name in topics():
        print(page(name))
    elif name in COMMANDS:
        return run_command(name, ["--help"])
    elif name is None:
        _print_topics()
    else:
        return _report_unknown(name, [*topics(), *COMMANDS])
    return SUCCESS


def _print_topics() -> None:
    print("topics:\n")
    for topic in topics():
        print(f"  farsteer help {topic:<16} {page_title(topic)}")
    print("\n`farsteer` lists the commands, `farsteer COMMAND --help` the options of one.")


def page_title(topic: str) -> str:
    """Return what a page is about, from its first line."""
    with (_PAGES / f"{topic}.txt").open(encoding="utf-8") as file:
        return file.readline().partition(": ")[2].strip()


def _report_unknown(name: str, known: Sequence[str]) -> int:
    from difflib import get_close_matches

    similar = get_close_matches(name, known, n=1)
    hint = f"did you mean `farsteer help {similar[0]}`?" if similar else "`farsteer help` lists the topics"
    print(f"farsteer: there is no topic or command {name!r}; {hint}", file=sys.stderr)
    return USAGE_ERROR


def _settings() -> str:
    """Return the table of settings as text."""
    from textwrap import fill

    from farsteer.client.settings import SETTINGS

    blocks: list[str] = []
    for setting in SETTINGS:
        places = [setting.flag, *(f"${name}" for name in setting.variables)]
        places.append(f"{setting.name} in config.toml" if setting.in_file else None)
        where = fill(", ".join(filter(None, places)), _WIDTH, initial_indent="  ", subsequent_indent="  ")
        default = "" if setting.default in (None, (), False) else f" (default: {setting.default})"
        indent = " " * 6
        blocks.append(
            f"{where}\n{fill(setting.help + default, _WIDTH, initial_indent=indent, subsequent_indent=indent)}"
        )
    return "\n".join(blocks)
