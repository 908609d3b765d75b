"""Deleting a stream, also while JetStream elects a leader."""

import asyncio

import nats.errors
from nats.js import JetStreamContext
from nats.js.errors import NotFoundError, ServiceUnavailableError

_TIMEOUT = 60.0


async def delete_stream(jetstream: JetStreamContext, name: str) -> None:
    """Delete the stream; ask again while nobody answers.

    Raises:
        NotFoundError: There is none.
        TimeoutError: Nobody answered within a minute.
    """
    is_unsettled = False
    async with asyncio.timeout(_TIMEOUT):
        while True:
            try:
                await jetstream.delete_stream(name)
            except (nats.errors.TimeoutError, ServiceUnavailableError):
                is_unsettled = True
                continue
            except NotFoundError:
                if not is_unsettled:
                    raise
            return
