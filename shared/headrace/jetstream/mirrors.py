"""Mirrors of a fleet's streams in a second region, which take their place when the first is lost.

The mirrors are streams of their own on other NATS servers, joined to those of the first region by
leaf nodes. `streams.apply` turns them into the fleet's streams.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from nats.js import JetStreamContext, api

from headrace.jetstream.streams import create, declarations, find, info
from headrace.model.errors import StreamsDiffer
from headrace.settings import BusSettings

__all__ = ["Mirror", "create_mirrors"]


@dataclass(frozen=True, slots=True)
class Mirror:
    """How far a mirror has come."""

    stream: str
    messages: int
    """That it has."""
    lag: int
    """Messages that its origin has, and it doesn't, when it last heard of it."""
    silence: float
    """Seconds since it heard of its origin; negative: never."""

    def __str__(self) -> str:
        heard = "never" if self.silence < 0 else f"{self.silence:.1f} s ago"
        return f"{self.stream}: {self.messages} messages, lag {self.lag}, heard of origin {heard}"


async def create_mirrors(js: JetStreamContext, settings: BusSettings, domain: str) -> list[Mirror]:
    """Create what is missing of the mirrors of the streams in a JetStream domain; return all.

    Raises:
        StreamsDiffer: a stream of that name exists and is no mirror, or one of another domain;
            nothing was changed.
        nats.errors.Error: JetStream does not answer, or refuses.
    """
    wanted = list(_mirrors(settings, domain))
    found = {str(one.name): await find(js, str(one.name)) for one in wanted}
    if own := [name for name, config in found.items() if config and not config.get("mirror")]:
        raise StreamsDiffer(f"{', '.join(own)} exist here and are no mirrors; nothing was changed")
    api_of = f"$JS.{domain}.API"
    if others := [
        name
        for name, config in found.items()
        if config and (config["mirror"].get("external") or {}).get("api") != api_of
    ]:
        raise StreamsDiffer(
            f"{', '.join(others)} are mirrors of another domain; nothing was changed"
        )
    for one in wanted:
        if found[str(one.name)] is None:
            await create(js, one)
    return [_state(await info(js, str(one.name))) for one in wanted]


def _mirrors(settings: BusSettings, domain: str) -> Iterator[api.StreamConfig]:
    """Yield the mirrors of all streams but the queues.

    A mirror is not told what is removed from its origin. Of a queue it would keep what is done, and
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
                # Clients of both regions would hear its messages.
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
