"""Who is there: signing in, access tokens, people online."""

from __future__ import annotations

from farsteer.core.api import (
    AuthRequest,
    AuthResponse,
    Done,
    NewToken,
    OnlineUsersResponse,
    TokenCreated,
    TokensResponse,
)
from farsteer.faces.rest.endpoint import AnyEndpoint, Call, Endpoint
from farsteer.hub import Scope


async def authenticate(call: Call[AuthRequest, None]) -> AuthResponse:
    return await call.hub.tokens.exchange(call.body, call.address)


async def list_tokens(call: Call[None, None]) -> TokensResponse:
    return await call.hub.tokens.list(call.caller)


async def create_token(call: Call[NewToken, None]) -> TokenCreated:
    return await call.hub.tokens.create(call.caller, call.body)


async def revoke_token(call: Call[None, None]) -> Done:
    return await call.hub.tokens.revoke(call.caller, call.id("tokenId"))


async def list_online_users(call: Call[None, None]) -> OnlineUsersResponse:
    return call.hub.presence.online(call.caller)


ENDPOINTS: tuple[AnyEndpoint, ...] = (
    Endpoint(
        method="POST", path="/api/auth", handler=authenticate, scope=None,
        body=AuthRequest, response=AuthResponse, errors=(401, 429),
        tag="Sign in", summary="Exchange an access token for a JWT",
        description="The access token is `CLI_API_TOKEN[:namespace]`, or one made at `POST /api/tokens`. "
        "`email`, `clientId` and `deviceType` say how others see you. Failures are counted by address.",
        example={"accessToken": "<CLI_API_TOKEN[:namespace]>"},
    ),
    Endpoint(
        method="GET", path="/api/tokens", handler=list_tokens, scope=Scope.ADMIN,
        response=TokensResponse,
        tag="Sign in", summary="List access tokens",
    ),
    Endpoint(
        method="POST", path="/api/tokens", handler=create_token, scope=Scope.ADMIN,
        body=NewToken, response=TokenCreated, status=201,
        tag="Sign in", summary="Make an access token",
        description="It belongs to one namespace and can do what its scopes say. Its secret is shown this once.",
        example={"label": "build server", "scopes": ["read", "write"]},
    ),
    Endpoint(
        method="DELETE", path="/api/tokens/{tokenId}", handler=revoke_token, scope=Scope.ADMIN,
        response=Done,
        tag="Sign in", summary="Revoke an access token",
        description="Its JWTs and live connections end at once.",
    ),
    Endpoint(
        method="GET", path="/api/online-users", handler=list_online_users, scope=Scope.READ,
        response=OnlineUsersResponse,
        tag="People", summary="List who is connected",
    ),
)  # fmt: skip
