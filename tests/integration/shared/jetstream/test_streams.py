"""Streams: made once however many services start, and changed only when an operator says so."""

import asyncio
import secrets

import pytest
from nats.js import api

from headrace.jetstream.connection import Bus
from headrace.jetstream.streams import (
    Effect,
    RetentionSetting,
    apply,
    declarations,
    differences,
    ensure_streams,
    find,
    kept_for,
)
from headrace.model.errors import StreamsDiffer
from headrace.settings import BusSettings
from tests.integration.shared.conftest import Connect
from tests.support.delete_stream import delete_stream
from tests.support.jetstream_api import answered
from tests.support.task_log import TaskLog
from tests.support.topology import Topology


async def config(bus: Bus, stream: str) -> api.StreamConfig:
    return (await answered(lambda: bus.js.stream_info(stream))).config


async def update(bus: Bus, changed: api.StreamConfig) -> None:
    await answered(lambda: bus.js.update_stream(changed))


def settings(bus: Bus, **changed: object) -> BusSettings:
    return BusSettings(**bus.settings.model_dump() | changed)


async def test_services_that_start_together_make_each_stream_once(connect: Connect) -> None:
    name = f"own{secrets.token_hex(4)}"
    buses = await asyncio.gather(
        *(connect(prefix=name, stream_prefix=name, event_streams=2) for _ in range(3))
    )
    log = TaskLog(buses[0])
    await log.begin()
    assert len(await log.read()) == 1
    for declared in declarations(buses[0].settings):
        found = await config(buses[1], str(declared.name))
        assert found.subjects == declared.subjects
        await delete_stream(buses[2].js, str(declared.name))


async def test_an_event_stream_is_as_the_promises_need_it(bus: Bus, topology: Topology) -> None:
    found = await config(bus, bus.streams.events(0))
    assert found.discard == api.DiscardPolicy.NEW
    assert found.max_age == 0
    assert found.allow_direct
    assert found.num_replicas == topology.replicas
    assert found.republish is not None
    assert found.republish.dest == f"{bus.subjects.prefix}.live.>"


async def test_a_second_request_for_a_run_is_refused_while_the_first_one_waits(
    bus: Bus, log: TaskLog
) -> None:
    subject = bus.subjects.run(log.key, 1)
    first, second = [(await bus.request(subject, b"{}", 30.0)).data for _ in range(2)]
    assert b'"seq"' in first
    assert b"10077" in second
    await answered(lambda: bus.js.purge_stream(bus.streams.runs, subject=subject))


async def shapes(bus: Bus) -> dict[str, api.StreamConfig]:
    names = [str(declared.name) for declared in declarations(bus.settings)]
    return {name: await config(bus, name) for name in names}


async def test_settings_that_are_unset_leave_everything_as_it_is(own: Bus) -> None:
    await apply(own.js, settings(own, events_max_bytes=10_000_000), shrink=True)
    before = await shapes(own)
    unset = dict.fromkeys(("replicas", "events_max_bytes", "files_max_bytes", "runs_max"))
    await ensure_streams(own.js, settings(own, **unset))
    assert await shapes(own) == before


async def test_a_service_with_other_settings_changes_nothing_and_names_each_difference(
    own: Bus, topology: Topology
) -> None:
    before = await shapes(own)
    other = settings(own, replicas=5, events_max_bytes=1000, runs_max=7)
    with pytest.raises(StreamsDiffer) as refused:
        await ensure_streams(own.js, other)
    assert await shapes(own) == before
    output = str(refused.value)
    events, runs = own.streams.events(0), own.streams.runs
    assert (
        f"{events}: num_replicas is {topology.replicas}, HEADRACE_REPLICAS requires 5: "
        "headrace streams apply\n" in output
    )
    assert (
        f"{events}: max_bytes is -1, HEADRACE_EVENTS_MAX_BYTES requires 1000: "
        "headrace streams apply --shrink\n" in output
    )
    assert f"{runs}: max_msgs is 1000000, HEADRACE_RUNS_MAX requires 7" in output
    for name in before:
        assert f"{name}: num_replicas is" in output


async def test_a_limit_is_named_by_its_own_variable_beside_equal_ones(own: Bus) -> None:
    same = dict.fromkeys(("events_max_bytes", "files_max_bytes", "memory_max_bytes"), 5_000_000)
    found = await differences(own.js, settings(own, **same, runs_max=5_000_000))
    assert {one.stream: one.variable for one in found} == {
        own.streams.events(0): "HEADRACE_EVENTS_MAX_BYTES",
        f"OBJ_{own.streams.files}": "HEADRACE_FILES_MAX_BYTES",
        f"KV_{own.streams.memory}": "HEADRACE_MEMORY_MAX_BYTES",
        own.streams.runs: "HEADRACE_RUNS_MAX",
    }


async def test_limits_shrink_only_on_request(own: Bus, topology: Topology) -> None:
    stream = own.streams.events(0)
    before = await config(own, stream)
    await update(own, before.evolve(description="the operator's"))
    smaller = settings(own, events_max_bytes=10_000_000, replicas=1)
    with pytest.raises(StreamsDiffer, match="nothing was changed"):
        await apply(own.js, smaller, shrink=False)
    assert (await config(own, stream)).max_bytes == -1
    await apply(own.js, smaller, shrink=True)
    after = await config(own, stream)
    assert (after.max_bytes, after.num_replicas) == (10_000_000, 1)
    assert after.description == "the operator's"
    assert after.subjects == before.subjects
    assert await differences(own.js, smaller) == []
    larger = settings(own, replicas=topology.replicas, events_max_bytes=-1)
    assert {one.effect for one in await differences(own.js, larger)} == {Effect.GROW}
    await apply(own.js, larger, shrink=False)
    assert (await config(own, stream)).num_replicas == topology.replicas


async def test_a_size_limit_of_what_has_none_in_the_settings_is_the_operator_s(own: Bus) -> None:
    dead = own.streams.dead
    await update(own, (await config(own, dead)).evolve(max_bytes=1_000_000, max_age=3600))
    await ensure_streams(own.js, own.settings)
    found = await config(own, dead)
    assert (found.max_bytes, found.max_age) == (1_000_000, 3600)


@pytest.mark.parametrize(
    ("broken", "setting"),
    [
        ({"discard": api.DiscardPolicy.OLD}, "discard"),
        ({"max_age": 3600}, "max_age"),
        ({"max_msgs_per_subject": 9}, "max_msgs_per_subject"),
        ({"republish": None}, "republish"),
    ],
)
async def test_a_stream_that_breaks_the_contract_is_refused_and_mended_by_apply(
    own: Bus, broken: dict[str, object], setting: str
) -> None:
    stream = own.streams.events(0)
    before = await config(own, stream)
    await update(own, before.evolve(**broken))
    with pytest.raises(
        StreamsDiffer, match=f"{stream}: {setting} is .*, the bus contract requires"
    ):
        await ensure_streams(own.js, own.settings)
    await apply(own.js, own.settings, shrink=False)
    assert await config(own, stream) == before


async def test_a_subject_that_is_missing_is_added_by_apply_and_others_stay(own: Bus) -> None:
    stream = own.streams.events(0)
    before = await config(own, stream)
    theirs = [*(before.subjects or [])[1:], f"{own.subjects.prefix}.operator"]
    await update(own, before.evolve(subjects=theirs))
    with pytest.raises(StreamsDiffer, match=f"{stream}: subjects"):
        await ensure_streams(own.js, own.settings)
    await apply(own.js, own.settings, shrink=False)
    subjects = (await config(own, stream)).subjects or []
    assert set(subjects) == {*(before.subjects or []), f"{own.subjects.prefix}.operator"}


async def test_buckets_and_the_store_of_files_are_minded_too(own: Bus) -> None:
    bucket, files = f"KV_{own.streams.keys}", f"OBJ_{own.streams.files}"
    await update(own, (await config(own, bucket)).evolve(max_msgs_per_subject=5))
    await update(own, (await config(own, files)).evolve(discard=api.DiscardPolicy.OLD))
    found = await differences(own.js, settings(own, files_max_bytes=5_000_000))
    assert {(one.stream, one.setting, one.effect) for one in found} == {
        (bucket, "max_msgs_per_subject", Effect.CHANGE),
        (files, "discard", Effect.CHANGE),
        (files, "max_bytes", Effect.SHRINK),
    }


async def test_who_knows_fewer_event_streams_than_there_are_is_refused(connect: Connect) -> None:
    name = f"own{secrets.token_hex(4)}"
    bus = await connect(prefix=name, stream_prefix=name, event_streams=2)
    with pytest.raises(StreamsDiffer, match="set HEADRACE_EVENT_STREAMS=2"):
        await ensure_streams(bus.js, settings(bus, event_streams=1))
    with pytest.raises(StreamsDiffer, match="set HEADRACE_EVENT_STREAMS=2"):
        await apply(bus.js, settings(bus, event_streams=1), shrink=True)
    for declared in declarations(bus.settings):
        await delete_stream(bus.js, str(declared.name))


async def test_a_service_that_knows_more_event_streams_than_there_are_adds_none(own: Bus) -> None:
    """Otherwise no service with the right number would start again."""
    more = settings(own, event_streams=3)
    refusal = "EVENTS_2: the number of event streams is 1, HEADRACE_EVENT_STREAMS requires 3"
    with pytest.raises(StreamsDiffer, match=refusal):
        await ensure_streams(own.js, more)
    await ensure_streams(own.js, own.settings)


async def test_a_service_whose_settings_differ_creates_nothing(own: Bus) -> None:
    await delete_stream(own.js, own.streams.dead)
    with pytest.raises(StreamsDiffer, match="nothing was changed"):
        await ensure_streams(own.js, settings(own, events_max_bytes=5_000_000))
    assert await find(own.js, own.streams.dead) is None
    await ensure_streams(own.js, own.settings)
    assert await find(own.js, own.streams.dead) is not None


WEEK, MONTH = 7 * 24 * 3600.0, 30 * 24 * 3600.0


async def test_a_service_that_would_keep_tasks_for_another_time_is_refused(own: Bus) -> None:
    await ensure_streams(own.js, own.settings)
    assert await kept_for(own.js, own.settings) == RetentionSetting(WEEK, MONTH)
    shorter = settings(own, retention=60.0, waiting_retention=2 * MONTH)
    events = own.streams.events(0)
    refusal = (
        f"{events}: metadata.headrace.retention is 604800.0, HEADRACE_RETENTION requires 60.0: "
        f"headrace streams apply --shrink\n  {events}: metadata.headrace.waiting_retention is "
        "2592000.0, HEADRACE_WAITING_RETENTION requires 5184000.0: headrace streams apply"
    )
    with pytest.raises(StreamsDiffer) as refused:
        await ensure_streams(own.js, shorter)
    assert refusal in str(refused.value)
    with pytest.raises(StreamsDiffer, match="nothing was changed"):
        await apply(own.js, shorter, shrink=False)
    await apply(own.js, shorter, shrink=True)
    # A service without these settings keeps tasks as the fleet does.
    await ensure_streams(own.js, own.settings)
    assert await kept_for(own.js, own.settings) == RetentionSetting(60.0, 2 * MONTH)


async def test_a_fleet_that_states_no_retention_starts_once_it_is_recorded(own: Bus) -> None:
    events = own.streams.events(0)
    before = await config(own, events)
    await update(own, before.evolve(metadata={"theirs": "stays"}))
    mine = settings(own, retention=60.0)
    with pytest.raises(StreamsDiffer, match=f"{events}: metadata.headrace.retention is unset"):
        await ensure_streams(own.js, mine)
    await apply(own.js, mine, shrink=False)
    assert ((await config(own, events)).metadata or {})["theirs"] == "stays"
    assert await differences(own.js, mine) == []
    assert await kept_for(own.js, own.settings) == RetentionSetting(60.0, MONTH)


async def test_apply_makes_what_is_missing(own: Bus) -> None:
    more = settings(own, event_streams=2)
    [missing] = await differences(own.js, more)
    assert (missing.stream, missing.effect) == (own.streams.events(1), Effect.GROW)
    await apply(own.js, more, shrink=False)
    assert await differences(own.js, more) == []
    await delete_stream(own.js, own.streams.events(1))


async def test_streams_of_another_prefix_are_left_to_their_fleet(own: Bus) -> None:
    before = await shapes(own)
    other = settings(own, prefix="elsewhere.fleet")
    with pytest.raises(StreamsDiffer) as refused:
        await apply(own.js, other, shrink=True)
    assert await shapes(own) == before
    stream, prefix = own.streams.events(0), own.settings.prefix
    assert (
        f'{stream}: the prefix of its subjects is "{prefix}", HEADRACE_PREFIX requires '
        f'"elsewhere.fleet": set HEADRACE_PREFIX={prefix}; a second fleet on this NATS needs '
        "another HEADRACE_STREAM_PREFIX, too"
    ) in str(refused.value)
    found = await differences(own.js, other)
    assert [one.effect for one in found] == [Effect.IMPOSSIBLE] * 5
