"""Requests to the holder of a task."""

import asyncio

from nats.errors import NoRespondersError
from nats.errors import TimeoutError as NatsTimeout

from headrace.jetstream.connection import NO_ANSWER, Bus
from headrace.model.errors import BusUnavailable, UndecodableMessage
from headrace.model.messages import Control, HolderReply
from headrace.model.task import TaskKey

SECOND_TRY = 0.15
"""Seconds before a second try if the subject has no subscriber: a holder subscribes a moment after
it has appended to the log."""


async def ask_holder(
    bus: Bus, key: TaskKey, control: Control, timeout: float
) -> HolderReply | None:
    """Return the answer of the task's holder. None: the task has no holder, or it timed out.

    Raises:
        BusUnavailable: The request could not be sent.
    """
    subject, question = bus.subjects.control(key), control.encode()
    try:
        return await _ask(bus, subject, question, timeout)
    except NoRespondersError:
        await asyncio.sleep(SECOND_TRY)
    try:
        return await _ask(bus, subject, question, timeout)
    except NoRespondersError:
        return None


async def _ask(bus: Bus, subject: str, question: bytes, timeout: float) -> HolderReply | None:
    try:
        msg = await bus.connection.request(subject, question, timeout=timeout)
        return HolderReply.decode(subject, msg.data)
    except NoRespondersError:
        raise
    except (NatsTimeout, UndecodableMessage):
        return None
    except NO_ANSWER as error:
        raise BusUnavailable(f"{subject}: {error}") from error
