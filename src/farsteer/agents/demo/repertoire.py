"""Everything the demo agent can do: importing this fills the table."""

from farsteer.agents.demo import asking, misbehaving, starting, talking, working
from farsteer.agents.demo.commands import COMMANDS

__all__ = ["COMMANDS", "asking", "misbehaving", "starting", "talking", "working"]
