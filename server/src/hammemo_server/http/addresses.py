"""How many connections each address may have, so that one machine cannot take all of them.

Behind a proxy all connections come from the proxy. There, requests are counted instead, by the
address that the proxy reports (``X-Forwarded-For``): that is trusted only where the connection
comes from a proxy that was named as trusted. Of an IPv6 address the network of 64 bits counts,
which is what one machine mostly has for itself.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_FORWARDED: Final = b"x-forwarded-for"


def parse_networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Return addresses and networks, or refuse what is none.

    Examples
    --------
    >>> from hammemo_server.http.addresses import parse_networks
    >>> parse_networks(["10.0.0.1", "fd00::/8"])
    (IPv4Network('10.0.0.1/32'), IPv6Network('fd00::/8'))
    """
    try:
        return tuple(ipaddress.ip_network(text) for text in texts)
    except ValueError as error:
        raise ValueError(
            f"A trusted proxy is an address or a network in numbers: {error}."
        ) from None


class Addresses:
    """Counts connections, or requests through trusted proxies, by address.

    Used from the event loop alone.

    Parameters
    ----------
    most : int
        Connections of one address.
    trusted : tuple of networks
        Where trusted proxies are.
    counts_peers : bool
        Whether connections of others are counted. Not behind a proxy that was not named: all
        would be the proxy's.

    Examples
    --------
    >>> from hammemo_server.http.addresses import Addresses, parse_networks
    >>> addresses = Addresses(1, parse_networks(["10.0.0.1"]))
    >>> addresses.enter("192.0.2.7"), addresses.enter("192.0.2.7"), addresses.enter("192.0.2.8")
    (True, False, True)
    >>> headers = [(b"x-forwarded-for", b"1.2.3.4, 192.0.2.9")]
    >>> scope = {"client": ("10.0.0.1", 5), "headers": headers}
    >>> addresses.peer("10.0.0.1"), addresses.client_behind_proxy(scope)
    (None, '192.0.2.9')
    """

    def __init__(
        self, most: int, trusted: tuple[Network, ...] = (), *, counts_peers: bool = True
    ) -> None:
        self._most = most
        self._trusted = trusted
        self._counts_peers = counts_peers
        self._open: Counter[str] = Counter()

    def enter(self, address: str) -> bool:
        """Count one more of an address, if it may have it.

        Each that returns True is followed by one `leave`.
        """
        if self._open[address] >= self._most:
            return False
        self._open[address] += 1
        return True

    def leave(self, address: str) -> None:
        """Take note that a connection is closed, or a request answered."""
        self._open[address] -= 1
        if not self._open[address]:
            del self._open[address]

    def peer(self, host: str | None) -> str | None:
        """Return the address that a connection counts for.

        None for one of a proxy or a socket of this machine.
        """
        address = _parse_address(host or "")
        if address is None or not self._counts_peers or self._is_trusted(address):
            return None
        return _network_of(address)

    def client_behind_proxy(self, scope: Mapping[str, Any]) -> str | None:
        """Return the address that a request counts for.

        None where it did not come through a trusted proxy. The last entry is that of the proxy
        itself; entries of further trusted proxies are passed over, and what stands before them
        may be invented.
        """
        if not self._trusted:
            return None
        last = _parse_address((scope.get("client") or ("",))[0])
        if last is None or not self._is_trusted(last):
            return None
        values = [value.decode("latin-1") for name, value in scope["headers"] if name == _FORWARDED]
        for entry in reversed(",".join(values).split(",")):
            address = _parse_address(entry.strip())
            if address is None or not self._is_trusted(last):
                break
            last = address
        return _network_of(last)

    def _is_trusted(self, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
        return any(address in network for network in self._trusted)


def _parse_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return an address, with or without a port; None for anything else."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _network_of(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    """Return what counts as one address: of IPv6 a network of 64 bits."""
    if address.version == 4:
        return str(address)
    return str(ipaddress.ip_network((address, 64), strict=False))
