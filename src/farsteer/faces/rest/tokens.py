"""Access tokens: who may sign in, as which namespace, to do what."""

from __future__ import annotations

from farsteer.core.api import Done, NewToken, TokenCreated, TokensResponse
from farsteer.faces.rest.endpoint import AnyEndpoint, Call, Endpoint
from farsteer.hub import Scope


async def list_tokens(call: Call[None, None]) -> TokensResponse:
    return await call.hub.tokens.list(call.caller)


async def create_token(call: Call[NewToken, None]) -> TokenCreated:
    return await call.hub.tokens.create(call.caller, call.body)


async def revoke_token(call: Call[None, None]) -> Done:
    return await call.hub.tokens.revoke(call.caller, call.id("tokenId"))


ENDPOINTS: tuple[AnyEndpoint, ...] = (
    Endpoint(
        method="GET", path="/api/tokens", handler=list_tokens, scope=Scope.ADMIN,
        response=TokensResponse,
        tag="Access tokens", summary="List access tokens",
    ),
    Endpoint(
        method="POST", path="/api/tokens", handler=create_token, scope=Scope.ADMIN,
        body=NewToken, response=TokenCreated, status=201,
        tag="Access tokens", summary="Make an access token",
        description="It belongs to one namespace and can do what its scopes say. Its secret is shown this once.",
        example={"label": "build server", "scopes": ["read", "write"]},
    ),
    Endpoint(
        method="DELETE", path="/api/tokens/{tokenId}", handler=revoke_token, scope=Scope.ADMIN,
        response=Done,
        tag="Access tokens", summary="Revoke an access token",
        description="Its JWTs and live connections end at once.",
    ),
)  # fmt: skip
