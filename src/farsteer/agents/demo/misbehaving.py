"""What goes wrong on request. Each of these is something that a real agent has done to somebody."""

from __future__ import annotations

import os
import signal
import sys
import time

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


@misbehaving("exit <code>", "ends with that exit code")
def _exit(turn: Turn, argument: str) -> None:
    code = int(number(argument, 1, 0, 255))
    _note(f"the demo agent exits with {code}, as you asked")
    os._exit(code)


@misbehaving("hang", "says nothing more until it is interrupted")
def _hang(turn: Turn, argument: str) -> None:
    while True:
        turn.pause(3600)


@misbehaving("ignore interrupt", "works for a minute, whatever you do")
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


def at_start(how: str) -> None:
    """What `options={"demo": how}` makes it do before it says hello."""
    match how:
        case "die-at-start":
            _note("the demo agent dies at its start, as you asked")
            os._exit(3)
        case "slow-start":
            time.sleep(0.5)
        case "hang-at-start":
            time.sleep(_STUBBORN_SECONDS)
        case "garbage-at-start":
            os.write(1, b"Welcome to the demo agent!\n")
        case _:
            _note(f"unknown option demo={how}")


def _die(why: str) -> None:
    _note(why)
    os.kill(os.getpid(), signal.SIGKILL)


def _note(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
