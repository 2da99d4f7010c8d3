"""The demo agent with one more command: `emit <count> <per second>` says marked messages, at once or paced.

It is apart from the demo agent because that one always does the same, and a time of birth never is the same.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from bench import wire
from farsteer.agents.demo import agent
from farsteer.agents.demo.commands import misbehaving
from farsteer.agents.demo.turn import Turn


@misbehaving("emit <count> <per second>", "says that many messages, for a benchmark")
def emit(turn: Turn, argument: str) -> None:
    messages, rate = argument.split()
    pace = wire.Pace(float(rate)) if float(rate) else None
    out = turn.session.out
    for number in range(int(messages)):
        text = wire.text(number, pace and pace.born(number))
        line = out.line("message", message=f"b.{number}", text=text)
        if pace is not None:
            time.sleep(pace.wait(number))
        out.raw(line)


@misbehaving("chunks <count> <per second>", "streams a message of moments, for a benchmark")
def chunks(turn: Turn, argument: str) -> None:
    count, rate = argument.split()
    message, text = turn.session.new_id("b"), ""
    for _ in range(int(count)):
        turn.pause(1 / float(rate))
        moment = f"{time.monotonic_ns()} "
        turn.session.out.send("delta", kind="message", message=message, text=moment)
        text += moment
    turn.session.out.send("message", message=message, text=text)


@misbehaving("arrived", "says when it read this, for a benchmark")
def arrived(turn: Turn, argument: str) -> None:
    turn.session.out.send("message", message="b.arrived", text=str(time.monotonic_ns()))


if __name__ == "__main__":
    agent.main()
