"""Who can reach a host, as far as its name or address tells."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address

Reach = Literal["unspecified", "loopback", "link-local", "private", "public"]

# The forms that inet_aton takes and that browsers and curl therefore follow: 0, 0x7f.1, 127.1, 017700000001.
_NUMERIC_HOST = r"(0[xX][0-9a-fA-F]*|[0-9]+)(\.(0[xX][0-9a-fA-F]*|[0-9]+)){0,3}\.?"
_LOCAL_SUFFIXES = (".local", ".internal", ".lan", ".home.arpa", ".intranet", ".corp")


def reach(host: str) -> Reach:
    """Who can reach a host, as far as its name or address tells; nothing is resolved."""
    name = host.lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return "loopback"
    address = address_of(host)
    if address is None:
        return "private" if "." not in name or name.endswith(_LOCAL_SUFFIXES) else "public"
    if address.is_unspecified:
        return "unspecified"
    if address.is_loopback:
        return "loopback"
    if address.is_link_local:
        return "link-local"
    return "public" if address.is_global else "private"


def address_of(host: str) -> IPv4Address | IPv6Address | None:
    """The address that a host is, in whichever notation; None for a name. Of an IPv4 address in an IPv6 one
    the former."""
    if not re.fullmatch(_NUMERIC_HOST, host) and ":" not in host:
        return None
    import ipaddress  # with socket 2 ms, which a name does not need
    import socket

    try:
        if ":" not in host:
            return ipaddress.IPv4Address(socket.inet_aton(host.rstrip(".")))
        address = ipaddress.IPv6Address(host.partition("%")[0])
    except (OSError, ValueError):
        return None
    return address.ipv4_mapped or address
