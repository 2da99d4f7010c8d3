"""Finds adapters by name: the built-in ones, the catalog, model providers, and those of other packages.

Another package provides an adapter with an entry point of the group `farsteer.adapters`. The entry point's name is the
agent's name, its object is the `Adapter` class. An adapter's module is imported when the agent is first used.
"""

from __future__ import annotations

import asyncio
import logging
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from farsteer.agents.base import Adapter
from farsteer.agents.catalog.definition import BUILT_IN as CATALOG
from farsteer.agents.catalog.definition import agent_names, load_agent
from farsteer.agents.known_models import ListedModels, read_models, write_models
from farsteer.agents.providers.provider import load_provider, provider_names
from farsteer.core.capabilities import AgentInfo
from farsteer.core.errors import AgentError, ErrorCode, FarsteerError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_logger = logging.getLogger(__name__)

ENTRY_POINT_GROUP = "farsteer.adapters"
PREFERENCE = ("claude", "codex", "droid", *CATALOG, "aider", "demo")
"""The built-in agents, best first. A session that names no agent gets the first one that is installed."""

_BUILT_IN = {
    "claude": "farsteer.agents.claude.adapter:ClaudeAdapter",
    "codex": "farsteer.agents.codex.adapter:CodexAdapter",
    "droid": "farsteer.agents.droid.adapter:DroidAdapter",
    "aider": "farsteer.agents.aider.adapter:AiderAdapter",
    "demo": "farsteer.agents.demo.adapter:DemoAdapter",
}


class AgentRegistry:
    """The agents of a machine. There is one adapter per name.

    Args:
        home: The home directory of the runner, where its owner adds model providers and stores their keys.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self._adapters: dict[str, Adapter] = {}
        self._stored_models = read_models(home)

    def names(self) -> tuple[str, ...]:
        """Return the names of all agents: built-in, of the catalog, model providers, of other packages."""
        return tuple(
            dict.fromkeys(
                (*PREFERENCE, *agent_names(self._home), *provider_names(self._home), *sorted(_entry_points()))
            )
        )

    def adapter(self, name: str) -> Adapter:
        """Return the adapter of an agent.

        Raises:
            AgentError: `agent_unknown` if there is no such agent or its adapter cannot be loaded.
        """
        if name not in self._adapters:
            adapter = self._adapters[name] = self._load(name)
            if not adapter.models and name in self._stored_models:
                stored = self._stored_models[name]
                adapter.models, adapter.efforts = stored.models, stored.efforts
            adapter.on_models = partial(self._store_models, adapter)
        return self._adapters[name]

    def models(self) -> dict[str, tuple[str, ...]]:
        """Return the models that are known of the agents that were used or detected."""
        return {name: adapter.models for name, adapter in self._adapters.items() if adapter.models}

    def _store_models(self, adapter: Adapter) -> None:
        self._stored_models[adapter.name] = ListedModels(adapter.models, dict(adapter.efforts))
        write_models(self._home, self._stored_models)

    async def find(self, name: str) -> Adapter:
        """Return the adapter of an agent, as `adapter` does.

        Raises:
            AgentError: `agent_unknown`; if there is no such agent, the message says which there are and which of them
                can work here.
        """
        try:
            return self.adapter(name)
        except AgentError:
            if name in self.names():
                raise
        raise _unknown_agent(name, await self.detect_all())

    async def detect_all(self) -> list[AgentInfo]:
        """Detect every agent, in the order of `names`.

        An adapter that fails is listed as not available with the reason, so that a defect in one package does not hide
        the other agents.
        """
        return await asyncio.gather(*map(self._detect, self.names()))

    def _load(self, name: str) -> Adapter:
        if name in _BUILT_IN:
            module, _, attribute = _BUILT_IN[name].partition(":")
            return getattr(import_module(module), attribute)()
        if name in agent_names(self._home):
            return _load_catalog_agent(self._home, name)
        if name in provider_names(self._home):
            return _load_provider(self._home, name)
        entry = _entry_points().get(name)
        if entry is None:
            raise AgentError(
                f"unknown agent {name!r}", code=ErrorCode.AGENT_UNKNOWN, agents=list(self.names())
            )
        return _load_entry_point(entry)

    async def _detect(self, name: str) -> AgentInfo:
        try:
            return await self.adapter(name).detect()
        except Exception as error:
            _logger.debug("detecting the agent %s failed", name, exc_info=True)
            return AgentInfo(name=name, title=name, available=False, reason=f"its adapter failed: {error}")


def _unknown_agent(name: str, agents: list[AgentInfo]) -> AgentError:
    kinds = {
        "ready": [info.name for info in agents if info.available and not info.login],
        "not logged in": [info.name for info in agents if info.available and info.login],
        "not installed": [info.name for info in agents if not info.available],
    }
    known = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in kinds.items() if names)
    message = f"unknown agent {name!r}. The agents of this machine are {known}"
    return AgentError(message, code=ErrorCode.AGENT_UNKNOWN, agents=[info.name for info in agents])


def _load_catalog_agent(home: Path, name: str) -> Adapter:
    from farsteer.agents.acp.adapter import AcpAdapter

    try:
        return AcpAdapter(name, load_agent(home, name))
    except FarsteerError as error:
        raise AgentError(error.message, code=ErrorCode.AGENT_UNKNOWN) from error


def _load_provider(home: Path, name: str) -> Adapter:
    from farsteer.agents.providers.adapter import ProviderAdapter

    try:
        return ProviderAdapter(name, load_provider(home, name), home)
    except FarsteerError as error:
        raise AgentError(error.message, code=ErrorCode.AGENT_UNKNOWN) from error


def _load_entry_point(entry: EntryPoint) -> Adapter:
    try:
        found = entry.load()()
    except Exception as error:
        raise AgentError(
            f"the adapter {entry.value} cannot be loaded: {error}", code=ErrorCode.AGENT_UNKNOWN
        ) from error
    if not isinstance(found, Adapter) or found.name != entry.name:
        raise AgentError(
            f"{entry.value} is not an adapter named {entry.name!r}", code=ErrorCode.AGENT_UNKNOWN
        )
    return found


@cache
def _entry_points() -> dict[str, EntryPoint]:
    """Return the entry points of other packages. A built-in name cannot be replaced."""
    from importlib.metadata import entry_points

    return {
        entry.name: entry for entry in entry_points(group=ENTRY_POINT_GROUP) if entry.name not in _BUILT_IN
    }
