"""Checks of NATS: whether it answers, its streams and its clock."""

import time
from collections.abc import AsyncIterator, Iterator, Sequence

import orjson

from headrace.jetstream.api import server_time, stream_info
from headrace.jetstream.connection import Bus
from headrace.jetstream.permissions import USER_INFO
from headrace.jetstream.streams import Difference, declarations
from headrace.model.errors import BusUnavailable
from headrace.model.events import Json
from headrace.server_versions import NATS_MINIMUM, ServerTooOld, check_server_version
from headrace.triggers import covers, overlap
from headrace_cli.doctor.diagnosis import Diagnosis, check_clock, ok, problem, warning
from headrace_cli.doctor.rights import check_role

NATS, STREAMS = "NATS", "streams"

_TIMEOUT = 2.0

_NEARLY_FULL, _FULL = 0.8, 0.95
"""Shares of a stream's limit in bytes."""


async def check_login(bus: Bus) -> AsyncIterator[Diagnosis]:
    """Yield what is found about the server of the connected `bus`, and about its login.

    Raises:
        BusUnavailable: NATS does not answer.
    """
    started = time.monotonic()
    await bus.connection.flush()
    milliseconds = (time.monotonic() - started) * 1000
    yield check_version(bus.connection.server_version, milliseconds)
    user, rights = await login_of(bus)
    yield check_rights(rights, f"{bus.settings.prefix}.live.>")
    for finding in check_role(bus.settings, user, rights or {}):
        yield finding


async def check_streams(bus: Bus, different: Sequence[Difference]) -> AsyncIterator[Diagnosis]:
    """Yield what is found about the streams of the connected `bus`, and JetStream's clock.

    `different` is how streams and consumers differ from the settings.

    Raises:
        BusUnavailable: JetStream does not answer.
    """
    for difference in different:
        yield problem(STREAMS, difference.change, difference.remedy or difference.effect.command)
    if not different:
        yield ok(STREAMS, "they match the settings")
    missing = {one.stream for one in different if one.is_missing}
    for declared in declarations(bus.settings):
        if (name := declared.name or "") not in missing:
            for finding in check_stream(await stream_info(bus, name)):
                yield finding
    events = bus.streams.events(0)
    if events not in missing:
        before = time.time()
        there = await server_time(bus, events)
        yield check_clock(NATS, before, there, time.time())


def check_version(version: str, milliseconds: float) -> Diagnosis:
    """Return whether a server of this version, which answered so fast, is recent enough."""
    try:
        check_server_version(NATS, version, NATS_MINIMUM)
    except ServerTooOld as error:
        return problem(NATS, str(error), "upgrade the server")
    return ok(NATS, f"version {version} answered in {milliseconds:.1f} ms")


async def login_of(bus: Bus) -> tuple[str, Json | None]:
    """Return this login's user and what the server permits it. None: not even to ask."""
    try:
        answer = await bus.request(USER_INFO, b"", _TIMEOUT)
    except BusUnavailable:
        return "", None
    data = orjson.loads(answer.data).get("data") or {}
    rights: Json = data.get("permissions") or {}
    return str(data.get("user") or ""), rights


def check_rights(rights: Json | None, live: str) -> Diagnosis:
    """Return whether a login with these permissions may publish on the subjects `live`.

    Messages published there would be shown to clients, although no log contains them.
    """
    if rights is None:
        return ok(NATS, "this login is restricted")
    publish = rights.get("publish") or {}
    allowed = publish.get("allow")
    may = not allowed or any(overlap(one, live) for one in allowed)
    if may and not any(covers(one, live) for one in publish.get("deny") or ()):
        remedy = (
            "give each service a login with the permissions that `headrace nats-permissions` prints"
        )
        return warning(NATS, f"this login may publish on {live}, as only JetStream should", remedy)
    return ok(NATS, f"only JetStream can publish on {live}, as it should be")


def check_stream(info: Json) -> Iterator[Diagnosis]:
    """Check a stream's fill and its replicas in the answer of STREAM.INFO."""
    name, limit = info["config"]["name"], int(info["config"].get("max_bytes", -1))
    filled = int(info["state"]["bytes"]) / limit if limit > 0 else 0.0
    if filled >= _NEARLY_FULL:
        full = problem if filled >= _FULL else warning
        remedy = "shorten HEADRACE_RETENTION or raise the stream's limit"
        yield full(STREAMS, f"{name} has filled {filled:.0%} of its {limit} bytes", remedy)
    for replica in (info.get("cluster") or {}).get("replicas") or ():
        if replica.get("offline") or not replica.get("current"):
            state = "is offline" if replica.get("offline") else "is behind"
            yield warning(
                STREAMS, f"{name}: the replica on {replica['name']} {state}", "check that server"
            )
