"""The results of one run."""

from __future__ import annotations

from dataclasses import dataclass, field

from bench.acp.editors import Editors
from bench.agents.overhead import Overhead
from bench.droid.flood import Flood
from bench.fanout import Table
from bench.history import History
from bench.messages import Throughput
from bench.sessions import Sessions
from bench.startup import Start

OURS, HAPI, STOCK, SDK = "Farsteer", "HAPI", "python-socketio", "droid-sdk"


@dataclass(slots=True)
class Results:
    """Values that were not measured are None or missing."""

    versions: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    """Peers that could not run, and why."""
    burst: Table = field(default_factory=dict)
    paced: Table = field(default_factory=dict)
    loaded: dict[str, float] = field(default_factory=dict)
    """Resident MB after all bursts and paced runs."""
    starts: dict[str, Start] = field(default_factory=dict)
    version_seconds: float | None = None
    idle_session: float | None = None
    history: History | None = None
    flood: Flood | None = None
    sessions: Sessions | None = None
    agents: dict[str, Overhead] = field(default_factory=dict)
    """By the name of the agent."""
    editors: Editors | None = None
    messages: Throughput | None = None

    @property
    def missing(self) -> int:
        return sum(series.missing for table in (self.burst, self.paced) for series in table.values())

    @property
    def wrong(self) -> int:
        return sum(series.wrong for table in (self.burst, self.paced) for series in table.values())
