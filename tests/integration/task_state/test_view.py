"""The view in Redis is the fold of the log, however the log came in."""

import random
import secrets
from collections.abc import AsyncIterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nats.aio.msg import Msg

from headrace.model.errors import StateUnavailable
from headrace.model.subjects import Subjects
from headrace.model.task import WORKING, TaskKey
from headrace_task_state.projector.arrival import Arrival
from headrace_task_state.projector.batches import Batches
from headrace_task_state.queries.found import read_found
from headrace_task_state.ranges import all_ranges
from headrace_task_state.store_redis.connection import Connection
from headrace_task_state.store_redis.keys import Keys
from headrace_task_state.store_redis.leases import Leases
from headrace_task_state.store_redis.progress import Progress
from headrace_task_state.store_redis.reading import Reader
from headrace_task_state.store_redis.settings import RedisSettings
from headrace_task_state.store_redis.writing import LeaseLost, PositionMoved, Writer
from tests.support.legal_logs import LegalLog, legal_logs
from tests.support.servers import ValkeyProcess
from tests.support.task_states import folded, new_key

RANGES = all_ranges(1)
SUBJECTS = Subjects()


class Desk:
    """One range's view, written without NATS."""

    def __init__(self, url: str) -> None:
        self.redis = Connection(RedisSettings.model_validate({"redis_url": url}))
        self.keys = Keys.of(secrets.token_hex(4), "")
        self.reader = Reader(self.redis, self.keys)
        self.leases = Leases(self.redis, self.keys, "replica", RANGES)
        self.progress = Progress()

    async def writer(self) -> Writer:
        """Take the lease anew."""
        lease = await self.leases.take(RANGES[0])
        assert lease is not None
        return Writer(self.redis, self.keys, lease, RANGES)

    async def apply(self, writer: Writer, batches: Batches, arrivals: list[Arrival]) -> None:
        """Write one batch."""
        batch = batches.build(arrivals, self.progress)
        assert batch.letters == []
        await writer.apply(self.progress, batch.then, batch.tasks)
        self.progress = batch.then


@pytest.fixture
async def desk(valkey: ValkeyProcess) -> AsyncIterator[Desk]:
    opened = Desk(valkey.url)
    yield opened
    await opened.redis.close()


def arrivals(logs: list[LegalLog], shuffle: random.Random) -> list[Arrival]:
    """Return all entries as they come, those of different logs mixed."""
    queues = [(log, list(log.entries)) for log in logs]
    mixed: list[Arrival] = []
    while queues := [(log, entries) for log, entries in queues if entries]:
        log, entries = shuffle.choice(queues)
        stamp, body = entries.pop(0)
        msg = Msg(
            _client=None,  # type: ignore[arg-type]  # nobody answers it
            subject=SUBJECTS.event(log.key),
            data=body,
            headers=stamp.headers(),
        )
        number = len(mixed) + 1
        mixed.append(Arrival(number, number, number * 1_000_000_000, msg))
    return mixed


@settings(
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
async def test_any_mix_of_logs_in_any_batches_is_stored_as_it_folds(
    valkey: ValkeyProcess, data: st.DataObject
) -> None:
    desk = Desk(valkey.url)
    try:
        logs = [
            data.draw(legal_logs(new_key(shard, agent=f"agent{shard % 2}"))) for shard in range(3)
        ]
        writer, batches = await desk.writer(), Batches(SUBJECTS, 5)
        left = arrivals(logs, data.draw(st.randoms(use_true_random=False)))
        while left:
            size = data.draw(st.integers(1, 12))
            await desk.apply(writer, batches, left[:size])
            left = left[size:]
            if data.draw(st.integers(0, 3)) == 0:
                # Another replica takes over: it knows nothing of what the lists end with.
                await desk.leases.release([writer.lease])
                writer, batches = await desk.writer(), Batches(SUBJECTS, 5)
        for log in logs:
            stored = await desk.reader.task(log.key.tenant, log.key.task)
            assert stored is not None
            found = read_found(stored)
            assert found.fold.task() == folded(log)
            assert (found.fold.state, found.log) == (log.state, log.log)
            assert (found.owner, found.agent) == (log.owner, log.key.agent)
    finally:
        await desk.redis.close()


async def begun(desk: Desk, log: LegalLog) -> tuple[Writer, Batches, list[Arrival]]:
    """Apply all of a log but its last entry; return what is needed to apply that one too."""
    writer, batches = await desk.writer(), Batches(SUBJECTS, 5)
    all_arrivals = arrivals([log], random.Random(0))
    await desk.apply(writer, batches, all_arrivals[:-1])
    return writer, batches, all_arrivals[-1:]


def some_log(key: TaskKey | None = None) -> LegalLog:
    log = LegalLog(key or new_key())
    log.submit("hello")
    log.begin_attempt()
    log.append([log.chunk("a", "one ")], state=WORKING)
    return log


async def text_of(desk: Desk, log: LegalLog) -> str:
    stored = await desk.reader.task(log.key.tenant, log.key.task)
    assert stored is not None
    artifacts = read_found(stored).fold.task().get("artifacts", [])
    return "".join(part["text"] for artifact in artifacts for part in artifact["parts"])


async def test_who_has_lost_the_lease_writes_nothing(desk: Desk) -> None:
    log = some_log()
    zombie, batches, last = await begun(desk, log)
    await desk.leases.release([zombie.lease])
    await desk.writer()
    with pytest.raises(LeaseLost):
        await desk.apply(zombie, batches, last)
    assert await text_of(desk, log) == ""
    assert await zombie.progress() == desk.progress


async def test_a_lapsed_lease_that_nobody_took_does_not_write_either(desk: Desk) -> None:
    log = some_log()
    writer, batches, last = await begun(desk, log)
    await desk.redis.ask(["DEL", desk.keys.lease(RANGES[0])])
    for step in (
        desk.apply(writer, batches, last),
        writer.defer("w", "t:x", 1),
    ):
        with pytest.raises(LeaseLost):
            await step
    assert await text_of(desk, log) == ""


async def test_a_batch_is_written_once_only(desk: Desk) -> None:
    log = some_log()
    writer, batches, last = await begun(desk, log)
    batch = batches.build(last, desk.progress)
    await writer.apply(desk.progress, batch.then, batch.tasks)
    with pytest.raises(PositionMoved):
        await writer.apply(desk.progress, batch.then, batch.tasks)
    assert await text_of(desk, log) == "one "


async def test_a_lease_is_held_by_one_at_a_time(desk: Desk) -> None:
    lease = await desk.leases.take(RANGES[0])
    assert lease is not None
    assert await desk.leases.take(RANGES[0]) is None
    await desk.leases.release([lease])
    again = await desk.leases.take(RANGES[0])
    assert again is not None
    assert again.token != lease.token


async def test_streamed_text_costs_little_more_than_itself(desk: Desk) -> None:
    log = some_log()
    block = {"agui_block_type": "text", "agui_block_id": "block-1", "agui_block_index": 0}
    log.append([log.chunk("a", "first ", block)])
    for _ in range(50):
        log.append([log.chunk("a", "word ", block) for _ in range(20)])
    writer, batches = await desk.writer(), Batches(SUBJECTS, 5)
    await desk.apply(writer, batches, arrivals([log], random.Random(0)))
    stored = await desk.reader.task(log.key.tenant, log.key.task)
    assert stored is not None
    assert sum(map(len, stored.artifacts)) < 1000 * len("word ") * 2
    assert read_found(stored).fold.task() == folded(log)


async def test_a_task_in_many_pieces_takes_one_write(desk: Desk) -> None:
    log = some_log()
    for number in range(5000):
        log.append([log.chunk(f"artifact-{number}", "x")])
    writer, batches = await desk.writer(), Batches(SUBJECTS, 5)
    await desk.apply(writer, batches, arrivals([log], random.Random(0)))
    stored = await desk.reader.task(log.key.tenant, log.key.task)
    assert stored is not None
    assert len(stored.artifacts) == 5001


async def test_a_log_begun_again_on_the_same_subject_replaces_the_task(desk: Desk) -> None:
    log = some_log()
    again = LegalLog(log.key, log="otherlog")
    again.submit("again")
    writer, batches = await desk.writer(), Batches(SUBJECTS, 5)
    for one in (log, again):
        offset = desk.progress.position
        await desk.apply(
            writer,
            batches,
            [a._replace(sequence=a.sequence + offset) for a in arrivals([one], random.Random(0))],
        )
    stored = await desk.reader.task(log.key.tenant, log.key.task)
    assert stored is not None
    found = read_found(stored)
    assert found.log == "otherlog"
    assert found.fold.task() == folded(again)


async def test_without_its_beginning_a_log_makes_no_task(desk: Desk) -> None:
    log = some_log()
    writer, batches = await desk.writer(), Batches(SUBJECTS, 5)
    await desk.apply(writer, batches, arrivals([log], random.Random(0))[-1:])
    assert await desk.reader.task(log.key.tenant, log.key.task) is None


async def test_without_redis_everything_is_unavailable() -> None:
    nobody = Desk("redis://127.0.0.1:1/0")
    with pytest.raises(StateUnavailable):
        await nobody.reader.task("default", "x")
    with pytest.raises(StateUnavailable):
        await nobody.leases.take(RANGES[0])
    with pytest.raises(ConnectionError):
        await nobody.redis.check()
    await nobody.redis.close()
