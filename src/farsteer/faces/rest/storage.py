"""Endpoints for the storage of the hub: its size, and giving back space."""

from __future__ import annotations

from farsteer.core.retention import Compaction, StorageReport
from farsteer.faces.rest.endpoint import AnyEndpoint, Endpoint, EndpointCall
from farsteer.hub import Scope


async def get_storage(call: EndpointCall[None, None]) -> StorageReport:
    return await call.hub.storage.report(call.caller)


async def compact_storage(call: EndpointCall[Compaction, None]) -> StorageReport:
    return await call.hub.storage.compact(call.caller, dry_run=call.body.dry_run)


ENDPOINTS: tuple[AnyEndpoint, ...] = (
    Endpoint(
        method="GET", path="/api/storage", handler=get_storage, scope=Scope.ADMIN,
        response=StorageReport,
        tag="System", summary="Get the size of the hub's database",
        description="With what the retention rules of `hub.toml` would remove now. For tokens of the namespace "
        "`default`.",
    ),
    Endpoint(
        method="POST", path="/api/storage/compact", handler=compact_storage, scope=Scope.ADMIN,
        body=Compaction, body_optional=True, response=StorageReport,
        tag="System", summary="Apply the retention rules and give back free space",
        description="Answers with what was removed, or would be with `dryRun`. The space is given back in the "
        "background; `compacting` of `GET /api/storage` says whether that is done. For tokens of the namespace "
        "`default`.",
        example={"dryRun": True},
    ),
)  # fmt: skip
