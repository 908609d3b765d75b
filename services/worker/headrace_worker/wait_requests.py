"""Requests to task state: what a run waits for is to wake it."""

import asyncio
import logging
from collections.abc import Awaitable, Iterable, Iterator

from headrace.jetstream.connection import Bus
from headrace.model.errors import InvalidName, StateUnavailable, TaskUnknown
from headrace.model.messages import WaitForEnd, WaitForEvent
from headrace.model.run import Run
from headrace.sdk.errors import Misused
from headrace.sdk.source import called_at
from headrace.sdk.waits import Subject, TaskEnd, WaitSource
from headrace.state_client import StateClient

_log = logging.getLogger(__name__)

_PAUSE = 0.5
"""Seconds between requests to a task state that does not answer."""


async def request_events(bus: Bus, run: Run, sources: Iterable[WaitSource]) -> None:
    """Have `run` woken by what `sources` send; return when all is sure to.

    A webhook is called by others, and needs no request. Requests may be repeated.

    Raises:
        Misused: The owner of the run may not wait for that, or the run waits for itself.
    """
    state, wanted = StateClient(bus), list(sources)
    if TaskEnd(run.key.task) in wanted:
        raise Misused(f"ctx.wait: a task can't wait for its own end{called_at()}")
    for source in wanted:
        while True:
            if await _is_done(run, source, _requests(state, run, source)):
                break
            await asyncio.sleep(_PAUSE)


def _requests(state: StateClient, run: Run, source: WaitSource) -> Iterator[Awaitable[None]]:
    named = {**run.key._asdict(), "run": run.generation}
    match source:
        case TaskEnd(task):
            yield state.wait_for_end(WaitForEnd(**named, awaited=task))
        case Subject(subject, stream, match):
            query = WaitForEvent(
                **named, source=source.source, subject=subject, stream=stream, match=dict(match)
            )
            yield state.wait_for_event(query)


async def _is_done(run: Run, source: WaitSource, requests: Iterator[Awaitable[None]]) -> bool:
    try:
        for request in requests:
            await request
    except TaskUnknown:
        named = source.task if isinstance(source, TaskEnd) else source.source
        raise Misused(f"ctx.wait: the task's owner has no task {named}{called_at()}") from None
    except InvalidName as invalid:
        raise Misused(f"ctx.wait: {invalid}{called_at()}") from None
    except StateUnavailable as error:
        _log.warning("task %s: %s", run.key.task, error)
        return False
    return True
