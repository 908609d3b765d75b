"""A front of several gateways, such as users have: each connection goes to the first that lives."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from tests.support.cutting_proxy import CuttingProxy


class Front(CuttingProxy):
    """Passes on to the first of several ports that accepts."""

    def __init__(self, ports: Sequence[int]) -> None:
        """Pass on to `ports`, in this order."""
        super().__init__(ports[0])
        self._ports = ports

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        for port in self._ports:
            with suppress(OSError):
                return await asyncio.open_connection("127.0.0.1", port)
        raise OSError("no gateway accepts")
