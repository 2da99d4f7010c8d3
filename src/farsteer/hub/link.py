"""The hub's side of the link."""

from __future__ import annotations

from farsteer.link.messages import ToHub, ToRunner
from farsteer.link.transport import Transport


class LinkServer:
    async def serve(
        self, transport: Transport[ToRunner, ToHub], namespace: str, *, token_id: str | None = None
    ) -> None:
        """One runner's life here; returns when its link ended. `token_id`: end it when that token is revoked."""
        raise NotImplementedError
