"""Packing commands in C, as redis-py's blocking connections do and its asynchronous ones do not."""

from typing import Any

from redis.asyncio.connection import AbstractConnection
from redis.connection import HiredisRespSerializer

_serializer = HiredisRespSerializer()


class PackedInC:
    """What a connection packs commands with: a batch of 100 tasks has some 1,500 arguments."""

    def pack_command(self, *args: Any) -> list[bytes]:  # noqa: ANN401 - redis-py's own
        """Return the bytes of one command."""
        packed: list[bytes] = _serializer.pack(*args)
        return packed


def packed_in_c(kind: type[AbstractConnection]) -> type[AbstractConnection]:
    """Return `kind` of connection (TCP, TLS, Unix) that packs commands in C."""
    return type(kind.__name__, (PackedInC, kind), {})
