"""Runs to be worked on, and the terms on which they are."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from headrace.model.entry import check_version
from headrace.model.events import PRIORITY, START_AT, START_BY, TRACEPARENT, VERSION, Json
from headrace.model.messages import RunRequest
from headrace.model.queues import RunQueue
from headrace.model.subjects import NORMAL, Subjects
from headrace.model.task import TaskKey


class RunTerms(NamedTuple):
    """The terms of a run: what its sender asks for, and what its task is bound to.

    Metadata of the run's input states them, so that every later request of the run has the same.
    """

    priority: str = NORMAL
    version: str | None = None
    """The version of the agent that the task is pinned to. None: it is not pinned."""
    start_at: str | None = None
    """The time at which the run is to be in the queue, RFC 3339. None: at once."""
    start_by: str | None = None
    """The time by which a worker must have started the run, RFC 3339. None: at any time."""
    traceparent: str | None = None
    """W3C trace context of the request."""

    def updated(self, metadata: Json | None) -> Self:
        """Return the terms of the next run, whose input has `metadata`.

        Version and trace context stay unless the input states others.
        """
        stated = metadata or {}
        return type(self)(
            stated.get(PRIORITY, NORMAL),
            stated.get(VERSION, self.version),
            stated.get(START_AT),
            stated.get(START_BY),
            stated.get(TRACEPARENT, self.traceparent),
        )

    @staticmethod
    def removed_from(metadata: Json) -> Json:
        """Return the metadata of a message that joins a run, whose own terms apply to it.

        The version stays, which is its task's.
        """
        terms = {PRIORITY, START_AT, START_BY, TRACEPARENT}
        return {name: value for name, value in metadata.items() if name not in terms}

    def metadata(self) -> Json:
        """Return the metadata that states the terms."""
        stated: dict[str, Any] = {
            VERSION: self.version,
            START_AT: self.start_at,
            START_BY: self.start_by,
            TRACEPARENT: self.traceparent,
        }
        found = {name: value for name, value in stated.items() if value is not None}
        return found if self.priority == NORMAL else {PRIORITY: self.priority, **found}


class Run(NamedTuple):
    """A run to be worked on, as a run request names it in its subject and its body."""

    key: TaskKey
    generation: int
    """Of its input."""
    log: str
    context: str
    owner: str
    terms: RunTerms = RunTerms()
    input: str | None = None
    """See `RunRequest.input`."""
    sequence: int | None = None
    """Stream sequence of `input`."""
    cleans_up: bool = False
    """Whether it is only for the agent's clean-up, as the task has ended without its agent."""

    @classmethod
    def read(
        cls, subjects: Subjects, subject: str, headers: Mapping[str, str] | None, data: bytes
    ) -> Self:
        """Read a run request.

        Raises:
            NewerVersion: It has a later version than this release reads.
            UndecodableMessage: The subject or the body is not a run request's.
        """
        key, generation = subjects.key_of_run(subject)
        check_version(subject, headers)
        body = RunRequest.decode(subject, data)
        priority = subjects.priority_of_run(subject)
        terms = RunTerms(priority, body.version, body.start_at, None, body.traceparent)
        carried = body.input, body.sequence, body.cleans_up or False
        return cls(key, generation, body.log, body.context, body.owner, terms, *carried)

    def encode(self) -> bytes:
        """Return the body of the run request."""
        body = RunRequest(
            log=self.log,
            context=self.context,
            owner=self.owner,
            traceparent=self.terms.traceparent,
            version=self.terms.version,
            start_at=self.terms.start_at,
            input=self.input,
            sequence=self.sequence,
            cleans_up=self.cleans_up or None,
        )
        return body.model_dump_json(exclude_none=True).encode()  # as `BusMessage.encode`

    @property
    def queue(self) -> RunQueue:
        """The queue in which it waits."""
        return RunQueue.of(self.key, self.terms.priority, self.terms.version or "")

    def without_input(self) -> Self:
        """Return the run without the input that it carries."""
        return self._replace(input=None, sequence=None)
