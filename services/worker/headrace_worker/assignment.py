"""A pulled run request, read; and what becomes of one that can't be."""

from base64 import b64encode
from dataclasses import dataclass

from nats.aio.msg import Msg

from headrace.jetstream.connection import Bus
from headrace.jetstream.consumers import ACK, TERM, nak
from headrace.model.errors import InvalidName, UndecodableMessage
from headrace.model.events import now
from headrace.model.messages import DeadLetter, RunRequest
from headrace.model.task import TaskKey, check_task_id
from headrace.tasks.dead_letters import write_letter
from headrace.tasks.runs import publish_unconfirmed


@dataclass(frozen=True, slots=True)
class Assignment:
    """The run that a run request asks for, and where the request is acknowledged."""

    key: TaskKey
    run: int
    request: RunRequest
    message: Msg
    """The request as it was pulled."""

    async def ack(self, bus: Bus) -> None:
        """Take the request off the queue. Not confirmed: one that stays is dropped when it is seen.

        Raises:
            nats.errors.Error: there is no connection, and no room to wait for one.
        """
        await bus.connection.publish(self.message.reply, ACK)

    async def ask_for(self, bus: Bus, run: int) -> None:
        """Ask workers for the task's next run. Should that fail, task state's sweep will.

        Raises:
            BusUnavailable: there is no connection, and no room to wait for one.
        """
        priority = bus.subjects.priority_of_run(self.message.subject)
        await publish_unconfirmed(bus, self.key, run, self.request, priority)

    async def give_back(self, bus: Bus, pause: float = 0) -> None:
        """Let another worker have the request, at once or in `pause` seconds.

        Raises:
            nats.errors.Error: as `ack`.
        """
        await bus.connection.publish(self.message.reply, nak(pause))

    async def keep_as_dead_letter(self, bus: Bus, reason: str) -> None:
        """Keep the request as a dead letter, once however often this is tried; it stays queued.

        Raises:
            BusUnavailable: the letter was not stored.
        """
        await _send(bus, self.message, reason, self.key.task, f"{self.key.task}.{self.run}")

    async def give_up(self, bus: Bus, reason: str) -> None:
        """Take the request off the queue and keep it as a dead letter.

        Raises:
            BusUnavailable: the letter was not stored, so the request stays.
        """
        await give_up(bus, self.message, reason)


def read(bus: Bus, msg: Msg) -> Assignment:
    """Read a pulled run request.

    Raises:
        UndecodableMessage: its subject or its body is not a run request's.
    """
    key, run = bus.subjects.key_of_run(msg.subject)
    try:
        check_task_id(key.task)
    except InvalidName as error:
        raise UndecodableMessage(msg.subject, str(error)) from None
    return Assignment(key, run, RunRequest.decode(msg.subject, msg.data), msg)


async def give_up(bus: Bus, msg: Msg, reason: str) -> None:
    """Keep a run request that nobody can work on as a dead letter, and take it off the queue.

    Raises:
        BusUnavailable: the letter was not stored, so the request stays.
    """
    await _send(bus, msg, reason)
    await bus.connection.publish(msg.reply, TERM)


async def _send(
    bus: Bus, msg: Msg, reason: str, task: str | None = None, name: str | None = None
) -> None:
    letter = DeadLetter(
        reason=reason,
        subject=msg.subject,
        task=task,
        sequence=msg.metadata.sequence.stream,
        headers=dict(msg.headers or {}),
        body=b64encode(msg.data).decode(),
        at=now(),
    )
    await write_letter(bus, letter, name)
