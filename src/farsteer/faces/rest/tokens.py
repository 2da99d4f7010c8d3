"""Endpoints for signing in and for access tokens."""

from __future__ import annotations

from farsteer.core.api import AuthRequest, AuthResponse, Done, NewToken, TokenCreated, TokensResponse
from farsteer.faces.rest.endpoint import AnyEndpoint, Endpoint, EndpointCall
from farsteer.hub import Scope
from farsteer.server.auth import set_authenticated


async def authenticate(call: EndpointCall[AuthRequest, None]) -> AuthResponse:
    signed_in = await call.hub.tokens.exchange(call.body, call.client_address)
    set_authenticated(call.request.scope)
    return signed_in


async def list_tokens(call: EndpointCall[None, None]) -> TokensResponse:
    return await call.hub.tokens.list(call.caller)


async def create_token(call: EndpointCall[NewToken, None]) -> TokenCreated:
    return await call.hub.tokens.create(call.caller, call.body)


async def revoke_token(call: EndpointCall[None, None]) -> Done:
    return await call.hub.tokens.revoke(call.caller, call.id("tokenId"))


SIGN_IN_ENDPOINTS: tuple[AnyEndpoint, ...] = (
    Endpoint(
        method="POST", path="/api/auth", handler=authenticate, scope=None,
        body=AuthRequest, response=AuthResponse, errors=(401, 429),
        tag="Sign in", summary="Exchange an access token for a JWT",
        description="The access token is `CLI_API_TOKEN[:namespace]`, or one created with `POST /api/tokens`. "
        "`email`, `clientId` and `deviceType` are claims that determine how other users see you; what you do is "
        "recorded with the id and the label of your token. Failed attempts are limited per "
        "client address.",
        example={"accessToken": "<CLI_API_TOKEN[:namespace]>"},
    ),
)  # fmt: skip

TOKEN_ENDPOINTS: tuple[AnyEndpoint, ...] = (
    Endpoint(
        method="GET", path="/api/tokens", handler=list_tokens, scope=Scope.ADMIN,
        response=TokensResponse,
        tag="Access tokens", summary="List access tokens",
    ),
    Endpoint(
        method="POST", path="/api/tokens", handler=create_token, scope=Scope.ADMIN,
        body=NewToken, response=TokenCreated, status=201,
        tag="Access tokens", summary="Create an access token",
        description="The token belongs to one namespace and is limited to its scopes, which must be among your own. "
        "It expires no later than your token and is revoked with it. The secret is returned only in this response.",
        example={"label": "build server", "scopes": ["read", "write"]},
    ),
    Endpoint(
        method="DELETE", path="/api/tokens/{tokenId}", handler=revoke_token, scope=Scope.ADMIN,
        response=Done,
        tag="Access tokens", summary="Revoke an access token",
        description="All tokens that were created with it are revoked too. Their JWTs become invalid and their live "
        "connections are closed at once.",
    ),
)  # fmt: skip
