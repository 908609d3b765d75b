"""What attempts remember, on a real nats-server and on the one in memory of `headrace.testing`."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from headrace import Retry, Retryable, RunContext, agent
from headrace.jetstream.agent_memory import INLINE, AgentMemory
from headrace.jetstream.api import request, stream_info
from headrace.jetstream.connection import Bus
from headrace.jetstream.kv import Bucket, Value
from headrace.jetstream.streams import ensure_streams
from headrace.model.entry import Entry
from headrace.model.errors import BusUnavailable
from headrace.model.memory import MemoryChanged, MemoryFull, MemoryScope, shown_writes
from headrace.model.task import FAILED, TaskKey, mint_task_id
from headrace.sdk.errors import Misused, RunOver
from headrace.sdk.memory import Memory
from headrace.tasks.forget import clear_away, mark_deleted
from headrace_worker.memory import AttemptMemory
from tests.integration.worker.conftest import Working
from tests.integration.worker.test_checkpoints import ended, folded
from tests.support.memory_bus import memory_bus
from tests.support.task_submitter import TaskSubmitter
from tests.support.waiting import eventually

LARGE = bytes(range(256)) * (INLINE // 100)

type Open = Callable[..., AttemptMemory]


@pytest.fixture(params=["nats-server", "in memory"])
async def bus(request: pytest.FixtureRequest, submitter: TaskSubmitter) -> AsyncIterator[Bus]:
    if request.param == "nats-server":
        yield submitter.bus
        return
    async with memory_bus() as found:
        await ensure_streams(found.js, found.settings)
        yield found


@pytest.fixture
def task() -> MemoryScope:
    return MemoryScope("default", "any", "ann", "c/ä", mint_task_id(0))


@pytest.fixture
def opened(bus: Bus, task: MemoryScope) -> Open:
    """Returns the memory of an attempt at the task's run."""

    def open_(
        writer: str = "w1",
        *,
        scope: MemoryScope = task,
        is_first: bool = True,
        check: Callable[[], None] = lambda: None,
        owner_seconds: int | None = None,
    ) -> AttemptMemory:
        return AttemptMemory(
            AgentMemory(bus), scope, writer, check, is_first=is_first, owner_seconds=owner_seconds
        )

    return open_


@pytest.fixture
def memory(opened: Open) -> Memory:
    """The memory of the conversation."""
    run = opened()
    return Memory(run, run.scope._replace(task=None))


async def test_the_log_counts_writes_in_statuses_that_it_has_anyway(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent(retry=Retry(backoff=0.05))
    async def writing(ctx: RunContext) -> None:
        await ctx.memory.save("seen/a", "secret")
        await ctx.memory.update("seen/b", lambda n: n + 1, 0)
        await ctx.memory.of_task.put("n", b"1")
        if ctx.attempt == 1:
            raise Retryable
        await ctx.step("look", lambda: 1)
        await ctx.memory.of_owner.delete("old")
        with pytest.raises(MemoryChanged):
            await ctx.memory.put("n", b"2", revision=99)

    entries = await ended(submitter, working, writing)
    statuses = [e["statusUpdate"] for entry in entries for e in entry.events if "statusUpdate" in e]
    first = {"conversation": 2, "task": 1}
    assert [shown_writes(one.get("metadata", {})) for one in statuses] == [
        {},
        first,
        {},
        first,
        {"owner": 1},
    ]
    assert "secret" not in "".join(str(entry.lines) for entry in entries)
    assert "seen" not in "".join(str(entry.lines) for entry in entries)
    assert "headrace.memory" not in str(folded(entries))


@pytest.mark.parametrize("of", ["context", "task", "owner"])
@pytest.mark.parametrize("data", [b"", b"\x01", b"text", LARGE], ids=len)
async def test_a_value_is_read_as_it_was_written(memory: Memory, of: str, data: bytes) -> None:
    where = {"context": memory, "task": memory.of_task, "owner": memory.of_owner}[of]
    before = await where.put("k", b"before")
    revision = await where.put("k", data)
    assert revision > before
    found = await where.get("k")
    assert found is not None
    assert (found.data, found.revision) == (data, revision)
    assert {key: one.data for key, one in (await where.read()).items()} == {"k": data}


@pytest.mark.parametrize("of", ["context", "task"])
async def test_a_write_expects_a_revision(memory: Memory, of: str) -> None:
    where = memory if of == "context" else memory.of_task
    first = await where.put("k", b"1", revision=0)
    second = await where.put("k", LARGE, revision=first)
    for wrong in (0, first):
        with pytest.raises(MemoryChanged, match="memory key 'k' has another revision"):
            await where.put("k", b"3", revision=wrong)
        with pytest.raises(MemoryChanged):
            await where.delete("k", revision=wrong)
    await where.delete("k", revision=second)
    assert await where.get("k") is None
    assert await where.keys() == []
    await where.delete("k")
    assert await where.put("k", b"4", revision=0) > second


@pytest.mark.parametrize("of", ["context", "task"])
async def test_keys_are_listed_by_whole_segments(memory: Memory, of: str) -> None:
    where = memory if of == "context" else memory.of_task
    for key in ("b", "a/2", "a/1", "ab/1", "a//*", "a", "/c"):
        await where.put(key, key.encode())
    assert await where.keys() == ["/c", "a", "a//*", "a/1", "a/2", "ab/1", "b"]
    assert await where.keys("a/") == ["a//*", "a/1", "a/2"]
    assert await where.keys("a//") == ["a//*"]
    assert await where.keys("/") == ["/c"]
    assert await where.keys("none/") == []


async def test_replaced_and_deleted_values_leave_no_chunk(memory: Memory, bus: Bus) -> None:
    for where in (memory, memory.of_task, memory.of_owner):
        await where.put("k", LARGE)
        await where.put("k", LARGE[1:])
        await where.delete("k")
    stored = await stream_info(bus, f"KV_{bus.streams.memory}")
    assert 0 < stored["state"]["bytes"] < INLINE


async def test_many_writers_at_once_lose_nothing(opened: Open) -> None:
    runs = opened("w1"), opened("w2")
    both = [Memory(one, one.scope._replace(task=None)) for one in runs]
    counts = [memory.update("n", lambda n: n + 1, 0) for memory in both * 20]
    assert sorted(await asyncio.gather(*counts)) == [*range(1, 41)]
    assert await both[0].load("n") == 40


async def test_a_large_value_is_read_while_others_replace_it(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = opened()
    memory, get, written = Memory(run, run.scope._replace(task=None)), Bucket.get, list[bytes]()

    async def replaced_before(bucket: Bucket, place: str) -> Value:
        if ".c." in place and len(written) < 8:
            written.append(LARGE + bytes(len(written)))
            await memory.put("k", written[-1])
        return await get(bucket, place)

    await memory.put("k", LARGE)
    monkeypatch.setattr(Bucket, "get", replaced_before)
    found = await memory.get("k")
    assert found is not None
    assert found.data == written[7]


async def test_an_attempt_that_was_replaced_writes_nothing_into_the_tasks_memory(
    opened: Open, task: MemoryScope
) -> None:
    first, second = opened("w1"), opened("w2", is_first=False)
    await first.put(task, "k", b"1", None)
    assert await second.get(task, "k") is not None
    for write in (
        first.put(task, "k", b"zombie", None),
        first.put(task, "other", LARGE, None),
        first.delete(task, "k", None),
    ):
        with pytest.raises(RunOver, match="another worker has the run"):
            await write
    await second.put(task, "k", b"2", None)
    found = await second.get(task, "k")
    assert found is not None
    assert found.data == b"2"
    assert await second.keys(task, "") == ["k"]


async def test_an_attempt_whose_run_is_over_writes_nothing(opened: Open, task: MemoryScope) -> None:
    def over() -> None:
        raise RunOver("the run has ended here")

    run = opened(check=over)
    for scope in (task, task._replace(task=None), task._replace(task=None, context=None)):
        with pytest.raises(RunOver):
            await run.put(scope, "k", b"1", None)
        with pytest.raises(RunOver):
            await run.delete(scope, "k", None)
        assert await run.get(scope, "k") is None


async def test_another_tasks_memory_is_read_only_and_anothers_is_refused(
    opened: Open, task: MemoryScope
) -> None:
    other = task._replace(task=mint_task_id(0))
    await opened(scope=other).put(other, "k", b"1", None)
    run = opened("w2")
    found = await run.get(other, "k")
    assert found is not None
    assert found.data == b"1"
    with pytest.raises(Misused, match="wrote the memory of another task"):
        await run.put(other, "k", b"2", None)
    for stranger in (
        task._replace(owner="bob"),
        task._replace(tenant="t"),
        task._replace(agent="b"),
    ):
        with pytest.raises(Misused, match="used the memory of"):
            await run.get(stranger, "k")
        theirs = opened(scope=stranger)
        assert await theirs.get(stranger._replace(task=other.task), "k") is None


async def test_contexts_of_any_name_are_apart(opened: Open, task: MemoryScope) -> None:
    run, names = opened(), ["ä" * 256, "ä" * 255, "*", "a.b", "_", "_h"]
    for name in names:
        await run.put(task._replace(context=name, task=None), "k", name.encode(), None)
    found = [await run.get(task._replace(context=name, task=None), "k") for name in names]
    assert [one.data.decode() for one in found if one is not None] == names


async def test_a_write_whose_answer_was_lost_is_found_again(
    opened: Open, task: MemoryScope, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a server's failure: the message is stored, and its writer does not know it."""
    run, ask, lost = opened(), Bus.request, list[str]()

    async def losing(*args: Any, **more: Any) -> Any:  # noqa: ANN401  # as `Bus.request`
        answer = await ask(*args, **more)
        if args[1].startswith("$KV.") and len(lost) < 2:
            lost.append(args[1])
            raise BusUnavailable("the answer is lost")
        return answer

    monkeypatch.setattr(Bus, "request", losing)
    first = await run.put(task, "k", b"1", None)
    second = await run.put(task, "k", b"2", None)
    assert len(lost) == 2
    assert second > first
    found = await run.get(task, "k")
    assert found is not None
    assert found.data == b"2"


async def test_a_tasks_memory_goes_with_the_task_and_no_other(
    opened: Open, task: MemoryScope, bus: Bus
) -> None:
    run, store = opened(), AgentMemory(bus)
    conversation = task._replace(task=None)
    await run.put(task, "k", LARGE, None)
    await run.put(conversation, "k", b"stays", None)
    for is_deleted in (False, True):
        await store.erase(TaskKey(task.tenant, task.agent, str(task.task)), is_deleted=is_deleted)
        assert await store.get(task, "k") is None
    assert await store.get(conversation, "k") is not None
    # The run goes on, and finds that everything is gone.
    await run.put(task, "k", b"again", None)
    assert await store.get(task, "k") is not None


async def test_an_owners_memory_may_expire(submitter: TaskSubmitter, task: MemoryScope) -> None:
    store = AgentMemory(submitter.bus)
    run = AttemptMemory(store, task, "w", lambda: None, is_first=True, owner_seconds=1)
    scopes = task, task._replace(task=None), task._replace(task=None, context=None)
    for scope in scopes:
        await run.put(scope, "k", LARGE, None)

    async def only_the_owners_is_gone() -> bool:
        return [bool(await run.get(scope, "k")) for scope in scopes] == [True, True, False]

    await eventually(only_the_owners_is_gone, "the owner's value has expired")


async def test_agents_keep_what_they_remember_over_attempts_tasks_and_conversations(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent()
    async def counting(ctx: RunContext) -> str:
        counts = [
            await memory.update("n", lambda n: n + 1, 0)
            for memory in (ctx.memory.of_task, ctx.memory, ctx.memory.of_owner)
        ]
        return " ".join(map(str, counts))

    async def answer(context: str, owner: str = "anonymous") -> str:
        task = await submitter.start("counting", "x", context=context, owner=owner)
        return text_of(await task.ended())

    async with working(counting):
        told = [await answer("a"), await answer("a"), await answer("b"), await answer("a", "bob")]
    assert told == ["1 1 1", "1 2 2", "1 1 3", "1 1 1"]


async def test_what_a_worker_left_behind_stops_no_task(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent(retry=Retry(backoff=0.1))
    async def keeping(ctx: RunContext) -> str:
        await ctx.memory.of_task.put("k", b"own")
        return f"attempt {ctx.attempt}"

    task = await submitter.start("keeping", "x", publish=False)
    scope = MemoryScope("default", "keeping", "anonymous", task.context, task.key.task)
    await AgentMemory(submitter.bus).put(scope, "old", b"of an erased task", None)
    async with working(keeping):
        await task.publish(1)
        assert text_of(await task.ended()) == "attempt 2"


async def test_a_deleted_task_leaves_no_memory(submitter: TaskSubmitter, working: Working) -> None:
    @agent()
    async def keeping(ctx: RunContext) -> str:
        await ctx.memory.of_task.put("k", b"secret")
        return "kept"

    async with working(keeping):
        task = await submitter.start("keeping", "x")
        await task.ended()
    info = await stream_info(submitter.bus, f"KV_{submitter.bus.streams.memory}")
    assert info["state"]["messages"] == 1
    await mark_deleted(submitter.bus, task.key)
    await clear_away(submitter.bus, task.key)
    info = await stream_info(submitter.bus, f"KV_{submitter.bus.streams.memory}")
    assert info["state"]["messages"] == 0


async def test_a_full_memory_says_so(submitter: TaskSubmitter, working: Working) -> None:
    bus = submitter.bus
    config = (await stream_info(bus, f"KV_{bus.streams.memory}"))["config"]
    told = list[str]()

    @agent()
    async def filling(ctx: RunContext) -> str:
        if told:
            await ctx.memory.put("z", b"x" * 20_000)
        try:
            for number in range(9):
                await ctx.memory.put(str(number), b"x" * 10_000)
        except MemoryFull as full:
            told.append(str(full))
        return "over"

    async with working(filling):
        await request(bus, f"STREAM.UPDATE.{config['name']}", {**config, "max_bytes": 30_000})
        await (await submitter.start("filling", "x")).ended()
        task = await submitter.start("filling", "y")
        failed = folded(await task.ended())["status"]
    assert failed["state"] == FAILED
    assert (await task.last()).stamp.attempt == 1
    assert failed["message"]["parts"][0]["text"].startswith(
        "memory key 'z' is not stored: the fleet's memory is full"
    )
    [message] = told
    assert message.startswith(
        "memory key '2' is not stored: the fleet's memory is full; delete large"
    )


@pytest.mark.parametrize("bus", ["nats-server"], indirect=True)
@pytest.mark.parametrize("of", ["context", "task", "owner"])
async def test_a_value_that_does_not_fit_leaves_nothing_in_a_full_memory(
    bus: Bus, memory: Memory, of: str
) -> None:
    where = {"context": memory, "task": memory.of_task, "owner": memory.of_owner}[of]
    stream = f"KV_{bus.streams.memory}"
    config = (await stream_info(bus, stream))["config"]
    await where.put("large", LARGE)
    limit = len(LARGE) + 2 * INLINE
    await request(bus, f"STREAM.UPDATE.{stream}", {**config, "max_bytes": limit})
    for _ in range(3):
        with pytest.raises(MemoryFull, match="memory key 'k' is not stored"):
            await where.put("k", LARGE)
    assert (await stream_info(bus, stream))["state"]["bytes"] < len(LARGE) + INLINE // 2
    found = await where.get("large")
    assert found is not None
    assert found.data == LARGE
    await where.delete("large")
    await where.put("k", LARGE)


@pytest.mark.parametrize("bus", ["nats-server"], indirect=True)
async def test_what_cannot_be_deleted_in_a_full_memory_is_named(
    bus: Bus, memory: Memory, opened: Open
) -> None:
    stream = f"KV_{bus.streams.memory}"
    config = (await stream_info(bus, stream))["config"]
    for where in (memory, memory.of_task):
        await where.put("k", b"1")
    held = (await stream_info(bus, stream))["state"]["bytes"]
    await request(bus, f"STREAM.UPDATE.{stream}", {**config, "max_bytes": held + 1})
    for where in (memory, memory.of_task):
        with pytest.raises(MemoryFull, match="memory key 'k' is not deleted: the fleet's memory"):
            await where.delete("k")
    with pytest.raises(MemoryFull, match="the task's memory has not been taken over"):
        await Memory(opened("w2", is_first=False), memory.of_task.scope).get("k")


def text_of(entries: list[Entry]) -> str:
    """Return the answer's text."""
    return "".join(
        part.get("text", "")
        for entry in entries
        for event in entry.parsed()
        for part in event.get("artifactUpdate", {}).get("artifact", {}).get("parts", ())
    )
