"""A past that is gone is told: a header, then the Task with its cursor, then what follows."""

import asyncio

import nats
import pytest

from tests.support.fleet import Fleet
from tests.support.resuming import Client, Step
from tests.support.resuming_bindings import Ask, Binding, NothingLeft, Received
from tests.support.resuming_log import WholeLog, assert_exact, whole_log
from tests.support.resuming_protocols import A2A
from tests.support.resuming_wire import Request, answered
from tests.support.stored_log import subject_of

every_binding = pytest.mark.parametrize("binding", A2A, ids=repr)

_TIMEOUT = 120.0
_OK = 200


async def finished(fleet: Fleet, text: str = "20 2") -> tuple[Client, WholeLog]:
    client = Client("counter", text)
    await client.follow([Step(fleet.gateways[0], A2A[0])])
    return client, await whole_log(fleet.nats_url, "counter", client.task)


async def resumed(
    fleet: Fleet, binding: Binding, task: str, cursor: str, *, until_begun: bool = False
) -> tuple[bool, list[Received]]:
    """Return whether the past is said to be there, and all that came at the other gateway.

    With `until_begun` the task goes on until then: it is canceled as soon as something came.
    """
    ask, events = Ask(fleet.gateways[1], "counter", task=task, cursor=cursor), list[Received]()
    async with asyncio.timeout(_TIMEOUT), binding.opened(ask) as stream:
        async for received in stream.events():
            if until_begun and not events:
                await cancel(fleet, task)
            events.append(received)
        return stream.recovered, events


async def cancel(fleet: Fleet, task: str) -> None:
    ask = Request("POST", f"/v1/agents/counter/tasks/{task}:cancel", body={})
    async with answered(fleet.gateways[0], ask) as answer:
        assert answer.status == _OK


async def trim(fleet: Fleet, task: str) -> None:
    """Keep the log's last message only, as retention does with what the view has long had."""
    ask = Request("GET", "/v1/agents/counter/tasks?pageSize=1")
    async with answered(fleet.gateways[0], ask) as answer:
        assert answer.status == _OK, "a list is answered when the view has all there is"
    subject = subject_of("counter", task)
    async with await nats.connect(fleet.nats_url) as client:
        await client.jetstream(timeout=60).purge_stream("EVENTS", subject=subject, keep=1)


def assert_told(recovered: bool, first: Received, snapshot: Received) -> None:  # noqa: FBT001
    assert not recovered
    task = first.event["task"]
    assert task["metadata"].pop("headrace.recovered") is False
    assert first == snapshot


@every_binding
async def test_a_cursor_before_the_logs_begin(fleet: Fleet, binding: Binding) -> None:
    client, log = await finished(fleet)
    await trim(fleet, client.task)
    recovered, [only] = await resumed(fleet, binding, client.task, f"{log.id}:2")
    end = len(log.events)
    assert_told(recovered, only, Received(f"{log.id}:{end}", {"task": log.snapshot(end)}))
    with pytest.raises(NothingLeft):
        await nothing_after(fleet, binding, client.task, only.cursor)


@every_binding
async def test_a_cursor_that_the_tombstone_still_follows_on(fleet: Fleet, binding: Binding) -> None:
    client, log = await finished(fleet)
    await trim(fleet, client.task)
    kept = await whole_log(fleet.nats_url, "counter", client.task)
    after = len(log.events) - len(kept.events)
    recovered, events = await resumed(fleet, binding, client.task, f"{log.id}:{after}")
    assert recovered
    assert_exact(events, log.after(after))


@every_binding
@pytest.mark.parametrize("lost", ["zzzzzzzz:2", "{log}:999999", "none of ours"])
async def test_a_cursor_of_nowhere_on_a_task_at_work(
    fleet: Fleet, binding: Binding, lost: str
) -> None:
    client = Client("counter", "1000000 40")
    following = asyncio.create_task(client.follow([Step(fleet.gateways[0], A2A[0])]))
    await client.told.wait()
    cursor = lost.format(log=client.received[0].cursor.partition(":")[0])
    recovered, [first, *rest] = await resumed(fleet, binding, client.task, cursor, until_begun=True)
    await following
    log = await whole_log(fleet.nats_url, "counter", client.task)
    generation = int(first.cursor.partition(":")[2])
    snapshot = Received(f"{log.id}:{generation}", {"task": log.snapshot(generation)})
    assert_told(recovered, first, snapshot)
    assert rest, "and then on"
    assert_exact(rest, log.after(generation))


async def nothing_after(fleet: Fleet, binding: Binding, task: str, cursor: str) -> None:
    """Raise NothingLeft if a gateway says so: by its status, or by a stream that only ends."""
    recovered, events = await resumed(fleet, binding, task, cursor)
    if recovered and not events:
        raise NothingLeft
