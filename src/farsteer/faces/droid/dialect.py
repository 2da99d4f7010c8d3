"""What the versions of Droid's protocol say differently."""

from __future__ import annotations

import msgspec


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    version: str
    """The CLI that speaks it."""
    protocol: str | None = None
    """What it calls its protocol's version, on every line."""
    errors_by_id: bool = False
    """A request that is not understood is answered by its id; before, with `id: null` and one word for all."""
    names_session: bool = False
    """Notifications carry the id of their session."""
    levels: bool = False
    """`autonomyLevel: off | low | medium | high` beside an `interactionMode`; before, one word for both."""
    custom_ids: bool = False
    """A conversation under a name that a client chose can be loaded again."""
    resolves_first: bool = False
    """That a plan is approved is told before the settings that follow from it."""
    lists_pending: bool = False
    """`load_session` lists what is open; before, a client had to be asked again."""


DIALECTS = {
    dialect.version: dialect
    for dialect in (
        Dialect(version="0.36"),
        Dialect(version="0.57"),
        Dialect(version="0.99", protocol="1.15.0", levels=True, custom_ids=True),
        Dialect(
            version="0.215",
            protocol="1.206.0",
            errors_by_id=True,
            names_session=True,
            levels=True,
            custom_ids=True,
            resolves_first=True,
            lists_pending=True,
        ),
    )
}
DOCUMENTED = DIALECTS["0.57"]
