"""A thread as a client follows it: one stream over all its runs, whoever begins them.

What JetStream republishes of the thread's logs is only a hint to read on. As hints may be lost, the
leaders are asked now and then whether there is more.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from headrace.jetstream.connection import Bus
from headrace.links import SERVED, Links
from headrace.log.thread_log import ThreadEntry, ThreadLog, ThreadName, open_thread
from headrace.model.messages import CoreMessage
from headrace_gateway.streaming.renderer import Interruption, Messages, Renderer

_FIRST_CHECK, _LAST_CHECK = 0.25, 10.0
"""Seconds after which a silent thread's leaders are asked, at first and at last."""


@dataclass(frozen=True, slots=True)
class ThreadEvent:
    """One event of a thread."""

    cursor: str
    task: str
    agent: str
    generation: int
    time: str
    line: bytes
    """The A2A `StreamResponse`; empty: the task was erased."""


class ThreadFeed:
    """A source for one client, which reads from one place on."""

    def __init__(self, bus: Bus, links: Links, log: ThreadLog) -> None:
        """Read `log`; `links` of files are shown for the current request's client."""
        self._bus, self._links, self._log, self._served = bus, links, log, SERVED.get()
        self.name = f"thread {log.name.context[:64]}"
        self.after = self.most = 0
        """Not used: the log knows its place, and bounds its reads."""
        self.at_end = self.run_ended = False
        """A thread has no end."""
        self._hints, self._read_hints = 1, 0
        self._pause = _FIRST_CHECK
        self._wakened: asyncio.Future[None] | None = None

    @asynccontextmanager
    async def held(self) -> AsyncIterator["ThreadFeed"]:
        """Receive hints for the length of a block."""
        hints = await self._bus.listen(self._log.live_subject, self._on_live)
        forget = self._bus.on_disturbance(self._hint)
        try:
            yield self
        finally:
            forget()
            await self._bus.unsubscribe(hints)

    def reader(self, after: int) -> "ThreadFeed":  # noqa: ARG002 - see the attribute
        """Return this feed, which has one client."""
        return self

    async def read_now(self) -> Sequence[Sequence[ThreadEvent]]:
        """Return the next events."""
        while found := await self.entries_now():
            if events := [event for one in found for event in self._events(one)]:
                return [events]
        return []

    async def entries_now(self) -> list[ThreadEntry]:
        """Return the next entries; an empty list: there are none now."""
        while self._read_hints < self._hints:
            hints = self._hints
            if found := await self._log.read():
                self._pause = _FIRST_CHECK
                return found
            self._read_hints = hints
        return []

    async def wait(self) -> None:
        """Return at a hint, when it is time to ask the leaders, or after `wake` is called."""
        loop = asyncio.get_running_loop()
        self._wakened = loop.create_future()
        timer = loop.call_later(self._pause, self._check)
        try:
            if self._read_hints == self._hints:
                await self._wakened
        finally:
            timer.cancel()
            self._wakened = None

    def wake(self) -> None:
        """Make `wait` return."""
        if self._wakened is not None and not self._wakened.done():
            self._wakened.set_result(None)

    def _check(self) -> None:
        self._pause = min(2 * self._pause, _LAST_CHECK)
        self._hint()

    def _on_live(self, _: CoreMessage) -> None:
        self._hint()

    def _hint(self) -> None:
        self._hints += 1
        self.wake()

    def _events(self, one: ThreadEntry) -> list[ThreadEvent]:
        key = one.key
        if one.entry is None:
            return [ThreadEvent(self._log.cursor(one, 0), key.task, key.agent, 0, "", b"")]
        entry = self._links.entry_for(self._served, one.entry)
        last = len(entry.lines)
        return [
            ThreadEvent(
                self._log.cursor(one, number if number < last else 0),
                key.task,
                key.agent,
                entry.generation + number - 1,
                entry.time,
                line,
            )
            for number, line in enumerate(entry.lines, 1)
            if number > one.skip
        ]


class ThreadRenderer(Renderer):
    """Renders each event of a thread that its client may see."""

    __slots__ = ("_check", "_interrupted", "_may_see", "_render")

    def __init__(
        self,
        render: Callable[[ThreadEvent], bytes],
        may_see: Callable[[str], bool],
        check: Callable[[], None],
        interrupted: Callable[[Interruption], Messages] | None = None,
    ) -> None:
        """Render with `render` what `may_see` permits by its agent.

        `check` raises if the client's credentials have changed. `interrupted` returns the messages
        at an early end, if there are any.
        """
        self._render, self._may_see, self._check = render, may_see, check
        self._interrupted = interrupted

    def render(self, blocks: Sequence[Any], after: int) -> Messages:  # noqa: ARG002
        """Return a message for each event."""
        self._check()
        return [
            message
            for events in blocks
            for event in events
            if self._may_see(event.agent) and (message := self._render(event))
        ]

    def is_over(self, *, run_ended: bool) -> bool:  # noqa: ARG002
        """Return False: a thread has no end."""
        return False

    def interrupted(self, why: Interruption) -> Messages:
        """Return the messages at the early end."""
        return () if self._interrupted is None else self._interrupted(why)


async def open_feed(bus: Bus, links: Links, name: ThreadName, cursor: str) -> ThreadFeed | None:
    """Return the feed of a thread after a cursor. None: there is no such thread.

    Raises:
        LogLost: the cursor is of other logs.
        BusUnavailable: NATS does not answer.
    """
    log = await open_thread(bus, name, cursor)
    return ThreadFeed(bus, links, log) if await log.exists() else None
