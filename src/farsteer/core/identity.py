"""Who did something."""

from __future__ import annotations

from farsteer.core.wire import WireStruct


class Identity(WireStruct):
    """The token that was used, which the hub has verified, and what its holder claims to be."""

    token_id: str
    """The id of the token, or OWNER_ID."""
    label: str
    claimed_email: str | None = None

    @property
    def description(self) -> str:
        """The token's label, with the claim if there is another one."""
        if self.claimed_email in (None, self.label):
            return self.label
        return f"{self.label} (claims to be {self.claimed_email})"


def describe(name: str | None, identity: Identity | None) -> str:
    """Return who is meant: the identity, or the name alone where an older version recorded nothing else."""
    return identity.description if identity is not None else name or ""
