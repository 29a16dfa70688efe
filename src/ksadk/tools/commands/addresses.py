"""The addresses at which clouds hand out credentials, in any notation that programs take."""

from __future__ import annotations

import ipaddress
import re
import socket
import unicodedata
from urllib.parse import unquote

_HOSTS = frozenset({"metadata.google.internal", "instance-data", "instance-data.ec2.internal"})
_ADDRESSES = frozenset(
    ipaddress.ip_address(text)
    for text in (
        *("169.254.169.254", "169.254.170.2", "169.254.170.23", "100.100.100.200", "168.63.129.16"),
        *("192.0.0.192", "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254"),
    )
)
_NUMERIC = re.compile(r"(?:0[xX][0-9a-fA-F]+|[0-9]+)(?:\.(?:0[xX][0-9a-fA-F]+|[0-9]+)){0,3}")
_PARTS = re.compile(r"[\s/@?#=,'\"()<>;|&\\{}]+")
_PLAIN = re.compile(
    r"169\.254\.(?:169\.254|170\.2)|100\.100\.100\.200|168\.63\.129\.16|192\.0\.0\.192|metadata\.google\.internal"
    r"|//metadata(?![\w.-])"
)
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def mentions_metadata(text: str) -> bool:
    """Whether a text, such as a URL or a piece of code, names one of the addresses."""
    text = unicodedata.normalize("NFKC", unquote(text)).replace("\u3002", ".").lower()
    return _PLAIN.search(text) is not None or any(map(is_metadata, _PARTS.split(text)))


def is_metadata(host: str) -> bool:
    """Whether a host, with or without a port, is one of the addresses."""
    host = host.lower()
    if host.startswith("["):
        host = host[1:].partition("]")[0].partition("%")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    host = host.rstrip(".")
    return host in _HOSTS or _address(host) in _ADDRESSES


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    if _NUMERIC.fullmatch(host):
        try:
            return ipaddress.IPv4Address(socket.inet_aton(host))
        except OSError:
            return None
    if ":" not in host:
        return None
    try:
        address = ipaddress.IPv6Address(host)
    except ValueError:
        return None
    if address in _NAT64 or int(address) >> 32 == 0:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address
