"""What a hub stores, and what it removes by its retention rules: the bodies of `/api/storage`."""

from __future__ import annotations

from enum import StrEnum

from farsteer.core.api import RequestBody, ResponseBody


class RemovalReason(StrEnum):
    AGE = "retention_age"
    """Nobody has used the session for as many days as the rule says."""
    SIZE = "retention_size"
    """The logs of the namespace have more bytes than the rule allows; the session unused for longest goes first."""


class SessionRemoval(ResponseBody):
    """A session that a retention rule removes."""

    namespace: str
    session_id: str
    updated_at: int
    """When somebody used it last."""
    bytes: int
    """Of its log."""
    reason: RemovalReason


class StorageReport(ResponseBody):
    bytes: int
    """The size of the database on the disk."""
    free_bytes: int
    """Space in it that nothing uses."""
    compacting: bool
    """Removed sessions or free space are being taken out of it."""
    needs_rewrite: bool
    """It was made by an early version and cannot shrink: stop the hub and run `farsteer hub compact`."""
    removals: list[SessionRemoval]
    """What was removed by the retention rules or, before that, what would be."""


class Compaction(RequestBody):
    dry_run: bool = False
    """Only tell what would be removed."""
