"""An agent whose exchanges are recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from farsteer.agents.base import Adapter
from tests.support.wire.player import Player
from tests.support.wire.recording import Exchange, Json, read_entries
from tests.support.wire.stage import ROOT, Scenario


@dataclass(frozen=True)
class WireAgent:
    name: str
    adapter: Callable[[str], Adapter]
    """Returns the adapter for an executable."""
    modules: tuple[ModuleType, ...]
    """The modules that start processes."""
    describe: Callable[[Any], str | None]
    """Returns the kind of a message in one line, None for one that may come at any time."""
    shorten: Callable[[Json], Json | None]
    """Returns an entry without what is long and has no meaning for the adapter, None if nothing is left."""
    apart: str = "-"
    """How the kinds of messages begin whose order among the others is not the same each time."""
    dropped: frozenset[str] = frozenset()
    """Fields that say something about the machine only."""
    stand_ins: Callable[[Player], dict[str, Any]] = lambda _: {}
    """Returns what a replay puts in the place of functions that read the agent's files."""
    scenarios: dict[str, Scenario] = field(default_factory=dict[str, Scenario])

    def scenario(self, function: Scenario) -> Scenario:
        """Register a scenario under the name of its function."""
        self.scenarios[getattr(function, "__name__", "")] = function
        return function

    @property
    def folder(self) -> Path:
        return ROOT / "tests" / "agents" / self.name

    def transcript(self, scenario: str) -> Path:
        return self.folder / "transcripts" / f"{scenario}.jsonl"

    def golden(self, scenario: str) -> Path:
        return self.folder / "golden" / f"{scenario}.txt"

    def recorded(self, scenario: str) -> list[Exchange]:
        return read_entries(self.transcript(scenario))

    def shape(self, exchanges: list[Exchange]) -> list[str]:
        """Return what each process was told and then what it said, without words and numbers.

        Both sides write at the same time, so that only the order within each is the same every time. Repetitions
        count once.
        """
        found: list[str] = []
        for exchange in exchanges:
            for direction in ("in", "out"):
                described = (self.describe(entry[direction]) for entry in exchange if direction in entry)
                kinds = [kind for kind in described if kind is not None]
                # Sorting keeps the order within both groups.
                for kind in sorted(kinds, key=lambda one: one.startswith(self.apart)):
                    if found[-1:] != [f"{direction} {kind}"]:
                        found.append(f"{direction} {kind}")
        return found
