"""Mirrors of a fleet's streams in a second region, which take their place when the first is lost.

The mirrors are streams of their own on other NATS servers, joined to those of the first region by
leaf nodes. `streams.apply` turns them into the fleet's streams.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import nats.errors
from nats.js import JetStreamContext, api

from headrace.environment import variable
from headrace.jetstream.streams import Streams, create, declarations, find, info
from headrace.model.errors import StreamsDiffer
from headrace.settings import BusSettings

__all__ = ["Mirror", "answering_origins", "create_mirrors"]


@dataclass(frozen=True, slots=True)
class Mirror:
    """How far a mirror has come."""

    stream: str
    messages: int
    """That it has."""
    lag: int
    """Messages that its origin had and it did not, at the last contact with it."""
    silence: float
    """Seconds since the last contact with its origin; negative: there was none."""

    def __str__(self) -> str:
        contact = "never" if self.silence < 0 else f"{self.silence:.1f} s ago"
        size = f"{self.messages} messages, lag {self.lag}"
        return f"{self.stream}: {size}, last contact with the origin {contact}"


async def create_mirrors(js: JetStreamContext, settings: BusSettings, domain: str) -> list[Mirror]:
    """Create what is missing of the mirrors of the streams in a JetStream domain; return all.

    The number of streams of a domain that does not answer is not compared with `settings` if
    no mirror is missing.

    Raises:
        StreamsDiffer: a stream of that name exists and is no mirror, or one of another domain, or
            the domain has another number of event streams; nothing was changed.
        nats.errors.Error: JetStream does not answer, or refuses.
    """
    wanted = list(_mirrors(settings, domain))
    found = {str(one.name): await find(js, str(one.name)) for one in wanted}
    if own := [name for name, config in found.items() if config and not config.get("mirror")]:
        raise StreamsDiffer(
            f"{', '.join(own)} exist in this domain and are not mirrors; nothing was changed"
        )
    api_of = f"$JS.{domain}.API"
    if others := [
        name
        for name, config in found.items()
        if config and (config["mirror"].get("external") or {}).get("api") != api_of
    ]:
        raise StreamsDiffer(
            f"{', '.join(others)} are mirrors of another domain; nothing was changed"
        )
    missing = [one for one in wanted if found[str(one.name)] is None]
    try:
        await _compare_event_streams(js, settings, domain)
    except nats.errors.Error:
        if missing:
            raise
    for one in missing:
        origin = await find(js, str(one.name), api_of) or {}
        await create(js, one.evolve(metadata=_stated(origin)))
    return [_state(await info(js, str(one.name))) for one in wanted]


async def answering_origins(js: JetStreamContext, settings: BusSettings) -> list[str]:
    """Return the names of the mirrors whose origins answer; streams that are no mirrors aside.

    Raises:
        nats.errors.Error: JetStream does not answer here.
    """
    names = [str(one.name) for one in declarations(settings)]
    apis = dict[str, str]()
    for name in names:
        match await find(js, name):
            case {"mirror": {"external": {"api": str(api_prefix)}}}:
                apis[name] = api_prefix
    answers = await asyncio.gather(*(_is_there(js, *each) for each in apis.items()))
    return [name for name, is_there in zip(apis, answers, strict=True) if is_there]


async def _is_there(js: JetStreamContext, name: str, api_prefix: str) -> bool:
    try:
        return await find(js, name, api_prefix) is not None
    except nats.errors.Error:
        return False


async def _compare_event_streams(js: JetStreamContext, settings: BusSettings, domain: str) -> None:
    """Compare the domain's number of event streams with the settings."""
    streams, there = Streams(settings.stream_prefix), 0
    while await find(js, streams.events(there), f"$JS.{domain}.API") is not None:
        there += 1
    if there != settings.event_streams:
        name = variable("event_streams")
        raise StreamsDiffer(
            f"domain {domain} has {there} event streams, and {name} is {settings.event_streams}; "
            f"set {name}={there}; nothing was changed"
            if there
            else f"domain {domain} has no stream {streams.events(0)}; nothing was changed"
        )


def _stated(origin: dict[str, Any]) -> dict[str, str] | None:
    """Return what a stream's metadata states, without the items of the server."""
    items = (origin.get("metadata") or {}).items()
    return {name: value for name, value in items if not name.startswith("_nats.")} or None


def _mirrors(settings: BusSettings, domain: str) -> Iterator[api.StreamConfig]:
    """Yield the mirrors of all streams but the queues.

    Removals from the origin are not mirrored. A mirror of a queue would keep what is done, and
    task state fills the queues again from the logs. An erased log stays with its tombstone behind
    it, which must not expire here: task state finds it when it builds its view, and erases again.
    """
    external = api.ExternalStream(api=f"$JS.{domain}.API")
    for one in declarations(settings):
        if one.retention is not api.RetentionPolicy.WORK_QUEUE:
            expires = one.max_msgs_per_subject == 1 and one.allow_msg_ttl
            yield one.evolve(
                subjects=None,
                mirror=api.StreamSource(name=str(one.name), external=external),
                # Clients of both regions would receive its messages.
                republish=None,
                # It would stall where its origin makes room.
                max_bytes=None,
                allow_msg_ttl=expires or None,
            )


def _state(stream: dict[str, object]) -> Mirror:
    match stream:
        case {
            "config": {"name": str(name)},
            "state": {"messages": int(messages)},
            "mirror": {"lag": int(lag), "active": int(active)},
        }:
            return Mirror(name, messages, lag, active / 1e9 if active >= 0 else -1.0)
    raise StreamsDiffer(f"JetStream does not state how far a mirror is: {stream}")
