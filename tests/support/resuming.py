"""A client that follows one task over as many connections as necessary."""

import asyncio
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from headrace.model.task import RUN_ENDED
from tests.support.event_stream import state_of
from tests.support.resuming_bindings import (
    Ask,
    Binding,
    Incoming,
    NothingLeft,
    Received,
    Refused,
)
from tests.support.resuming_log import WholeLog, assert_exact
from tests.support.resuming_wire import ConnectionCut, Cut

_PAUSE = 0.05
_ENDS = {state.removeprefix("TASK_STATE_") for state in RUN_ENDED}


@dataclass(frozen=True, slots=True)
class Step:
    """One connection: to which gateway, in which protocol, and where it is cut."""

    gateway: str
    binding: Binding
    cut: Cut | None = None
    pace: float = 0


def round_robin(
    gateways: Sequence[str], bindings: Sequence[Binding], begin: int = 0
) -> Iterator[Step]:
    """Return steps without end, over all gateways in turn and all bindings."""
    places = itertools.islice(itertools.cycle(gateways), begin, None)
    ways = itertools.islice(itertools.cycle(bindings), begin, None)
    return map(Step, places, ways)


class Client:
    """Starts a task, or joins one, and sees it to its end."""

    def __init__(self, agent: str, text: str = "", *, task: str = "", cursor: str = "") -> None:
        """Start a task with `text`, or follow `task` from `cursor` (empty: from now) on."""
        self._agent, self._text = agent, text
        self.task, self._begin = task, cursor
        self.received: list[Received] = []
        self.interruptions: list[str] = []
        """Why each connection but the last one ended."""
        self.over = False
        self.told = asyncio.Event()
        """Set when the task's id is known."""

    @property
    def cursor(self) -> str:
        """Where it would resume."""
        return self.received[-1].cursor if self.received else self._begin

    @property
    def joined(self) -> bool:
        """Whether what it has begins with a Task as of when it came."""
        return not self._text and not self._begin

    async def follow(self, steps: Iterable[Step]) -> None:
        """Connect as `steps` say, one after the other, until the task is over.

        Raises:
            Refused: a gateway answers with an error, and trying again can't help.
            AssertionError: a stream ended in good order, for no reason, before its task did.
        """
        for step in steps:
            try:
                await self._connect(step)
            except (ConnectionCut, Refused) as error:
                if isinstance(error, Refused) and not error.retryable:
                    raise
                self.interruptions.append(str(error))
                await asyncio.sleep(_PAUSE)
            if self.over:
                return

    async def has_nothing_left(self, step: Step) -> bool:
        """Tell whether a gateway, asked once more behind the last event, says that it is over."""
        ask = Ask(step.gateway, self._agent, task=self.task, cursor=self.cursor)
        try:
            async with step.binding.opened(ask) as incoming:
                events = [event async for event in incoming.events()]
                return not events and not incoming.close_reason
        except NothingLeft:
            return True

    def assert_exact(self, log: WholeLog) -> None:
        """Return if it has seen just what it should have."""
        if not self.joined:
            after = int(self._begin.partition(":")[2] or 0)
            assert_exact(self.received, log.after(after))
            return
        generation = int(self.received[0].cursor.partition(":")[2])
        joined = Received(f"{log.id}:{generation}", {"task": log.snapshot(generation)})
        assert_exact(self.received, [joined, *log.after(generation)])

    def _ask(self, step: Step) -> Ask:
        return Ask(
            step.gateway,
            self._agent,
            text="" if self.task else self._text,
            task=self.task,
            cursor=self.cursor,
            cut=step.cut,
            pace=step.pace,
        )

    async def _connect(self, step: Step) -> None:
        try:
            async with step.binding.opened(self._ask(step)) as incoming:
                await self._read(incoming)
        except NothingLeft:
            self.over = True

    async def _read(self, incoming: Incoming) -> None:
        before = self.cursor
        async for received in incoming.events():
            self._take(received)
            if self.over:
                return
        if self.cursor == before and not incoming.close_reason:
            # How a stream says that nothing is left; should there be something, it will be missed.
            self.over = True
            return
        assert incoming.close_reason, f"the stream ended for no reason behind {self.cursor}"
        self.interruptions.append(incoming.close_reason)

    def _take(self, received: Received) -> None:
        self.received.append(received)
        if not self.task:
            self.task = received.event["task"]["id"]
        self.told.set()
        self.over = state_of(received.event) in _ENDS
