"""Calls of webhooks that agents of chaos runs wait for, and whether each got through once."""

import itertools
import random
import secrets
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress

import httpx

from headrace import RunContext, Webhook
from headrace.model.step import StepRecord
from headrace.model.wait import SIGNING_STEP, SourceEvent, source_of, timed_out_by, webhook_source
from tests.chaos.step_journal import STEPS, StepJournal, note
from tests.support.plain_http import NO_TLS

WAITS = (STEPS // 2, STEPS)
"""The steps before which an agent waits."""

WAITED = "waited"
"""Kind of the journal's lines about waits: ``heard:BODY`` if an attempt got a call's body, or
``STATUS:BODY`` if a gateway answered a call."""

_HEARD = "heard"
_STORED, _GONE, _TWICE = "202", "404", "409"
_TRIES = 5
"""Calls of a webhook, a second apart: its gateway may be away."""
_TIMEOUT = 8.0
"""Seconds that an agent waits for a caller that may have been killed: longer than a wait that
stays on the worker."""


async def until_called(ctx: RunContext, step: int) -> None:
    """Wait before a step, without a worker, for a call that comes within half a second."""
    webhook = Webhook(_name(step))
    url = await ctx.webhook(webhook.name)
    while True:
        # In each attempt: the worker that should have called may have been killed.
        delay = random.Random(f"{ctx.task} {step}").uniform(0, 0.5)
        caller = threading.Thread(target=_call, args=(ctx.task, step, url, delay), daemon=True)
        caller.start()
        with suppress(TimeoutError):
            event = await ctx.wait(webhook, timeout=_TIMEOUT)
            return note(WAITED, ctx.task, step, f"{_HEARD}:{event.text}")


def _call(task: str, step: int, url: str, delay: float) -> None:
    """Call a webhook until that is answered, each time with another body."""
    for _ in range(_TRIES):
        time.sleep(delay)
        body = secrets.token_hex(4)
        with suppress(httpx.HTTPError):
            status = str(httpx.post(url, content=body, timeout=5, verify=NO_TLS).status_code)
            note(WAITED, task, step, f"{status}:{body}")
            if status in {_STORED, _GONE, _TWICE}:
                return
        delay = 1.0


def is_of_wait(record: StepRecord) -> bool:
    """Return whether a record is of a wait or of its webhook, not of a step of the agent."""
    of_wait = source_of(record), timed_out_by(record)
    return any(one is not None for one in of_wait) or record.id[0] == SIGNING_STEP


def stored_calls(journal: StepJournal) -> int:
    """Return how many calls were answered with 202."""
    waits = (told for (kind, *_), told in journal.lines.items() if kind == WAITED)
    return sum(one.startswith(f"{_STORED}:") for told in waits for one in told)


def check_waits(
    journal: StepJournal, task: str, records: Sequence[StepRecord], waits: Sequence[int]
) -> Iterator[str]:
    """Yield where a wait before a step has not one event, or where a call of it was lost.

    `records` are those of a completed task that has waited before the steps `waits`.
    """
    bodies = defaultdict[str, list[str]](list)
    for record in records:
        if (source := source_of(record)) is not None:
            bodies[source].append(SourceEvent.decode(record.value or "").body.decode())
    expected = {webhook_source(_name(step)): step for step in waits}
    if bodies.keys() != expected.keys() or any(len(each) != 1 for each in bodies.values()):
        yield f"it has the events {dict(bodies)} instead of one each of {[*expected]}"
    for source, step in expected.items():
        told = [line.split(":") for line in journal.lines[WAITED, task, step]]
        stored, heard = ([body for what, body in told if what == one] for one in (_STORED, _HEARD))
        if stored and stored != bodies[source]:
            yield f"{source}: 202 was answered for {stored}, and the log has {bodies[source]}"
        if {*heard} != {*bodies[source]}:
            yield f"{source}: the agent got {heard}, and the log has {bodies[source]}"
        before = itertools.takewhile(lambda what: what != _HEARD, (what for what, _ in told))
        if _GONE in before:
            yield f"{source}: a call was answered with 404 while the agent waited"


def _name(step: int) -> str:
    return f"step {step}"
