"""Faults on request, in a turn or at the start. Each of them has been seen in a real agent."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from farsteer.agents.demo.command_table import CommandGroup, UsageError, parse_number
from farsteer.agents.demo.session import DemoSession, LineWriter
from farsteer.agents.demo.turn import DemoTurn
from farsteer.core.modes import PermissionMode

_FLOOD_BATCH = 500
_FLOOD_TEXT = b"flood %d " + b"The quick brown fox jumps over the lazy dog. " * 5
_FAULT_SECONDS = 60
"""Every fault ends by itself after this time, so that a failed test leaves no process behind for long."""
_MOMENT = 0.2

FAULTS = CommandGroup("Let it misbehave")


@FAULTS.command("flood <count>", "sends that many messages of about 300 bytes, as fast as it can")
def _flood(turn: DemoTurn, argument: str) -> None:
    left = int(parse_number(argument, 1000, 1, 10_000_000))
    prefix = turn.session.new_id("f").encode()
    line = b'{"type":"message","n":%d,"message":"' + prefix + b'-%d","text":"' + _FLOOD_TEXT + b'"}\n'
    while left:
        turn.check_interrupt()
        batch = min(left, _FLOOD_BATCH)
        turn.session.writer.send_many(line, batch)
        left -= batch


@FAULTS.command("crash", "dies at once")
def _crash(turn: DemoTurn, argument: str) -> None:
    _die("the demo agent crashes, as you asked")


@FAULTS.command("crash mid", "dies in the middle of a message")
def _crash_mid(turn: DemoTurn, argument: str) -> None:
    message = turn.session.new_id("m")
    turn.session.writer.send("delta", kind="message", message=message, text="This message will never be ")
    _die("the demo agent crashes in mid-message, as you asked")


@FAULTS.command("crash later", "ends its turn and dies a moment later")
def _crash_later(turn: DemoTurn, argument: str) -> None:
    turn.send_message("I will crash in a moment.")
    _run_later(lambda: _die("the demo agent crashes after its turn, as you asked"))


@FAULTS.command("fail [text]", "ends its turn with that error")
def _fail(turn: DemoTurn, argument: str) -> None:
    raise RuntimeError(argument or "it failed, as you asked")


@FAULTS.command("exit <code>", "ends its process with that exit code")
def _exit(turn: DemoTurn, argument: str) -> None:
    code = int(parse_number(argument, 1, 0, 255))
    _log(f"the demo agent exits with {code}, as you asked")
    os._exit(code)


@FAULTS.command("hang", "sends nothing more until it is interrupted")
def _hang(turn: DemoTurn, argument: str) -> None:
    while True:
        turn.pause(3600)


@FAULTS.command("hang deaf", "hangs and does not acknowledge an interrupt, for a minute")
def _hang_deaf(turn: DemoTurn, argument: str) -> None:
    turn.session.acknowledges_interrupt = False
    turn.ignores_interrupt = True
    turn.send_message("I take no interrupt.")
    turn.pause(_FAULT_SECONDS)


@FAULTS.command("quiet [seconds]", "sends nothing for that long (1) and then goes on")
def _quiet(turn: DemoTurn, argument: str) -> None:
    turn.pause(parse_number(argument, 1, 0, 3600))
    turn.send_message("I was quiet.")


@FAULTS.command("ignore interrupt", "acknowledges an interrupt and goes on, for a minute")
def _ignore_interrupt(turn: DemoTurn, argument: str) -> None:
    turn.ignores_interrupt = True
    turn.send_message("Nothing will interrupt me.")
    turn.pause(_FAULT_SECONDS)


@FAULTS.command("stubborn", "ignores interrupts, the end of its input and SIGTERM for a minute")
def _stubborn(turn: DemoTurn, argument: str) -> None:
    turn.ignores_interrupt = True
    turn.session.exits_at_eof = False
    signal.alarm(_FAULT_SECONDS)
    turn.session.run_in_main_thread(lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN))
    turn.send_message("Only SIGKILL ends me.")
    turn.pause(_FAULT_SECONDS)


@FAULTS.command("deaf", "stops reading its input for a minute")
def _deaf(turn: DemoTurn, argument: str) -> None:
    turn.session.run_in_main_thread(
        lambda: signal.signal(signal.SIGUSR1, lambda *_: time.sleep(_FAULT_SECONDS))
    )
    os.kill(os.getpid(), signal.SIGUSR1)
    turn.send_message("I no longer read my input.")


@FAULTS.command("never confirm", "takes further messages and does not confirm them")
def _never_confirm(turn: DemoTurn, argument: str) -> None:
    turn.session.confirms_messages = False
    turn.send_message("I no longer confirm what I take.")


@FAULTS.command("bigline [megabytes]", "sends one message of that size (20) on one line")
def _bigline(turn: DemoTurn, argument: str) -> None:
    size = int(parse_number(argument, 20, 0, 100) * 1_000_000)
    turn.session.writer.send("message", message=turn.session.new_id("m"), text="x" * size)


@FAULTS.command("loosen [mode]", "changes its permission mode (yolo) without having been asked")
def _loosen(turn: DemoTurn, argument: str) -> None:
    try:
        mode = PermissionMode(argument or PermissionMode.YOLO)
    except ValueError:
        raise UsageError(f"{argument!r} is not a permission mode") from None
    turn.session.switch_mode(mode)
    turn.send_message(f"I am in mode {turn.session.mode.value} now.")


@FAULTS.command("loosen always", "changes its permission mode to yolo and does so again when it is put back")
def _loosen_always(turn: DemoTurn, argument: str) -> None:
    turn.session.insists_on_mode = True
    turn.session.switch_mode(PermissionMode.YOLO)
    turn.pause(_FAULT_SECONDS)


@FAULTS.command("end early", "reports the end of the turn and then sends more")
def _end_early(turn: DemoTurn, argument: str) -> None:
    writer = turn.session.writer
    turn.send_message("This belongs to the turn.")
    turn.reports_end = False
    writer.send("end", turn=turn.id, reason="end_turn")
    turn.send_message("This comes after its end.")
    writer.send("end", turn=turn.id, reason="end_turn")


@FAULTS.command("late usage", "reports its tokens after the end of the turn")
def _late_usage(turn: DemoTurn, argument: str) -> None:
    turn.send_message("I will count later.")
    turn.reports_end = False
    turn.session.writer.send("end", turn=turn.id, reason="end_turn")
    turn.send_usage()


@FAULTS.command(
    "background [count]", "has a helper that reports its end first and then sends that many messages (3)"
)
def _background(turn: DemoTurn, argument: str) -> None:
    count, writer = int(parse_number(argument, 3, 0, 10_000)), turn.session.writer
    helper = turn.session.new_id("h")

    def send(text: str) -> None:
        writer.send("message", message=turn.session.new_id("m"), text=text, helper=helper)

    def send_later() -> None:
        for left in range(count, 0, -1):
            time.sleep(0.02)
            send(f"{left} more from your helper.")

    send("Your helper has begun.")
    writer.send("end", turn=helper, reason="end_turn")
    turn.send_message("I am not done when my helper is.")
    threading.Thread(target=send_later, daemon=True).start()


@FAULTS.command("repeat", "sends every line twice or more often")
def _repeat(turn: DemoTurn, argument: str) -> None:
    writer, message = turn.session.writer, turn.session.new_id("m")
    writer.send_repeatedly("delta", 2, kind="message", message=message, text="Said once, ")
    writer.send_repeatedly("delta", 3, kind="message", message=message, text="heard once.")
    writer.send_repeatedly("message", 2, message=message, text="Said once, heard once.")
    writer.send("message", message=message, text="Said once, heard once.")
    turn.reports_end = False
    writer.send_repeatedly("end", 2, turn=turn.id, reason="end_turn")


@FAULTS.command("garbage", "writes lines that are not JSON or not part of its protocol")
def _garbage(turn: DemoTurn, argument: str) -> None:
    turn.session.writer.write(b'Warning: something that is no JSON\n\xff\xfe\x00\n[1,2,3]\n{"type":\n\n')
    turn.session.writer.write(b'{"type":"message","n":"many"}\n' + b"z" * 100_000 + b"\n")
    turn.send_message("That was garbage.")


@FAULTS.command("noise", "sends events and fields of unknown kinds")
def _noise(turn: DemoTurn, argument: str) -> None:
    turn.session.writer.send("telepathy", strength=3, thought={"of": "you"})
    message = turn.session.new_id("m")
    turn.session.writer.send("message", message=message, text="With a strange field.", mood="cheerful")


@FAULTS.command("orphan", "leaves a process behind that holds its pipes open")
def _orphan(turn: DemoTurn, argument: str) -> None:
    import subprocess

    child = subprocess.Popen(["sleep", "300"], stdin=subprocess.DEVNULL)
    turn.send_message(f"Process {child.pid} holds my pipes.")


@FAULTS.command("escape", "leaves a process behind in its own session, for a minute")
def _escape(turn: DemoTurn, argument: str) -> None:
    import subprocess

    devnull = subprocess.DEVNULL
    child = subprocess.Popen(
        ["sleep", str(_FAULT_SECONDS)], stdin=devnull, stdout=devnull, stderr=devnull, start_new_session=True
    )
    turn.send_message(f"Process {child.pid} has left my session.")


@FAULTS.command("escape twice", "the same, but the process is no longer a child of the agent")
def _escape_twice(turn: DemoTurn, argument: str) -> None:
    import subprocess

    script = f"sleep {_FAULT_SECONDS} >/dev/null 2>&1 & echo $!"
    done = subprocess.run(
        ["/bin/sh", "-c", script], stdin=subprocess.DEVNULL, capture_output=True, start_new_session=True, check=True
    )  # fmt: skip
    turn.send_message(f"Process {int(done.stdout)} has left my session.")


@FAULTS.command("lose copies", "deletes its copies of files, so that none can be restored")
def _lose_copies(turn: DemoTurn, argument: str) -> None:
    turn.session.copies.delete_all()
    turn.send_message("The copies are gone.")


def _run_later(call: Callable[[], object]) -> None:
    def run() -> None:
        time.sleep(_MOMENT)
        call()

    threading.Thread(target=run, daemon=True).start()


def _die(reason: str) -> None:
    _log(reason)
    os.kill(os.getpid(), signal.SIGKILL)


def _log(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


# Faults at the start

BeforeOpen = Callable[[LineWriter, dict[str, Any]], object]
"""Takes the writer and the `open` request, which it may change."""
AfterHello = Callable[[DemoSession], object]


def _do_nothing(*_: object) -> None:
    pass


class StartFault:
    """A fault before the conversation is opened, or after the agent has sent `hello`."""

    def __init__(
        self, summary: str, *, before: BeforeOpen = _do_nothing, after: AfterHello = _do_nothing
    ) -> None:
        self.summary = summary
        self.before = before
        self.after = after


def find_start_fault(request: dict[str, Any]) -> StartFault:
    """Return the fault that the `open` request asks for with `behave`.

    Several names, separated by commas, are for the first launch, the second and so on. The last one is for all that
    follow.
    """
    names = str(request.get("behave") or "fine").split(",")
    generation = int(request.get("generation", 1))
    name = names[min(generation, len(names)) - 1].strip()
    if name not in START_FAULTS:
        _log(f"unknown option demo={name}")
    return START_FAULTS.get(name, START_FAULTS["fine"])


def _die_at_start(writer: LineWriter, request: dict[str, Any]) -> None:
    _log("the demo agent dies at its start, as you asked")
    os._exit(3)


def _talk_at_start(writer: LineWriter, request: dict[str, Any]) -> None:
    end = time.monotonic() + _FAULT_SECONDS
    while time.monotonic() < end:
        writer.send("rate_limit", message="please wait")
        time.sleep(0.05)


def _refuse(reason: str, message: str) -> BeforeOpen:
    def before(writer: LineWriter, request: dict[str, Any]) -> None:
        writer.send("failed", reason=reason, message=message)
        sys.exit(1)

    return before


def _die_when_ready(session: DemoSession) -> None:
    _run_later(lambda: os.kill(os.getpid(), signal.SIGKILL))


def _report_another_id(writer: LineWriter, request: dict[str, Any]) -> None:
    request["alias"] = _new_uuid()


def _choose_own_id(writer: LineWriter, request: dict[str, Any]) -> None:
    if request["start"] == "create":
        request["session"], request["own"] = _new_uuid(), True


def _ignore_sigterm(session: DemoSession) -> None:
    session.exits_at_eof = False
    signal.alarm(_FAULT_SECONDS)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _new_uuid() -> str:
    import uuid

    return str(uuid.uuid4())


START_FAULTS = {
    "fine": StartFault("starts without a fault"),
    "slow-start": StartFault("is ready after half a second", before=lambda *_: time.sleep(0.5)),
    "die-at-start": StartFault("dies before it is ready", before=_die_at_start),
    "die-when-ready": StartFault("is ready and dies a moment later", after=_die_when_ready),
    "hang-at-start": StartFault("sends nothing and is never ready", before=lambda *_: time.sleep(_FAULT_SECONDS)),
    "talk-at-start": StartFault("sends events again and again and is never ready", before=_talk_at_start),
    "garbage-at-start": StartFault(
        "writes a line of plain text first", before=lambda *_: os.write(1, b"Welcome to the demo agent!\n")
    ),
    "in-use": StartFault(
        "reports that the conversation is in use", before=_refuse("already_in_use", "already in use, as you asked")
    ),
    "missing": StartFault(
        "reports that the conversation does not exist", before=_refuse("not_found", "gone, as you asked")
    ),
    "anchor-unknown": StartFault(
        "reports that it cannot cut there", before=_refuse("unknown_anchor", "no such place, as you asked")
    ),
    "another-id": StartFault("opens another conversation than it was asked to", before=_report_another_id),
    "own-id": StartFault("chooses the id of a new conversation itself", before=_choose_own_id),
    "ignore-sigterm": StartFault("ignores the end of its input and SIGTERM for a minute", after=_ignore_sigterm),
}  # fmt: skip
