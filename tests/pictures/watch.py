"""Watches the messages between a client, the services of a fleet and NATS about one task."""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass

from nats.aio.client import Client
from nats.aio.msg import Msg

_ROLE = re.compile(r"_INBOX\.(worker|gateway)\.")

type Parties = tuple[str, str, str]
"""Sender, receiver and what is sent."""


@dataclass(frozen=True, slots=True)
class Step:
    """A message from one party to another."""

    at: float
    """Milliseconds since the first step."""
    sender: str
    receiver: str
    what: str


class Watch:
    """The messages on a NATS server, and what a client does."""

    def __init__(self, nats: Client) -> None:
        """Watch through that connection."""
        self._nats = nats
        self._seen = list[tuple[float, Msg | Parties]]()

    async def start(self) -> None:
        """Begin."""
        await self._nats.subscribe(">", cb=self._note_message)
        await self._nats.flush()

    def note(self, sender: str, receiver: str, what: str) -> None:
        """Note a step between the client and a gateway."""
        self._seen.append((time.monotonic(), (sender, receiver, what)))

    async def _note_message(self, message: Msg) -> None:
        self._seen.append((time.monotonic(), message))

    def steps(self, task: str) -> list[Step]:
        """Return the steps about `task`, in order; the first one is the client's request."""
        seen = sorted(
            self._after_their_causes(task), key=lambda one: (one[0], isinstance(one[1], tuple))
        )
        start = next(at for at, what in seen if isinstance(what, tuple))
        return [
            Step(round((at - start) * 1000, 1), *parties)
            for at, what in seen
            for parties in (_on_the_bus(what, task) if isinstance(what, Msg) else [what])
        ]

    def _after_their_causes(self, task: str) -> Iterator[tuple[float, Msg | Parties]]:
        """Yield what was seen, with no event at the client before NATS passed it on.

        Two connections end in this process, and which of them is read first means nothing.
        """
        passed_on = {
            number: at
            for at, what in self._seen
            if isinstance(what, Msg) and ".live." in what.subject and task in what.subject
            for number in _numbers(what)
        }
        for at, what in self._seen:
            event = isinstance(what, tuple) and re.fullmatch(r"event (\d+)", what[2])
            yield max(at, passed_on.get(int(event[1]), at)) if event else at, what


def _on_the_bus(message: Msg, task: str) -> Iterator[Parties]:
    """Yield who sends the message to whom, if it is about `task`."""
    subject, by, to = message.subject, _ROLE.match(message.reply), _ROLE.match(message.subject)
    if task not in subject and task.encode() not in message.data:
        return
    if by and ".event." in subject:
        yield by[1], "NATS", f"append {_named(message)}"
    elif ".event." in subject:
        yield "NATS", "task state", _named(message)
    elif ".live." in subject:
        yield "NATS", "gateway", _named(message)
    elif by and ".run." in subject:
        yield by[1], "NATS", "request a run"
    elif ".run." in subject:
        yield "NATS", "worker", "the run's request"
    elif by and subject.startswith("$JS.API.DIRECT.GET."):
        yield by[1], "NATS", "read the log"
    elif to and "Headrace-Generation" in (message.headers or {}):
        yield "NATS", to[1], f"stored {_named(message)}"


def _numbers(message: Msg) -> range:
    first = int((message.headers or {})["Headrace-Generation"])
    return range(first, first + len(message.data.splitlines()))


def _named(message: Msg) -> str:
    numbers = _numbers(message)
    first, last = numbers[0], numbers[-1]
    return f"event {last}" if first == last else f"events {first} to {last}"
