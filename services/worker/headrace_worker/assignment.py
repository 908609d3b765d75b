"""A pulled run request: the run that it names, its acknowledgement and its dead letter."""

from base64 import b64encode
from dataclasses import dataclass
from datetime import datetime

from nats.aio.msg import Msg

from headrace import clock
from headrace.jetstream.connection import Bus
from headrace.jetstream.consumers import ACK, TERM, nak
from headrace.model.entry import Entry, Stamp
from headrace.model.errors import InvalidName, UndecodableMessage
from headrace.model.events import now
from headrace.model.messages import DeadLetter
from headrace.model.run import Run
from headrace.model.task import SUBMITTED, TaskKey, check_task_id
from headrace.tasks.dead_letters import write_letter
from headrace.tasks.runs import publish_unconfirmed


@dataclass(slots=True)
class Assignment:
    """The run named by a run request, and the message to acknowledge."""

    run: Run
    """Without the input that the request carries."""
    message: Msg
    """The request as pulled."""
    input: Entry | None = None
    """The input that the request carries, as its log's last entry; None if the log must be read."""

    @property
    def key(self) -> TaskKey:
        """The task."""
        return self.run.key

    @property
    def name(self) -> tuple[str, int]:
        """Its task and run."""
        return self.run.key.task, self.run.generation

    def pop_input(self) -> Entry | None:
        """Return `input`, once: if its log has changed, it must be read."""
        found, self.input = self.input, None
        return found

    def free_body(self) -> None:
        """Free the request's body; what is left of it in `run` becomes a dead letter's.

        The body carries the input, which the agent has parsed: 0.6 KB of a run that waits.
        """
        self.message.data = b""

    async def ack(self, bus: Bus) -> None:
        """Acknowledge the request, without confirmation: a request that stays is dropped later.

        Raises:
            nats.errors.Error: the connection is down, and the buffer for it is full.
        """
        await bus.connection.publish(self.message.reply, ACK)

    async def ask_for(self, bus: Bus, generation: int, *, cleans_up: bool = False) -> None:
        """Request the task's next run, or the clean-up of its end.

        If the request for a run is lost, task state's sweep repeats it.

        Raises:
            BusUnavailable: the connection is down, and the buffer for it is full.
        """
        following = self.run._replace(generation=generation, cleans_up=cleans_up)
        await publish_unconfirmed(bus, following)

    async def give_back(self, bus: Bus, pause: float = 0) -> None:
        """Return the request to the queue, at once or after `pause` seconds.

        Raises:
            nats.errors.Error: as for `ack`.
        """
        await bus.connection.publish(self.message.reply, nak(pause))

    async def give_back_until(self, bus: Bus, time: datetime) -> None:
        """Return the request to the queue, which delivers it at `time`.

        Raises:
            nats.errors.Error: as for `ack`.
        """
        await self.give_back(bus, max((time - clock.now()).total_seconds(), 0.0))

    async def keep_as_dead_letter(self, bus: Bus, reason: str) -> None:
        """Store the request as a dead letter, once; the request stays queued.

        Raises:
            BusUnavailable: the letter was not stored.
        """
        name = f"{self.key.task}.{self.run.generation}"
        body = self.message.data or self.run.encode()
        await _send(bus, self.message, body, reason, self.key.task, name)

    async def give_up(self, bus: Bus, reason: str, task: str | None = None) -> None:
        """Store the request as a dead letter and remove it from the queue.

        The letter names the `task`, if there is one whose log a retry can read.

        Raises:
            BusUnavailable: the letter was not stored; the request stays queued.
        """
        await make_dead_letter(bus, self.message, reason, task)


def read_assignment(bus: Bus, msg: Msg) -> Assignment:
    """Parse a pulled run request.

    Raises:
        NewerVersion: it has a later version than this release reads.
        UndecodableMessage: the subject or the body is not a run request's.
    """
    run = Run.read(bus.subjects, msg.subject, msg.headers, msg.data)
    try:
        check_task_id(run.key.task)
    except InvalidName as error:
        raise UndecodableMessage(msg.subject, str(error)) from None
    return Assignment(run.without_input(), msg, _carried_input(run, msg))


def _carried_input(run: Run, msg: Msg) -> Entry | None:
    """Return the input that the request carries, unless it is redelivered.

    A redelivered run has probably been worked on; reading its log is cheaper than a refused append.
    """
    if run.input is None or run.sequence is None:
        return None
    delivered = msg.metadata
    if delivered.num_delivered != 1:
        return None
    generation = run.generation
    stamp = Stamp(run.log, generation, "", SUBMITTED, generation, owner=run.owner)
    # The run was stored shortly after its input.
    time = delivered.timestamp.isoformat()
    return Entry(stamp, [run.input.encode()], run.sequence, time)


async def make_dead_letter(bus: Bus, msg: Msg, reason: str, task: str | None = None) -> None:
    """Store a run request, of `task` if that is known, as a dead letter; remove it from the queue.

    If this process is killed in between, the next one stores no second letter.

    Raises:
        BusUnavailable: the letter was not stored; the request stays queued.
    """
    # With the time, because a queue that is restored from a backup assigns places again.
    stored = msg.metadata
    place = f"{bus.streams.runs}.{stored.sequence.stream}.{stored.timestamp.isoformat()}"
    await _send(bus, msg, msg.data, reason, task, place)
    await bus.connection.publish(msg.reply, TERM)


async def _send(  # noqa: PLR0917  # the parts of a letter
    bus: Bus, msg: Msg, body: bytes, reason: str, task: str | None, name: str
) -> None:
    """Store the letter, once per `name`."""
    letter = DeadLetter(
        reason=reason,
        subject=msg.subject,
        task=task,
        sequence=msg.metadata.sequence.stream,
        headers=dict(msg.headers or {}),
        body=b64encode(body).decode(),
        at=now(),
    )
    await write_letter(bus, letter, name)
