"""A pull consumer in memory: its deliveries and pending pull requests."""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import orjson

from headrace.jetstream.consumers import ACK, IN_PROGRESS, TERM
from headrace.jetstream.headers import LAST_CONSUMER, LAST_STREAM, PENDING_REQUEST
from headrace.jetstream.memory.stream import MemoryStream, StoredMessage, stamp
from headrace.jetstream.memory.wire import matches, status

type Json = dict[str, Any]

_SECOND = 1_000_000_000
_NAK = b"-NAK"
_LONGEST_PAUSE = 0.02
"""Maximum seconds before a message is redelivered after a negative acknowledgement."""


class MessageSink(Protocol):
    """What a consumer needs from its server."""

    def send(self, to: str, subject: str, reply: str, block: bytes, data: bytes) -> bool:
        """Send a message on `subject` to the subscribers of `to`; return whether there are any."""

    def later(self, seconds: float, work: Callable[[], None]) -> None:
        """Call `work` after `seconds`."""


@dataclass(slots=True, eq=False)
class _Pull:
    """A pull request, and how many messages it can still receive."""

    reply: str
    left: int
    heartbeat: float
    """Seconds between heartbeats; 0: none."""


@dataclass(slots=True)
class _Delivered:
    """A message that was delivered and not acknowledged."""

    tries: int
    round: int
    """Number of the delivery, or of its last heartbeat."""


@dataclass(slots=True)
class MemoryConsumer:
    """A pull consumer as its `config` declares it."""

    name: str
    config: Json
    stream: MemoryStream
    sink: MessageSink
    delivered: int = 0
    """Number of deliveries."""
    position: int = 0
    """Sequence of the last message that has been delivered at least once."""
    _pulls: deque[_Pull] = field(default_factory=deque)
    _again: dict[int, int] = field(default_factory=dict)
    """Messages to redeliver, with the number of their deliveries."""
    _open: dict[int, _Delivered] = field(default_factory=dict)
    _rounds: int = 0

    def __post_init__(self) -> None:
        """Start at the sequence in the configuration, if it has one."""
        if self.config.get("deliver_policy") == "by_start_sequence":
            self.position = self.config["opt_start_seq"] - 1

    def info(self) -> Json:
        """Return its ConsumerInfo."""
        return {
            "stream_name": self.stream.config["name"],
            "name": self.name,
            "created": stamp(self.stream.created),
            "config": self.config,
            "delivered": {"consumer_seq": self.delivered, "stream_seq": self.position},
            "ack_floor": {"consumer_seq": 0, "stream_seq": 0},
            "num_ack_pending": len(self._open),
            "num_redelivered": 0,
            "num_waiting": len(self._pulls),
            "num_pending": sum(1 for _ in self._waiting()),
        }

    def pull(self, reply: str, request: Json) -> None:
        """Serve a pull request."""
        pull = _Pull(reply, request.get("batch", 1), request.get("idle_heartbeat", 0) / _SECOND)
        self._pulls.append(pull)
        self.deliver()
        if not pull.left:
            return
        if request.get("no_wait"):
            self._end(pull, 404, "No Messages")
            return
        if pull.heartbeat:
            self.sink.later(pull.heartbeat, lambda: self._beat(pull))
        expires = request.get("expires", 0) / _SECOND
        self.sink.later(expires, lambda: self._end(pull, 408, "Request Timeout"))

    def deliver(self) -> None:
        """Deliver waiting messages to waiting requests."""
        while self._pulls and (one := next(self._waiting(), None)) is not None:
            pull = self._pulls[0]
            if not self._deliver(pull, one):
                self._pulls.popleft()
                continue
            pull.left -= 1
            if not pull.left:
                self._pulls.popleft()

    def acknowledge(self, sequence: int, answer: bytes) -> None:
        """Process the receiver's acknowledgement (`answer`) of a delivered message."""
        known = self._open.get(sequence)
        if known is None:
            return
        if answer == IN_PROGRESS:
            self._watch(sequence, known)
        elif answer.startswith(_NAK):
            delay = orjson.loads(answer.removeprefix(_NAK) or b"{}").get("delay", 0) / _SECOND
            now = self._next_round(known)
            pause = min(delay, _LONGEST_PAUSE)
            self.sink.later(pause, lambda: self._lapse(sequence, now))
        elif answer in {ACK, TERM, b""}:
            del self._open[sequence]
            if self.stream.config.get("retention") == "workqueue":
                self.stream.remove(sequence)

    def expire(self) -> None:
        """Redeliver every message that is not acknowledged."""
        for sequence, known in list(self._open.items()):
            self._lapse(sequence, known.round)

    def _waiting(self) -> Iterator[StoredMessage]:
        """Yield the messages that can be delivered now: redeliveries first, then new ones."""
        yield from [self.stream.messages[n] for n in self._again if n in self.stream.messages]
        for sequence in range(self.position + 1, self.stream.last + 1):
            one = self.stream.messages.get(sequence)
            if one is not None and matches(self.config.get("filter_subject") or ">", one.subject):
                yield one

    def _deliver(self, pull: _Pull, one: StoredMessage) -> bool:
        tries = self._again.get(one.sequence, 0) + 1
        number, pending = self.delivered + 1, 0
        names = f"{self.stream.config['name']}.{self.name}"
        time = round(one.time.timestamp() * 1_000_000) * 1000
        reply = f"$JS.ACK.{names}.{tries}.{one.sequence}.{number}.{time}.{pending}"
        if not self.sink.send(pull.reply, one.subject, reply, one.block, one.data):
            return False
        self.delivered = number
        self._again.pop(one.sequence, None)
        self.position = max(self.position, one.sequence)
        if self.config.get("ack_policy") != "none":
            known = self._open[one.sequence] = _Delivered(tries, 0)
            self._watch(one.sequence, known)
        return True

    def _watch(self, sequence: int, known: _Delivered) -> None:
        """Redeliver the message unless a heartbeat or an acknowledgement arrives in time."""
        now = self._next_round(known)
        wait = self.config.get("ack_wait", 30 * _SECOND) / _SECOND
        self.sink.later(wait, lambda: self._lapse(sequence, now))

    def _next_round(self, known: _Delivered) -> int:
        self._rounds += 1
        known.round = self._rounds
        return self._rounds

    def _lapse(self, sequence: int, round_: int) -> None:
        known = self._open.get(sequence)
        if known is not None and known.round == round_:
            del self._open[sequence]
            self._again[sequence] = known.tries
            self.deliver()

    def _beat(self, pull: _Pull) -> None:
        if pull not in self._pulls:
            return
        headers = {LAST_CONSUMER: str(self.delivered), LAST_STREAM: str(self.stream.last)}
        self._send_status(pull, status(100, "Idle Heartbeat", headers))
        self.sink.later(pull.heartbeat, lambda: self._beat(pull))

    def _end(self, pull: _Pull, code: int, description: str) -> None:
        if pull in self._pulls:
            self._pulls.remove(pull)
            self._send_status(pull, status(code, description, {PENDING_REQUEST: str(pull.left)}))

    def _send_status(self, pull: _Pull, block: bytes) -> None:
        self.sink.send(pull.reply, pull.reply, "", block, b"")
