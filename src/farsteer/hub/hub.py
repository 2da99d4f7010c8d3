"""The hub as one object."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from farsteer.hub.approvals import Approvals
from farsteer.hub.feed import Feed
from farsteer.hub.link import LinkServer
from farsteer.hub.machines import Machines
from farsteer.hub.metrics import Metrics
from farsteer.hub.presence import Presence
from farsteer.hub.sessions import Sessions
from farsteer.hub.store.base import Store
from farsteer.hub.tokens import Tokens


class Hub:
    """Everything a face needs. `home` is locked while it is open."""

    home: Path
    feed: Feed
    store: Store
    metrics: Metrics
    tokens: Tokens
    machines: Machines
    sessions: Sessions
    approvals: Approvals
    presence: Presence
    link: LinkServer

    @classmethod
    async def open(cls, home: Path, owner_token: str | None = None) -> Self:
        """`owner_token` None: from CLI_API_TOKEN, else from `$home/token`, which is made when missing."""
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError
