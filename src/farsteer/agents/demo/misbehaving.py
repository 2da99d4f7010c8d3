"""What goes wrong on request. Each of these is something that a real agent has done to somebody."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable

from farsteer.agents.demo.commands import misbehaving, number
from farsteer.agents.demo.turn import Turn

_FLOOD_BATCH = 500
_FLOOD_TEXT = b"flood %d " + b"The quick brown fox jumps over the lazy dog. " * 5
_STUBBORN_SECONDS = 60
"""Even the worst of them ends by itself, so that a broken test leaves nothing behind for long."""


@misbehaving("flood <count>", "says that many messages of about 300 bytes, as fast as it can")
def _flood(turn: Turn, argument: str) -> None:
    left = int(number(argument, 1000, 1, 10_000_000))
    prefix = turn.session.new_id("f").encode()
    line = b'{"type":"message","n":%d,"message":"' + prefix + b'-%d","text":"' + _FLOOD_TEXT + b'"}\n'
    while left:
        turn.check()
        batch = min(left, _FLOOD_BATCH)
        turn.session.out.flood(line, batch)
        left -= batch


@misbehaving("crash", "dies at once")
def _crash(turn: Turn, argument: str) -> None:
    _die("the demo agent crashes, as you asked")


@misbehaving("crash mid", "dies in the middle of a message")
def _crash_mid(turn: Turn, argument: str) -> None:
    message = turn.session.new_id("m")
    turn.session.out.send("delta", kind="message", message=message, text="This message will never be ")
    _die("the demo agent crashes in mid-message, as you asked")


@misbehaving("crash later", "ends its turn and dies a moment after it")
def _crash_later(turn: Turn, argument: str) -> None:
    turn.say("I will not be here for long.")
    _in_a_moment(lambda: _die("the demo agent crashes after its turn, as you asked"))


@misbehaving("fail [text]", "ends its turn with that error")
def _fail(turn: Turn, argument: str) -> None:
    raise RuntimeError(argument or "it failed, as you asked")


@misbehaving("exit <code>", "ends with that exit code")
def _exit(turn: Turn, argument: str) -> None:
    code = int(number(argument, 1, 0, 255))
    _note(f"the demo agent exits with {code}, as you asked")
    os._exit(code)


@misbehaving("hang", "says nothing more until it is interrupted")
def _hang(turn: Turn, argument: str) -> None:
    while True:
        turn.pause(3600)


@misbehaving("hang deaf", "hangs and does not even acknowledge an interrupt, for a minute")
def _hang_deaf(turn: Turn, argument: str) -> None:
    turn.session.acknowledges = False
    turn.deaf_to_interrupt = True
    turn.say("I take no interrupt.")
    turn.pause(_STUBBORN_SECONDS)


@misbehaving("quiet [seconds]", "says nothing for that long (1) and then goes on")
def _quiet(turn: Turn, argument: str) -> None:
    turn.pause(number(argument, 1, 0, 3600))
    turn.say("I was quiet.")


@misbehaving("ignore interrupt", "acknowledges an interrupt and works on, for a minute")
def _ignore_interrupt(turn: Turn, argument: str) -> None:
    turn.deaf_to_interrupt = True
    turn.say("Nothing will interrupt me.")
    turn.pause(_STUBBORN_SECONDS)


@misbehaving("stubborn", "ignores interrupts, the end of its input and SIGTERM for a minute")
def _stubborn(turn: Turn, argument: str) -> None:
    turn.deaf_to_interrupt = True
    turn.session.leaves_at_end = False
    signal.alarm(_STUBBORN_SECONDS)
    turn.session.in_reader(lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN))
    turn.say("Only SIGKILL ends me.")
    turn.pause(_STUBBORN_SECONDS)


@misbehaving("deaf", "stops reading its input for a minute")
def _deaf(turn: Turn, argument: str) -> None:
    turn.session.in_reader(lambda: signal.signal(signal.SIGUSR1, lambda *_: time.sleep(_STUBBORN_SECONDS)))
    os.kill(os.getpid(), signal.SIGUSR1)
    turn.say("I hear nothing any more.")


@misbehaving("bigline [megabytes]", "says one message of that size (20) on one line")
def _bigline(turn: Turn, argument: str) -> None:
    size = int(number(argument, 20, 0, 100) * 1_000_000)
    turn.session.out.send("message", message=turn.session.new_id("m"), text="x" * size)


@misbehaving("end early", "says that the turn is over, and then says more")
def _end_early(turn: Turn, argument: str) -> None:
    out = turn.session.out
    turn.say("This belongs to the turn.")
    turn.ends = False
    out.send("end", turn=turn.id, reason="end_turn")
    turn.say("This comes after its end.")
    out.send("end", turn=turn.id, reason="end_turn")


@misbehaving("late usage", "counts its tokens when the turn is over")
def _late_usage(turn: Turn, argument: str) -> None:
    turn.say("I will count later.")
    turn.ends = False
    turn.session.out.send("end", turn=turn.id, reason="end_turn")
    turn.usage()


@misbehaving("background [count]", "has a helper that ends before it does, and then chatters that often (3)")
def _background(turn: Turn, argument: str) -> None:
    count, out = int(number(argument, 3, 0, 10_000)), turn.session.out
    helper = turn.session.new_id("h")

    def chatter(text: str) -> None:
        out.send("message", message=turn.session.new_id("m"), text=text, helper=helper)

    def later() -> None:
        for left in range(count, 0, -1):
            time.sleep(0.02)
            chatter(f"{left} more from your helper.")

    chatter("Your helper has begun.")
    out.send("end", turn=helper, reason="end_turn")
    turn.say("I am not done when my helper is.")
    threading.Thread(target=later, daemon=True).start()


@misbehaving("repeat", "says everything twice")
def _repeat(turn: Turn, argument: str) -> None:
    out, message = turn.session.out, turn.session.new_id("m")
    out.repeat("delta", 2, kind="message", message=message, text="Said once, ")
    out.repeat("delta", 3, kind="message", message=message, text="heard once.")
    out.repeat("message", 2, message=message, text="Said once, heard once.")
    out.send("message", message=message, text="Said once, heard once.")
    turn.ends = False
    out.repeat("end", 2, turn=turn.id, reason="end_turn")


@misbehaving("garbage", "writes lines that are no JSON, or not ours")
def _garbage(turn: Turn, argument: str) -> None:
    turn.session.out.raw(b'Warning: something that is no JSON\n\xff\xfe\x00\n[1,2,3]\n{"type":\n\n')
    turn.session.out.raw(b'{"type":"message","n":"many"}\n' + b"z" * 100_000 + b"\n")
    turn.say("That was garbage.")


@misbehaving("noise", "sends events and fields nobody has heard of")
def _noise(turn: Turn, argument: str) -> None:
    turn.session.out.send("telepathy", strength=3, thought={"of": "you"})
    message = turn.session.new_id("m")
    turn.session.out.send("message", message=message, text="With a strange field.", mood="cheerful")


@misbehaving("orphan", "leaves a process behind that holds its pipes open")
def _orphan(turn: Turn, argument: str) -> None:
    import subprocess

    child = subprocess.Popen(["sleep", "300"], stdin=subprocess.DEVNULL)
    turn.say(f"Process {child.pid} holds my pipes.")


@misbehaving("escape", "leaves a process behind in a session of its own, for a minute")
def _escape(turn: Turn, argument: str) -> None:
    turn.say(f"Process {_start_apart('sleep', str(_STUBBORN_SECONDS))} is out of my hands.")


@misbehaving("escape twice", "the same, and it is not the child of the agent any more")
def _escape_twice(turn: Turn, argument: str) -> None:
    import subprocess

    code = f"sleep {_STUBBORN_SECONDS} >/dev/null 2>&1 & echo $!"
    told = subprocess.run(
        ["/bin/sh", "-c", code], stdin=subprocess.DEVNULL, capture_output=True, start_new_session=True, check=True
    )  # fmt: skip
    turn.say(f"Process {int(told.stdout)} is out of my hands.")


@misbehaving("lose copies", "loses its copies of files, so that none can be restored")
def _lose_copies(turn: Turn, argument: str) -> None:
    turn.session.copies.lose()
    turn.say("The copies are gone.")


def _start_apart(*argv: str) -> int:
    import subprocess

    devnull = subprocess.DEVNULL
    child = subprocess.Popen(argv, stdin=devnull, stdout=devnull, stderr=devnull, start_new_session=True)
    return child.pid


def _in_a_moment(act: Callable[[], object]) -> None:
    def later() -> None:
        time.sleep(0.2)
        act()

    threading.Thread(target=later, daemon=True).start()


def _die(why: str) -> None:
    _note(why)
    os.kill(os.getpid(), signal.SIGKILL)


def _note(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
