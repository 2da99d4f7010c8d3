"""The caller of a service: namespace, scopes and display name, as a verified token gives them."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from farsteer.core.errors import Forbidden
from farsteer.core.ids import DEFAULT_NAMESPACE


class Scope(StrEnum):
    READ = "read"
    WRITE = "write"
    APPROVE = "approve"
    """Answer approvals."""
    ADMIN = "admin"
    """Create and revoke tokens."""
    RUNNER = "runner"
    """Connect a machine."""


ALL_SCOPES = frozenset(Scope)


class Caller(Struct, frozen=True, kw_only=True):
    """Namespace and scopes come from the token's row on this hub, never from the client."""

    namespace: str
    token_id: str
    scopes: frozenset[Scope]
    expires_at: int
    """When the JWT expires, in milliseconds since the epoch."""
    user_id: int = 1
    owner: bool = False
    """Whether the caller used the owner's token."""
    email: str | None = None
    client_id: str | None = None
    device_type: str | None = None
    label: str = "owner"

    @property
    def name(self) -> str:
        """The name other users see: the email the client gave, else the token's label."""
        return self.email or self.label

    @property
    def manages_hub(self) -> bool:
        """Whether figures of the whole hub may be shown: to the default namespace, with the scope `admin`."""
        return self.namespace == DEFAULT_NAMESPACE and Scope.ADMIN in self.scopes

    def require(self, scope: Scope) -> None:
        """Raise Forbidden unless the caller has `scope`."""
        if scope not in self.scopes:
            raise Forbidden(f"this token lacks the scope {scope.value!r}", scope=scope.value)
