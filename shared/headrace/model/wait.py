"""What a run waits for, and the records of what has arrived.

A record is stored as a step's is: in a header of its entry, which no client sees. The first record
of a source is the one that counts.
"""

import hmac
import json
from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b, sha256
from typing import Any, NamedTuple, Self

from headrace.model import json_text
from headrace.model.events import SLEEP, Json, status_metadata, timestamp
from headrace.model.sleep import asleep_for
from headrace.model.step import StepId, StepRecord
from headrace.model.subjects import is_token
from headrace.model.task import TaskKey

_ARRIVED, _TIMED_OUT = "ctx.wait", "ctx.wait timeout"

SIGNING_STEP = "ctx.webhook"
"""Name, and key, of the step whose result is the secret of the run's webhooks."""

_TASK = "task/"

_OF_NATS = "nats-"
"""Prefix of headers that are NATS's own."""

_SIGNATURE = 18
"""Bytes of a webhook's signature."""

_LONGEST_TOKEN = 1000


def arrived(source: str) -> StepId:
    """Return the id of the record of what has arrived from `source`."""
    return _ARRIVED, source


def timed_out(wait: str) -> StepId:
    """Return the id of the record that the wait with that id has timed out."""
    return _TIMED_OUT, wait


def source_of(record: StepRecord) -> str | None:
    """Return the source from which `record` says that something has arrived. None: it doesn't."""
    return str(record.id[1]) if record.id[0] == _ARRIVED else None


def timed_out_by(record: StepRecord) -> str | None:
    """Return the wait of which `record` says that it has timed out. None: it doesn't."""
    return str(record.id[1]) if record.id[0] == _TIMED_OUT else None


def waited_for(event: Json) -> frozenset[str]:
    """Return the sources of the wait whose beginning `event` records; empty: it records none."""
    match status_metadata(event).get(SLEEP):
        case {"for": list(sources)}:
            return frozenset(one for one in sources if isinstance(one, str))
    return frozenset()


@dataclass(frozen=True, slots=True)
class SourceEvent:
    """What a source has sent."""

    time: str
    """When it came: RFC 3339."""
    body: bytes
    content_type: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_message(
        cls, subject: str, headers: Mapping[str, str] | None, data: bytes, time: datetime
    ) -> Self:
        """Return the event that a message on a subject is; `time` is when it was stored."""
        named = {name.lower(): value for name, value in (headers or {}).items()}
        kept = {name: value for name, value in named.items() if not name.startswith(_OF_NATS)}
        kind = kept.pop("content-type", "")
        return cls(timestamp(time), data, kind, {**kept, "subject": subject})

    def encode(self) -> str:
        """Return it as ASCII JSON, for a record."""
        held: Json = {"time": self.time, "body": b64encode(self.body).decode()}
        if self.content_type:
            held["contentType"] = self.content_type
        if self.headers:
            held["headers"] = dict(self.headers)
        return json.dumps(held)  # Headers are ASCII.

    @classmethod
    def decode(cls, text: str | bytes) -> Self:
        """Read what `encode` returned."""
        held: dict[str, Any] = json_text.decode(text)
        body = b64decode(held["body"])
        return cls(held["time"], body, held.get("contentType", ""), held.get("headers", {}))


class WebhookAddress(NamedTuple):
    """A webhook of a run, as its URL names it."""

    key: TaskKey
    run: int
    name: str

    @property
    def source(self) -> str:
        """The source that it is in the run's log."""
        return webhook_source(self.name)

    def token(self, secret: str) -> str:
        """Return the last part of the URL, signed with the run's `secret`."""
        named = f"{self.key.tenant} {self.key.agent} {self.key.task} {self.run} {self.name}"
        return f"{_encoded(named.encode())}.{_encoded(self._signature(secret))}"

    def is_signed(self, token: str, secret: str) -> bool:
        """Return whether the run's `secret` has signed `token`."""
        return hmac.compare_digest(token.encode(), self.token(secret).encode())

    def _signature(self, secret: str) -> bytes:
        signed = f"{self.key.task} {self.run} {self.name}".encode()
        return hmac.digest(secret.encode(), signed, sha256)[:_SIGNATURE]

    @classmethod
    def read(cls, token: str) -> Self | None:
        """Return what `token` names, whoever has signed it. None: it is malformed."""
        try:
            named = urlsafe_b64decode(f"{token[:_LONGEST_TOKEN].partition('.')[0]}==").decode()
            tenant, agent, task, run, name = named.split(" ", 4)
            number = int(run) if run.isascii() and run.isdecimal() else 0
        except ValueError:
            return None
        if not (number and name and all(map(is_token, (tenant, agent, task)))):
            return None
        return cls(TaskKey(tenant, agent, task), number, name)


def webhook_source(name: str) -> str:
    """Return the source that the webhook `name` is."""
    return f"webhook/{name}"


def subject_source(subject: str, stream: str, match: Json) -> str:
    """Return the source that the events on a subject are: the first that matches counts."""
    named = json.dumps([subject, stream, match], sort_keys=True).encode()
    return f"subject/{subject}#{blake2b(named, digest_size=6).hexdigest()}"


def task_source(task: str) -> str:
    """Return the source that the end of a task is."""
    return f"{_TASK}{task}"


def awaited_task(event: Json) -> str | None:
    """Return the task whose end alone the run waits for that `event` ends or begins a wait of."""
    match [*(asleep_for(event) or waited_for(event))]:
        case [str(source)] if source.startswith(_TASK):
            return source.removeprefix(_TASK)
    return None


def shown_name(source: str) -> str:
    """Return the name of the step as which clients are shown an event of `source`."""
    kind, _, name = source.partition("/")
    return f"{kind} {name.rpartition('#')[0] if kind == 'subject' else name}"


def _encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")
