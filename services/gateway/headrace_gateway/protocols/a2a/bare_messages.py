"""Agents that may answer with a bare Message, and what clients see until this is decided.

A client gets either exactly one Message, or the Task and then its updates. Generation 1 is
therefore withheld until the agent's first output. For a client that has received the Task, a later
Message is converted to the Task's completion.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, replace

from headrace.model import json_text
from headrace.model.entry import Entry
from headrace.model.events import ATTEMPT, GENERATION, Json
from headrace.model.task import BARE_MESSAGE, COMPLETED
from headrace_gateway.feeds import EntryRenderer, Feed

SHOWN_AFTER = 2.0
"""Seconds after which the Task is sent although the kind of answer is still undecided."""


async def bare_answer(feed: Feed) -> int | None:
    """Return the generation of the Message that answers a new log; None if the answer is a task.

    Raises:
        LogLost, BusUnavailable: as `FeedReader.read`.
    """
    reader = feed.reader(0)
    with suppress(TimeoutError):
        async with asyncio.timeout(SHOWN_AFTER):
            while blocks := await reader.read():
                for block in blocks:
                    if block.entry.stamp.state == BARE_MESSAGE:
                        return block.entry.last_generation
                    if any(map(_is_output, block.entry.events)):
                        return None
    return None


def _is_output(event: Json) -> bool:
    """Return whether `event` is output of the agent: neither the input nor an attempt's start."""
    update = event.get("statusUpdate")
    return "task" not in event and (update is None or ATTEMPT not in update.get("metadata", {}))


@dataclass(frozen=True, slots=True)
class AfterTask:
    """Events for clients that have received the task: a bare Message completes it."""

    inner: EntryRenderer
    task: str

    def render(self, entry: Entry, skip: int) -> tuple[bytes, ...]:
        """Render the entry with `inner`, a bare Message as the equivalent status update."""
        if entry.stamp.state == BARE_MESSAGE:
            lines = [
                json_text.encode(completion(self.task, entry, event))
                if "message" in event
                else line
                for event, line in zip(entry.events, entry.lines, strict=True)
            ]
            entry = replace(entry, lines=lines)
        return self.inner.render(entry, skip)


def completion(task: str, entry: Entry, event: Json) -> Json:
    """Return the status update that is equivalent to the bare Message `event`."""
    message = event["message"]
    update = {
        "taskId": task,
        "contextId": message["contextId"],
        "status": {
            "state": COMPLETED,
            "timestamp": entry.time,
            "message": message | {"taskId": task},
        },
        "metadata": {GENERATION: message["metadata"][GENERATION]},
    }
    return {"statusUpdate": update}
