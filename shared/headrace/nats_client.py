"""nats-py's client, with what nothing outside it can get at made better: two traps, one cost."""

from nats.aio.client import Client
from nats.aio.transport import TcpTransport


class NatsClient(Client):
    """Reconnects also from a server that froze, or whose machine went away without a word.

    nats-py first waits until the old connection is closed, that is until the old server has taken
    what was still to be sent: for ever, or for as long as TCP tries. And a connection on which the
    server says nothing at all it would forget, open.
    """

    @staticmethod
    def _parse_header_lines(raw: bytes) -> dict[str, str]:
        """Read the lines behind ``NATS/1.0`` as nats-py does, at a quarter of its cost.

        An entry has seven headers: they took 7.5 of the 18 µs that receiving it did.
        """
        headers: dict[str, str] = {}
        for line in raw.decode("utf-8", "replace").split("\r\n"):
            name, separator, value = line.partition(":")
            if separator and name.isascii():
                headers[name.strip()] = value.strip()
        return headers

    async def _attempt_reconnect(self) -> None:
        self._abort()
        await super()._attempt_reconnect()

    async def _process_connect_init(self) -> None:
        try:
            await super()._process_connect_init()
        except BaseException:
            self._abort()
            raise

    def _abort(self) -> None:
        transport = self._transport
        if isinstance(transport, TcpTransport) and transport._io_writer is not None:  # noqa: SLF001 - there is no other way
            transport._io_writer.transport.abort()  # noqa: SLF001 - likewise
