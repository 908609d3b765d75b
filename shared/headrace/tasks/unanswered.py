"""Messages that a task's end leaves unanswered: they become part of the task before it ends.

A message that was accepted is thus in the task's history, whatever ended the task. The agent has
not seen it.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress

from headrace.jetstream.connection import Bus
from headrace.log import LogWriter, find_generation, replay
from headrace.model import events, json_text
from headrace.model.entry import Entry, Stamp
from headrace.model.errors import LogLost
from headrace.model.events import Draft
from headrace.model.queued_message import QueuedMessage, UnansweredMessages, concerns_queue
from headrace.model.task import WORKING, TaskKey
from headrace.tasks.continue_ import behind_question


async def append_end(  # noqa: PLR0913, PLR0917 - where, what, as whom and how long
    bus: Bus, key: TaskKey, last: Entry, context: str, end: Draft, stamp: Stamp, timeout: float
) -> None:
    """Append `end` after `last`, and before it the messages that it leaves unanswered.

    `stamp` is that of `end`; its generation is set here.

    Raises:
        Fenced: Another entry is stored there.
        LogLost, LogFull, EventTooLarge, BusUnavailable, OutcomeUnknown: As `LogWriter.append`.
    """
    writer = LogWriter.after(bus, key, last)
    left = [
        draft
        for each in await _unanswered(bus, key, last)
        if fits(draft := events.taken(key.task, context, each.message, each.generation), writer)
    ]
    *before, ending = _messages([*left, end], writer.capacity)
    for drafts in before:
        more = stamp._replace(generation=writer.generation + 1, state=WORKING)
        await writer.append(drafts, more, timeout)
    await writer.append(ending, stamp._replace(generation=writer.generation + 1), timeout)


def fits(draft: Draft, writer: LogWriter) -> bool:
    """Return whether a message of the user fits: as part of the task it is some bytes larger."""
    return draft.size < writer.capacity


async def read_queued(bus: Bus, key: TaskKey, generation: int, last: Entry) -> QueuedMessage:
    """Return the queued message that is event `generation` of the log that ends with `last`.

    Raises:
        LogLost: That part of the log is gone.
        BusUnavailable: The stream does not answer.
    """
    after = await find_generation(bus, key, generation, last)
    async for batch in replay(bus, key, after, last.sequence):
        entry = batch[0]
        event = json_text.decode(entry.lines[generation - entry.generation])
        if (queued := QueuedMessage.read(event, generation)) is not None:
            return queued
        break
    raise LogLost(f"the message {generation} of {key.task} is gone")


async def _unanswered(bus: Bus, key: TaskKey, last: Entry) -> list[QueuedMessage]:
    found = list[QueuedMessage]()
    # The end of a task must not depend on a beginning that is gone.
    with suppress(LogLost):
        for generation in await _waiting(bus, key, last):
            found.append(await read_queued(bus, key, generation, last))  # keeps those before a loss
    return found


async def _waiting(bus: Bus, key: TaskKey, last: Entry) -> Sequence[int]:
    """Return the generations of the messages that wait at the end of the log.

    Raises:
        LogLost: The run's beginning is gone.
    """
    waiting = UnansweredMessages()
    if last.ends_run:
        status = last.events[-1].get("statusUpdate", {}).get("status", {})
        waiting.begin_run(behind_question(status))
        return waiting.generations
    async for entry in _run_up_to(bus, key, last):
        _note(waiting, entry)
    return waiting.generations


async def _run_up_to(bus: Bus, key: TaskKey, last: Entry) -> AsyncIterator[Entry]:
    run = last.stamp.run
    if last.generation <= run:
        yield last
        return
    after = await find_generation(bus, key, run, last)
    async for batch in replay(bus, key, after, last.sequence):
        for entry in batch:
            yield entry


def _note(waiting: UnansweredMessages, entry: Entry) -> None:
    for generation, line in enumerate(entry.lines, entry.generation):
        if not concerns_queue(line):
            continue
        event = json_text.decode(line)
        if generation == entry.stamp.run:
            waiting.begin_run(events.status_metadata(event))
        else:
            waiting.note(events.status_metadata(event), generation)


def _messages(drafts: list[Draft], capacity: int) -> Iterator[list[Draft]]:
    """Yield the drafts, as many together as fit into one message."""
    message, size = list[Draft](), 0
    for draft in drafts:
        more = draft.size + 1
        if message and size + more > capacity:
            yield message
            message, size = [], 0
        message.append(draft)
        size += more
    yield message
