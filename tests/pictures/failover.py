"""Records one stream whose gateway and whose worker are killed with ``kill -9``."""

import asyncio
import json
import os
import re
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import httpx

from headrace_cli.dev.readiness import until_ready
from tests.pictures.agents import TOKENS
from tests.support.event_stream import Frame, Json, frames, text_of
from tests.support.plain_a2a import PlainAgent
from tests.support.plain_http import NO_TLS
from tests.support.stack import Stack

GATEWAY_DIES_AT, WORKER_DIES_AT = TOKENS // 3, 2 * TOKENS // 3
"""Tokens at which the processes are killed."""
TRIES = 5
"""Maximum recordings until one shows a failover."""
_PROCESS = re.compile(r"process (\d+):")


@dataclass(frozen=True, slots=True)
class Received:
    """An event, as the client received it."""

    at: float
    """Seconds since the client sent its message."""
    generation: int
    gateway: int
    worker: int
    text: str


@dataclass(slots=True)
class Recording:
    """What happened, in seconds since the client sent its message."""

    received: list[Received] = field(default_factory=list)
    gateway_killed: float = 0.0
    worker_killed: float = 0.0

    @property
    def has_failed_over(self) -> bool:
        """Whether another worker took over, and not the one that was killed and restarted."""
        return len({event.worker for event in self.received}) > 1

    def save(self, path: Path) -> None:
        """Write it as JSON."""
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")


def load(path: Path) -> Recording:
    """Return the recording in a file."""
    content = json.loads(path.read_text())
    content["received"] = [Received(**event) for event in content["received"]]
    return Recording(**content)


class Recorder:
    """A client without a library: it resumes with its last cursor at the other gateway."""

    def __init__(self, stack: Stack, http: httpx.AsyncClient) -> None:
        """Stream from `stack`, which has two gateways."""
        self._stack, self._recording = stack, Recording()
        self._agents = [PlainAgent(http, url, "writer") for url in stack.gateways]
        self._workers = stack.pids("worker")
        self._gateway, self._worker, self._tokens = 0, 0, 0
        self._attempt_began = 0
        self._start = time.monotonic()

    async def record(self) -> Recording:
        """Return what happened, once the stream has ended."""
        self._start = time.monotonic()
        async with self._agents[0].stream("go") as response:
            with suppress(httpx.TransportError, AssertionError):  # torn, perhaps within a frame
                await self._note_all(frames(response))
        self._gateway = 1
        async with self._agents[1].subscribe(self._task, self._cursor) as response:
            await self._note_all(frames(response))
        return self._recording

    async def _note_all(self, streamed: AsyncIterator[Frame]) -> None:
        async for frame in streamed:
            self._note(frame)

    def _note(self, frame: Frame) -> None:
        now, text = time.monotonic() - self._start, text_of([frame.event])
        if "task" in frame.event:
            self._task = frame.event["task"]["id"]
        self._cursor = frame.id
        events = self._recording.received
        if _attempt_of(frame.event) > 1:
            self._attempt_began = len(events)
        events.append(Received(round(now, 4), frame.generation, self._gateway, self._worker, text))
        if found := _PROCESS.search(text):
            self._worker = self._index_of(int(found[1]))
            since = slice(self._attempt_began, None)
            events[since] = [replace(event, worker=self._worker) for event in events[since]]
        if re.fullmatch(r" \d+", text):
            self._tokens += 1
            if self._tokens == GATEWAY_DIES_AT:
                self._recording.gateway_killed = self._kill(self._stack.pids("gateway")[0])
            if self._tokens == WORKER_DIES_AT:
                self._recording.worker_killed = self._kill(self._workers[self._worker])

    def _index_of(self, pid: int) -> int:
        """Return which worker has that pid; a killed one is restarted under its index."""
        if pid not in self._workers:
            self._workers = self._stack.pids("worker")
        return self._workers.index(pid)

    def _kill(self, pid: int) -> float:
        os.kill(pid, signal.SIGKILL)
        return round(time.monotonic() - self._start, 4)


def _attempt_of(event: Json) -> int:
    """Return the number of the attempt that an event begins; 0 if it begins none."""
    metadata = event.get("statusUpdate", {}).get("metadata", {})
    return int(metadata.get("headrace.attempt", 0))


async def record(stack: Stack) -> Recording:
    """Return a recording of one stream of `stack` that another worker finished.

    Raises:
        AssertionError: each time, the worker that was killed took its run again.
    """

    async def once() -> Recording:
        await until_ready(stack.gateways, with_agents=True, timeout=60)
        async with httpx.AsyncClient(timeout=90, verify=NO_TLS) as http, asyncio.timeout(120):
            return await Recorder(stack, http).record()

    return await first_failover(once)


async def first_failover(record_once: Callable[[], Awaitable[Recording]]) -> Recording:
    """Return the first of at most `TRIES` recordings in which another worker took over.

    Raises:
        AssertionError: there was none.
    """
    for _ in range(TRIES):
        recording = await record_once()
        if recording.has_failed_over:
            return recording
    raise AssertionError(f"in {TRIES} recordings, the worker that was killed took its run again")
