"""Run requests that are not due yet: JetStream keeps them and its own clock fires them.

A delayed run request is a message schedule in the stream SCHEDULES. What fires is a copy of it on
another subject there, which the triggers service takes and puts into the queue. Nothing runs
meanwhile. If the message is lost, or no service receives what fires, task state's sweep requests
the run, as it does any other, some seconds after it is due.
"""

from contextlib import suppress
from datetime import datetime

from headrace import clock
from headrace.jetstream.connection import Bus
from headrace.jetstream.message_schedules import FiringRule, ScheduleChanged, store_schedule
from headrace.jetstream.purge import purge
from headrace.model.entry import Entry, stating
from headrace.model.errors import BusUnavailable
from headrace.model.events import START_AT, read_time
from headrace.model.run import Run, RunTerms
from headrace.model.task import SUBMITTED, TaskKey


def is_delayed(terms: RunTerms) -> bool:
    """Return whether the run is not due yet."""
    return terms.start_at is not None and _is_ahead(read_time(terms.start_at))


async def delay(bus: Bus, subject: str, run: Run) -> bool:
    """Keep the run's request for the queue's `subject` until it is due. Return whether it is new.

    Raises:
        Refused, BusUnavailable: JetStream does not keep it.
    """
    subjects = bus.subjects
    rule = FiringRule(f"@at {run.terms.start_at}", subjects.due(subject))
    kept = subjects.delayed(subject)
    try:
        await store_schedule(
            *(bus, bus.streams.schedules, kept, run.encode(), 0, rule),
            headers=stating(bus.settings.log_version),
        )
    except ScheduleChanged:
        return False
    return True


async def withdraw_delayed(bus: Bus, key: TaskKey, last: Entry, timeout: float) -> None:
    """Remove the task's delayed run, if its log ended with `last` before the run was due.

    A failure is harmless: the log shows that the task is over, and a worker drops the run.
    """
    if not waits_for_start(last):
        return
    with suppress(BusUnavailable):
        for runs in bus.subjects.delayed_runs_of_task(key):
            await purge(bus, bus.streams.schedules, runs, timeout=timeout)


def waits_for_start(last: Entry) -> bool:
    """Return whether the run of the log that ends with `last` is not due yet."""
    return last.stamp.state == SUBMITTED and _is_ahead(start_of(last))


def start_of(entry: Entry) -> datetime | None:
    """Return the time before which the input of the log that ends with `entry` is not to be begun.

    None: it may be begun.
    """
    for body in entry.events[-1].values():
        metadata = body.get("metadata") if isinstance(body, dict) else None
        start = metadata.get(START_AT) if isinstance(metadata, dict) else None
        return read_time(start)
    return None


def _is_ahead(start: datetime | None) -> bool:
    return start is not None and start > clock.now()
