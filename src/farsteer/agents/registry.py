"""Which agents there are: ours, and those that other packages bring.

A package brings an adapter by an entry point of the group `farsteer.adapters`, whose name is the agent's name and whose
object is the `Adapter` class. Modules are imported when an agent is first used, not before.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from farsteer.agents.base import Adapter
from farsteer.core.errors import AgentError, ErrorCode

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "farsteer.adapters"
PREFERENCE = ("droid", "demo")
"""Our agents, best first: a session that names none gets the first that is installed."""

_OURS = {
    "droid": "farsteer.agents.droid.adapter:DroidAdapter",
    "demo": "farsteer.agents.demo.adapter:DemoAdapter",
}


def names() -> tuple[str, ...]:
    """Every agent that can be named, ours first."""
    return (*PREFERENCE, *sorted(_theirs()))


@cache
def adapter(name: str) -> Adapter:
    """The adapter of that name. Raises AgentError."""
    if name in _OURS:
        module, _, attribute = _OURS[name].partition(":")
        return getattr(import_module(module), attribute)()
    entry = _theirs().get(name)
    if entry is None:
        raise AgentError(f"unknown agent {name!r}", code=ErrorCode.AGENT_UNKNOWN, agents=list(names()))
    try:
        found = entry.load()()
    except Exception as error:
        raise AgentError(
            f"the adapter {entry.value} cannot be loaded: {error}", code=ErrorCode.AGENT_UNKNOWN
        ) from error
    if not isinstance(found, Adapter) or found.name != name:
        raise AgentError(f"{entry.value} is no adapter named {name!r}", code=ErrorCode.AGENT_UNKNOWN)
    return found


@cache
def _theirs() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=GROUP) if entry.name not in _OURS}
