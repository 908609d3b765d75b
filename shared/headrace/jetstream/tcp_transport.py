"""The TCP connection to a NATS server."""

from nats.aio.transport import TcpTransport


class SafeTcpTransport(TcpTransport):
    """nats-py's, which passes nothing to asyncio's `writelines` once the connection is closing.

    There, CPython up to 3.13.5 registers the lost socket with the event loop again
    (python/cpython#136234), and the next socket that gets its descriptor, whoever's it is, never
    becomes readable or writable: a request to any server hangs. `write` drops the data, or raises
    RuntimeError under uvloop.
    """

    def __init__(self) -> None:
        """Make a transport that is not connected."""
        super().__init__()  # type: ignore[no-untyped-call]

    def writelines(self, payload: list[bytes]) -> None:
        """Write `payload`, unless the connection is lost."""
        writer = self._io_writer
        if writer is not None and writer.transport.is_closing():
            writer.write(b"".join(payload))
        else:
            super().writelines(payload)  # type: ignore[no-untyped-call]

    def __bool__(self) -> bool:
        """Whether to use it for the next connection; nats-py replaces one that is false."""
        return True
