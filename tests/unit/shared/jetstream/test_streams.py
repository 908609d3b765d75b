"""What is declared: names and subjects that do not overlap, and what promises rest on."""

from itertools import combinations
from typing import Any, cast

import pytest
from nats.js import JetStreamContext, api
from nats.js.errors import APIError, NotFoundError

from headrace.jetstream.streams import Streams, declarations, ensure_streams
from headrace.model.errors import BusUnavailable
from headrace.model.subjects import Subjects
from headrace.model.task import TaskKey, mint_task_id
from headrace.settings import BusSettings


def declared(**settings: object) -> dict[str, api.StreamConfig]:
    return {str(d.name): d for d in declarations(BusSettings.model_validate(settings))}


def matches(pattern: str, subject: str) -> bool:
    wanted, given = pattern.split("."), subject.split(".")
    if wanted[-1] == ">":
        wanted, given = wanted[:-1], given[: len(wanted) - 1]
    return len(wanted) == len(given) and all(
        w in {"*", g} for w, g in zip(wanted, given, strict=True)
    )


def streams_of(subject: str, streams: dict[str, api.StreamConfig]) -> list[str]:
    found = streams.items()
    return [name for name, s in found if any(matches(p, subject) for p in s.subjects or [])]


def test_each_shard_is_in_exactly_the_stream_that_owns_it() -> None:
    streams = declared(event_streams=3)
    for shard in range(48):
        key = TaskKey("tenant", "agent", mint_task_id(shard))
        owner = Streams().of_shard(shard)
        assert streams_of(Subjects().event(key), streams) == [owner]
        assert streams_of(Subjects().live(key), streams) == []
        assert streams_of(Subjects().run(key, 1), streams) == ["RUNS"]
    assert streams_of(Subjects().dead("tenant", "agent"), streams) == ["DEAD"]


def test_growing_moves_no_shard() -> None:
    few, many = declared(event_streams=1), declared(event_streams=4)
    assert {name: many[name] for name in few} == few


def test_no_two_streams_want_the_same_subject() -> None:
    streams = declared(event_streams=4)
    assert len(streams) > 4
    for one, other in combinations(streams.values(), 2):
        assert not set(one.subjects or []) & set(other.subjects or [])


def test_old_messages_never_give_way_to_new_ones() -> None:
    streams = declared(event_streams=2)
    assert len(streams) > 2
    # JetStream refuses schedules where new messages are discarded; nothing is without a limit.
    schedules = streams.pop("SCHEDULES")
    assert schedules.max_msgs_per_subject == -1
    assert {schedules.max_msgs, schedules.max_bytes, schedules.max_age} <= {None, 0}
    for name, stream in streams.items():
        assert stream.discard == api.DiscardPolicy.NEW, name
        assert stream.storage == api.StorageType.FILE, name


def test_events_stay_until_they_are_purged() -> None:
    events = declared()["EVENTS"]
    assert not events.max_age
    assert events.max_msgs_per_subject == -1
    assert events.allow_direct
    assert events.republish == api.RePublish(src="headrace.event.>", dest="headrace.live.>")


@pytest.mark.parametrize("replicas", [1, 3])
def test_settings_reach_every_stream(replicas: int) -> None:
    streams = declared(
        prefix="a.b", stream_prefix="X_", replicas=replicas, events_max_bytes=5, event_streams=2
    )
    assert {s.num_replicas for s in streams.values()} == {replicas}
    names = {"EVENTS", "EVENTS_1", "RUNS", "DEAD"}
    assert {f"X_{name}" for name in names} <= set(streams)
    # Buckets and stores of files have the server's own prefixes before ours.
    assert all(name.removeprefix("KV_").removeprefix("OBJ_").startswith("X_") for name in streams)
    assert streams["X_EVENTS_1"].max_bytes == 5
    assert streams["X_EVENTS_1"].republish == api.RePublish(src="a.b.event.>", dest="a.b.live.>")


class Cluster:
    """JetStream on servers that have not all heard of a stream which another service has made."""

    def __init__(self, hidden: str) -> None:
        self.hidden, self.made = hidden, list[str]()

    async def _api_request(self, subject: str, _: bytes, __: float) -> dict[str, Any]:
        streams, name = declared(), subject.rpartition(".")[2]
        if name == self.hidden or name not in streams:
            raise NotFoundError(code=404, err_code=10059)
        return {"config": streams[name].as_dict()}

    async def add_stream(self, stream: api.StreamConfig) -> None:
        self.made.append(str(stream.name))
        raise APIError(code=400, err_code=10058)


async def test_a_stream_that_another_service_has_just_made_is_waited_for() -> None:
    cluster = Cluster("PUSHES")
    js = cast("JetStreamContext", cluster)
    with pytest.raises(BusUnavailable, match="PUSHES can't be checked yet"):
        await ensure_streams(js, BusSettings())
    assert cluster.made == ["PUSHES"]
    cluster.hidden = ""
    await ensure_streams(js, BusSettings())
