"""The runner's lease: whether this runner, and not another one with the same identity, acts as the machine."""

from __future__ import annotations

import asyncio
import logging
import secrets
from pathlib import Path

import msgspec

from farsteer.core.wire import WireStruct, decode, encode
from farsteer.storage.home import read_private, write_secret
from farsteer.storage.place import boot_id

_logger = logging.getLogger(__name__)


class LeaseFile(WireStruct):
    """What `runner.lease` of the home says. `farsteer doctor` reads it too."""

    generation: int = 0
    """The last lease that a hub gave to a runner of this home."""
    refused: str | None = None
    """Why the hub has refused the lease since."""


def read_lease_file(home: Path) -> LeaseFile:
    try:
        return decode(read_private(lease_path(home)) or b"{}", LeaseFile)
    except msgspec.DecodeError:
        return LeaseFile()


def lease_path(home: Path) -> Path:
    return home / "runner.lease"


class RunnerLease:
    """Sessions ask it before they start a turn or a process.

    A runner that has lost its link goes on with what it has: nobody else gets its lease. One that was refused because
    another runner has the lease starts nothing until it has the lease again.
    """

    def __init__(self, home: Path | None = None, place: str = "") -> None:
        self._home = home
        self.place = place
        self.boot = boot_id()
        self.instance = secrets.token_hex(16)
        self._file = LeaseFile() if home is None else read_lease_file(home)
        self._granted: int | None = None
        """The lease that this process was given last."""
        self.refusal: str | None = None
        """Why another runner has the lease, as the hub says."""

    @property
    def generation(self) -> int:
        return self._file.generation

    @property
    def may_start(self) -> bool:
        return self.refusal is None

    def was_passed_on(self, generation: int) -> bool:
        """Whether another runner had the lease since this process was given it, if it is given `generation` now."""
        return bool(generation) and self._granted not in (None, generation)

    async def grant(self, generation: int) -> None:
        """The hub has given the lease to this runner. 0 stands for a hub of protocol 2, which has no leases."""
        if self.refusal is not None:
            _logger.info("this runner acts as the machine again")
        self.refusal = None
        self._granted = generation
        await self._save(LeaseFile(generation=generation or self.generation))

    async def refuse(self, reason: str) -> None:
        """Another runner has the lease. Logged once, not with every attempt."""
        if self.refusal is None:
            _logger.error("the hub refuses this machine: %s", reason)
            _logger.error(
                "no turn and no agent is started until then; the hub is asked again from time to time"
            )
        self.refusal = reason
        await self._save(LeaseFile(generation=self.generation, refused=reason))

    async def _save(self, file: LeaseFile) -> None:
        if file == self._file or self._home is None:
            return
        self._file = file
        try:
            await asyncio.to_thread(write_secret, lease_path(self._home), encode(file))
        except OSError as error:
            _logger.warning("the lease could not be saved: %s", error)
