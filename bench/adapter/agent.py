"""The demo agent with commands for benchmarks, which put the current time into messages.

They are not commands of the demo agent itself, because its output must not depend on the time.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from bench import wire
from farsteer.agents.demo import agent
from farsteer.agents.demo.commands import COMMANDS
from farsteer.agents.demo.turn import DemoTurn

BENCHMARKS = COMMANDS.add_group("Benchmarks")


@BENCHMARKS.command("emit <count> <per second>", "sends that many messages; at the rate 0, as fast as it can")
def emit(turn: DemoTurn, argument: str) -> None:
    messages, rate = argument.split()
    pace = wire.Pace(float(rate)) if float(rate) else None
    writer = turn.session.writer
    for number in range(int(messages)):
        text = wire.text(number, pace and pace.born(number))
        line = writer.encode("message", message=f"b.{number}", text=text)
        if pace is not None:
            time.sleep(pace.wait(number))
        writer.write(line)


@BENCHMARKS.command("chunks <count> <per second>", "streams a message of that many timestamps")
def chunks(turn: DemoTurn, argument: str) -> None:
    count, rate = argument.split()
    message, text = turn.session.new_id("b"), ""
    for _ in range(int(count)):
        turn.pause(1 / float(rate))
        timestamp = f"{time.monotonic_ns()} "
        turn.session.writer.send("delta", kind="message", message=message, text=timestamp)
        text += timestamp
    turn.session.writer.send("message", message=message, text=text)


@BENCHMARKS.command("arrived", "sends the time at which it read this message")
def arrived(turn: DemoTurn, argument: str) -> None:
    turn.session.writer.send("message", message="b.arrived", text=str(time.monotonic_ns()))


if __name__ == "__main__":
    agent.main()
