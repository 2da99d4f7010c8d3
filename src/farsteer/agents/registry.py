"""Finds adapters by name: the built-in ones, and those of other packages.

Another package provides an adapter with an entry point of the group `farsteer.adapters`. The entry point's name is the
agent's name, its object is the `Adapter` class. An adapter's module is imported when the agent is first used.
"""

from __future__ import annotations

import asyncio
import logging
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from farsteer.agents.base import Adapter
from farsteer.core.capabilities import AgentInfo
from farsteer.core.errors import AgentError, ErrorCode

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_logger = logging.getLogger(__name__)

ENTRY_POINT_GROUP = "farsteer.adapters"
PREFERENCE = ("droid", "demo")
"""The built-in agents, best first. A session that names no agent gets the first one that is installed."""

_BUILT_IN = {
    "droid": "farsteer.agents.droid.adapter:DroidAdapter",
    "demo": "farsteer.agents.demo.adapter:DemoAdapter",
}


def names() -> tuple[str, ...]:
    """Return the names of all agents, the built-in ones first."""
    return (*PREFERENCE, *sorted(_entry_points()))


@cache
def adapter(name: str) -> Adapter:
    """Return the adapter of an agent. There is one instance per name.

    Raises:
        AgentError: `agent_unknown` if there is no such agent or its adapter cannot be loaded.
    """
    if name in _BUILT_IN:
        module, _, attribute = _BUILT_IN[name].partition(":")
        return getattr(import_module(module), attribute)()
    entry = _entry_points().get(name)
    if entry is None:
        raise AgentError(f"unknown agent {name!r}", code=ErrorCode.AGENT_UNKNOWN, agents=list(names()))
    try:
        found = entry.load()()
    except Exception as error:
        raise AgentError(
            f"the adapter {entry.value} cannot be loaded: {error}", code=ErrorCode.AGENT_UNKNOWN
        ) from error
    if not isinstance(found, Adapter) or found.name != name:
        raise AgentError(f"{entry.value} is not an adapter named {name!r}", code=ErrorCode.AGENT_UNKNOWN)
    return found


async def detect_all() -> list[AgentInfo]:
    """Detect every agent, in the order of `names`.

    An adapter that fails is listed as not available with the reason, so that a defect in one package does not hide the
    other agents.
    """
    return await asyncio.gather(*map(_detect, names()))


async def _detect(name: str) -> AgentInfo:
    try:
        return await adapter(name).detect()
    except Exception as error:
        _logger.debug("detecting the agent %s failed", name, exc_info=True)
        return AgentInfo(name=name, title=name, available=False, reason=f"its adapter failed: {error}")


@cache
def _entry_points() -> dict[str, EntryPoint]:
    """Return the entry points of other packages. A built-in name cannot be replaced."""
    from importlib.metadata import entry_points

    return {
        entry.name: entry for entry in entry_points(group=ENTRY_POINT_GROUP) if entry.name not in _BUILT_IN
    }
