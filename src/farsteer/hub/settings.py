"""The owner's settings of a hub: limits, retention and trusted proxies, read from `hub.toml` in the home directory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec

from farsteer.hub.rules.retention import RetentionRule
from farsteer.storage.home import read_settings

_MIB = 1024 * 1024
_Positive = Annotated[int, msgspec.Meta(gt=0)]


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a namespace, or the hub as a whole, may hold. The section `[limits]` changes the defaults."""

    sessions: _Positive = 10_000
    """Sessions per namespace."""
    machines: _Positive = 1_000
    """Machines per namespace."""
    sockets: _Positive = 1_000
    """Open live connections per namespace: Socket.IO, server-sent events and editors."""
    queued_messages: _Positive = 100
    """Messages that wait in one session."""
    queued_bytes: _Positive = 32 * _MIB
    """Bytes of messages that wait in one session, attachments included."""
    namespace_queued_bytes: _Positive = 256 * _MIB
    """Bytes of messages that wait in one namespace, attachments included."""
    buffered_bytes: _Positive = 256 * _MIB
    """Bytes that wait for slow readers, over all connections of the hub."""
    connections: _Positive = 1_000
    """Connections of clients that have not authenticated, over all addresses."""
    address_connections: _Positive = 250
    """Connections of clients that have not authenticated, from one address."""


class HubSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The contents of `hub.toml`. No client can change them."""

    limits: Limits = Limits()
    retention: dict[str, RetentionRule] = {}
    """What a namespace keeps, by its name; "*" stands for those that are not named. By default everything is kept."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses or networks of reverse proxies whose Forwarded and X-Forwarded-For headers are believed."""


def load_settings(home: Path) -> HubSettings:
    """Read `hub.toml`. A missing file gives the defaults; an invalid one raises BadRequest."""
    return read_settings(home / "hub.toml", HubSettings)
