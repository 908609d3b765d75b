"""Reading core NATS messages, which anybody with the permission may have sent, and nobody keeps."""

import logging
from typing import Protocol

from headrace.model.errors import UndecodableMessage
from headrace.model.messages import BusMessage

_log = logging.getLogger(__name__)


class CoreMessage(Protocol):
    """What is read of a message."""

    subject: str
    data: bytes


def decode_or_ignore[Body: BusMessage](
    body: type[Body], msg: CoreMessage, what: str
) -> Body | None:
    """Return the body of a message; None, after a warning that names `what` it is: malformed."""
    try:
        return body.decode(msg.subject, msg.data)
    except UndecodableMessage as error:
        _log.warning("ignored a malformed %s: %s", what, error)
        return None
