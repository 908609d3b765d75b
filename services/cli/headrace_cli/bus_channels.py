"""The channels of the bus contract that FastStream does not describe, and task state's answers.

Addresses are built by the functions that services use (`headrace.model.subjects.Subjects`), so that
the document can't name an unused subject.
"""

from dataclasses import dataclass
from typing import Literal

from headrace.directory import TIMING, Serving
from headrace.jetstream.headers import (
    BY_CLOCK,
    DUE,
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
    Done,
    Draining,
    HolderReply,
    Holds,
    HoldsQuery,
    ListChanges,
    OpenTasksCounted,
    ProcessFound,
    ProcessQuery,
    Refusal,
    RequestsTaken,
    RunRequest,
    TaskFound,
    TasksFound,
    TaskStarted,
    UsageFound,
)
from headrace.model.schedule import Schedule, ScheduleFirings
from headrace.model.subjects import NORMAL, UNUSUAL, Subjects
from headrace.model.task import STATES, TaskKey
from headrace.tracing import TRACEPARENT
from headrace.webhooks import Webhook

SUBJECTS = Subjects("{prefix}")
STREAMS = Streams()

_KEY = TaskKey("{tenant}", "{agent}", "0-{task}")
_SHARD, _TASK = "{shard}", "{task}"

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

ENTRY_HEADERS: Json = {
    "type": "object",
    "required": [
        entry.VERSION,
        entry.LOG,
        entry.GENERATION,
        entry.WRITER,
        entry.STATE,
        entry.RUN,
    ],
    "properties": {
        entry.VERSION: {"enum": list(entry.READABLE)},
        entry.LOG: {"type": "string", "pattern": "^[0-9a-z]{4,16}$"},
        entry.GENERATION: _NUMBER,
        entry.WRITER: _TEXT,
        entry.STATE: {"enum": sorted(STATES | {entry.BARE_MESSAGE})},
        entry.RUN: _NUMBER,
        entry.ATTEMPT: _NUMBER,
        entry.OWNER: _TEXT,
        entry.CHECKPOINT: _TEXT,
    },
}

MESSAGE_HEADERS: Json = {
    "type": "object",
    "description": "A message without the header is of version 1.",
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
    "properties": {SCHEDULER: _TEXT, SCHEDULE_NEXT: _TEXT, DUE: _TEXT, BY_CLOCK: _TEXT},
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


def _message(model: type[BusMessage]) -> ChannelMessage:
    return ChannelMessage(model.__name__, model)


def _answer(model: type[BusMessage]) -> ChannelMessage:
    return ChannelMessage(model.__name__, model, MESSAGE_HEADERS)


_RUN = ChannelMessage("RunRequest", RunRequest, RUN_HEADERS)
_ENTRY = ChannelMessage("Entry", EVENT, ENTRY_HEADERS, by_line=True)
_REFUSAL = ChannelMessage("Refusal", Refusal, MESSAGE_HEADERS)


def _task(address: str) -> str:
    """Return the address with shard and task as parameters of their own."""
    return address.replace(".0.", f".{_SHARD}.").replace("0-{task}", _TASK)


def _run(name: str, priority: str = NORMAL) -> Channel:
    address = SUBJECTS.run(_KEY, 0, priority)
    return _run_on(name, address, f"Requests a run from workers ({priority} priority).")


def _run_on(name: str, address: str, description: str) -> Channel:
    address = address.replace(".0", ".{run}")
    return Channel(
        name,
        _task(address.replace("{run}-{task}", _TASK)),
        f"stream {STREAMS.runs}, a work queue",
        description,
        (_RUN,),
    )


_RUN_SUBJECT = SUBJECTS.run(_KEY, 0).replace(".0-{task}.0", f".{_TASK}.{{run}}")

CHANNELS: tuple[Channel, ...] = (
    _run("run"),
    *(_run(f"run.{priority}", priority) for priority in UNUSUAL),
    _run_on(
        "run.version",
        SUBJECTS.run(_KEY, 0, "{priority}") + ".{version}",
        "Requests a run of a pinned task from workers of its version.",
    ),
    Channel(
        "queue",
        SUBJECTS.queue("{agent}"),
        "core NATS",
        "Announces a new queue of runs to workers.",
        (ChannelMessage("Nothing", NOTHING),),
    ),
    Channel(
        "drain",
        SUBJECTS.drain("{agent}", "{instance}"),
        "core NATS",
        "Makes one worker start no more runs, and exit after its active ones.",
        (ChannelMessage("Nothing", NOTHING),),
        (_message(Draining),),
    ),
    Channel(
        "holds",
        SUBJECTS.holds("{agent}", "{instance}"),
        "core NATS",
        "Requests the list of runs that a worker holds, to give them back if its process dies.",
        (_message(HoldsQuery),),
        (_message(Holds),),
    ),
    Channel(
        "process",
        SUBJECTS.process("{service}"),
        "core NATS",
        "Asks the processes of a service what they are, and to log at another level.",
        (_message(ProcessQuery),),
        (_message(ProcessFound),),
    ),
    Channel(
        "process.worker",
        SUBJECTS.process("worker", "{agent}", "{instance}"),
        "core NATS",
        "Asks a worker, by its id and any agent of it, what it is, and to log at another level.",
        (_message(ProcessQuery),),
        (_message(ProcessFound),),
    ),
    Channel(
        "event",
        _task(SUBJECTS.event(_KEY)),
        f"streams {STREAMS.events(0)}, {STREAMS.events(1)} …",
        "A task's log, appended to by compare-and-set.",
        (_ENTRY,),
    ),
    Channel(
        "live",
        _task(SUBJECTS.live(_KEY)),
        "core NATS, published by JetStream",
        "Each entry of a log, republished when it is stored.",
        (_ENTRY,),
    ),
    Channel(
        "control",
        _task(SUBJECTS.control(_KEY)),
        "core NATS",
        "Request to the task's holder, the only subscriber of this subject.",
        (_message(Control),),
        (_message(HolderReply),),
    ),
    Channel(
        "dead",
        SUBJECTS.dead("{tenant}", "{agent}"),
        f"stream {STREAMS.dead}",
        "A dead letter: the message and the reason.",
        (_message(DeadLetter),),
    ),
    Channel(
        "recheck",
        SUBJECTS.recheck(_TASK),
        "core NATS",
        "Makes readers of a log check its tail again.",
        (ChannelMessage("Nothing", NOTHING),),
    ),
    Channel(
        "changes",
        SUBJECTS.changes(0).replace(".0", ".{stream}"),
        "core NATS",
        "What a batch of an event stream changed in lists, for gateways with watchers.",
        (_message(ListChanges),),
    ),
    Channel(
        "rates",
        SUBJECTS.rates(),
        "core NATS",
        "A gateway's request counts, for rate limits across gateways.",
        (_message(RequestsTaken),),
    ),
    Channel(
        "push",
        SUBJECTS.push(_KEY, "{webhook}").replace(".0.", ".{stream}.").replace("0-{task}", _TASK),
        f"stream {STREAMS.pushes}, a work queue",
        "Requests the delivery of a webhook's outstanding notifications from task state.",
        (ChannelMessage("Alive", EMPTY),),
    ),
    Channel(
        "schedule",
        SUBJECTS.schedule("{tenant}", "{owner}", "{schedule}"),
        f"stream {STREAMS.schedules}",
        "A schedule's definition, until it is deleted. It is stored in a batch with its timer, or "
        "removes the timer if it is paused or has ended.",
        (ChannelMessage("Schedule", Schedule, DEFINITION),),
    ),
    Channel(
        "timer",
        SUBJECTS.timer("{tenant}", "{owner}", "{schedule}"),
        f"stream {STREAMS.schedules}",
        "JetStream's message schedule, from which a schedule fires: a copy of its definition.",
        (ChannelMessage("Schedule", Schedule, MESSAGE_SCHEDULE),),
    ),
    Channel(
        "firing",
        SUBJECTS.firing("{tenant}", "{owner}", "{schedule}"),
        f"stream {STREAMS.schedules}, of which these messages are a work queue",
        "A firing of a schedule: JetStream's copy of its timer, or what its owner has requested.",
        (ChannelMessage("Schedule", Schedule, FIRING),),
    ),
    Channel(
        "fired",
        SUBJECTS.fired("{tenant}", "{owner}", "{schedule}"),
        f"stream {STREAMS.schedules}",
        "What a schedule's last firings have done.",
        (_message(ScheduleFirings),),
    ),
    Channel(
        "delayedRun",
        SUBJECTS.delayed(_RUN_SUBJECT),
        f"stream {STREAMS.schedules}",
        "A run request that is JetStream's message schedule until it is due. Further tokens are as "
        "in the run's subject.",
        (_RUN,),
    ),
    Channel(
        "dueRun",
        SUBJECTS.due(_RUN_SUBJECT),
        f"stream {STREAMS.schedules}, of which these messages are a work queue",
        "A delayed run request that is due: JetStream's copy of it.",
        (_RUN,),
    ),
    Channel(
        "webhook",
        subject_of(STREAMS.push, f"{{tenant}}.{{agent}}.{_TASK}.{{webhook}}"),
        f"bucket {STREAMS.push}",
        "A webhook of a task, and its delivery progress.",
        (_message(Webhook),),
    ),
    Channel(
        "card",
        subject_of(STREAMS.agents, "card.{agent}"),
        f"bucket {STREAMS.agents}",
        "An agent's card, kept when its workers are gone.",
        (_message(AgentCard),),
    ),
    Channel(
        "card.version",
        subject_of(STREAMS.agents, "card.{agent}.{version}"),
        f"bucket {STREAMS.agents}",
        "The card of a version that tasks are pinned to.",
        (_message(AgentCard),),
    ),
    Channel(
        "route",
        subject_of(STREAMS.agents, "route.{agent}"),
        f"bucket {STREAMS.agents}",
        "Where the new tasks of an agent with pinned versions go.",
        (_message(AgentRoute),),
    ),
    Channel(
        "instance",
        subject_of(STREAMS.agents, "live.{agent}.{instance}"),
        f"bucket {STREAMS.agents}; expires after {TIMING.instance_ttl} s unless renewed",
        "A worker that serves the agent; deleted when the worker leaves.",
        (ChannelMessage("Serving", Serving, TTL), ChannelMessage("Nothing", NOTHING, TTL)),
    ),
    Channel(
        "userEvent",
        "{eventSubject}",
        "a stream of the users, or core NATS",
        "An event of the users that begins a task: what the subject of a trigger matches.",
        (ChannelMessage("UserEvent", USER_EVENT, USER_EVENT_HEADERS),),
        action="receive",
    ),
    Channel(
        "answer",
        "{answerSubject}",
        "a stream of the users, or core NATS",
        "What a task that a trigger or schedule began answers: a CloudEvent 1.0, in the mode that "
        "it declares.",
        (
            ChannelMessage("StructuredAnswer", STRUCTURED_ANSWER, STRUCTURED_HEADERS),
            ChannelMessage("BinaryAnswer", BINARY_ANSWER, BINARY_HEADERS),
        ),
    ),
)


ANSWERS: dict[str, tuple[ChannelMessage, ...]] = {
    "stateGet": (_answer(TaskFound), _REFUSAL),
    "stateList": (_answer(TasksFound), _REFUSAL),
    "stateUsage": (_answer(UsageFound), _REFUSAL),
    "stateOpen": (_answer(OpenTasksCounted), _REFUSAL),
    "stateStart": (_answer(TaskStarted), _REFUSAL),
    **dict.fromkeys(
        ("stateCancel", "stateInput", "stateQueue", "stateDrop"), (_answer(Done), _REFUSAL)
    ),
    "stateReady": (ChannelMessage("Following", FOLLOWING, MESSAGE_HEADERS),),
    "stateMore": (ChannelMessage("Piece", PIECE, MESSAGE_HEADERS),),
}
"""Task state's answers, by the name of the channel of the request."""
