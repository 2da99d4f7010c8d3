"""How many agents run on this machine at a time."""

from __future__ import annotations

from farsteer.core.errors import QuotaExceeded

DEFAULT_LIVE_AGENTS = 2000


class AgentPlaces:
    """The sessions of a runner that have a process. Shared by their launchers."""

    def __init__(self, limit: int = DEFAULT_LIVE_AGENTS) -> None:
        self._limit = limit
        self._taken: set[str] = set()

    @property
    def has_spare(self) -> bool:
        """Whether a process may be prewarmed: the last place is for one that is needed."""
        return len(self._taken) < self._limit - 1

    def take(self, session_id: str) -> None:
        """Take the place of a session's one process. Raises QuotaExceeded if there is none left."""
        if session_id not in self._taken and len(self._taken) >= self._limit:
            raise QuotaExceeded(
                f"{self._limit} agents run on this machine, which is its limit: stop a session that is not needed,"
                " or raise `live_agents` in the machine's runner.toml",
                kind="live_agents", limit=self._limit, used=len(self._taken),
            )  # fmt: skip
        self._taken.add(session_id)

    def release(self, session_id: str) -> None:
        """The process is gone. Idempotent."""
        self._taken.discard(session_id)
