"""Every stream and bucket of the bus contract, declared once, and made where it is missing.

A stream that exists is left as its operator shaped it; only the number of replicas and the limits,
which are configuration, follow the settings, and a subject that an older version did not have is
added.
"""

import logging
from typing import Any

import orjson
from nats.js import JetStreamContext, api
from nats.js.errors import BadRequestError, NotFoundError, ServiceUnavailableError

from headrace.errors import BusUnavailable
from headrace.settings import BusSettings
from headrace.stream_names import Streams
from headrace.subjects import Subjects
from headrace.task import SHARDS_PER_STREAM

__all__ = ["DEAD_MAX_AGE", "Streams", "declarations", "ensure_streams"]

_log = logging.getLogger(__name__)

DEAD_MAX_AGE = 30 * 24 * 3600.0
"""How long a dead letter is kept, seconds."""

_STREAM_NAME_IN_USE = 10058
_NO_STREAMS_HERE = 10039
"""Where an account may have no streams of its own: a worker's (`headrace.permissions`)."""

_CONFIGURABLE = ("num_replicas", "max_bytes", "max_msgs")
"""What follows the settings, where they say something."""

_CONTRACT = (
    "subjects",
    "retention",
    "discard",
    "discard_new_per_subject",
    "max_msgs_per_subject",
    "republish",
    "allow_direct",
    "allow_msg_ttl",
    "allow_rollup_hdrs",
)
"""What promises rest on; an operator who changes it is warned."""


def declarations(settings: BusSettings) -> list[api.StreamConfig]:
    """Return the configuration of every stream that `settings` ask for."""
    streams, subjects = Streams(settings.stream_prefix), settings.subjects
    events = [_events(settings, streams, subjects, k) for k in range(settings.event_streams)]
    return [
        *events,
        _runs(settings, streams, subjects),
        _dead(settings, streams, subjects),
        # A live instance's key expires when its worker stops renewing it.
        _bucket(settings, streams.agents),
        _bucket(settings, streams.idempotency),
        _files(settings, streams),
        _bucket(settings, streams.keys),
        _bucket(settings, streams.push),
        _pushes(settings, streams, subjects),
    ]


def _events(
    settings: BusSettings, streams: Streams, subjects: Subjects, number: int
) -> api.StreamConfig:
    first = number * SHARDS_PER_STREAM
    return api.StreamConfig(
        name=streams.events(number),
        subjects=[subjects.shard_events(s) for s in range(first, first + SHARDS_PER_STREAM)],
        storage=api.StorageType.FILE,
        num_replicas=settings.replicas,
        max_bytes=settings.events_max_bytes,
        # Old events must never give way: an emptied subject would accept a zombie's first append.
        discard=api.DiscardPolicy.NEW,
        allow_direct=True,
        republish=api.RePublish(src=f"{subjects.prefix}.event.>", dest=f"{subjects.prefix}.live.>"),
    )


def _runs(settings: BusSettings, streams: Streams, subjects: Subjects) -> api.StreamConfig:
    return api.StreamConfig(
        name=streams.runs,
        subjects=subjects.runs(),
        retention=api.RetentionPolicy.WORK_QUEUE,
        storage=api.StorageType.FILE,
        num_replicas=settings.replicas,
        # One waiting copy per leg: a second one is refused with 10077.
        max_msgs_per_subject=1,
        max_msgs=settings.runs_max,
        discard=api.DiscardPolicy.NEW,
        discard_new_per_subject=True,
    )


def _pushes(settings: BusSettings, streams: Streams, subjects: Subjects) -> api.StreamConfig:
    return api.StreamConfig(
        name=streams.pushes,
        subjects=[subjects.pushes()],
        retention=api.RetentionPolicy.WORK_QUEUE,
        storage=api.StorageType.FILE,
        num_replicas=settings.replicas,
        # One message per webhook: a newer one takes the place of an older one, which it outdoes.
        max_msgs_per_subject=1,
        discard=api.DiscardPolicy.NEW,
    )


def _dead(settings: BusSettings, streams: Streams, subjects: Subjects) -> api.StreamConfig:
    return api.StreamConfig(
        name=streams.dead,
        subjects=[subjects.dead_letters()],
        storage=api.StorageType.FILE,
        num_replicas=settings.replicas,
        max_age=DEAD_MAX_AGE,
        discard=api.DiscardPolicy.NEW,
        allow_direct=True,
    )


def _files(settings: BusSettings, streams: Streams) -> api.StreamConfig:
    """Return an object store as NATS ADR-20 has it, but one that is full refuses."""
    return api.StreamConfig(
        name=f"OBJ_{streams.files}",
        subjects=[f"$O.{streams.files}.C.>", f"$O.{streams.files}.M.>"],
        storage=api.StorageType.FILE,
        num_replicas=settings.replicas,
        max_bytes=settings.files_max_bytes,
        discard=api.DiscardPolicy.NEW,
        allow_direct=True,
        # Whoever may write one file could drop all with a header of one message.
        allow_rollup_hdrs=False,
    )


def _bucket(settings: BusSettings, name: str) -> api.StreamConfig:
    """Return a key-value bucket whose keys may expire by themselves (Nats-TTL)."""
    return api.StreamConfig(
        name=f"KV_{name}",
        subjects=[f"$KV.{name}.>"],
        storage=api.StorageType.FILE,
        num_replicas=settings.replicas,
        max_msgs_per_subject=1,
        discard=api.DiscardPolicy.NEW,
        allow_direct=True,
        # Whoever may write one key could drop all with a header of one message.
        allow_rollup_hdrs=False,
        deny_delete=True,
        allow_msg_ttl=True,
    )


def hidden_from_workers(settings: BusSettings) -> frozenset[str]:
    """Return the names of streams that workers do not use, and may not even look at."""
    streams = Streams(settings.stream_prefix)
    buckets = streams.idempotency, streams.keys, streams.push
    return frozenset({*(f"KV_{name}" for name in buckets), streams.pushes})


async def ensure_streams(js: JetStreamContext, settings: BusSettings) -> None:
    """Make what is missing; bring replicas and size limit of what is there up to `settings`.

    Raises:
        nats.errors.Error: JetStream does not answer, or refuses a declaration.
    """
    hidden = hidden_from_workers(settings) if settings.role == "worker" else frozenset()
    for declared in declarations(settings):
        if declared.name not in hidden:
            await _ensure(js, declared)


async def _ensure(js: JetStreamContext, declared: api.StreamConfig) -> None:
    try:
        found = (await _ask(js, "INFO", declared, b""))["config"]
    except NotFoundError:
        await _create(js, declared)
        return
    wanted = declared.as_dict()
    missing = [subject for subject in declared.subjects or [] if subject not in found["subjects"]]
    subjects = [*found["subjects"], *missing]
    # The server leaves out what is off.
    has = found | {"subjects": subjects}
    if differing := [n for n in _CONTRACT if n in wanted and (has.get(n) or False) != wanted[n]]:
        _log.warning("stream %s: not as the bus contract has it: %s", declared.name, differing)
    changes = {
        name: wanted[name]
        for name in _CONFIGURABLE
        if wanted.get(name) is not None and found.get(name) != wanted[name]
    }
    if missing:
        changes["subjects"] = subjects
    if changes:
        _log.info("stream %s: follows the settings: %s", declared.name, changes)
        await _ask(js, "UPDATE", declared, orjson.dumps(found | changes))


async def _create(js: JetStreamContext, declared: api.StreamConfig) -> None:
    try:
        await js.add_stream(declared)
    except BadRequestError as error:
        # Another service of the fleet, starting beside this one, was first.
        if error.err_code != _STREAM_NAME_IN_USE:
            raise
    except ServiceUnavailableError as error:
        if error.err_code != _NO_STREAMS_HERE:
            raise
        missing = f"there is no stream {declared.name}, and NATS lets this service make none"
        raise BusUnavailable(f"{missing}; a gateway or task state does") from error


async def _ask(
    js: JetStreamContext, what: str, declared: api.StreamConfig, request: bytes
) -> dict[str, Any]:
    # Not through nats-py's own StreamConfig: it drops what it does not know of a newer server.
    return await js._api_request(f"$JS.API.STREAM.{what}.{declared.name}", request)  # noqa: SLF001
