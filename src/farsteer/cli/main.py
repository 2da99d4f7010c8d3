"""The entry point of `farsteer`: finds the command, runs it and turns an error into one line and an exit code.

A command's module is imported only when the command runs, so that `farsteer --version` starts fast.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from farsteer.cli.exit_codes import INTERRUPTED, SUCCESS, USAGE_ERROR

COMMANDS = {
    "up": "start the hub, a runner and the demo agent on this machine",
    "exec": "send one prompt and print the answer; needs no running hub",
    "sessions": "list, show, stop, resume, rewind, fork, export and delete sessions",
    "attach": "follow a session in this terminal, write to it, answer its approvals",
    "import": "turn conversations that an agent has stored into sessions",
    "usage": "show tokens and cost per day, model, session or turn",
    "agents": "list the agents, what they can do and how to install them",
    "machines": "list the machines of a hub, and who acts as them",
    "doctor": "check this machine and say how to fix what is missing",
    "backup": "write the home directory to one file, also while it is in use",
    "restore": "put the content of a backup into the home directory",
    "token": "create, list and revoke access tokens",
    "acp": "serve an editor over ACP: Zed, JetBrains, Neovim, Toad",
    "login": "store the address of a hub and an access token for it",
    "logout": "remove what `farsteer login` stored",
    "hub": "start a hub without a runner; `hub compact` gives back space",
    "runner": "connect this machine to a hub",
}

# Modules in farsteer.cli.commands that hold several commands or cannot have the command's name.
_MODULES = {
    "up": "daemons",
    "hub": "daemons",
    "runner": "daemons",
    "logout": "login",
    "token": "tokens",
    "restore": "backup",
    "import": "imports",
}

OVERVIEW = """\
Farsteer {version}: coding agents on your machines, steered from anywhere.

usage: farsteer COMMAND [options]

{commands}

  farsteer COMMAND --help     options of a command, with examples
  farsteer --version

first steps:

  farsteer exec "hello"       get a first answer, from the demo agent
  farsteer agents demo        see what the demo agent understands
  farsteer up                 then run `farsteer attach` in another terminal

Data and the access token are stored in $FARSTEER_HOME (default: ~/.farsteer).
Commands use the hub that `farsteer up` runs there. To use another hub, pass
--hub URL or set $FARSTEER_HUB, after `farsteer login --hub URL` or with its
access token in $CLI_API_TOKEN. The token stored here goes to no other hub.

exit codes: 0 success, 1 failure, 2 wrong usage, 3 no hub or machine reachable,
4 exec denied an approval because nobody could answer it, 130 interrupted.
FARSTEER_DEBUG=1 prints the traceback of an error."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command in `argv` (default: `sys.argv`) and return the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        if argv is None and arguments and arguments[0] in COMMANDS:
            # This is a process of its own, which may hold an access token.
            from farsteer.cli.protection import protect_process

            protect_process()
        code = _dispatch(arguments)
        # Raises BrokenPipeError here, where it is caught, instead of while the interpreter exits.
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return SUCCESS
    finally:
        _discard_unwritable_output()
    return code


def _discard_unwritable_output() -> None:
    """Point closed output streams to /dev/null, because Python reports an error if the flush at exit fails."""
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
        return SUCCESS
    if name in ("help", "-h", "--help"):
        if len(arguments) > 1 and arguments[1] in COMMANDS:
            return _run(arguments[1], ["--help"])
        print(_overview())
        return SUCCESS
    if name not in COMMANDS:
        return _report_unknown(name)
    return _run(name, arguments[1:])


def _overview() -> str:
    from farsteer import __version__

    commands = "\n".join(f"  {name:<10}{summary}" for name, summary in COMMANDS.items())
    return OVERVIEW.format(version=__version__, commands=commands)


def _run(name: str, arguments: list[str]) -> int:
    from farsteer.cli.errors import report_error

    try:
        return run_command(name, arguments)
    except (KeyboardInterrupt, BrokenPipeError):
        raise
    except Exception as error:  # noqa: BLE001
        # A person sees one line, whatever the error is. FARSTEER_DEBUG=1 prints the traceback.
        return report_error(error)


def run_command(name: str, arguments: Sequence[str]) -> int:
    """Import the module of a command and call its `NAME_command` function.

    Returns:
        The exit code.

    Raises:
        FarsteerError: What the command failed with.
        SystemExit: From argparse, for `--help` and wrong arguments.
    """
    from importlib import import_module

    module = import_module(f"farsteer.cli.commands.{_MODULES.get(name, name)}")
    return getattr(module, f"{name}_command")(arguments)


def _report_unknown(name: str) -> int:
    from difflib import get_close_matches

    similar = get_close_matches(name, COMMANDS, n=1)
    hint = f"did you mean `farsteer {similar[0]}`?" if similar else "`farsteer` lists the commands"
    kind = "option" if name.startswith("-") else "command"
    print(f"farsteer: unknown {kind} {name!r}; {hint}", file=sys.stderr)
    return USAGE_ERROR


if __name__ == "__main__":
    sys.exit(main())
