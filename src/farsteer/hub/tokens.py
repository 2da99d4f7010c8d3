"""Tokens."""

from __future__ import annotations

from collections.abc import Callable

from farsteer.core.api import AuthRequest, AuthResponse, Done, NewToken, TokenCreated, TokensResponse
from farsteer.hub.caller import Caller


class Tokens:
    async def exchange(self, request: AuthRequest, client: str = "") -> AuthResponse:
        """A JWT for an access token. `client` is the address that failures are counted by."""
        raise NotImplementedError

    def verify(self, jwt: str) -> Caller:
        """Who a JWT speaks for; Unauthorized when it is wrong, expired (`token_expired`) or revoked."""
        raise NotImplementedError

    async def link_caller(self, access_token: str, client: str = "") -> Caller:
        """Who a runner's access token speaks for; it needs the scope `runner`."""
        raise NotImplementedError

    async def link_namespace(self, access_token: str, client: str = "") -> str:
        raise NotImplementedError

    async def create(self, caller: Caller, request: NewToken) -> TokenCreated:
        raise NotImplementedError

    async def list(self, caller: Caller) -> TokensResponse:
        raise NotImplementedError

    async def revoke(self, caller: Caller, token_id: str) -> Done:
        raise NotImplementedError

    def on_revoke(self, callback: Callable[[str], None]) -> Callable[[], None]:
        """Call `callback(token_id)` the moment a token is revoked; returns how to stop that."""
        raise NotImplementedError
