"""`farsteer`: finds the command and turns what went wrong into one line and an exit code.

Nothing is imported here that the chosen command does not need: `farsteer --version` must be there at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

COMMANDS = {
    "up": "start hub, runner and demo agent on this machine",
    "exec": "one prompt, one answer; needs no hub",
    "sessions": "list, show, stop, resume, rewind, fork, export and delete sessions",
    "attach": "follow a session in this terminal, talk to it, answer what it asks",
    "import": "adopt what an agent on a machine has talked about before",
    "usage": "tokens and cost per day, model, session or turn",
    "agents": "which agents there are, where, and how to get them",
    "doctor": "what is installed, what is missing and how to get it",
    "token": "access tokens: create, list, revoke",
    "acp": "an agent for editors: Zed, JetBrains, Neovim, Toad",
    "login": "remember a hub elsewhere and its access token",
    "logout": "forget them",
    "hub": "start the hub alone",
    "runner": "connect this machine to a hub elsewhere",
}

OVERVIEW = """\
Farsteer {version}: run coding agents on your machines, steer them from anywhere.

usage: farsteer COMMAND [options]

{commands}

  farsteer COMMAND --help     what a command takes, with examples
  farsteer --version

begin with:

  farsteer exec "hello"       a first answer, from the demo agent
  farsteer agents demo        what you can say to it
  farsteer up                 then, in another terminal: farsteer attach

Data and the access token are in $FARSTEER_HOME (~/.farsteer). Commands find the
hub that `farsteer up` runs there; another one is given by --hub URL or
$FARSTEER_HUB, with its access token in $CLI_API_TOKEN.

exit codes: 0 done, 1 failed, 2 wrong usage, 3 no hub or machine reachable,
4 exec denied something because nobody was there to approve it, 130 interrupted.
FARSTEER_DEBUG=1 shows where an error came from."""

# Where a command's module cannot have its name: `token` is a module of Python's own, `import` is its word.
MODULES = {"token": "tokens", "import": "imports"}

DONE, FAILED, USAGE, UNREACHABLE, UNANSWERED, INTERRUPTED = 0, 1, 2, 3, 4, 130


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _dispatch(arguments)
        # While a broken pipe can still be caught: what is left would be written after the last handler.
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return DONE
    finally:
        _let_go()
    return code


def _let_go() -> None:
    """Whoever read our output may have had enough; Python must not complain once more, or fail, while it exits."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _dispatch(arguments: list[str]) -> int:
    name = arguments[0] if arguments else "help"
    if name in ("-V", "--version", "version"):
        from farsteer import __version__

        print(f"farsteer {__version__}")
        return DONE
    if name in ("help", "-h", "--help"):
        if len(arguments) > 1 and arguments[1] in COMMANDS:
            return _run(arguments[1], ["--help"])
        print(overview())
        return DONE
    if name not in COMMANDS:
        return _unknown(name)
    return _run(name, arguments[1:])


def overview() -> str:
    from farsteer import __version__

    commands = "\n".join(f"  {name:<10}{about}" for name, about in COMMANDS.items())
    return OVERVIEW.format(version=__version__, commands=commands)


def _run(name: str, arguments: list[str]) -> int:
    from importlib import import_module

    from farsteer.cli.lean import import_msgspec

    import_msgspec()
    from farsteer.cli.failure import failed

    try:
        return import_module(f"farsteer.cli.{MODULES.get(name, name)}").main(arguments)
    except (KeyboardInterrupt, BrokenPipeError):
        raise
    except Exception as error:  # noqa: BLE001
        # The one place where an error of any kind becomes a line: the traceback is for FARSTEER_DEBUG=1.
        return failed(error)


def _unknown(name: str) -> int:
    from difflib import get_close_matches

    near = get_close_matches(name, COMMANDS, n=1)
    hint = f"did you mean `farsteer {near[0]}`?" if near else "`farsteer` alone lists them"
    kind = "option" if name.startswith("-") else "command"
    print(f"farsteer: there is no {kind} {name!r}; {hint}", file=sys.stderr)
    return USAGE


if __name__ == "__main__":
    sys.exit(main())
