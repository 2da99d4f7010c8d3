"""From what a person typed to what the agent does."""

from __future__ import annotations

from farsteer.agents.demo.commands import COMMANDS, Misuse
from farsteer.agents.demo.talking import acknowledge, answer
from farsteer.agents.demo.tools import ToolFailed
from farsteer.agents.demo.turn import Turn

__all__ = ["acknowledge", "perform"]


def perform(turn: Turn, text: str) -> None:
    """Do each command of the message in turn, or answer it."""
    script = COMMANDS.parse(text)
    if not script:
        answer(turn, text)
    for command, argument in script:
        turn.check()
        try:
            command.perform(turn, argument)
        except (Misuse, ToolFailed) as error:
            turn.say(f"I could not do that: {error}.")
