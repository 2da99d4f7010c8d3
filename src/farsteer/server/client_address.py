"""The address of a client: of its connection, or the one that a trusted proxy reports. And the scheme of its request.

Everything that depends on the address of a client (the sign-in limit, the connection limit, log lines) uses it in the
form that `address_group` returns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

from starlette.datastructures import Headers

from farsteer.core.errors import BadRequest

Address = IPv4Address | IPv6Address

_MAX_HOPS = 20
_IPV6_PREFIX = 64
_HOST = re.compile(
    r"\[(?P<v6>[0-9A-Fa-f:.]+)\](?::\d{1,5})?|(?P<v4>[0-9.]+)(?::\d{1,5})?|(?P<bare>[0-9A-Fa-f:.]+)"
)
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # noqa: S105
_VALUE = rf'(?:{_TOKEN}|"(?:[^"\\]|\\.)*")'
_FORWARDED_PAIR = re.compile(rf"\s*(?P<name>{_TOKEN})=(?P<value>{_VALUE})\s*(?P<end>[;,]|$)")


class TrustedProxies:
    """The reverse proxies whose `Forwarded` and `X-Forwarded-For` headers are believed.

    Raises:
        BadRequest: an entry is neither an address nor a network.
    """

    def __init__(self, proxies: Iterable[str] = ()) -> None:
        try:
            self._networks = tuple(ip_network(proxy, strict=False) for proxy in proxies)
        except ValueError as error:
            raise BadRequest(
                f"trusted proxy: {error}; write an address or a network like 10.0.0.0/8"
            ) from None

    def __contains__(self, address: str) -> bool:
        if not self._networks:
            return False
        parsed = _parse_address(address)
        return parsed is not None and self._trusts(parsed)

    def client_address(self, peer: str, headers: Headers) -> str:
        """Return the address of the client that `peer` speaks for: the right-most one that is not a proxy of ours.

        Returns:
            `peer` if it is not trusted, if there is no header, if one is malformed, or if both headers are there
            and disagree: a proxy sets one of them and may pass on the other from its client.
        """
        if peer not in self:
            return peer
        found: set[str | None] = set()
        for name, parse in (("x-forwarded-for", _parse_forwarded_for), ("forwarded", _parse_forwarded)):
            values = headers.getlist(name)
            if values:
                found.add(self._last_untrusted(parse(",".join(values))))
        if len(found) != 1:
            return peer
        return found.pop() or peer

    def _last_untrusted(self, hops: list[str] | None) -> str | None:
        """Return None if a hop that must be looked at is malformed."""
        address = None
        for hop in reversed(hops or ()):
            address = _parse_host(hop)
            if address is None:
                return None
            if not self._trusts(address):
                break
        return None if address is None else str(address)

    def _trusts(self, address: Address) -> bool:
        return any(address in network for network in self._networks)


def forwarded_scheme(headers: Headers) -> str | None:
    """Return the scheme that a trusted proxy reports, or None if it reports none.

    Of several values the last one counts: the proxy that is next to the hub has added it.
    """
    values = headers.getlist("x-forwarded-proto")
    scheme = values[-1].rpartition(",")[2].strip().lower() if values else ""
    return scheme if scheme in ("http", "https") else None


def address_group(address: str) -> str:
    """Return the addresses that one client can choose from: an IPv4 address, or the /64 network of an IPv6 address."""
    if ":" not in address:
        return address
    parsed = _parse_address(address)
    if not isinstance(parsed, IPv6Address):
        return address if parsed is None else str(parsed)
    if parsed.is_loopback:
        return str(parsed)
    return str(IPv6Network((int(parsed), _IPV6_PREFIX), strict=False))


def _parse_address(text: str) -> Address | None:
    """Return an address; one that is IPv4 mapped into IPv6 as IPv4."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _parse_host(text: str) -> Address | None:
    """Return the address of a host with or without a port."""
    match = _HOST.fullmatch(text)
    return None if match is None else _parse_address(match["v6"] or match["v4"] or match["bare"])


def _parse_forwarded_for(value: str) -> list[str] | None:
    hops = [hop.strip() for hop in value.rsplit(",", _MAX_HOPS)[-_MAX_HOPS:]]
    return hops if all(hops) else None


def _parse_forwarded(value: str) -> list[str] | None:
    """Return the `for` of each element of a Forwarded header (RFC 7239), or None if it is malformed."""
    hops: list[str] = []
    hop: str | None = None
    position = 0
    while True:
        match = _FORWARDED_PAIR.match(value, position)
        if match is None:
            return None
        if match["name"].lower() == "for":
            if hop is not None:
                return None
            hop = match["value"].strip('"')
        position = match.end()
        if match["end"] != ";":
            if hop is None:
                return None
            hops.append(hop)
            hop = None
        if not match["end"]:
            return hops
