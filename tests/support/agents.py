"""A registry in which tests replace agents and add their own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from farsteer.agents.base import Adapter
from farsteer.agents.registry import AgentRegistry


class ReplacedAgents(AgentRegistry):
    """The agents of a machine, of which those in `replaced` are looked up first. A test may change it at any time."""

    def __init__(self, home: Path, replaced: Mapping[str, Adapter]) -> None:
        super().__init__(home)
        self._replaced = replaced

    def adapter(self, name: str) -> Adapter:
        return self._replaced.get(name) or super().adapter(name)


class OnlyAgent(AgentRegistry):
    """A machine with one agent."""

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter

    def names(self) -> tuple[str, ...]:
        return (self._adapter.name,)

    def adapter(self, name: str) -> Adapter:
        return self._adapter

    def models(self) -> dict[str, tuple[str, ...]]:
        return {self._adapter.name: self._adapter.models} if self._adapter.models else {}
