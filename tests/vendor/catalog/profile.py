"""What the scenarios must know about a CLI."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.permission_modes import Scripts
from tests.vendor.pins import Pin

MODEL, OTHER_MODEL = "fake-model", "other-model"
"""The models of a configuration that names its own, as the scripted model is asked for them."""


@dataclass(frozen=True)
class Profile:
    name: str
    """The agent's name in the catalog."""
    pin: Pin
    prepare: Callable[[Path, str], dict[str, str]]
    """Writes the CLI's files into a user's home, for a model at a URL, and returns the variables that it needs."""
    models: tuple[str, str]
    """Two models as the CLI names them. A session begins with the first."""
    seen_models: tuple[str, str] = (MODEL, OTHER_MODEL)
    """The names that the model is asked for."""
    efforts: tuple[str, ...] = ()
    """Reasoning efforts that can be chosen."""
    scripts: Scripts = field(default_factory=lambda: Scripts(command="[[bash:sh -c 'touch {name}']]"))
    """How the model uses tools, also in modes in which the CLI does not offer them."""
    quick_command: str = "[[bash:touch {name}]]"
    """A command that a CLI may take for harmless."""
    asks_outside: bool = True
    """Whether an edit outside of the session's directory is asked for. Otherwise it is never done."""
    denied_turn_goes_on: bool = True
    """Whether the model goes on after a permission was denied. Otherwise that ends the turn."""
    names_kinds: bool = True
    """Whether the CLI tells the kind of a tool with its first message. Otherwise the call is of the kind `other`."""
    keeps_history_at_once: bool = True
    """Whether the history of the turns before is there after a kill. Kimi once came back without any."""
    tokens: bool = True
    """Whether the CLI tells how many tokens a turn took."""
    fails_at_once: frozenset[int] = frozenset({400, 401})
    """Errors of the model that end a turn soon. After others the CLI asks again in silence."""
    tells_errors: bool = True
    """Whether the CLI tells the model's error. Otherwise it ends the turn without an answer."""
    mcp_tool: str = "mcp__echo__shout"
    """The name of the tool `shout` of the server `echo`."""
    lasting_grant: str = "[[bash:sh -c 'touch one']]"
    """A script that is not asked for again in a session once it was allowed for good."""
