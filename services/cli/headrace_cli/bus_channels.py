"""The channels of the bus contract that FastStream does not describe, and task state's answers.

Addresses and descriptions are those of the functions that services use
(`headrace.model.subjects.Subjects`), so that the document can't name an unused subject.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, cast, get_type_hints

from headrace.directory import TIMING, Serving
from headrace.jetstream.headers import (
    DUE,
    DUE_SINCE,
    MESSAGE_ID,
    SCHEDULE,
    SCHEDULE_NEXT,
    SCHEDULE_TARGET,
    SCHEDULE_TIME_ZONE,
    SCHEDULER,
)
from headrace.jetstream.headers import TTL as TTL_HEADER
from headrace.jetstream.kv import subject_of
from headrace.jetstream.streams import Streams
from headrace.model import entry
from headrace.model.agent_card import AgentCard
from headrace.model.agent_route import AgentRoute
from headrace.model.answers import CHAIN, DEPTH, TRIGGER
from headrace.model.events import GENERATION, Json
from headrace.model.messages import (
    BusMessage,
    Control,
    DeadLetter,
    Draining,
    HolderReply,
    Holds,
    HoldsQuery,
    ListChanges,
    ProcessFound,
    ProcessQuery,
    Refusal,
    RequestsTaken,
    RunRequest,
)
from headrace.model.schedule import Schedule, ScheduleFirings
from headrace.model.state_operations import COMMANDS, QUERIES
from headrace.model.subjects import UNUSUAL, Subjects
from headrace.model.task import BARE_MESSAGE, STATES, TaskKey
from headrace.tracing import TRACEPARENT
from headrace.webhooks import TaskWebhook

SUBJECTS = Subjects("{prefix}")
STREAMS = Streams()

_THREAD = "0" * 12
_KEY = TaskKey("{tenant}", "{agent}", f"0-{_THREAD}{{task}}")

EVENT_KINDS = ("task", "statusUpdate", "artifactUpdate", "message")

EVENT: Json = {
    "title": "Event",
    "description": "One line of an entry: an A2A v1.0 StreamResponse in ProtoJSON.",
    "type": "object",
    "minProperties": 1,
    "maxProperties": 1,
    "additionalProperties": False,
    "properties": {
        kind: {
            "type": "object",
            "required": ["metadata"],
            "properties": {
                "metadata": {
                    "type": "object",
                    "required": [GENERATION],
                    "properties": {GENERATION: {"type": "integer", "minimum": 1}},
                }
            },
        }
        for kind in EVENT_KINDS
    },
}

_NUMBER = {"type": "string", "pattern": "^[0-9]{1,15}$"}
_TEXT = {"type": "string", "minLength": 1}

_OF_STAMP: Json = {
    "log": {"type": "string", "pattern": f"^{entry.LOG_ID.pattern}$"},
    "state": {"enum": sorted(STATES | {BARE_MESSAGE})},
    "owner": {"type": "string", "pattern": f"^{entry.OWNER_TOKEN.pattern}$"},
}
"""What is known of fields of a stamp beyond their types."""


def _entry_headers() -> Json:
    """Return the schema of the headers that `Stamp.headers` writes."""
    types, optional = get_type_hints(entry.Stamp), entry.Stamp._field_defaults
    described = {
        f"Headrace-{name.capitalize()}": _OF_STAMP.get(name, _NUMBER if kind is int else _TEXT)
        for name, kind in types.items()
    }
    required = (f"Headrace-{name.capitalize()}" for name in types if name not in optional)
    return {
        "type": "object",
        "required": [entry.VERSION, *required],
        "properties": {entry.VERSION: {"enum": list(entry.READABLE)}, **described},
    }


MESSAGE_HEADERS: Json = {
    "type": "object",
    "properties": {entry.VERSION: {"enum": list(entry.READABLE)}},
}
"""Headers of run requests, and of task state's answers."""

REQUEST_HEADERS: Json = {
    **MESSAGE_HEADERS,
    "properties": {**MESSAGE_HEADERS["properties"], TRACEPARENT: _TEXT},
}
"""Headers of requests to task state: also the W3C trace context of the call that needs it."""

WITHOUT_VERSION = ("stateMore", "stateReady")
"""Channels of task state's requests that have no headers: their messages are empty."""

NOTHING: Json = {"title": "Nothing", "description": "No body.", "type": "null"}
FOLLOWING: Json = {
    "title": "Following",
    "description": "Whether a replica is applying every range of the log; and the stream sequence "
    "up to which each is applied, by the number of its event stream.",
    "type": "object",
    "required": ["following", "positions"],
    "properties": {
        "following": {"type": "boolean"},
        "positions": {"type": "object", "additionalProperties": {"type": "integer"}},
    },
}
PIECE: Json = {"title": "Piece", "description": "The next bytes of a response.", "type": "string"}
EMPTY: Json = {"title": "Alive", "description": "An empty object.", "type": "object"}
MESSAGE_SCHEDULE: Json = {
    "type": "object",
    "properties": {SCHEDULE: _TEXT, SCHEDULE_TARGET: _TEXT, SCHEDULE_TIME_ZONE: _TEXT},
}
FIRED: Json = {"type": "object", "properties": {SCHEDULE_NEXT: _TEXT}}
DEFINITION: Json = {"type": "object", "properties": {SCHEDULER: _TEXT, SCHEDULE_NEXT: _TEXT}}
FIRING: Json = {
    "type": "object",
    "properties": {SCHEDULER: _TEXT, SCHEDULE_NEXT: _TEXT, DUE: _TEXT, DUE_SINCE: _TEXT},
}
RUN_HEADERS: Json = {
    **MESSAGE_HEADERS,
    "properties": {
        **MESSAGE_HEADERS["properties"],
        **MESSAGE_SCHEDULE["properties"],
        **FIRED["properties"],
    },
}
"""Those of JetStream's schedules are on delayed run requests and those that are due."""
TTL: Json = {"type": "object", "properties": {TTL_HEADER: _NUMBER}}
USER_EVENT: Json = {
    "title": "UserEvent",
    "description": "Any body. Templates and filters of triggers read JSON, or a text.",
}
_ANSWER_HEADERS: Json = {
    MESSAGE_ID: _TEXT,
    DEPTH: _NUMBER,
    CHAIN: _TEXT,
    TRIGGER: _TEXT,
    TRACEPARENT: _TEXT,
}
USER_EVENT_HEADERS: Json = {
    "type": "object",
    "description": "All are optional. An event with an id begins one task however often it is "
    "stored.",
    "properties": _ANSWER_HEADERS,
}
_STREAM_RESPONSE: Json = {
    "description": "An A2A v1.0 StreamResponse in ProtoJSON.",
    "type": "object",
}
BINARY_ANSWER: Json = {"title": "BinaryAnswer", **_STREAM_RESPONSE}
_ATTRIBUTES: Json = {
    "specversion": {"const": "1.0"},
    **dict.fromkeys(("id", "source", "type", "subject"), _TEXT),
    "datacontenttype": {"const": "application/json"},
    **dict.fromkeys(("contextid", "time"), _TEXT),
}
_REQUIRED = ["specversion", "id", "source", "type", "subject", "datacontenttype"]
STRUCTURED_ANSWER: Json = {
    "title": "StructuredAnswer",
    "description": "A CloudEvent 1.0 in structured mode.",
    "type": "object",
    "required": [*_REQUIRED, "data"],
    "additionalProperties": False,
    "properties": {**_ATTRIBUTES, "data": _STREAM_RESPONSE},
}
STRUCTURED_HEADERS: Json = {
    "type": "object",
    "required": ["Content-Type", MESSAGE_ID, DEPTH, CHAIN],
    "properties": {
        "Content-Type": {"const": "application/cloudevents+json"},
        **_ANSWER_HEADERS,
    },
}
BINARY_HEADERS: Json = {
    "type": "object",
    "required": [MESSAGE_ID, DEPTH, CHAIN, *(f"ce-{name}" for name in _REQUIRED)],
    "properties": {
        **_ANSWER_HEADERS,
        **{f"ce-{name}": schema for name, schema in _ATTRIBUTES.items()},
    },
}


@dataclass(frozen=True, slots=True)
class ChannelMessage:
    """The content of a message on a channel."""

    name: str
    payload: type[BusMessage] | Json
    headers: Json | None = None
    by_line: bool = False
    """Whether the body has one such object per line."""


@dataclass(frozen=True, slots=True)
class Channel:
    """One subject of the contract."""

    name: str
    address: str
    carrier: str
    """What stores the messages, or that nothing does."""
    description: str
    messages: tuple[ChannelMessage, ...]
    replies: tuple[ChannelMessage, ...] = ()
    action: Literal["send", "receive"] = "send"
    """What the fleet does: it receives what others publish, such as the users."""


_RUN = ChannelMessage("RunRequest", RunRequest, RUN_HEADERS)
_ENTRY = ChannelMessage("Entry", EVENT, _entry_headers(), by_line=True)
_REFUSAL = ChannelMessage("Refusal", Refusal, MESSAGE_HEADERS)
_NOTHING = ChannelMessage("Nothing", NOTHING)

_CORE = "core NATS"
_OF_USERS = f"a stream of the users, or {_CORE}"
_QUEUE = f"stream {STREAMS.runs}, a work queue"
_SCHEDULES = f"stream {STREAMS.schedules}"
_FIRED_QUEUE = f"{_SCHEDULES}, of which these messages are a work queue"
_LOGS = f"streams {STREAMS.events(0)}, {STREAMS.events(1)} …"
_LIVE_FOR = f"; expires after {TIMING.instance_ttl} s unless renewed"

_RUN_NUMBER = cast("int", "{run}")
_RUN_SUBJECT = SUBJECTS.run(_KEY, _RUN_NUMBER)
_SCHEDULE_OF = "{tenant}", "{owner}", "{schedule}"
_WEBHOOK = "{tenant}.{agent}.{task}.{webhook}"


def _message(content: type[BusMessage] | ChannelMessage) -> ChannelMessage:
    if isinstance(content, ChannelMessage):
        return content
    return ChannelMessage(content.__name__, content)


def _of(
    maker: Callable[..., str],
    *names: object,
    on: str = _CORE,
    says: type[BusMessage] | ChannelMessage = _NOTHING,
    reply: type[BusMessage] | None = None,
) -> Channel:
    """Return the channel of the subjects that `maker` makes, described by its docstring."""
    about = (maker.__doc__ or "").partition("\n")[0].removeprefix("Return the ")
    address = maker(*names).replace(".0.", ".{shard}.").replace(_KEY.task, "{task}")
    address = address.replace(_THREAD, "{thread}")
    replies = () if reply is None else (_message(reply),)
    text = about[0].upper() + about[1:]
    return Channel(maker.__name__, address, on, text, (_message(says),), replies)


def _run(name: str, *priority: str) -> Channel:
    channel = _of(SUBJECTS.run, _KEY, _RUN_NUMBER, *priority[:1], on=_QUEUE, says=_RUN)
    return replace(channel, name=name, address=".".join((channel.address, *priority[1:])))


def _kept(name: str, bucket: str, key: str, about: str, *says: ChannelMessage) -> Channel:
    return Channel(name, subject_of(bucket, key), f"bucket {bucket}", about, says)


CHANNELS: tuple[Channel, ...] = (
    _run("run"),
    *(_run(f"run.{priority}", priority) for priority in UNUSUAL),
    _run("run.version", "{priority}", "{version}"),
    _of(SUBJECTS.delayed, _RUN_SUBJECT, on=_SCHEDULES, says=_RUN),
    _of(SUBJECTS.due, _RUN_SUBJECT, on=_FIRED_QUEUE, says=_RUN),
    _of(SUBJECTS.queue, "{agent}"),
    _of(SUBJECTS.drain, "{agent}", "{instance}", reply=Draining),
    _of(SUBJECTS.holds, "{agent}", "{instance}", says=HoldsQuery, reply=Holds),
    _of(SUBJECTS.process, "{service}", says=ProcessQuery, reply=ProcessFound),
    replace(
        _of(
            SUBJECTS.process,
            *("worker", "{agent}", "{instance}"),
            says=ProcessQuery,
            reply=ProcessFound,
        ),
        name="process.worker",
    ),
    _of(SUBJECTS.event, _KEY, on=_LOGS, says=_ENTRY),
    _of(SUBJECTS.live, _KEY, on=f"{_CORE}, published by JetStream", says=_ENTRY),
    _of(SUBJECTS.control, _KEY, says=Control, reply=HolderReply),
    _of(SUBJECTS.dead, "{tenant}", "{agent}", on=f"stream {STREAMS.dead}", says=DeadLetter),
    _of(SUBJECTS.recheck, "{task}"),
    _of(SUBJECTS.changes, "{stream}", says=ListChanges),
    _of(SUBJECTS.rates, says=RequestsTaken),
    replace(
        _of(SUBJECTS.push, _KEY, "{webhook}", on=f"stream {STREAMS.pushes}, a work queue"),
        address=f"{{prefix}}.push.{{stream}}.{_WEBHOOK}",
        messages=(ChannelMessage("Alive", EMPTY),),
    ),
    _of(
        SUBJECTS.schedule,
        *_SCHEDULE_OF,
        on=_SCHEDULES,
        says=ChannelMessage("Schedule", Schedule, DEFINITION),
    ),
    _of(
        SUBJECTS.timer,
        *_SCHEDULE_OF,
        on=_SCHEDULES,
        says=ChannelMessage("Schedule", Schedule, MESSAGE_SCHEDULE),
    ),
    _of(
        SUBJECTS.firing,
        *_SCHEDULE_OF,
        on=_FIRED_QUEUE,
        says=ChannelMessage("Schedule", Schedule, FIRING),
    ),
    _of(SUBJECTS.fired, *_SCHEDULE_OF, on=_SCHEDULES, says=ScheduleFirings),
    _kept("webhook", STREAMS.push, _WEBHOOK, "A task's webhook.", _message(TaskWebhook)),
    _kept("card", STREAMS.agents, "card.{agent}", "An agent's card.", _message(AgentCard)),
    _kept(
        "card.version",
        STREAMS.agents,
        "card.{agent}.{version}",
        "The card of a version that tasks are pinned to.",
        _message(AgentCard),
    ),
    _kept(
        "route",
        STREAMS.agents,
        "route.{agent}",
        "Where the new tasks of an agent with pinned versions go.",
        _message(AgentRoute),
    ),
    _kept(
        "instance",
        STREAMS.agents,
        "live.{agent}.{instance}",
        f"A worker that serves the agent{_LIVE_FOR}; deleted when the worker leaves.",
        ChannelMessage("Serving", Serving, TTL),
        ChannelMessage("Nothing", NOTHING, TTL),
    ),
    Channel(
        "userEvent",
        "{eventSubject}",
        _OF_USERS,
        "An event of the users that begins a task: what the subject of a trigger matches.",
        (ChannelMessage("UserEvent", USER_EVENT, USER_EVENT_HEADERS),),
        action="receive",
    ),
    Channel(
        "answer",
        "{answerSubject}",
        _OF_USERS,
        "What a task that a trigger or schedule began answers: a CloudEvent 1.0, in the mode that "
        "it declares.",
        (
            ChannelMessage("StructuredAnswer", STRUCTURED_ANSWER, STRUCTURED_HEADERS),
            ChannelMessage("BinaryAnswer", BINARY_ANSWER, BINARY_HEADERS),
        ),
    ),
)


def _answers(found: ChannelMessage | type[BusMessage]) -> tuple[ChannelMessage, ...]:
    return replace(_message(found), headers=MESSAGE_HEADERS), _REFUSAL


ANSWERS: dict[str, tuple[ChannelMessage, ...]] = {
    **{
        f"state{name.capitalize()}": _answers(one.answer)
        for name, one in (QUERIES | COMMANDS).items()
    },
    "stateReady": (ChannelMessage("Following", FOLLOWING, MESSAGE_HEADERS),),
    "stateMore": (ChannelMessage("Piece", PIECE, MESSAGE_HEADERS),),
}
"""Task state's answers, by the name of the channel of the request."""
