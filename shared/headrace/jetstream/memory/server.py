"""The NATS server in memory: sessions, subscriptions and message routing.

Clients may run in several threads, each with its own event loop: one lock guards everything, and
each session delivers on its client's loop.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Any

import orjson

from headrace import clock
from headrace.jetstream.memory.api import ACKS, API, MemoryJetStream
from headrace.jetstream.memory.wire import (
    NO_RESPONDERS,
    PONG,
    Command,
    CommandParser,
    Publication,
    info,
    matches,
    message,
)

type Json = dict[str, Any]

type HoldAck = Callable[[str, str, Callable[[], None]], bool]
"""Called with a stored message's subject and reply subject, and a function that sends its
acknowledgement. Returns True if it calls the function itself, later; False to let the server."""

_SUB_WORDS = 3
"""Number of words of a SUB command without a queue group."""
_UNSUB_WORDS = 3
"""Number of words of an UNSUB command with a message limit, which clients enforce too."""


class MemorySession:
    """One client's connection."""

    def __init__(self, server: "MemoryServer", deliver: Callable[[bytes | None], None]) -> None:
        """Pass the server's output to `deliver`, from any thread; None: the connection ended."""
        self._server, self.deliver = server, deliver
        self._parser = CommandParser()
        self.subscriptions: dict[str, tuple[str, str]] = {}
        """Subject and queue group by id."""
        self.is_open = True

    def receive(self, data: bytes) -> None:
        """Execute the commands in `data`."""
        with self._server.lock:
            for command in self._parser.parse(data):
                if not self.is_open:
                    return
                self._server.commands += 1
                if isinstance(command, Publication):
                    self._server.publish(command)
                else:
                    self._execute(command)

    def _execute(self, command: Command) -> None:
        words = command.words
        match words[0].upper():
            case "PING":
                self.deliver(PONG)
            case "SUB":
                *_, sid = words
                group = words[2] if len(words) > _SUB_WORDS else ""
                self.subscriptions[sid] = words[1], group
            case "UNSUB" if len(words) < _UNSUB_WORDS:
                self.subscriptions.pop(words[1], None)

    def end(self) -> None:
        """End the connection from the server's side."""
        self._server.forget(self)
        self.deliver(None)


class MemoryServer:
    """A NATS server with JetStream, for the clients of one process."""

    def __init__(self, now: Callable[[], datetime] = clock.now) -> None:
        """Start without streams, on the running event loop; messages are stored at `now()`."""
        self.lock = threading.RLock()
        self.hold_ack: HoldAck | None = None
        self._loop = asyncio.get_running_loop()
        self._sessions: list[MemorySession] = []
        self._jetstream = MemoryJetStream(self, now)
        self._is_closed = False
        self._count = 0
        self.commands = 0
        """Number of commands that clients have sent."""

    def connect(self, deliver: Callable[[bytes | None], None]) -> MemorySession:
        """Open a session that receives through `deliver`.

        Raises:
            ConnectionRefusedError: the server is closed.
        """
        if self._is_closed:
            raise ConnectionRefusedError("the server in memory is closed")
        session = MemorySession(self, deliver)
        with self.lock:
            self._count += 1
            self._sessions.append(session)
            deliver(info(self._count))
        return session

    def forget(self, session: MemorySession) -> None:
        """Drop a session and its subscriptions."""
        with self.lock:
            session.is_open = False
            with suppress(ValueError):
                self._sessions.remove(session)

    def close(self) -> None:
        """Refuse new sessions and drop delayed calls."""
        self._is_closed = True

    def expire_leases(self) -> None:
        """Redeliver every unacknowledged message now."""
        with self.lock:
            self._jetstream.expire()

    def publish(self, publication: Publication) -> None:
        """Route a message to JetStream's API, a consumer, subscribers and a stream."""
        if publication.subject.startswith(API):
            self._jetstream.request(publication)
            return
        if publication.subject.startswith(ACKS):
            self._jetstream.acknowledge(publication.subject, publication.data)
            return
        delivered = self.send(
            publication.subject,
            publication.subject,
            publication.reply,
            publication.block,
            publication.data,
        )
        if (stream := self._jetstream.stream_for(publication.subject)) is not None:
            answer = self._jetstream.store(stream, publication)
            if publication.reply and not self._is_held(publication, answer):
                self._acknowledge(publication.reply, answer)
        elif publication.reply and not delivered:
            self.send(publication.reply, publication.reply, "", NO_RESPONDERS, b"")

    def send(self, to: str, subject: str, reply: str, block: bytes, data: bytes) -> bool:
        """Send a message on `subject` to the subscribers of `to`; return whether there are any."""
        groups = set[str]()
        is_delivered = False
        for session in list(self._sessions):
            for sid, (pattern, group) in list(session.subscriptions.items()):
                if group in groups or not matches(pattern, to):
                    continue
                if group:
                    groups.add(group)
                session.deliver(message(sid, subject, reply, block, data))
                is_delivered = True
        return is_delivered

    def later(self, seconds: float, work: Callable[[], None]) -> None:
        """Call `work` after `seconds`, on the server's loop."""

        def do() -> None:
            if not self._is_closed:
                with self.lock:
                    work()

        with suppress(RuntimeError):  # The loop is closed: nothing can be waiting any more.
            self._loop.call_soon_threadsafe(lambda: self._loop.call_later(seconds, do))

    def _is_held(self, publication: Publication, answer: Json) -> bool:
        if self.hold_ack is None or "error" in answer:
            return False
        reply = publication.reply
        return self.hold_ack(publication.subject, reply, lambda: self._acknowledge(reply, answer))

    def _acknowledge(self, reply: str, answer: Json) -> None:
        with self.lock:
            self.send(reply, reply, "", b"", orjson.dumps(answer))
