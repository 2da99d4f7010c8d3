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
    "sessions": "list, show, stop, rewind, fork, export, merge and delete sessions",
    "new": "create a session, with or without a first prompt, and print its id",
    "send": "send a message to a session, and wait for the answer if you like",
    "logs": "print the log of a session, and go on as things happen",
    "approvals": "list what agents wait for: permissions, plans, questions",
    "approve": "allow what an agent asks for",
    "deny": "refuse what an agent asks for, with a reason",
    "answer": "answer the questions of an agent",
    "watch": "print everything that happens, one line each",
    "run": "run claude or codex in this terminal, and let others take over",
    "attach": "talk with a session in this terminal, answer its approvals",
    "import": "turn conversations that an agent has stored into sessions",
    "usage": "show tokens and cost per day, model, session or turn",
    "agents": "list the agents, what they can do and how to install them",
    "worktrees": "list the git worktrees of sessions, clean up, allow their setup",
    "race": "give one prompt to several agents, compare what they did, merge one",
    "machines": "list the machines of a hub, forget one, let another act as it",
    "doctor": "check this machine and say how to fix what is missing",
    "config": "show every setting, its value and where it comes from",
    "backup": "write the home directory to one file, also while it is in use",
    "restore": "put the content of a backup into the home directory",
    "token": "create, list and revoke access tokens",
    "pair": "show a one-time code and a QR code that let a phone or a browser in",
    "acp": "serve an editor over ACP: Zed, JetBrains, Neovim, Toad",
    "login": "store the address of a hub and an access token for it",
    "logout": "remove what `farsteer login` stored",
    "hub": "start a hub without a runner; `hub compact` gives back space",
    "runner": "connect this machine to a hub",
    "completion": "print a script that completes commands in bash, zsh or fish",
    "help": "explain a topic, or a command; without a name, list the topics",
}

# Modules in farsteer.cli.commands that hold several commands or cannot have the command's name.
_MODULES = {
    "up": "daemons",
    "hub": "daemons",
    "runner": "daemons",
    "new": "conversation",
    "send": "conversation",
    "logs": "conversation",
    "approve": "approvals",
    "deny": "approvals",
    "answer": "approvals",
    "logout": "login",
    "token": "tokens",
    "restore": "backup",
    "import": "imports",
}

OVERVIEW = """\
Farsteer {version}: coding agents on your machines, steered from anywhere.

usage: farsteer [COMMAND] [options]

{commands}

  farsteer                    in a terminal, while a hub runs: choose or begin a
                              session and talk with it
  farsteer COMMAND --help     options of a command, with examples
  farsteer help TOPIC         agents, approvals, editors, tokens, ...
  farsteer --version

first steps:

  farsteer exec "hello"       get a first answer, from the demo agent
  farsteer agents demo        see what the demo agent understands
  farsteer up                 then run `farsteer` in another terminal

Data and the access token are stored in $FARSTEER_HOME (default: ~/.farsteer).
Commands use the hub that `farsteer up` runs there. To use another hub, pass
--hub URL or set $FARSTEER_HUB, after `farsteer login --hub URL` or with its
access token in $CLI_API_TOKEN. The token stored here goes to no other hub.

exit codes: 0 success, 1 failure, 2 wrong usage, 3 no hub or machine reachable,
4 exec denied an approval because nobody could answer it, 130 interrupted.
FARSTEER_DEBUG=1 prints the traceback of an error. `farsteer config` shows all
settings."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command in `argv` (default: `sys.argv`) and return the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        if argv is None and (not arguments or arguments[0] in COMMANDS):
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
    if not arguments and _can_talk():
        return _run("attach", [])
    name = arguments[0] if arguments else "--help"
    if name in ("-V", "--version", "version"):
        from farsteer import __version__

        print(f"farsteer {__version__}")
        return SUCCESS
    if name in ("-h", "--help"):
        print(overview())
        return SUCCESS
    if name not in COMMANDS:
        return _report_unknown(name)
    return _run(name, arguments[1:])


def _can_talk() -> bool:
    """Return whether a person is at a terminal, and a hub is known: then `farsteer` alone begins a conversation."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    from farsteer.client.config import home_dir, running_hub, stored_login

    home = home_dir()
    return bool(os.environ.get("FARSTEER_HUB") or running_hub(home) or stored_login(home))


def overview() -> str:
    """Return what `farsteer --help` prints."""
    from farsteer import __version__

    commands = "\n".join(f"  {name:<9} {summary}" for name, summary in COMMANDS.items())
    return OVERVIEW.format(version=__version__, commands=commands)


def _run(name: str, arguments: list[str]) -> int:
    try:
        return run_command(name, arguments)
    except (KeyboardInterrupt, BrokenPipeError):
        raise
    except Exception as error:  # noqa: BLE001
        from farsteer.cli.errors import report_error

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
