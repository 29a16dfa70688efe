"""Which addresses are the public internet's, however they are written."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksadk.public_addresses import by_family, first_not_public, literal, why_not_public

NOT_PUBLIC = {
    "0.0.0.0": "this network",
    "0.1.2.3": "this network",
    "10.0.0.1": "private",
    "100.64.0.1": "a carrier's own",
    "100.100.100.200": "a carrier's own",
    "127.0.0.1": "loopback",
    "127.255.255.254": "loopback",
    "168.63.129.16": "a cloud's metadata service",
    "169.254.169.254": "link-local",
    "172.16.0.1": "private",
    "172.31.255.255": "private",
    "192.0.0.192": "reserved for protocols",
    "192.0.2.1": "for documentation",
    "192.88.99.1": "a relay",
    "192.168.1.1": "private",
    "198.19.255.255": "for benchmarks",
    "198.51.100.7": "for documentation",
    "203.0.113.7": "for documentation",
    "224.0.0.1": "multicast",
    "239.255.255.255": "multicast",
    "240.0.0.1": "reserved",
    "255.255.255.255": "reserved",
    "::": "unspecified",
    "::1": "loopback",
    "::7f00:1": "reserved",
    "::ffff:0:127.0.0.1": "reserved",
    "::ffff:127.0.0.1": "loopback",
    "::ffff:169.254.169.254": "link-local",
    "64:ff9b::7f00:1": "loopback",
    "64:ff9b::10.0.0.1": "private",
    "64:ff9b:1::8.8.8.8": "a network's own translation",
    "100::1": "reserved",
    "2001:db8::1": "for documentation",
    "2001:2::1": "reserved for protocols",
    "2001:10::1": "reserved for protocols",
    "2002:7f00:1::": "loopback",
    "2002:0a00:0001::1": "private",
    # Teredo holds its server and, inverted, its client.
    "2001:0:4136:e378:8000:63bf:80ff:fffe": "loopback",
    "2001:0:a00:1:8000:63bf:f7f7:f7f7": "private",
    "3fff::1": "for documentation",
    "5f00::1": "reserved",
    "4000::1": "reserved",
    "fc00::1": "private",
    "fd00:ec2::254": "private",
    "fe80::1": "link-local",
    "fe80::1%eth0": "of one network interface",
    "2606:4700:4700::1111%1": "of one network interface",
    "fec0::1": "site-local",
    "ff02::1": "multicast",
}

PUBLIC = [
    "1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.1", "172.15.255.255",
    "172.32.0.0", "192.0.1.1", "198.17.255.255", "223.255.255.255", "2606:4700:4700::1111", "2a00:1450::1",
    "2001:4860:4860::8888", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1",
    "2001:0:4136:e378:8000:63bf:f7f7:f7f7",
]  # fmt: skip


@pytest.mark.parametrize(("address", "what"), NOT_PUBLIC.items(), ids=list(NOT_PUBLIC))
def test_an_address_that_is_not_public_is_called_what_it_is(address: str, what: str) -> None:
    assert why_not_public(ipaddress.ip_address(address)) == what


@pytest.mark.parametrize("address", PUBLIC)
def test_an_address_of_the_public_internet_is_one(address: str) -> None:
    assert why_not_public(ipaddress.ip_address(address)) is None


@given(st.ip_addresses(v=4))
def test_an_address_inside_of_another_decides(inner: ipaddress.IPv4Address) -> None:
    number = int(inner)
    holders = {
        "mapped": (0xFFFF << 32) | number,
        "NAT64": (0x64FF9B << 96) | number,
        "6to4": (0x2002 << 112) | (number << 80) | 1,
        "Teredo": (0x20010000 << 96) | (0x4136E378 << 64) | (number ^ 0xFFFFFFFF),
    }
    assert {why_not_public(ipaddress.IPv6Address(holder)) for holder in holders.values()} == {
        why_not_public(inner)
    }


@given(st.ip_addresses())
def test_what_python_calls_private_is_public_nowhere(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    if address.is_private or address.is_multicast or address.is_loopback or address.is_link_local:
        held = isinstance(address, ipaddress.IPv6Address) and (
            address.ipv4_mapped or address.sixtofour or address.teredo
        )
        assert held or why_not_public(address) is not None


@pytest.mark.parametrize(
    "host",
    [
        "2130706433", "0x7f000001", "017700000001", "0x7f.1", "127.1", "127.0.1", "0177.0.0.1",
        "0x7f.0x0.0.1", "127.0.0.1.", "00.0.0.0", "1.2.3.4.5", "256.1.1.1", "1.2.3.08", "example.123",
        "example.0x1f", "0",
        "134744072", "8.8.8.8.", "::ffff:127.0.0.1::", "[::1]", "1:2:3", "fe80::1%25lo%", "127.0.0.0x1",
    ],
)  # fmt: skip
def test_an_address_in_an_unusual_notation_is_refused_whatever_it_is(host: str) -> None:
    with pytest.raises(ValueError, match="usual notation"):
        literal(host)


@pytest.mark.parametrize(
    "host", ["example.com", "1e100.net", "0x7f.example", "a", "127.0.0.1.example", "", "x1"]
)
def test_a_name_is_no_address(host: str) -> None:
    assert literal(host) is None


@pytest.mark.parametrize("host", ["8.8.8.8", "127.0.0.1", "::1", "0:0:0:0:0:0:0:1", "fe80::1%25lo"])
def test_an_address_in_its_usual_notation_is_read(host: str) -> None:
    assert literal(host) == ipaddress.ip_address(host)


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        (["1.1.1.1", "2606:4700::1"], None),
        (["1.1.1.1", "10.0.0.1"], ("10.0.0.1", "private")),
        (["10.0.0.1", "1.1.1.1"], ("10.0.0.1", "private")),
        (["1.1.1.1", "fe80::1%eth0"], ("fe80::1%eth0", "of one network interface")),
        (["1.1.1.1", "no address"], ("no address", "no address")),
        ([], None),
    ],
)
def test_one_answer_that_is_not_public_is_enough(answers: list[str], found: tuple[str, str] | None) -> None:
    assert first_not_public(answers) == found


@pytest.mark.parametrize(
    ("answers", "order"),
    [
        ([], []),
        (["1.1.1.1"], ["1.1.1.1"]),
        (["a:1", "a:2", "1", "2", "3"], ["a:1", "1", "a:2", "2", "3"]),
        (["1", "2", "a:1"], ["1", "a:1", "2"]),
        (["1", "1", "2"], ["1", "2"]),
    ],
)
def test_the_families_take_turns(answers: list[str], order: list[str]) -> None:
    assert by_family(answers) == order
