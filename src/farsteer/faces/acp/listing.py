"""Every session of the namespace, as a client lists them and finds them again."""

from __future__ import annotations

import datetime as dt
from typing import Any

from farsteer.client.hub_client import HubClient
from farsteer.core.api import SessionView
from farsteer.core.errors import BadRequest

SOURCE = "acp"
_LISTED = 100
_SOURCE_CHARS = 100


def source_of(name: str) -> str:
    """How a session is marked that a client knows by another name than its id: it has another agent by now."""
    return f"{SOURCE}:{name}"[:_SOURCE_CHARS]


def name_of(view: SessionView) -> str:
    """What clients call it."""
    kind, _, name = view.source.partition(":")
    return name if kind == SOURCE and name else view.id


async def listed(hub: HubClient, cwd: Any, cursor: Any) -> dict[str, Any]:
    """A page, the one changed last first. What changes between two pages moves to the front: nothing is skipped."""
    after = None if cursor is None else _place(cursor)
    page: list[SessionView] = []
    async for view in hub.sessions():
        place = (-view.updated_at, view.id)
        if (after is not None and place <= after) or (cwd is not None and view.directory != cwd):
            continue
        page.append(view)
        if len(page) > _LISTED:
            break
    result: dict[str, Any] = {"sessions": [_info(view) for view in page[:_LISTED]]}
    if len(page) > _LISTED:
        last = page[_LISTED - 1]
        result["nextCursor"] = f"{last.updated_at}_{last.id}"
    return result


def _place(cursor: Any) -> tuple[int, str]:
    updated_at, _, id = str(cursor).partition("_")
    if not (updated_at.isascii() and updated_at.isdigit() and id):
        raise BadRequest("this cursor is not one of ours")
    return -int(updated_at), id


def _info(view: SessionView) -> dict[str, Any]:
    updated = dt.datetime.fromtimestamp(view.updated_at / 1000, dt.UTC)
    info: dict[str, Any] = {
        "sessionId": name_of(view),
        "cwd": view.directory,
        "updatedAt": updated.isoformat().replace("+00:00", "Z"),
        "_meta": {
            "farsteer": {"agent": view.agent, "machineId": view.machine_id, "status": view.status.value}
        },
    }
    if view.additional_directories:
        info["additionalDirectories"] = [*view.additional_directories]
    return {**info, "title": view.title} if view.title else info
