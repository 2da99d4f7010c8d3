"""What an agent's adapter tells a person, where Droid has a notification for it."""

from __future__ import annotations

from typing import Any, cast

from farsteer.core import events as ev
from farsteer.faces.droid.notes import McpAuthRequired, McpStatus, Note, Retry


def notice(told: ev.Notice) -> Note | None:
    """None: Droid has no word for it, and it is shown as a message."""
    meta: dict[str, Any] = told.meta or {}
    match told.code:
        case "model_retry":
            return Retry(attempt=_number(meta.get("attempt")), reason=str(meta.get("reason") or "unknown"))
        case "mcp_status" if isinstance(meta.get("servers"), list):
            return McpStatus(servers=meta["servers"], summary=meta.get("summary") or {})
        case "mcp_auth_required":
            url = str(meta.get("authUrl") or "")
            return McpAuthRequired(
                server_name=str(meta.get("serverName") or ""),
                auth_url=url,
                message=told.text.removesuffix(f": {url}"),
            )
        case _:
            return None


def retracted(told: ev.Notice) -> list[str]:
    """Our ids of the messages that the agent takes back with this."""
    ids = (told.meta or {}).get("messageIds") if told.code == "message_retracted" else None
    return [str(one) for one in cast("list[Any]", ids)] if isinstance(ids, list) else []


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 1
