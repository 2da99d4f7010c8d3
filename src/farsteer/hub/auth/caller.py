"""The caller of a service, as a verified token gives it, and the scopes that limit what it may do."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from farsteer.core.errors import Forbidden
from farsteer.core.identity import Identity
from farsteer.core.ids import DEFAULT_NAMESPACE, OWNER_ID
from farsteer.core.modes import PermissionMode, allows_more_than_default


class Scope(StrEnum):
    READ = "read"
    """See everything in the namespace."""
    WRITE = "write"
    """Create sessions and send messages, under the permission mode that asks."""
    APPROVE = "approve"
    """Decide what an agent may do: answer approvals, and say what runs without asking."""
    FILES = "files"
    """See the files of sessions' directories, and the names of directories of machines."""
    ADMIN = "admin"
    """Create and revoke tokens."""
    RUNNER = "runner"
    """Connect a machine."""


ALL_SCOPES = frozenset(Scope)


class ConditionalScope(Struct, frozen=True):
    """A scope that an operation needs in some cases only. The checks and the documentation use the same object."""

    scope: Scope
    case: str


_MODES = ", ".join(mode.value for mode in PermissionMode if allows_more_than_default(mode))
UNASKED_TOOLS = ConditionalScope(
    Scope.APPROVE, f"a permission mode in which tools run without asking ({_MODES})"
)
HUB_FIGURES = ConditionalScope(Scope.ADMIN, "the figures of the whole hub, in the namespace `default`")
HUB_STORAGE = ConditionalScope(Scope.ADMIN, "the storage of the whole hub")
MCP_SERVERS = ConditionalScope(Scope.APPROVE, "MCP servers, which are started and connected without asking")


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
        """The name other users see: the email the client claims, else the token's label. Nobody has verified it."""
        return self.email or self.label

    @property
    def identity(self) -> Identity:
        """Who acts, for whatever records that."""
        token_id = OWNER_ID if self.owner else self.token_id
        return Identity(token_id=token_id, label=self.label, claimed_email=self.email)

    @property
    def manages_hub(self) -> bool:
        """Whether the figures of the whole hub may be shown to the caller."""
        return self.namespace == DEFAULT_NAMESPACE and HUB_FIGURES.scope in self.scopes

    def require(self, scope: Scope) -> None:
        """Raise Forbidden unless the caller has `scope`."""
        if scope not in self.scopes:
            raise Forbidden(f"this token lacks the scope {scope.value!r}", scope=scope.value)

    def require_case(self, needed: ConditionalScope) -> None:
        """Raise Forbidden unless the caller has the scope that this case needs."""
        if needed.scope not in self.scopes:
            name = needed.scope.value
            raise Forbidden(
                f"this token lacks the scope {name!r}, which is needed for {needed.case}: use a token that has it, "
                f"as made by `farsteer token create LABEL --scope read --scope write --scope {name}`",
                scope=name,
            )

    def require_mode(self, mode: PermissionMode) -> None:
        """Raise Forbidden unless the caller may put a session into this permission mode."""
        if not self.may_set(mode):
            self.require_case(UNASKED_TOOLS)

    def may_set(self, mode: PermissionMode) -> bool:
        """Return whether the caller may put a session into this permission mode."""
        return UNASKED_TOOLS.scope in self.scopes or not allows_more_than_default(mode)
