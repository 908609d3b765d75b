"""Reports of services that they have started, as systemd takes them (``NOTIFY_SOCKET``)."""

import asyncio
import os
import secrets
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from socket import AF_UNIX
from typing import override

_PAUSE, _LONG_PAUSE = 0.1, 1.0

_LONGEST = 100
"""Bytes of a path that every system takes for a socket's."""


class ReadyReports:
    """The reports that come to one socket."""

    def __init__(self, path: str, expected: int) -> None:
        """Wait for `expected` reports at the socket at `path`."""
        self.path = path
        self._expected, self._come = expected, asyncio.Semaphore(0)

    def add(self) -> None:
        """Take a report."""
        self._come.release()

    async def next(self) -> None:
        """Wait for the next report that has not been waited for."""
        await self._come.acquire()
        self._expected -= 1

    async def pause(self) -> None:
        """Wait between two questions to services: until one more has started, at most a second.

        Each question delays a service that starts. When all have started, the pause is short.
        """
        if self._expected <= 0:
            await asyncio.sleep(_PAUSE)
            return
        with suppress(TimeoutError):
            await asyncio.wait_for(self.next(), _LONG_PAUSE)


@asynccontextmanager
async def ready_reports(expected: int = 1) -> AsyncIterator[ReadyReports]:
    """Receive reports for the length of the block; `expected` are to come."""
    with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
        path = str(Path(folder) / "ready")
        if len(os.fsencode(path)) > _LONGEST:
            path = f"@headrace-{secrets.token_hex(16)}"
        reports = ReadyReports(path, expected)
        transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
            lambda: _Receiver(reports), local_addr=_address(path), family=AF_UNIX
        )
        try:
            yield reports
        finally:
            transport.close()


def _address(path: str) -> str:
    # systemd writes an address of the abstract namespace, which only Linux has, with an @.
    return f"\0{path[1:]}" if path.startswith("@") else path


class _Receiver(asyncio.DatagramProtocol):
    def __init__(self, reports: ReadyReports) -> None:
        self._reports = reports

    @override
    def datagram_received(self, data: bytes, addr: object) -> None:
        if b"READY=1" in data.split(b"\n"):
            self._reports.add()
