"""The logs of many short tasks, stored as fast as NATS takes them.

Each is three messages, as gateways and workers write them: the input, the claim, and the answer
with the end. They are copies of one log in which what differs is replaced at the same length.
"""

import asyncio
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import batched
from urllib.parse import urlsplit

from headrace.model.subjects import Subjects
from headrace.model.task import CANCELED, COMPLETED, FAILED, TaskKey, mint_task_id, thread_token
from tests.support.legal_logs import LegalLog

_SHARDS = 16
"""Of the first event stream."""
_ENDS = (COMPLETED,) * 8 + (FAILED, CANCELED)
_FEW = 5
_BATCH = 500
_AHEAD = 2000
"""Tasks that are not acknowledged yet: JetStream drops what comes while 10,000 messages wait."""
_SPACING = timedelta(milliseconds=1)
"""Between the statuses of two tasks, as lists order them."""
_PER_CONTEXT = 20

_THREAD, _RANDOM, _LOG = "e" * 12, "f" * 20, "logid000"
_CONTEXT, _OWNER = "context-0000000000", "owner-00000"
_TIME = b"1970-01-01T00:00:00.000Z"
_ANY_TIME = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_ACKS = "_INBOX.filling"


@dataclass(slots=True)
class ShortTasks:
    """Ended tasks of several agents: half of them one owner's, five another's, a few of many's."""

    subjects: Subjects
    agents: Sequence[str]
    owner: str
    """The owner of half of them."""
    others: int
    """How many owners share the others."""
    owned: list[TaskKey] = field(default_factory=list)
    """The tasks of `owner` that have been made."""
    _chance: random.Random = field(default_factory=lambda: random.Random(1))
    _templates: dict[tuple[str, str, str, int], bytes] = field(default_factory=dict)

    def logs(self, number: int) -> Iterator[bytes]:
        """Yield the commands that publish each log, whose end JetStream acknowledges."""
        first = datetime.now(UTC) - number * _SPACING
        for at in range(number):
            yield self._log(at, first + at * _SPACING)

    def inputs(self, number: int) -> Iterator[bytes]:
        """Yield the commands that publish inputs of one more owner, which no run follows."""
        for at in range(number):
            context = f"swept-{at}"
            thread = thread_token("swept", context)
            key = TaskKey("default", "counter", mint_task_id(at % _SHARDS, thread))
            log = LegalLog(key, "swept", context, f"{at:08x}")
            log.submit("1")
            yield b"".join(_commands(self.subjects.event(key), log))

    def _log(self, at: int, time: datetime) -> bytes:
        owner, end = self._owner_of(at), self._chance.choice(_ENDS)
        shard, context = at % _SHARDS, f"context-{at // _PER_CONTEXT:010}"
        thread = thread_token(owner, context)
        key = TaskKey("default", self.agents[at % len(self.agents)], mint_task_id(shard, thread))
        if owner == self.owner:
            self.owned.append(key)
        stamp = f"{time:%Y-%m-%dT%H:%M:%S}.{time.microsecond // 1000:03}Z"
        return (
            self._template(owner if owner in {self.owner, "few"} else _OWNER, end, key.agent, shard)
            .replace(_RANDOM.encode(), key.task[-len(_RANDOM) :].encode())
            .replace(_THREAD.encode(), thread.encode())
            .replace(_LOG.encode(), f"{at:08x}".encode())
            .replace(_CONTEXT.encode(), context.encode())
            .replace(_OWNER.encode(), owner.encode())
            .replace(_TIME, stamp.encode())
        )

    def _owner_of(self, at: int) -> str:
        if at < _FEW:
            return "few"
        return self.owner if at % 2 else f"owner-{self._chance.randrange(self.others):05}"

    def _template(self, owner: str, end: str, agent: str, shard: int) -> bytes:
        shape = owner, end, agent, shard
        if shape not in self._templates:
            key = TaskKey("default", agent, f"{shard}-{_THREAD}{_RANDOM}")
            log = _short(LegalLog(key, owner, _CONTEXT, _LOG), end)
            self._templates[shape] = b"".join(_commands(self.subjects.event(key), log))
        return self._templates[shape]


def _short(log: LegalLog, end: str) -> LegalLog:
    log.submit("What about it?")
    log.begin_attempt()
    answer = log.chunk("answer", "There is nothing to say.", {"agui_block_type": "text"})
    log.append([answer, log.status(end)], state=end)
    return log


def _commands(subject: str, log: LegalLog) -> Iterator[bytes]:
    entries = log.entries
    for stamp, body in entries:
        lines = "".join(f"{name}: {value}\r\n" for name, value in stamp.headers().items())
        head, content = f"NATS/1.0\r\n{lines}\r\n".encode(), _ANY_TIME.sub(_TIME, body)
        reply = f"{_ACKS} " if stamp is entries[-1][0] else ""
        sizes = f"{len(head)} {len(head) + len(content)}"
        yield f"HPUB {subject} {reply}{sizes}\r\n".encode() + head + content + b"\r\n"


async def store(url: str, logs: Iterator[bytes]) -> int:
    """Store logs at the server with that URL; return how many it has acknowledged: all.

    No client library comes as close to what the server takes.

    Raises:
        AssertionError: JetStream refused one.
        TimeoutError: it did not acknowledge some for a minute.
    """
    place = urlsplit(url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    writer.write(
        b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\n'
        b"SUB %b 1\r\n" % _ACKS.encode()
    )
    acks, sent = _Acks(reader), 0
    for batch in batched(logs, _BATCH):
        writer.write(b"".join(batch))
        sent += len(batch)
        await writer.drain()
        await acks.reach(sent - _AHEAD, writer)
    await acks.reach(sent, writer)
    writer.close()
    return acks.number


class _Acks:
    """Counts what JetStream has acknowledged."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader, self._rest = reader, b""
        self.number = 0

    async def reach(self, number: int, writer: asyncio.StreamWriter) -> None:
        while self.number < number:
            async with asyncio.timeout(60.0):
                received = await self._reader.read(1 << 16)
            *lines, self._rest = (self._rest + received).split(b"\r\n")
            assert received, "the server hung up"
            for line in lines:
                if line == b"PING":
                    writer.write(b"PONG\r\n")
                self.number += line.startswith(b"MSG ")
                assert not line.startswith(b"-ERR"), line
                assert b'"error"' not in line, line
