"""Which addresses are the public internet's: what may be dialled for a stranger who chose the name.

The tables are IANA's special-purpose registries as of 2025, kept here because `ipaddress.is_global` says
different things in different releases of Python, and calls multicast public.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

IPAddress = IPv4Address | IPv6Address

_V4 = {
    IPv4Network(network): what
    for network, what in {
        "0.0.0.0/8": "this network",
        "10.0.0.0/8": "private",
        "100.64.0.0/10": "a carrier's own",
        "127.0.0.0/8": "loopback",
        "168.63.129.16/32": "a cloud's metadata service",
        "169.254.0.0/16": "link-local",
        "172.16.0.0/12": "private",
        "192.0.0.0/24": "reserved for protocols",
        "192.0.2.0/24": "for documentation",
        "192.88.99.0/24": "a relay",
        "192.168.0.0/16": "private",
        "198.18.0.0/15": "for benchmarks",
        "198.51.100.0/24": "for documentation",
        "203.0.113.0/24": "for documentation",
        "224.0.0.0/4": "multicast",
        "240.0.0.0/4": "reserved",
    }.items()
}
_V6 = {
    IPv6Network(network): what
    for network, what in {
        "::/128": "unspecified",
        "::1/128": "loopback",
        "64:ff9b:1::/48": "a network's own translation",
        "fc00::/7": "private",
        "fe80::/10": "link-local",
        "fec0::/10": "site-local",
        "ff00::/8": "multicast",
        "2001::/23": "reserved for protocols",
        "2001:db8::/32": "for documentation",
        "3fff::/20": "for documentation",
    }.items()
}
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")
# A last label that is a number makes a host an IPv4 address for inet_aton, browsers and curl.
_ENDS_IN_NUMBER = re.compile(r"(?:.*\.)?(?:[0-9]+|0[xX][0-9a-fA-F]*)\.?")


def why_not_public(address: IPAddress) -> str | None:
    """What an address is if it is not the public internet's, in a few words; None if it is.

    An address that holds another one (IPv4-mapped, NAT64, 6to4, Teredo) is public only if all that it holds
    are. One with a zone is not.
    """
    if isinstance(address, IPv4Address):
        return next((what for network, what in _V4.items() if address in network), None)
    if address.scope_id is not None:
        return "of one network interface"
    held = _held(address)
    if held:
        return next((why for why in map(why_not_public, held) if why is not None), None)
    for network, what in _V6.items():
        if address in network:
            return what
    return None if address in _GLOBAL_UNICAST else "reserved"


def literal(host: str) -> IPAddress | None:
    """The address that a URL's host is, without brackets; None for a name.

    `ValueError` for an address in any but its usual notation, such as 0x7f.1, 2130706433, 0177.0.0.1 or
    127.0.0.1 with a dot at its end: programs do not agree on which address that is.
    """
    if ":" not in host and not _ENDS_IN_NUMBER.fullmatch(host):
        return None
    try:
        address = ip_address(host)
    except ValueError as error:
        raise ValueError(f"{host} is not an address in its usual notation") from error
    return address


def first_not_public(addresses: Iterable[str]) -> tuple[str, str] | None:
    """The first of a resolver's answers that is not public, and what it is; None if all are."""
    for text in addresses:
        try:
            why = why_not_public(ip_address(text))
        except ValueError:
            why = "no address"
        if why is not None:
            return text, why
    return None


def by_family(addresses: Iterable[str]) -> list[str]:
    """Addresses in the order in which they are tried: the two families in turn (RFC 8305, section 4)."""
    unique = list(dict.fromkeys(addresses))
    first = [text for text in unique if (":" in text) == (":" in unique[0])]
    second = [text for text in unique if (":" in text) != (":" in unique[0])]
    mixed: list[str] = []
    for place in range(max(len(first), len(second))):
        mixed += first[place : place + 1] + second[place : place + 1]
    return mixed


def _held(address: IPv6Address) -> list[IPv4Address]:
    """The IPv4 addresses that traffic to an IPv6 address is for."""
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]
    if address in _NAT64:
        return [IPv4Address(int(address) & 0xFFFFFFFF)]
    if address.sixtofour is not None:
        return [address.sixtofour]
    return list(address.teredo or ())
