"""Which IP addresses the server may connect to for a client."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_LOOPBACK: Final[tuple[Network, ...]] = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
_NEVER: Final[tuple[Network, ...]] = tuple(
    ip_network(text)
    for text in (
        "0.0.0.0/8",  # this host, on many systems
        "169.254.0.0/16",  # link-local, most clouds' metadata
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
        "100.100.100.200/32",  # metadata of Alibaba Cloud
        "168.63.129.16/32",  # the host of Azure's machines
        "192.0.0.192/32",  # metadata of Oracle Cloud
        "::/128",
        "fe80::/10",  # link-local
        "fec0::/10",  # site-local, long given up
        "ff00::/8",  # multicast
        "fd00:ec2::/32",  # metadata and other services inside AWS
        "fd20:ce::254/128",  # metadata of Google Cloud
    )
)
"""No configuration opens these."""
_PRIVATE: Final[tuple[Network, ...]] = tuple(
    ip_network(text)
    for text in (
        *("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10"),  # private, and behind a carrier
        *("192.0.0.0/24", "192.88.99.0/24", "198.18.0.0/15"),  # protocols, old relays, benchmarks
        *("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24"),  # documentation
    )
)
_GLOBAL_V6: Final = IPv6Network("2000::/3")
"""All that is given out of IPv6; the rest is local, special or nobody's."""
_SPECIAL_V6: Final = tuple(IPv6Network(text) for text in ("2001::/23", "2001:db8::/32", "3fff::/20"))
_NAT64: Final = IPv6Network("64:ff9b::/96")
_COMPATIBLE: Final = IPv6Network("::/96")
_TRANSLATED: Final = IPv6Network("::ffff:0:0:0/96")


def refused_address(address: Address, private_networks: Sequence[Network]) -> str | None:
    """Why an address is not connected to: words that go on after "is at"; None where it may be.

    Args:
        address: what a resolver gave, or what stands in a URL.
        private_networks: where addresses may be although they are private. Loopback is open only where one of these
            lies in it, and link-local, multicast and metadata addresses nowhere.
    """
    for each in _meant(address):
        if _in(each, _NEVER):
            return "an address that is never fetched from: link-local, metadata, multicast or reserved"
        if _in(each, _LOOPBACK):
            named = [network for network in private_networks if _inside_loopback(network)]
            if not _in(each, named):
                return "a loopback address, which mediaPrivateNetworks does not name"
        elif not _is_public(each) and not _in(each, private_networks):
            return "a private address, which mediaPrivateNetworks does not list"
    return None


def read_address(text: str) -> Address | None:
    """An address as text, without a zone; None for other texts."""
    try:
        return ip_address(text)
    except ValueError:
        return None


def plain(address: Address) -> Address:
    """The IPv4 address where an IPv6 address is another way of writing it."""
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def _meant(address: Address) -> Iterator[Address]:
    """The address, and the IPv4 address that a gateway on the way may make of it."""
    address = plain(address)
    yield address
    if isinstance(address, IPv4Address):
        return
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    last = IPv4Address(int(address) & 0xFFFFFFFF)
    if _in(address, (_NAT64, _TRANSLATED)) or (address in _COMPATIBLE and int(address) > 1):
        yield last


def _is_public(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return not _in(address, _PRIVATE)
    # Of a gateway's address the one inside decides.
    return address in _NAT64 or (address in _GLOBAL_V6 and not _in(address, _SPECIAL_V6))


def _in(address: Address, networks: Sequence[Network]) -> bool:
    return any(address.version == network.version and address in network for network in networks)


def _inside_loopback(network: Network) -> bool:
    return any(
        network.subnet_of(whole)  # type: ignore[arg-type]  # of one version, which the type does not say
        for whole in _LOOPBACK
        if whole.version == network.version
    )
