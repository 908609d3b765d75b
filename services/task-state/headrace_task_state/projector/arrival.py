"""A message as a range's consumer hands it out."""

from typing import NamedTuple

from nats.aio.msg import Msg

from headrace.jetstream.client import Received
from headrace.jetstream.consumers import delivery
from headrace.jetstream.headers import SEQUENCE, SUBJECT, TIME, nanoseconds
from headrace.log.read import tombstone_of
from headrace.model.entry import Stamp, parse_stamp, read_stamp


class Arrival(NamedTuple):
    """One message, with what its reply subject says of it."""

    sequence: int
    """In the stream."""
    number: int
    """How many messages the consumer has handed out, this one included."""
    time: int
    """When NATS stored it, nanoseconds since 1970."""
    msg: Msg

    @property
    def pending(self) -> int:
        """How many messages the consumer had still to hand out behind this one."""
        return int(self.msg.reply.rpartition(".")[2])

    @property
    def is_tombstone(self) -> bool:
        """Whether it is a tombstone."""
        # Headers are read where there is no body only: tombstones have none.
        return not self.msg.data and tombstone_of(self.msg.headers) is not None

    def stamp(self) -> Stamp:
        """Read what the headers say of the entry.

        Raises:
            UndecodableMessage: they are no entry's.
        """
        msg = self.msg
        if isinstance(msg, Received):
            return read_stamp(msg.subject, msg.block, lambda: msg.headers)
        return parse_stamp(msg.subject, msg.headers)


def read_arrival(msg: Msg) -> Arrival:
    """Return the message with what its reply subject says.

    Raises:
        ValueError: the reply subject is not a consumer's.
    """
    return Arrival(*delivery(msg.reply), msg)


def read_directly(msg: Msg) -> Arrival:
    """Return a message that was got directly as if a consumer had handed it out.

    Raises:
        KeyError: JetStream did not send it.
    """
    headers = msg.headers or {}
    # The headers of the answer come behind those of the entry, which are read from the block.
    msg.subject = headers[SUBJECT]
    return Arrival(int(headers[SEQUENCE]), 0, nanoseconds(headers[TIME]), msg)
