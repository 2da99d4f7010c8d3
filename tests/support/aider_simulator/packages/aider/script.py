"""What the simulated model does, by the first words of the last message. Any other text is repeated."""

import os
import signal
import time
from types import SimpleNamespace

COMMANDS = {}
_SECONDS = 60


def command(name):
    def register(function):
        COMMANDS[name] = function
        return function

    return register


def play(coder, messages):
    """Yield the chunks of the answer to the last message."""
    text = messages[-1]["content"]
    for name in sorted(COMMANDS, key=len, reverse=True):
        if text == name or text.startswith(f"{name} "):
            yield from COMMANDS[name](coder, messages, text.removeprefix(name).strip())
            return
    yield from say(f"echo: {text}")


def say(text):
    for word in text.splitlines(keepends=True):
        yield _chunk(content=word)


def _chunk(content=None, reasoning_content=None):
    delta = SimpleNamespace(content=content, reasoning_content=reasoning_content)
    return SimpleNamespace(choices=[SimpleNamespace(delta=delta)])


@command("think")
def _think(coder, messages, argument):
    yield _chunk(reasoning_content=argument or "hm")
    yield from say("I see.")


@command("work")
def _work(coder, messages, argument):
    for number in range(1200):
        yield _chunk(content=f"word{number} ")
        time.sleep(0.05)


@command("recall")
def _recall(coder, messages, argument):
    yield from say("\n".join(one["content"] for one in messages[:-1] if one["role"] == "user") or "nothing")


@command("transcript")
def _transcript(coder, messages, argument):
    yield from say("\n".join(one["content"] for one in messages[:-1]) or "nothing")


@command("settings")
def _settings(coder, messages, argument):
    yield from say(f"{coder.edit_format} {coder.main_model.name} {coder.main_model.effort}")


@command("files")
def _files(coder, messages, argument):
    names = sorted(map(os.path.basename, coder.abs_fnames | coder.abs_read_only_fnames))
    yield from say(" ".join(names) or "none")


@command("write")
def _write(coder, messages, argument):
    """The name of the file, and what is added to it."""
    name, _, text = argument.partition(" ")
    coder.edits = [(name, "", f"{text}\n")]
    yield from say("I write.")


@command("replace")
def _replace(coder, messages, argument):
    """The name of the file, the old word and the new one."""
    coder.edits = [tuple(argument.split())]
    yield from say("I replace.")


@command("run")
def _run(coder, messages, argument):
    coder.shell_commands = [argument]
    yield from say("I run.")


@command("refuse")
def _refuse(coder, messages, argument):
    yield from say("so far")
    raise PermissionError(argument)


@command("defect")
def _defect(coder, messages, argument):
    raise LookupError("a defect of aider")
    yield


@command("exhaust")
def _exhaust(coder, messages, argument):
    coder.show_exhausted_error()
    yield from say("")


# -- faults, of which some go around the worker to its output


@command("crash")
def _crash(coder, messages, argument):
    yield from ()
    os.kill(os.getpid(), signal.SIGKILL)


@command("crash mid")
def _crash_mid(coder, messages, argument):
    yield from say("This message will never be ")
    os.kill(os.getpid(), signal.SIGKILL)


@command("stubborn")
def _stubborn(coder, messages, argument):
    """Ignores interrupts, the end of its input and SIGTERM for a minute."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    signal.alarm(_SECONDS)
    os._exit = lambda code: time.sleep(_SECONDS)
    yield from say("Only SIGKILL ends me.")
    time.sleep(_SECONDS)


@command("end early")
def _end_early(coder, messages, argument):
    worker = coder.io.worker
    worker.wire.send("end", anchor=worker.anchor, reason="end_turn")
    yield from say("This comes after the end.")


@command("repeat")
def _repeat(coder, messages, argument):
    worker = coder.io.worker
    for _ in range(3):
        worker.wire.send("message", message="m-again", text="Said once.", anchor=worker.anchor)
    yield from say("And more.")


@command("unknown")
def _unknown(coder, messages, argument):
    coder.io.worker.wire.send("new_thing", thing={"a": 1})
    yield from say("Done.")


@command("garbage")
def _garbage(coder, messages, argument):
    for line in (
        b"Traceback\n",
        b"{\n",
        b"[]\n",
        b"null\n",
        b"\xff\xfe\n",
        b'{"type": "message"}\n',
        b'{"type": 5}\n',
    ):
        coder.io.worker.wire.write(line)
    coder.io.worker.wire.send("reply", id=99)
    yield from say("Sorry.")
