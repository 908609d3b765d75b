"""Logs of the next version of the bus contract are read, and those of later ones left to others."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from nats.aio.msg import Msg

from headrace import InputRequired, RunContext, agent
from headrace.jetstream.api import get_message, store
from headrace.log import last_entry
from headrace.log.read import headers_of
from headrace.model.entry import CONTRACT_VERSION, NEXT_VERSION, VERSION, Entry, check_version
from headrace.model.errors import LogTooNew, StateUnavailable, UndecodableMessage
from headrace.model.messages import CountOpenTasks
from headrace.model.run import Run
from headrace.model.task import TaskKey
from headrace.state_client import StateClient
from headrace.tasks.runs import RunRequests, publish_unconfirmed
from headrace.testing import FleetTask, TestFleet
from tests.support.fake_bus import FakeBus, message
from tests.support.waiting import eventually


@agent
async def tailor(ctx: RunContext) -> AsyncIterator[str | InputRequired]:
    """Ask for a length, and cut."""
    if ctx.prompt.startswith("cut"):
        yield ctx.prompt.replace("cut", "Cut")
    else:
        yield InputRequired("How long?")


async def versions_in(fleet: TestFleet, task: FleetTask) -> list[str]:
    """Return the version of each message of the task's log."""
    bus, found, sequence = fleet._bus, list[str](), 0
    query = {"next_by_subj": bus.subjects.event(task.key)}
    stream = bus.streams.of_shard(task.key.shard)
    while (message := await get_message(bus, stream, query | {"seq": sequence + 1})) is not None:
        sequence = message["seq"]
        found.append(headers_of(message)[VERSION])
    return found


def write(fleet: TestFleet, version: str) -> None:
    for bus in (fleet._bus, fleet._worker._bus):
        bus.settings = bus.settings.model_copy(update={"log_version": version})


async def append_raw(fleet: TestFleet, task: FleetTask, version: str) -> Entry:
    """Append the last entry again as one of `version`; return it as it was."""
    last = await last_entry(fleet._bus, task.key)
    assert last is not None
    stamp = last.stamp._replace(generation=last.last_generation + 1)
    subject = fleet._bus.subjects.event(task.key)
    await store(fleet._bus, subject, last.lines[-1], 1.0, stamp.headers(version))
    return last


async def test_a_log_may_change_to_the_next_version_and_back() -> None:
    async with TestFleet([tailor]) as fleet:
        task = await fleet.start("tailor", "hello")
        await task.result()
        before = await versions_in(fleet, task)
        assert set(before) == {CONTRACT_VERSION}
        write(fleet, NEXT_VERSION)
        again = await fleet.start("tailor", "hello")
        await again.result()
        assert set(await versions_in(fleet, again)) == {NEXT_VERSION}
        assert (await task.reply("cut 3 cm")).text == "Cut 3 cm"
        assert set((await versions_in(fleet, task))[len(before) :]) == {NEXT_VERSION}
        write(fleet, CONTRACT_VERSION)
        assert (await again.reply("cut 4 cm")).text == "Cut 4 cm"
        assert {event.generation async for event in task.events()} == set(
            range(1, len([one async for one in task.events()]) + 1)
        )


async def test_nothing_is_appended_to_a_log_of_a_later_version(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with TestFleet([tailor]) as fleet:
        task = await fleet.start("tailor", "hello")
        await task.result()
        await append_raw(fleet, task, "4")
        before = await versions_in(fleet, task)
        with pytest.raises(LogTooNew, match="Headrace-Version is 4, not 2 or 3"):
            async with asyncio.timeout(30):
                await task.reply("cut 3 cm")
        assert await versions_in(fleet, task) == before
        assert f"the log of {task.key.task} is not read by this release" in caplog.text


async def test_a_worker_leaves_the_run_of_a_later_versions_log_in_the_queue(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with TestFleet([tailor]) as fleet:
        task = await fleet.start("tailor", "hello")
        await task.result()
        last = await append_raw(fleet, task, "4")
        bus, run = fleet._bus, last.last_generation + 1
        before = await versions_in(fleet, task)
        await publish_unconfirmed(
            bus, Run(task.key, run, last.stamp.log, task.context, "anonymous")
        )

        async def is_left() -> bool:
            return f"task {task.key.task} will be retried: the log of" in caplog.text

        await eventually(is_left, "the worker leaves it")
        queued = {"last_by_subj": bus.subjects.run(task.key, run)}
        assert await get_message(bus, bus.streams.runs, queued) is not None
        assert await versions_in(fleet, task) == before


async def test_a_stream_ends_where_a_later_version_goes_on() -> None:
    async with TestFleet([tailor]) as fleet:
        task = await fleet.start("tailor", "hello")
        await task.result()
        feeds = fleet._parts.gateway.feeds
        async with await feeds.open(task.key) as feed, asyncio.timeout(30):
            reader = feed.reader(0)
            while reader.after < 3:
                await reader.read()
            await append_raw(fleet, task, "4")
            with pytest.raises(LogTooNew):
                await reader.read()


async def queued_headers(fleet: TestFleet, key: TaskKey, run: int) -> dict[str, str]:
    """Return the headers of a run request in the queue."""
    bus = fleet._bus
    query = {"last_by_subj": bus.subjects.run(key, run)}
    found = await get_message(bus, bus.streams.runs, query)
    assert found is not None
    return dict(headers_of(found))


async def test_a_run_request_of_a_later_version_stays_queued_for_a_worker_that_reads_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with TestFleet([tailor]) as fleet:
        task = await fleet.start("tailor", "hello")
        await task.result()
        bus, last = fleet._bus, await last_entry(fleet._bus, task.key)
        assert last is not None
        run = last.last_generation + 1
        request = Run(task.key, run, last.stamp.log, task.context, "anonymous")
        await store(bus, bus.subjects.run(task.key, run), request.encode(), 1.0, {VERSION: "4"})

        async def is_left() -> bool:
            return "left a run request to workers of a later release" in caplog.text

        await eventually(is_left, "the worker leaves it")
        assert "Headrace-Version is 4; this release reads 2 to 3" in caplog.text
        assert (await queued_headers(fleet, task.key, run))[VERSION] == "4"
        assert len(await versions_in(fleet, task)) == last.last_generation


@pytest.mark.parametrize("version", [None, CONTRACT_VERSION, NEXT_VERSION])
def test_messages_of_the_range_and_those_without_a_version_are_read(version: str | None) -> None:
    check_version("run", None if version is None else {VERSION: version})


@pytest.mark.parametrize("version", ["0", "1", "x", "", "4"])
def test_messages_of_other_versions_are_not_read(version: str) -> None:
    with pytest.raises(UndecodableMessage, match=f"is {version}; this release reads 2 to 3"):
        check_version("run", {VERSION: version})


@pytest.mark.parametrize("version", [CONTRACT_VERSION, NEXT_VERSION])
async def test_run_requests_state_the_version_that_is_written(version: str) -> None:
    async with TestFleet([tailor]) as fleet:
        write(fleet, version)
        task = await fleet.start("tailor", "hello")
        await task.result()
        bus, gone = fleet._bus, task.key._replace(agent="nobody")
        request = Run(gone, 1, "log0", "c", "anonymous")
        await publish_unconfirmed(bus, request)
        assert (await queued_headers(fleet, gone, 1))[VERSION] == version
        requests = RunRequests(bus)
        assert await requests.publish(request._replace(generation=2))
        assert (await queued_headers(fleet, gone, 2))[VERSION] == version
        stored = asyncio.Event()
        assert requests.send(request._replace(generation=3), lambda _: stored.set())
        await stored.wait()
        assert (await queued_headers(fleet, gone, 3))[VERSION] == version


class NewerReplica(FakeBus):
    """Task state of a later release."""

    async def request(
        self, subject: str, payload: bytes, timeout: float, headers: dict[str, str] | None = None
    ) -> Msg:
        assert (headers, payload != b"", timeout > 0) == ({VERSION: CONTRACT_VERSION}, True, True)
        return message(subject, b"{}", {VERSION: "4"})


async def test_an_answer_of_a_later_version_is_refused_with_both_versions() -> None:
    with pytest.raises(StateUnavailable, match="Headrace-Version is 4; this release reads 2 to 3"):
        await StateClient(NewerReplica()).open_tasks(CountOpenTasks(agent="shop"))
