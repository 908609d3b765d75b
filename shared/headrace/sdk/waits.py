"""What an agent can wait for without a worker, and what it gets.

The first event of a source is recorded in the task's log before the agent gets it, and each attempt
gets the same one.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol

from headrace.model.task import is_task_id
from headrace.model.wait import SourceEvent, subject_source, task_source, webhook_source
from headrace.sdk.errors import Misused
from headrace.sdk.source import called_at

LONGEST_WAIT = timedelta(days=365)
_LONGEST_NAME = 100


@dataclass(frozen=True, slots=True)
class Webhook:
    """A call of the URL that ``ctx.webhook(name)`` returns; the first one counts.

    An event's body is that of the request.
    """

    name: str

    @property
    def source(self) -> str:
        """Its name in the log."""
        return webhook_source(self.name)

    def check(self) -> None:
        """Check the name.

        Raises:
            Misused: It is no valid name.
        """
        name: object = self.name  # Agents need not be checked by a type checker.
        if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAME:
            raise Misused(f"a webhook's name must be text of 1 to {_LONGEST_NAME} characters")


@dataclass(frozen=True, slots=True)
class TaskEnd:
    """The end of another task of the same tenant and owner, which may have ended before.

    An event's body is the task as it is then, an A2A v1.0 Task in JSON, or its answer if that is a
    bare Message.
    """

    task: str
    """The task's id."""

    @property
    def source(self) -> str:
        """Its name in the log."""
        return task_source(self.task)

    def check(self) -> None:
        """Check the id.

        Raises:
            Misused: It is no task's.
        """
        task: object = self.task  # As above.
        if not isinstance(task, str) or not is_task_id(task):
            raise Misused("TaskEnd needs a task's id, such as ctx.task or a client's task id")


@dataclass(frozen=True, slots=True)
class Subject:
    """The first event on a NATS subject that matches, since the run first waited for it.

    An event's body and headers are those of the message, with the header ``subject``.
    """

    subject: str
    """Where events are published; ``*`` and ``>`` may follow the first token."""
    stream: str
    """The JetStream stream that stores them."""
    match: Mapping[str, Any] = field(default_factory=dict)
    """By path, as in the filter of a trigger: ``{"body.order": 7, "body.state": ["paid"]}``."""

    @property
    def source(self) -> str:
        """Its name in the log."""
        return subject_source(self.subject, self.stream, dict(self.match))

    def check(self) -> None:
        """Check that all can be JSON; task state checks the rest.

        Raises:
            Misused: It can't.
        """
        texts: tuple[object, ...] = (self.subject, self.stream)  # As above.
        try:
            is_json = all(isinstance(one, str) for one in texts) and bool(self.source)
        except (TypeError, ValueError):
            is_json = False
        if not is_json:
            raise Misused('Subject needs texts and JSON: write Subject("orders.paid", "ORDERS", …)')


type WaitSource = Webhook | TaskEnd | Subject
"""What `RunContext.wait` waits for."""


@dataclass(frozen=True, slots=True)
class WaitEvent:
    """What a source has sent."""

    source: WaitSource
    """The one of those waited for that has sent it."""
    time: datetime
    """When it came."""
    body: bytes
    content_type: str
    """The body's media type; empty: unknown."""
    headers: Mapping[str, str]
    """Headers of the request by their names in lower case, without credentials and addresses."""

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode(errors="replace")

    def json(self) -> Any:  # noqa: ANN401  # any JSON
        """Return the body as JSON.

        Raises:
            ValueError: It is not JSON.
        """
        return json.loads(self.body)

    @classmethod
    def of(cls, source: WaitSource, arrival: SourceEvent) -> "WaitEvent":
        """Return the event that has arrived from `source`."""
        time = datetime.fromisoformat(arrival.time)
        return cls(source, time, arrival.body, arrival.content_type, arrival.headers)


class RunWaits(Protocol):
    """The waits of one attempt."""

    async def wait(
        self, sources: Sequence[WaitSource], until: datetime
    ) -> tuple[WaitSource, SourceEvent]:
        """Return what has arrived first from one of `sources`, and from which.

        It does not return if the attempt ends for the wait; `until` then decides nothing in the
        next attempt.

        Raises:
            TimeoutError: Nothing has arrived until then.
            RunOver: The run has ended.
        """

    async def url_of(self, name: str) -> str:
        """Return the URL of the run's webhook `name`.

        Raises:
            Misused: The worker does not know the fleet's public address.
            RunOver: The run has ended.
        """


def check_sources(sources: Sequence[object]) -> None:
    """Check what an agent wants to wait for.

    Raises:
        Misused: It is nothing, or something else.
    """
    if not sources:
        raise Misused(f'ctx.wait needs a source: write ctx.wait(Webhook("paid")){called_at()}')
    for one in sources:
        if not isinstance(one, Webhook | TaskEnd | Subject):
            raise Misused(
                f"ctx.wait can't wait for {type(one).__name__}: write"
                f' ctx.wait(Webhook("paid")){called_at()}'
            )
        one.check()


def seconds_of(timeout: float | timedelta | None) -> float:
    """Return a timeout in seconds; None: the longest one.

    Raises:
        ValueError: It is not a number, not positive, or too long.
    """
    longest = LONGEST_WAIT.total_seconds()
    if timeout is None:
        return longest
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    if not 0 < seconds <= longest:
        raise ValueError(f"can't wait for {seconds} s: more than 0, at most {LONGEST_WAIT.days} d")
    return seconds


async def is_set_within(changed: asyncio.Event, seconds: float) -> bool:
    """Return whether `changed` is set within `seconds`, by the agent's clock."""
    try:
        async with asyncio.timeout(max(seconds, 0.0)):
            return await changed.wait()
    except TimeoutError:
        return False
