"""Which addresses may be connected to: none that is not public unless it is listed, and some never."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.media.addresses import Address, refused_address

EVERYTHING = (ip_network("0.0.0.0/0"), ip_network("::/0"))
ADDRESSES = st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6))
LOCAL_V4 = st.sampled_from(
    [ip_network(text) for text in ("10.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "192.168.0.0/16")]
)
ARE_LOCAL = LOCAL_V4.flatmap(lambda network: st.ip_addresses(network=network)).map(
    lambda address: IPv4Address(str(address))
)


@given(ADDRESSES)
def test_what_python_calls_not_global_is_refused(address: Address) -> None:
    """Its table and ours were written apart."""
    if not address.is_global or address.is_multicast or address.is_reserved:
        inside = getattr(address, "ipv4_mapped", None) or address
        gateway = address in ip_network("64:ff9b::/96")
        if not gateway and (not inside.is_global or inside.is_multicast):
            assert refused_address(address, ()) is not None


@given(ARE_LOCAL, st.sampled_from(["::ffff:0:0", "::", "64:ff9b::", "2002::", "::ffff:0:0:0", "64:ff9b:1::"]))
def test_a_local_address_in_another_form_is_refused(address: IPv4Address, form: str) -> None:
    """Mapped, compatible, translated, through a gateway or a relay."""
    shift = 80 if form == "2002::" else 0
    wrapped = IPv6Address(int(IPv6Address(form)) | int(address) << shift)
    assert refused_address(wrapped, ()) is not None


@given(ADDRESSES)
def test_listing_everything_opens_neither_loopback_nor_what_never_is(address: Address) -> None:
    """Only naming loopback opens it."""
    if address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified:
        assert refused_address(address, EVERYTHING) is not None


@pytest.mark.parametrize("text", [
    *("93.184.216.34", "1.1.1.1", "172.15.255.255", "172.32.0.1", "100.63.255.255", "100.128.0.1"),
    *("2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101", "2a00::1"),
])  # fmt: skip
def test_public_addresses_are_open(text: str) -> None:
    """Up to the edges of the private networks."""
    assert refused_address(ip_address(text), ()) is None


@pytest.mark.parametrize("text", [
    *("10.0.0.0", "10.255.255.255", "172.16.0.0", "172.31.255.255", "192.168.255.255", "198.19.255.255", "192.0.2.1"),
    *("fc00::1", "fdff::1", "2001:db8::1", "3fff::1", "::ffff:0:1.1.1.1"),
])  # fmt: skip
def test_private_addresses_are_open_where_they_are_listed(text: str) -> None:
    """And only there."""
    address = ip_address(text)
    assert refused_address(address, ()) == "a private address, which mediaPrivateNetworks does not list"
    assert refused_address(address, EVERYTHING) is None


@pytest.mark.parametrize("text", [
    *("0.0.0.1", "169.254.169.254", "224.0.0.1", "240.0.0.1", "255.255.255.255"),
    *("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254"),
    *("::", "fe80::1", "fec0::1", "ff02::1", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1"),
    "2001:0:101:101:0:0:5601:5601",  # Teredo writes the client's address, 169.254.169.254 here, with all bits turned
])  # fmt: skip
def test_some_addresses_are_open_nowhere(text: str) -> None:
    """Link-local and reserved ones, and those where clouds tell their machines secrets, although all is listed."""
    assert refused_address(ip_address(text), EVERYTHING) == (
        "an address that is never fetched from: link-local, metadata, multicast or reserved"
    )


@pytest.mark.parametrize(
    ("text", "network"), [("127.0.0.1", "127.0.0.0/8"), ("127.9.9.9", "127.9.0.0/16"), ("::1", "::1/128")]
)
def test_loopback_is_open_where_it_is_named(text: str, network: str) -> None:
    """By a network that lies in it; the other version's is another one."""
    assert refused_address(ip_address(text), (ip_network(network),)) is None
    other = "::1/128" if "." in text else "127.0.0.0/8"
    assert refused_address(ip_address(text), (ip_network(other),)) is not None
