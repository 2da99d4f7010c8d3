"""Listing and finding sessions by the ids that ACP clients use.

A client's id of a session is the hub's id, with one exception. If the client chose another agent before the first
message, the session was replaced by one of the new agent; the `source` of the new session then holds the client's id.
"""

from __future__ import annotations

import datetime as dt
from contextlib import suppress
from typing import Any

from farsteer.client.hub_client import HubClient
from farsteer.core.api import SessionView
from farsteer.core.errors import BadRequest, NotFound
from farsteer.core.ids import is_uuid

SOURCE = "acp"
_PAGE_SIZE = 100
_MAX_SOURCE_CHARS = 100


def source_of(acp_id: str) -> str:
    """Return the `source` of a session that clients know by another id than the hub's."""
    return f"{SOURCE}:{acp_id}"[:_MAX_SOURCE_CHARS]


def acp_id_of(view: SessionView) -> str:
    source, _, acp_id = view.source.partition(":")
    return acp_id if source == SOURCE and acp_id else view.id


async def find_session(hub: HubClient, acp_id: str) -> str:
    """Return the hub's id of a session. Raises NotFound."""
    if is_uuid(acp_id):
        with suppress(NotFound):
            return (await hub.session(acp_id)).id
    async for view in hub.sessions():
        if view.source == source_of(acp_id):
            return view.id
    raise NotFound("no such session", sessionId=acp_id)


async def list_sessions(hub: HubClient, cwd: Any, cursor: Any) -> dict[str, Any]:
    """Return a page of `session/list`, the most recently changed session first.

    A session that changes between two pages moves to the front, so no session is skipped.
    """
    after = None if cursor is None else _decode_cursor(cursor)
    page: list[SessionView] = []
    async for view in hub.sessions():
        position = (-view.updated_at, view.id)
        if (after is not None and position <= after) or (cwd is not None and view.directory != cwd):
            continue
        page.append(view)
        if len(page) > _PAGE_SIZE:
            break
    result: dict[str, Any] = {"sessions": [_session_info(view) for view in page[:_PAGE_SIZE]]}
    if len(page) > _PAGE_SIZE:
        last = page[_PAGE_SIZE - 1]
        result["nextCursor"] = f"{last.updated_at}_{last.id}"
    return result


def _decode_cursor(cursor: Any) -> tuple[int, str]:
    updated_at, _, id = str(cursor).partition("_")
    if not (updated_at.isascii() and updated_at.isdigit() and id):
        raise BadRequest("the cursor is not valid")
    return -int(updated_at), id


def _session_info(view: SessionView) -> dict[str, Any]:
    updated_at = dt.datetime.fromtimestamp(view.updated_at / 1000, dt.UTC)
    info: dict[str, Any] = {
        "sessionId": acp_id_of(view),
        "cwd": view.directory,
        "updatedAt": updated_at.isoformat().replace("+00:00", "Z"),
        "_meta": {
            "farsteer": {"agent": view.agent, "machineId": view.machine_id, "status": view.status.value}
        },
    }
    if view.additional_directories:
        info["additionalDirectories"] = [*view.additional_directories]
    return {**info, "title": view.title} if view.title else info
