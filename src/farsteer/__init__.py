"""Farsteer: run coding agents on your machines, steer them from anywhere."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from farsteer.client import AsyncClient, Client

__version__ = "0.2.0.dev0"
__all__ = ["AsyncClient", "Client", "__version__"]


def __getattr__(name: str) -> Any:
    # The SDK is imported on first use, because the CLI and the runner start without its HTTP library.
    if name in {"AsyncClient", "Client"}:
        from farsteer import client

        return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
