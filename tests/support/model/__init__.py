"""A scripted model server. It does what the message says, so real agents run offline. See docs/testing-agents.md."""

from tests.support.model.log import Log, Seen
from tests.support.model.model import SIDE
from tests.support.model.server import ScriptedModel

__all__ = ["SIDE", "Log", "ScriptedModel", "Seen"]
