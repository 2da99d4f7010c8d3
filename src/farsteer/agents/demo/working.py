"""What it does: commands, files, lists of things to do, long work."""

from __future__ import annotations

from collections.abc import Callable

from farsteer.agents.demo import files
from farsteer.agents.demo.commands import Misuse, number, working
from farsteer.agents.demo.tools import Tool, ToolFailed, use
from farsteer.agents.demo.turn import Turn
from farsteer.core.modes import ToolKind

_KEPT = 64 * 1024
"""Of a command's output in its result; all of it is streamed."""
_STEPS = ("Look around", "Make the change", "Check that it works")


@working("run <command>", "runs a shell command in the session's directory")
def _run(turn: Turn, argument: str) -> None:
    if not argument:
        raise Misuse("`run` needs a command, for example `run ls`")
    tool = Tool("run", ToolKind.EXECUTE, f"Run {argument}", _shell(argument), arguments={"command": argument})
    turn.say("The command has run." if use(turn, tool) else "The command did not come to a good end.")


def _shell(command: str) -> Callable[[Turn, str], str]:
    def act(turn: Turn, call: str) -> str:
        shell, kept = turn.session.shell, ""
        for text in shell.run(command):
            turn.session.out.send("tool_output", call=call, text=text)
            kept = (kept + text)[-_KEPT:]
        code = shell.result()
        turn.check()
        if code:
            raise ToolFailed(f"{kept}\nexit code {code}".strip())
        return kept

    return act


@working("read <path>", "shows a file")
def _read(turn: Turn, argument: str) -> None:
    use(turn, files.read(turn, _path(argument, "read")))
    turn.say(f"That is {argument}.")


@working("write <path> <text>", "writes a file")
def _write(turn: Turn, argument: str) -> None:
    path, _, text = argument.partition(" ")
    _report(turn, use(turn, files.write(turn, _path(path, "write"), text + "\n")), path)


@working("edit <path> <old> -> <new>", "replaces text in a file")
def _edit(turn: Turn, argument: str) -> None:
    path, _, change = argument.partition(" ")
    old, arrow, new = change.partition(" -> ")
    if not arrow:
        raise Misuse("`edit` needs a path, the old text, ` -> ` and the new text")
    _report(turn, use(turn, files.edit(turn, _path(path, "edit"), old, new)), path)


@working("delete <path>", "deletes a file")
def _delete(turn: Turn, argument: str) -> None:
    _report(turn, use(turn, files.delete(turn, _path(argument, "delete"))), argument)


@working("several [count]", "writes that many files (2), asking for all of them at once")
def _several(turn: Turn, argument: str) -> None:
    count = int(number(argument, 2, 1, 50))
    names = [f"several-{n}.txt" for n in range(1, count + 1)]
    done = use(turn, *(files.write(turn, name, f"{name}\n") for name in names))
    turn.say(f"{done} of {count} files are written.")


@working("todo", "makes a list and works through it")
def _todo(turn: Turn, argument: str) -> None:
    work_through(turn)
    turn.say("Everything on the list is done.")


@working("work [steps] [seconds]", "a long turn: that many steps (10), each that long (0.1)")
def _work(turn: Turn, argument: str) -> None:
    steps, _, seconds = argument.partition(" ")
    count, length = int(number(steps, 10, 1, 100_000)), number(seconds, 0.1, 0, 3600)
    for step in range(1, count + 1):
        turn.pause(length)
        turn.say(f"Step {step} of {count} is done.")
        turn.heed()


def work_through(turn: Turn) -> None:
    for current in range(len(_STEPS) + 1):
        turn.session.out.send("plan", entries=[_entry(n, current) for n in range(len(_STEPS))])
        turn.pause(0.02)


def _entry(index: int, current: int) -> dict[str, str]:
    status = "completed" if index < current else "in_progress" if index == current else "pending"
    return {"content": _STEPS[index], "status": status}


def _path(text: str, command: str) -> str:
    if not text:
        raise Misuse(f"`{command}` needs a path")
    return text


def _report(turn: Turn, done: int, path: str) -> None:
    turn.say(f"{path} is done." if done else f"{path} is as it was.")
