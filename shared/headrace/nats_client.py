"""nats-py's client, with the one trap closed that nothing outside it can get at."""

from nats.aio.client import Client
from nats.aio.transport import TcpTransport


class NatsClient(Client):
    """Reconnects also from a server that froze, or whose machine went away without a word.

    nats-py first waits until the old connection is closed, that is until the old server has taken
    what was still to be sent: for ever, or for as long as TCP tries.
    """

    async def _attempt_reconnect(self) -> None:
        transport = self._transport
        if isinstance(transport, TcpTransport) and transport._io_writer is not None:  # noqa: SLF001 - there is no other way
            transport._io_writer.transport.abort()  # noqa: SLF001 - likewise
        await super()._attempt_reconnect()
