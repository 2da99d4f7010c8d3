"""A rewind on its way: the turn ends, files go back, the process ends, and then the log says so."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from farsteer.core.commands import Rewind
from farsteer.core.events import FileRestore, FilesRestored


@dataclass(slots=True)
class RewindInProgress:
    command: Rewind
    done: asyncio.Future[Any]
    files: FilesRestored | None = None
    """None: still to be restored."""

    def files_failed(self, reason: str) -> None:
        """Files that cannot be restored do not hold the conversation up."""
        if self.files is None:
            self.files = FilesRestored(status=FileRestore.FAILED, reason=reason)
