"""Where a service reports that it has started, by systemd's protocol (``NOTIFY_SOCKET``)."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from socket import AF_UNIX
from typing import override


class _Reports(asyncio.DatagramProtocol):
    def __init__(self, ready: asyncio.Event) -> None:
        self._ready = ready

    @override
    def datagram_received(self, data: bytes, addr: object) -> None:
        if b"READY=1" in data.split(b"\n"):
            self._ready.set()


@asynccontextmanager
async def ready_socket() -> AsyncIterator[tuple[str, asyncio.Event]]:
    """Give the path of a socket for one service, and an event that its report sets."""
    ready = asyncio.Event()
    # Not in the data directory: a socket's path has a maximum of about 100 characters.
    with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
        path = str(Path(folder) / "ready")
        transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
            lambda: _Reports(ready), local_addr=path, family=AF_UNIX
        )
        try:
            yield path, ready
        finally:
            transport.close()
