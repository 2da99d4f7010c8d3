"""The people in front of the hub: who is there, and who is typing."""

from __future__ import annotations

from farsteer.core.api import Done, OnlineUsersResponse, Typing
from farsteer.faces.rest.endpoint import AnyEndpoint, Call, Endpoint
from farsteer.hub import Scope


async def list_online_users(call: Call[None, None]) -> OnlineUsersResponse:
    return call.hub.presence.online(call.caller)


async def show_typing(call: Call[Typing, None]) -> Done:
    await call.hub.presence.typing(call.caller, call.id("sessionId"), call.body)
    return Done()


ENDPOINTS: tuple[AnyEndpoint, ...] = (
    Endpoint(
        method="GET", path="/api/online-users", handler=list_online_users, scope=Scope.READ,
        response=OnlineUsersResponse,
        tag="People", summary="List who is connected",
    ),
    Endpoint(
        method="POST", path="/api/sessions/{sessionId}/typing", handler=show_typing, scope=Scope.WRITE,
        body=Typing, response=Done,
        tag="People", summary="Show others what you are typing",
        example={"text": "hello"},
    ),
)  # fmt: skip
