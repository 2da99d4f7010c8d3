"""Signing in: the one call of the API that needs no JWT, for it gives one."""

from __future__ import annotations

from farsteer.core.api import AuthRequest, AuthResponse
from farsteer.faces.rest.endpoint import AnyEndpoint, Call, Endpoint


async def authenticate(call: Call[AuthRequest, None]) -> AuthResponse:
    return await call.hub.tokens.exchange(call.body, call.address)


ENDPOINTS: tuple[AnyEndpoint, ...] = (
    Endpoint(
        method="POST", path="/api/auth", handler=authenticate, scope=None,
        body=AuthRequest, response=AuthResponse, errors=(401, 429),
        tag="Sign in", summary="Exchange an access token for a JWT",
        description="The access token is `CLI_API_TOKEN[:namespace]`, or one made at `POST /api/tokens`. "
        "`email`, `clientId` and `deviceType` say how others see you. Failures are counted by address.",
        example={"accessToken": "<CLI_API_TOKEN[:namespace]>"},
    ),
)  # fmt: skip
