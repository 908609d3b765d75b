"""Answers on the users' NATS: a notification as a CloudEvent 1.0, in structured or binary mode.

Binary mode follows the NATS protocol binding of CloudEvents 1.0.3: attributes are headers with the
prefix ``ce-``, percent-encoded.
"""

import logging
import time
from collections.abc import Sequence
from datetime import datetime
from urllib.parse import quote

from nats.aio.msg import Msg
from opentelemetry.trace import Span, SpanKind

from headrace import tracing
from headrace.jetstream.api import get_message, store, until_answered
from headrace.jetstream.connection import Bus
from headrace.jetstream.direct_get import direct_get
from headrace.jetstream.errors import Refused
from headrace.jetstream.headers import EXPECTED_STREAM, MESSAGE_ID, SEQUENCE, TIME
from headrace.log.read import headers_of
from headrace.model import json_text
from headrace.model.answers import CHAIN, DEPTH, TRIGGER, TaskAnswers, state_of
from headrace.model.errors import BusUnavailable, DeniedByNats, EventTooLarge, NobodyListens
from headrace.model.events import Json
from headrace.model.task import TaskKey
from headrace_task_state.webhooks.notice import Failure
from headrace_task_state.webhooks.stored_answers import AnswerPlace, SearchedMessage, StoredAnswers

_log = logging.getLogger(__name__)

STRUCTURED = "application/cloudevents+json"

_JSON = "application/json"
_SEARCH = 3.0
"""Seconds until a leader has to answer."""
_LONGEST_SILENCE = 600.0
"""Seconds for which a leader may not answer although NATS does: longer than any election. Then the
stream can't be searched, and an answer that it may have is published again."""

_READ_AT_ONCE = 500
_READ_BYTES = 1024 * 1024
_NOT_DIRECT = 60.0
"""Seconds for which the leader alone is asked after a replica has not answered."""

_PRINTABLE = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"%')


class BusAnswers:
    """Publishes answers."""

    def __init__(
        self,
        bus: Bus,
        timeout: float,
        longest_silence: float = _LONGEST_SILENCE,
        search: float = _SEARCH,
    ) -> None:
        """Publish on `bus`; a stream has `timeout` seconds to store an answer.

        One that does not answer for `longest_silence` seconds, although NATS does, is not searched.
        A search asks for `search` seconds.
        """
        self._bus, self._timeout, self._longest_silence = bus, timeout, longest_silence
        self._search = search
        self._silent = dict[str, tuple[float, float]]()
        """When a stream's leader first and last did not answer, by the monotonic clock."""
        self._not_direct = dict[str, float]()
        """Until when no replica of a stream is asked, by the monotonic clock."""
        self._stored = StoredAnswers(self._read)

    async def publish(
        self,
        answers: TaskAnswers,
        key: TaskKey,
        name: str,
        event: Json,
        traceparent: str | None = None,
    ) -> Failure | None:
        """Publish a StreamResponse as the CloudEvent `name`; return why it can't be.

        `traceparent` is the W3C trace context of the input that it answers.

        Raises:
            BusUnavailable: NATS does not answer.
        """
        span = _span(answers, key, traceparent)
        with tracing.CurrentSpan(span):
            context = tracing.traceparent_of(span) or traceparent
            failure = await self._publish(answers, key, name, event, context)
            if failure is not None:
                tracing.note_error(span, "not_published")
        return failure

    async def _publish(
        self,
        answers: TaskAnswers,
        key: TaskKey,
        name: str,
        event: Json,
        traceparent: str | None,
    ) -> Failure | None:
        headers = {MESSAGE_ID: name, DEPTH: f"{answers.depth}", CHAIN: answers.chain or key.task}
        if answers.trigger:
            headers[TRIGGER] = answers.trigger
        if traceparent is not None:
            headers[tracing.TRACEPARENT] = traceparent
        attributes = attributes_of(key, name, event)
        if answers.mode == "structured":
            headers["Content-Type"] = STRUCTURED
            body = json_text.encode({**attributes, "data": event})
        else:
            headers |= {f"ce-{one}": encoded(value) for one, value in attributes.items()}
            body = json_text.encode(event)
        try:
            if answers.stream is None:
                await self._bus.publish(answers.subject, body, headers=headers)
                return None
            headers[EXPECTED_STREAM] = answers.stream
            return await self._store(answers.subject, body, headers)
        except EventTooLarge as error:
            return Failure(f"{error.size} bytes exceed the largest NATS message", is_final=True)

    async def has_stored(self, answers: TaskAnswers, name: str, since: float) -> bool:
        """Return whether the stream has the answer `name`, which was first published at `since`.

        False also if it was removed before anybody looked, or if the stream can't be read: it is
        another account's, task state may not read it, or nobody answers for `_LONGEST_SILENCE`.

        Raises:
            BusUnavailable: the stream's leader does not answer; the stream may have it.
        """
        if answers.stream is None:
            return False
        try:
            place = AnswerPlace(answers.stream, answers.subject)
            found = await self._stored.has(place, name, since)
        except BusUnavailable as error:
            if not _is_settled(error) and not self._is_silent_for_long(answers.stream):
                raise
            _log.warning("stream %s can't be searched for %s: %s", answers.stream, name, error)
            found = False
        self._silent.pop(answers.stream, None)
        return found

    def _is_silent_for_long(self, stream: str) -> bool:
        """Note that a stream's leader did not answer; return whether it is in vain to wait."""
        now = time.monotonic()
        if not self._bus.answers:
            # An outage of all of NATS, which ends, and tells nothing of the stream.
            self._silent.pop(stream, None)
            return False
        begun, last = self._silent.get(stream, (now, now))
        if now > last + self._longest_silence:
            begun = now
        self._silent[stream] = begun, now
        return now > begun + self._longest_silence

    async def _read(self, stream: str, query: Json) -> Sequence[SearchedMessage]:
        """Return the next messages; none: the stream's leader has no more.

        A replica sends hundreds at once, where the stream allows it. It may lag behind.
        """
        if (messages := await self._read_directly(stream, query)) is not None:
            return messages
        found = await until_answered(
            self._bus, lambda: get_message(self._bus, stream, query), self._search
        )
        return [] if found is None else [_of_leader(found)]

    async def _read_directly(self, stream: str, query: Json) -> Sequence[SearchedMessage] | None:
        """Return the next messages; None: the leader has to be asked."""
        now = time.monotonic()
        if now < self._not_direct.get(stream, now):
            return None
        query = query | {"batch": _READ_AT_ONCE, "max_bytes": _READ_BYTES}
        page = await direct_get(self._bus, stream, query, _of_replica)
        if not (page.complete or page.messages):
            self._not_direct[stream] = now + _NOT_DIRECT
        return page.messages or None

    async def _store(self, subject: str, body: bytes, headers: dict[str, str]) -> Failure | None:
        try:
            await store(self._bus, subject, body, self._timeout, headers)
        except NobodyListens:
            return Failure(f"no stream stores {subject}", is_passing=True)
        except Refused as refused:
            return Failure(str(refused), is_passing=refused.is_passing)
        return None


def _of_leader(message: Json) -> SearchedMessage:
    stored = datetime.fromisoformat(message["time"]).timestamp()
    return SearchedMessage(int(message["seq"]), stored, headers_of(message).get(MESSAGE_ID, ""))


def _of_replica(msg: Msg) -> SearchedMessage:
    headers = msg.headers or {}
    stored = datetime.fromisoformat(headers[TIME]).timestamp()
    return SearchedMessage(int(headers[SEQUENCE]), stored, headers.get(MESSAGE_ID, ""))


def _is_settled(error: BusUnavailable) -> bool:
    """Return whether a stream that was not searched will not be for a repetition."""
    return isinstance(error, DeniedByNats) or (isinstance(error, Refused) and not error.is_passing)


def attributes_of(key: TaskKey, name: str, event: Json) -> dict[str, str]:
    """Return the attributes of the CloudEvent `name` with a StreamResponse of the task at `key`."""
    attributes = {
        "specversion": "1.0",
        "id": name,
        "source": f"/v1/agents/{key.agent}",
        "type": _type_of(event),
        "subject": key.task,
        "datacontenttype": _JSON,
    }
    [content, *_] = event.values()
    context, time = content.get("contextId"), (content.get("status") or {}).get("timestamp")
    if context:
        attributes["contextid"] = context
    if time:
        attributes["time"] = time
    return attributes


def _span(answers: TaskAnswers, key: TaskKey, traceparent: str | None) -> Span:
    """Start the span of an attempt to publish; its name is without the subject, of any number."""
    attributes = {
        "messaging.system": "nats",
        "messaging.operation.name": "publish",
        "messaging.operation.type": "send",
        "messaging.destination.name": answers.subject,
        "gen_ai.agent.name": key.agent,
        "headrace.task.id": key.task,
    }
    return tracing.start_span("publish answer", SpanKind.PRODUCER, traceparent, attributes)


def encoded(value: str) -> str:
    """Return an attribute's value as a header's."""
    return quote(value, safe=_PRINTABLE)


def _type_of(event: Json) -> str:
    """Return such as ``headrace.task.completed`` or ``headrace.artifact``."""
    if "artifactUpdate" in event:
        return "headrace.artifact"
    kind = "task" if "task" in event else "message" if "message" in event else "status"
    state = (state_of(event) or "").removeprefix("TASK_STATE_").lower().replace("_", "-")
    return f"headrace.{kind}.{state}".rstrip(".")
