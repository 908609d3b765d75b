"""Ports to listen on: the ones asked for, if they are free, or free ones."""

import errno
import os
import random
import socket
from collections.abc import Container

from headrace_cli.failures import CannotStart

_PICKED = range(20_000, 32_000)
"""Where free ports are picked: below every system's range for outgoing connections.

Inside that range a client's connection can take the port of a server that is being restarted, and
a client that retries a dead port can even connect to itself there.
"""

_HIGHEST = 65_535
_TRIES = 200


class Ports:
    """Hands out ports on one host, none of them twice.

    A port that one process has picked is not picked by any other while that process runs, even if
    no server listens on it yet, or again after a crash.
    """

    def __init__(self, host: str = "127.0.0.1") -> None:
        """Hand out ports on `host`, a name or an address."""
        self._host = host
        self._given: set[int] = set()

    def pick(self) -> int:
        """Return a port that is free now.

        Raises:
            CannotStart: none was found.
        """
        for port in random.SystemRandom().sample(_PICKED, _TRIES):
            if port in self._given or _refusal(self._host, port) is not None:
                continue
            if _reserve(self._host, port):
                self._given.add(port)
                return port
        raise CannotStart(f"no free port on {self._host}")

    def claim(self, first: int, count: int, choose_with: str) -> list[int]:
        """Return the `count` ports from `first` on, all free; from 0 on: any free ones.

        Raises:
            CannotStart: a port is taken or unavailable; `choose_with` describes how to choose
                others.
        """
        if first == 0:
            return [self.pick() for _ in range(count)]
        ports = list(range(first, first + count))
        for port in ports:
            self._require(port, choose_with)
        self._given.update(ports)
        return ports

    def _require(self, port: int, choose_with: str) -> None:
        if port > _HIGHEST:
            raise CannotStart(f"port {port} does not exist: choose another with {choose_with}")
        if port in self._given:
            raise CannotStart(f"port {port} is requested twice: choose another with {choose_with}")
        refusal = _refusal(self._host, port)
        if refusal == errno.EADDRINUSE:
            raise CannotStart(
                f"port {port} on {self._host} is taken: choose another with {choose_with}"
            )
        if refusal is not None:
            raise CannotStart(f"cannot listen on {self._host}:{port}: {os.strerror(refusal)}")


class MetricsAddresses:
    """Hands out addresses for metrics on loopback; again those of processes that have ended.

    Old and new workers overlap, so each reload needs other addresses. A new port for each would be
    reserved until this process ends.
    """

    def __init__(self, ports: Ports) -> None:
        """Hand out ports of `ports`, on 127.0.0.1."""
        self._ports = ports
        self._picked = list[str]()

    def pick(self, count: int, used: Container[str | None] = ()) -> list[str]:
        """Return `count` addresses, HOST:PORT, none of them in `used`.

        Raises:
            CannotStart: there are not that many free ports.
        """
        free = [address for address in self._picked if address not in used]
        more = [f"127.0.0.1:{self._ports.pick()}" for _ in range(count - len(free))]
        self._picked += more
        return [*free, *more][:count]


def _reserve(host: str, port: int) -> bool:
    """Reserve `port` for the life of this process; return whether it was free.

    The reservation is the UDP port of that number, which none of our servers uses. It does not keep
    any process from listening with TCP, and the system releases it however the process ends.
    """
    try:
        family, kind, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as reservation:
            reservation.bind(address)
            reservation.detach()
    except OSError:
        return False
    return True


def _refusal(host: str, port: int) -> int | None:
    """Return the error number with which the system refuses to listen; None if it does not."""
    try:
        family, kind, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            # As servers do: connections that linger from an earlier server are no reason.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except socket.gaierror:
        return errno.EADDRNOTAVAIL
    except OSError as refused:
        return refused.errno
    return None
