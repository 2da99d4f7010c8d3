"""Forwarded addresses are believed only from trusted proxies, and never when they are malformed."""

import pytest
from starlette.datastructures import Headers

from farsteer.core.errors import BadRequest
from farsteer.server.client_address import TrustedProxies, address_group

PROXY = "10.0.0.1"
CLIENT = "203.0.113.7"


def resolve(peer: str, *fields: tuple[str, str], trusted: tuple[str, ...] = ("10.0.0.0/8", "::1")) -> str:
    headers = Headers(raw=[(name.encode(), value.encode("latin-1")) for name, value in fields])
    return TrustedProxies(trusted).client_address(peer, headers)


@pytest.mark.parametrize(
    "value", [CLIENT, f"1.2.3.4, {CLIENT}", f"{CLIENT}, 10.1.2.3", f"x y z,{CLIENT} , 10.9.9.9"]
)
def test_the_last_address_that_is_not_a_proxy_is_the_client(value: str) -> None:
    assert resolve(PROXY, ("x-forwarded-for", value)) == CLIENT


def test_headers_of_a_stranger_are_ignored() -> None:
    assert resolve("192.0.2.1", ("x-forwarded-for", CLIENT), ("forwarded", f"for={CLIENT}")) == "192.0.2.1"
    assert resolve(PROXY, ("x-forwarded-for", CLIENT), trusted=()) == PROXY


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (f"for={CLIENT}", CLIENT),
        (f'For="{CLIENT}:4711";proto=https;by=10.0.0.1', CLIENT),
        (f"for=1.2.3.4, for={CLIENT};host=a, for=10.1.1.1", CLIENT),
        ('for="[2001:db8::17]:4711"', "2001:db8::17"),
        (f'host="a,b;c=\\"d";for={CLIENT}', CLIENT),
    ],
)
def test_the_standard_header_is_read(value: str, expected: str) -> None:
    assert resolve(PROXY, ("forwarded", value)) == expected


@pytest.mark.parametrize(
    "value",
    [
        "",
        ",",
        "unknown",
        "1.2.3",
        f"{CLIENT},",
        f"{CLIENT}, evil",
        "[::1",
        "999.1.1.1",
        "\xff",
        "1.2.3.4:99999999",
    ],
)
def test_a_malformed_list_counts_as_the_proxy(value: str) -> None:
    assert resolve(PROXY, ("x-forwarded-for", value)) == PROXY


@pytest.mark.parametrize(
    "value",
    [
        "",
        "for",
        "for=",
        "for=unknown",
        "for=_hidden",
        "proto=https",
        f"for={CLIENT};for=1.2.3.4",
        'for="',
        "a b",
    ],
)
def test_a_malformed_standard_header_counts_as_the_proxy(value: str) -> None:
    assert resolve(PROXY, ("forwarded", value)) == PROXY


def test_a_second_header_that_the_client_added_does_not_help_it() -> None:
    assert resolve(PROXY, ("x-forwarded-for", CLIENT), ("forwarded", "for=1.2.3.4")) == PROXY
    assert resolve(PROXY, ("x-forwarded-for", CLIENT), ("forwarded", f"for={CLIENT}")) == CLIENT
    assert resolve(PROXY, ("x-forwarded-for", "1.2.3.4"), ("x-forwarded-for", CLIENT)) == CLIENT


def test_a_request_of_the_proxy_itself_and_mapped_addresses() -> None:
    assert resolve("::ffff:10.0.0.1", ("x-forwarded-for", "10.0.0.9, 10.0.0.2")) == "10.0.0.9"
    assert resolve("::1", ("x-forwarded-for", "::ffff:203.0.113.7")) == CLIENT


def test_an_invalid_proxy_is_refused() -> None:
    with pytest.raises(BadRequest, match="trusted proxy"):
        TrustedProxies(["proxy.example.com"])


@pytest.mark.parametrize(
    ("address", "group"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::1"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("", ""),
        ("a:b", "a:b"),
    ],
)
def test_addresses_that_one_client_can_choose_from_are_one_group(address: str, group: str) -> None:
    assert address_group(address) == group
