"""Farsteer: run coding agents on your machines, steer them from anywhere."""

TYPE_CHECKING = (
    False  # not from typing, which costs more than everything else that `farsteer --version` loads
)
if TYPE_CHECKING:
    from typing import Any

    from farsteer.client import AsyncClient, Client

__version__ = "0.1.0"
__all__ = ["AsyncClient", "Client", "__version__"]


def __getattr__(name: str) -> "Any":
    # The SDK and its HTTP library load on first use: the CLI and the runner must start without them.
    if name in {"AsyncClient", "Client"}:
        from farsteer import client

        return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
