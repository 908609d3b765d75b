"""The streams and buckets of the bus contract, created where they are missing.

Existing ones stay as their operator configured them. If one violates the contract or differs from a
setting, a service refuses to start, and an operator changes it with `apply`. An unset setting
requires nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import orjson
from nats.js import JetStreamContext, api
from nats.js.errors import APIError, NotFoundError, ServiceUnavailableError

from headrace.environment import variable
from headrace.jetstream.errors import ErrorCode
from headrace.model.errors import BusUnavailable, StreamsDiffer
from headrace.model.subjects import stream_of_shard
from headrace.model.task import SHARDS_PER_STREAM
from headrace.settings import BusSettings

DEAD_MAX_AGE = 30 * 24 * 3600.0
"""Seconds for which a dead letter is kept."""

_API = "$JS.API"
_TIMEOUT = 5.0
"""Seconds to wait for an answer of JetStream's API, once."""

RUNS_MAX = 1_000_000
"""Default maximum of runs in the work queue."""

_CONTRACT = (
    "subjects",
    "storage",
    "retention",
    "discard",
    "discard_new_per_subject",
    "max_msgs_per_subject",
    "max_age",
    "republish",
    "allow_direct",
    "allow_rollup_hdrs",
    "allow_msg_ttl",
    "allow_msg_schedules",
    "allow_atomic",
)
"""The settings of streams that the contract requires."""

_OPTIONAL = "num_replicas", "max_bytes", "max_msgs"
"""The stream settings that Headrace settings can set."""

_FIXED = {"storage", "retention"}
"""What JetStream can't change on an existing stream."""

_KEPT = {"retention": 7 * 24 * 3600.0, "waiting_retention": 30 * 24 * 3600.0}
"""The settings that the first event stream states in its metadata, with the values of a new fleet.

Any task state deletes, so all must keep tasks for the same time."""

_METADATA = "metadata."
"""Precedes the name of an item of a stream's metadata where a setting of the stream is named."""


class Streams:
    """The names of the streams and buckets of one fleet."""

    def __init__(self, prefix: str = "") -> None:
        """Name them with `prefix`."""
        self.prefix = prefix
        self.runs = f"{prefix}RUNS"
        """The work queue of runs."""
        self.dead = f"{prefix}DEAD"
        """The dead letters."""
        self.agents = f"{prefix}AGENTS"
        """The key-value bucket of cards and live instances."""
        self.idempotency = f"{prefix}IDEMPOTENCY"
        """The key-value bucket of requests by Idempotency-Key."""
        self.files = f"{prefix}FILES"
        """The object store of files that are too large for a log."""
        self.keys = f"{prefix}KEYS"
        """The key-value bucket of signing keys."""
        self.push = f"{prefix}PUSH"
        """The key-value bucket of webhooks and their delivery progress."""
        self.pushes = f"{prefix}PUSHES"
        """The work queue of webhooks that have pending deliveries."""
        self.triggers = f"{prefix}TRIGGERS"
        """The key-value bucket of triggers."""
        self.schedules = f"{prefix}SCHEDULES"
        """The schedules, their firings that wait, and what the last ones have begun."""
        self.threads = f"{prefix}THREADS"
        """The key-value bucket of what owners have set of their threads."""
        self.memory = f"{prefix}MEMORY"
        """The key-value bucket of what agents remember."""

    def events(self, number: int) -> str:
        """The `number`-th event stream, from 0."""
        return f"{self.prefix}EVENTS" if number == 0 else f"{self.prefix}EVENTS_{number}"

    def of_shard(self, shard: int) -> str:
        """The event stream that holds `shard`."""
        return self.events(stream_of_shard(shard))


class Effect(StrEnum):
    """The effect of a change on an existing stream."""

    CREATE = "create"
    CHANGE = "change"
    GROW = "grow"
    SHRINK = "shrink"
    PROMOTE = "promote"
    """A mirror of another region becomes a stream."""
    IMPOSSIBLE = "impossible"
    """The setting can't be changed in place."""

    @property
    def command(self) -> str:
        """The remedy for operators."""
        match self:
            case Effect.SHRINK:
                return "headrace streams apply --shrink"
            case Effect.PROMOTE:
                return (
                    "set HEADRACE_NATS_JETSTREAM_DOMAIN to the other region's, or if that is lost: "
                    "headrace streams apply --promote"
                )
            case Effect.IMPOSSIBLE:
                return "JetStream can't change it; move the data to a new stream"
            case _:
                return "headrace streams apply"


_NUMBER_OF_EVENT_STREAMS = "the number of event streams"


@dataclass(frozen=True, slots=True)
class Difference:
    """One setting of one stream, or one stream that is missing."""

    stream: str
    effect: Effect
    setting: str = ""
    found: Any = None
    wanted: Any = None
    variable: str = ""
    """The environment variable that requires it; empty: the bus contract requires it."""
    remedy: str = ""
    """What to do about it; empty: run the command of its effect."""

    @property
    def is_missing(self) -> bool:
        """Whether the stream does not exist."""
        grows = self.effect is Effect.GROW and self.setting == _NUMBER_OF_EVENT_STREAMS
        return grows or self.effect is Effect.CREATE

    @property
    def change(self) -> str:
        """The change in one line."""
        if self.effect is Effect.CREATE:
            return f"{self.stream} is missing"
        who = f"{self.variable} requires" if self.variable else "the bus contract requires"
        return f"{self.stream}: {self.setting} is {_shown(self.found)}, {who} {_shown(self.wanted)}"

    def __str__(self) -> str:
        return f"{self.change}: {self.remedy or self.effect.command}"


def declarations(settings: BusSettings) -> list[api.StreamConfig]:
    """Return the configuration of every stream that `settings` ask for."""
    streams = Streams(settings.stream_prefix)
    return [
        *(_events(settings, number) for number in range(settings.event_streams)),
        _runs(settings),
        _stream(
            settings,
            streams.dead,
            [settings.subjects.dead_letters()],
            max_age=DEAD_MAX_AGE,
            allow_direct=True,
        ),
        # A live instance's key expires when its worker stops renewing it.
        _bucket(settings, streams.agents),
        _bucket(settings, streams.idempotency),
        _files(settings, streams.files),
        _bucket(settings, streams.keys),
        _bucket(settings, streams.push),
        _stream(
            settings,
            streams.pushes,
            [settings.subjects.pushes()],
            retention=api.RetentionPolicy.WORK_QUEUE,
            # One message per webhook: a newer message replaces and supersedes an older one.
            max_msgs_per_subject=1,
        ),
        _bucket(settings, streams.triggers),
        _schedules(settings),
        _bucket(settings, streams.threads),
        _memory(settings, streams.memory),
    ]


def _stream(
    settings: BusSettings,
    name: str,
    subjects: list[str],
    **more: Any,  # noqa: ANN401 - of `StreamConfig`
) -> api.StreamConfig:
    return api.StreamConfig(
        name=name,
        subjects=subjects,
        storage=api.StorageType.FILE,
        num_replicas=settings.replicas,
        **{"discard": api.DiscardPolicy.NEW, **more},
    )


def _events(settings: BusSettings, number: int) -> api.StreamConfig:
    subjects, first = settings.subjects, number * SHARDS_PER_STREAM
    return _stream(
        settings,
        Streams(settings.stream_prefix).events(number),
        [subjects.shard_events(s) for s in range(first, first + SHARDS_PER_STREAM)],
        max_bytes=settings.events_max_bytes,
        # Old events are never discarded: an emptied subject would accept a stale worker's first
        # append.
        max_age=0,
        allow_direct=True,
        # Tombstones of tasks past retention expire by themselves.
        allow_msg_ttl=True,
        republish=api.RePublish(src=f"{subjects.prefix}.event.>", dest=f"{subjects.prefix}.live.>"),
        metadata={_item(name): str(_kept(settings, name)) for name in _KEPT}
        if number == 0
        else None,
    )


def _runs(settings: BusSettings) -> api.StreamConfig:
    return _stream(
        settings,
        Streams(settings.stream_prefix).runs,
        settings.subjects.runs(),
        retention=api.RetentionPolicy.WORK_QUEUE,
        # One waiting request per run: JetStream refuses a second one.
        max_msgs_per_subject=1,
        max_msgs=settings.runs_max,
        max_age=0,
        discard_new_per_subject=True,
    )


def _schedules(settings: BusSettings) -> api.StreamConfig:
    return _stream(
        settings,
        Streams(settings.stream_prefix).schedules,
        settings.subjects.schedules(),
        # Firings leave it once they have begun a task. No consumer takes the rest.
        retention=api.RetentionPolicy.WORK_QUEUE,
        # JetStream refuses schedules in a stream that discards new messages. Without limits, this
        # one discards nothing.
        discard=api.DiscardPolicy.OLD,
        max_age=0,
        allow_rollup_hdrs=True,
        allow_msg_schedules=True,
        # A definition and its timer are stored together.
        allow_atomic=True,
    )


def _files(settings: BusSettings, name: str) -> api.StreamConfig:
    """Return an object store as in NATS ADR-20, except that it refuses files when it is full."""
    return _stream(
        settings,
        f"OBJ_{name}",
        [f"$O.{name}.C.>", f"$O.{name}.M.>"],
        max_bytes=settings.files_max_bytes,
        allow_direct=True,
        # With roll-ups, write access to one file could delete all files.
        allow_rollup_hdrs=False,
    )


def _memory(settings: BusSettings, name: str) -> api.StreamConfig:
    """Return a bucket that is full at a size, and whose messages can be erased."""
    bucket = _bucket(settings, name)
    return bucket.evolve(max_bytes=settings.memory_max_bytes, deny_delete=False)


def _bucket(settings: BusSettings, name: str) -> api.StreamConfig:
    """Return a key-value bucket whose keys may expire by themselves (Nats-TTL)."""
    return _stream(
        settings,
        f"KV_{name}",
        [f"$KV.{name}.>"],
        max_msgs_per_subject=1,
        allow_direct=True,
        # With roll-ups, write access to one key could delete all keys.
        allow_rollup_hdrs=False,
        deny_delete=True,
        allow_msg_ttl=True,
    )


def _kept(settings: BusSettings, name: str) -> float:
    wanted: float | None = getattr(settings, name)
    return _KEPT[name] if wanted is None else wanted


def _item(name: str) -> str:
    """Return the key under which a stream's metadata states a setting."""
    return f"headrace.{name}"


def hidden_from_workers(settings: BusSettings) -> frozenset[str]:
    """Return the names of streams that workers don't use and have no access to."""
    streams = Streams(settings.stream_prefix)
    buckets = (
        *(streams.idempotency, streams.keys, streams.push),
        *(streams.threads, streams.triggers),
    )
    return frozenset({*(f"KV_{name}" for name in buckets), streams.pushes, streams.schedules})


async def ensure_streams(js: JetStreamContext, settings: BusSettings) -> None:
    """Create what is missing; change nothing that exists.

    Raises:
        StreamsDiffer: A stream exists and differs from the contract or `settings`.
        BusUnavailable: A created stream is not visible yet, or this service may create none.
        nats.errors.Error: JetStream does not answer or refuses a declaration.
    """
    found = await differences(js, settings)
    # A service whose settings differ leaves nothing behind, such as an event stream too many, with
    # which no other service would start. A queue beside mirrors would take messages of the region
    # that they are mirrors of.
    if all(one.effect is Effect.CREATE for one in found):
        found = await _create_missing(js, settings, found)
    if found:
        lines = "\n  ".join(map(str, found))
        raise StreamsDiffer(
            f"the streams on NATS differ from the settings; nothing was changed:\n  {lines}"
        )


async def _create_missing(
    js: JetStreamContext, settings: BusSettings, found: list[Difference]
) -> list[Difference]:
    """Create the streams that are missing by `found`; return what differs then."""
    if missing := {one.stream for one in found}:
        for declared in _in_order_of_creation(settings):
            if declared.name in missing:
                await create(js, declared)
        found = await differences(js, settings)
    if unseen := [one.stream for one in found if one.effect is Effect.CREATE]:
        # Created a moment ago, and not yet known to every NATS server.
        raise BusUnavailable(f"{', '.join(unseen)} can't be checked yet")
    return found


def _in_order_of_creation(settings: BusSettings) -> list[api.StreamConfig]:
    """Return the declared streams, the first event stream last.

    So a fleet that has it has the number of event streams that it was created with.
    """
    return declarations(settings)[::-1]


async def differences(js: JetStreamContext, settings: BusSettings) -> list[Difference]:
    """Return what is missing, or differs from the contract or `settings`.

    Raises:
        nats.errors.Error: JetStream does not answer.
    """
    found, there = list[Difference](), 0
    is_worker = settings.role == "worker"
    hidden = hidden_from_workers(settings) if is_worker else frozenset()
    streams = Streams(settings.stream_prefix)
    event_streams = {streams.events(number) for number in range(settings.event_streams)}
    for declared in declarations(settings):
        if declared.name in hidden:
            continue
        config = await find(js, str(declared.name))
        if config is not None:
            there += declared.name == streams.events(there)
            found.extend(_differing(declared, config, settings))
        elif there and declared.name in event_streams:
            found.append(_other_number(str(declared.name), Effect.GROW, there, settings))
        else:
            found.append(Difference(str(declared.name), Effect.CREATE))
    # A worker derives the stream from the task id, and has access only to the configured streams.
    return found if is_worker else [*found, *await _surplus(js, settings)]


async def _surplus(js: JetStreamContext, settings: BusSettings) -> list[Difference]:
    """Return the difference of a process that is configured for fewer event streams than exist.

    It would treat their tasks as unknown.
    """
    streams = Streams(settings.stream_prefix)
    there = settings.event_streams
    while await find(js, streams.events(there)) is not None:
        there += 1
    if there == settings.event_streams:
        return []
    first = streams.events(settings.event_streams)
    surplus = _other_number(first, Effect.IMPOSSIBLE, there, settings)
    return [replace(surplus, remedy=f"set {variable('event_streams')}={there}")]


def _other_number(stream: str, effect: Effect, there: int, settings: BusSettings) -> Difference:
    what, wanted = _NUMBER_OF_EVENT_STREAMS, settings.event_streams
    return Difference(stream, effect, what, there, wanted, variable("event_streams"))


async def allowed_changes(
    js: JetStreamContext, settings: BusSettings, *, shrink: bool, promote: bool = False
) -> list[Difference]:
    """Return what `apply` would change. This changes nothing.

    Raises:
        StreamsDiffer: a limit would shrink without `shrink`, a mirror would become a stream without
            `promote`, or a setting can't be changed in place.
        nats.errors.Error: JetStream does not answer.
    """
    wanted = await differences(js, settings)
    mirrors = {one.stream for one in wanted if one.effect is Effect.PROMOTE}
    allowed = {Effect.SHRINK: shrink, Effect.PROMOTE: promote, Effect.IMPOSSIBLE: False}
    blocking = [
        one
        for one in wanted
        # A mirror has no limits, and nothing that a limit of its own would remove.
        if not (allowed.get(one.effect, True) or (promote and one.stream in mirrors))
    ]
    if blocking:
        lines = "\n  ".join(map(str, blocking))
        raise StreamsDiffer(f"nothing was changed:\n  {lines}")
    return wanted


async def apply(
    js: JetStreamContext, settings: BusSettings, *, shrink: bool, promote: bool = False
) -> list[Difference]:
    """Create missing streams, change settings that differ, and return the changes.

    Raises:
        StreamsDiffer: as `allowed_changes`; nothing was changed.
        nats.errors.Error: JetStream does not answer, or refuses.
    """
    wanted = await allowed_changes(js, settings, shrink=shrink, promote=promote)
    mirrors = {one.stream for one in wanted if one.effect is Effect.PROMOTE}
    for declared in _in_order_of_creation(settings):
        mine = [one for one in wanted if one.stream == declared.name]
        config = await find(js, str(declared.name)) if mine else None
        if mine and config is None:
            await create(js, declared)
        elif config is not None:
            changed = _changed(config, mine)
            if declared.name in mirrors:
                changed["mirror_direct"] = False
            await _ask(js, "STREAM.UPDATE", str(declared.name), orjson.dumps(changed))
    return wanted


def _changed(config: dict[str, Any], changes: Sequence[Difference]) -> dict[str, Any]:
    wanted = {one.setting: one.wanted for one in changes}
    items = {
        name.removeprefix(_METADATA): str(wanted.pop(name))
        for name in [*wanted]
        if name.startswith(_METADATA)
    }
    return {**config, **wanted, "metadata": {**(config.get("metadata") or {}), **items}}


def _differing(
    declared: api.StreamConfig, found: dict[str, Any], settings: BusSettings
) -> Iterator[Difference]:
    stream = str(declared.name)
    wanted: dict[str, Any] = declared.as_dict()
    if mirror := found.get("mirror"):
        yield Difference(stream, Effect.PROMOTE, "mirror", mirror, None)
    there = found.get("subjects") or []
    if (other := _other_prefix(declared.subjects or [], there, settings)) is not None:
        # To add this prefix would take the live subjects away from the fleet that has the stream.
        remedy = (
            f"set {variable('prefix')}={other}; a second fleet on this NATS needs another "
            f"{variable('stream_prefix')}, too"
        )
        what = "the prefix of its subjects"
        named = variable("prefix")
        yield Difference(stream, Effect.IMPOSSIBLE, what, other, settings.prefix, named, remedy)
        return
    if missing := [subject for subject in declared.subjects or [] if subject not in there]:
        yield Difference(stream, Effect.CHANGE, "subjects", there, [*there, *missing])
    yield from _of_contract(stream, wanted, found)
    yield from _of_limits(stream, wanted, found, settings)
    if declared.metadata:
        yield from _keeping_differently(stream, found.get("metadata") or {}, settings)


def _of_contract(
    stream: str, wanted: dict[str, Any], found: dict[str, Any]
) -> Iterator[Difference]:
    for name in _CONTRACT[1:]:
        if name not in wanted or (name == "max_age" and wanted[name]):
            continue  # operators choose how long dead letters are kept
        # The server omits settings that are off.
        if (found.get(name) or False) != wanted[name]:
            effect = Effect.IMPOSSIBLE if name in _FIXED else Effect.CHANGE
            yield Difference(stream, effect, name, found.get(name), wanted[name])


def _of_limits(
    stream: str, wanted: dict[str, Any], found: dict[str, Any], settings: BusSettings
) -> Iterator[Difference]:
    for name in _OPTIONAL:
        if wanted.get(name) is None or found.get(name) == wanted[name]:
            continue
        grows = _size(wanted[name]) > _size(found.get(name, 1))
        effect = Effect.GROW if grows else Effect.SHRINK
        named = variable(_field(stream, name, settings))
        yield Difference(stream, effect, name, found.get(name), wanted[name], named)


def _field(stream: str, name: str, settings: BusSettings) -> str:
    """Return the name of the Headrace setting that a stream's setting follows."""
    streams = Streams(settings.stream_prefix)
    limits = {
        f"OBJ_{streams.files}": "files_max_bytes",
        f"KV_{streams.memory}": "memory_max_bytes",
        streams.runs: "runs_max",
    }
    return "replicas" if name == "num_replicas" else limits.get(stream, "events_max_bytes")


def _keeping_differently(
    stream: str, stated: Mapping[str, str], settings: BusSettings
) -> Iterator[Difference]:
    for name in _KEPT:
        setting = f"{_METADATA}{_item(name)}"
        found, wanted = _seconds(stated, name), _kept(settings, name)
        if found is None:
            effect = Effect.CHANGE
        elif getattr(settings, name) is None or found == wanted:
            continue
        else:
            effect = Effect.GROW if wanted > found else Effect.SHRINK
        yield Difference(stream, effect, setting, found, wanted, variable(name))


def _seconds(stated: Mapping[str, str], name: str) -> float | None:
    try:
        return float(stated[_item(name)])
    except (KeyError, ValueError):
        return None


@dataclass(frozen=True, slots=True)
class RetentionSetting:
    """For how many seconds a fleet keeps tasks."""

    ended: float
    """A task that has ended."""
    waiting: float
    """A task that waits for its user, until it is canceled."""


async def kept_for(js: JetStreamContext, settings: BusSettings) -> RetentionSetting:
    """Return what the first event stream states; what it does not is that of `settings`.

    Raises:
        nats.errors.Error: JetStream does not answer.
    """
    config = await find(js, Streams(settings.stream_prefix).events(0)) or {}
    stated = config.get("metadata") or {}
    ended, waiting = (_seconds(stated, name) or _kept(settings, name) for name in _KEPT)
    return RetentionSetting(ended, waiting)


def _other_prefix(
    declared: Sequence[str], there: Sequence[str], settings: BusSettings
) -> str | None:
    """Return the prefix of a stream's subjects `there`, if that is another fleet's."""
    ours = f"{settings.prefix}."
    if any(subject.startswith(ours) for subject in there):
        return None
    for subject in declared:
        rest = subject.removeprefix(settings.prefix)
        for found in there:
            if subject.startswith(ours) and found.endswith(rest):
                return found.removesuffix(rest)
    return None


def _size(limit: int) -> float:
    return float("inf") if limit == -1 else limit


def _shown(value: object) -> str:
    return "unset" if value is None else orjson.dumps(value).decode()


async def find(js: JetStreamContext, stream: str, api_prefix: str = _API) -> dict[str, Any] | None:
    """Return a stream's configuration as the server has it; None if there is no such stream.

    `api_prefix` is that of the API to ask, such as ``$JS.hub.API``.
    """
    try:
        info = await _ask(js, "STREAM.INFO", stream, api_prefix=api_prefix)
        config: dict[str, Any] = info["config"]
    except NotFoundError:
        return None
    return config


async def info(js: JetStreamContext, stream: str) -> dict[str, Any]:
    """Return what the server states of a stream.

    Raises:
        NotFoundError: there is no such stream.
    """
    return await _ask(js, "STREAM.INFO", stream)


async def create(js: JetStreamContext, declared: api.StreamConfig) -> None:
    """Create a stream, unless another service does so at the same time.

    Raises:
        BusUnavailable: this service may not create it.
        nats.errors.Error: JetStream does not answer, or refuses.
    """
    if declared.discard_new_per_subject and declared.max_msgs is None:
        declared = declared.evolve(max_msgs=RUNS_MAX)
    try:
        await js.add_stream(declared)
    except ServiceUnavailableError as error:
        if error.err_code != ErrorCode.NOT_ENABLED_FOR_ACCOUNT:
            raise
        missing = f"stream {declared.name} does not exist, and this service may not create it"
        raise BusUnavailable(f"{missing}; start a gateway or task state") from error
    except APIError as error:
        # Another service of the fleet created it at the same time.
        if error.err_code != ErrorCode.STREAM_NAME_IN_USE:
            raise


async def _ask(
    js: JetStreamContext, what: str, name: str, request: bytes = b"", *, api_prefix: str = _API
) -> dict[str, Any]:
    # Not with nats-py's StreamConfig, which drops fields that it does not know.
    subject = f"{api_prefix}.{what}.{name}"
    return await js._api_request(subject, request, _TIMEOUT)  # noqa: SLF001
