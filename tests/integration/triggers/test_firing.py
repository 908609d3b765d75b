"""A firing begins one task, however often it is delivered."""

import asyncio
from dataclasses import replace

import pytest
from opentelemetry.trace import SpanKind

from headrace import tracing
from headrace.directory import Directory
from headrace.jetstream.api import stream_info
from headrace.jetstream.connection import Bus
from headrace.log import last_entry, replay
from headrace.model.entry import Entry
from headrace.model.events import TRACEPARENT
from headrace.model.messages import RunRequest
from headrace.model.task import TaskKey, thread_token
from headrace_triggers.firing import TRIGGER, AgentMissing, Fired, Firing, UndeliverableFiring
from tests.support.spans import RecordedSpans, parent, traceparent
from tests.support.triggers import firings
from tests.support.waiting import eventually

FIRING = Firing(
    source="trigger/orders",
    key="ORDERS/7",
    tenant="default",
    owner="ann",
    agent="shop",
    parts=[{"text": "check order 7"}],
    event_streams=1,
)


async def entries(bus: Bus, key: TaskKey) -> list[Entry]:
    last = await last_entry(bus, key)
    if last is None:
        return []
    return [entry async for batch in replay(bus, key, 0, last.sequence) for entry in batch]


async def queued(bus: Bus) -> dict[str, int]:
    answer = await stream_info(bus, bus.streams.runs, {"subjects_filter": ">"})
    found: dict[str, int] = answer["state"].get("subjects") or {}
    return found


async def test_a_firing_begins_a_task_of_its_owner(bus: Bus, directory: Directory) -> None:
    fired = await firings(bus, directory).begin(replace(FIRING, priority="high", context="c1"))
    [first] = await entries(bus, fired.key)
    task = next(first.parsed())["task"]
    assert (first.stamp.owner, task["id"], task["contextId"]) == ("ann", fired.key.task, "c1")
    assert [message["parts"] for message in task["history"]] == [FIRING.parts]
    assert task["metadata"][TRIGGER] == {"source": "trigger/orders", "key": "ORDERS/7"}
    run = bus.subjects.run(fired.key, 1, "high")

    async def is_requested() -> bool:
        return run in await queued(bus)

    await eventually(is_requested, "the run is requested")
    message = await bus.js.get_last_msg(bus.streams.runs, run)
    assert RunRequest.decode(run, message.data or b"").owner == "ann"


async def test_with_traces_a_task_is_below_the_span_that_handles_its_event(
    bus: Bus, directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans, event = RecordedSpans(monkeypatch), f"00-{'a' * 32}-{'b' * 16}-01"
    with tracing.CurrentSpan(tracing.start_span("orders process", SpanKind.CONSUMER, event)):
        fired = await firings(bus, directory).begin(replace(FIRING, traceparent=event))
    [handled] = spans.named("orders process")
    [first] = await entries(bus, fired.key)
    assert next(first.parsed())["task"]["metadata"][TRACEPARENT] == traceparent(handled)
    assert parent(handled) == event


async def test_firings_at_the_same_time_begin_one_task(bus: Bus, directory: Directory) -> None:
    replicas = [firings(bus, directory) for _ in range(8)]
    fired = await asyncio.gather(*(one.begin(FIRING) for one in replicas))
    assert {one.key for one in fired} == {FIRING.task_key}
    assert [one.is_new for one in fired].count(True) == 1
    assert len(await entries(bus, FIRING.task_key)) == 1
    assert await firings(bus, directory).begin(FIRING) == Fired(FIRING.task_key, is_new=False)


@pytest.mark.parametrize("other", [{"key": "ORDERS/8"}, {"source": "trigger/x"}, {"tenant": "t"}])
def test_other_events_triggers_and_tenants_begin_other_tasks(other: dict[str, str]) -> None:
    key = replace(FIRING, **other).task_key  # type: ignore[arg-type]  # all of these are strings
    assert key.task.partition("-")[2] != FIRING.task_key.task.partition("-")[2]


@pytest.mark.parametrize("context", [None, "c/ä"])
async def test_a_task_s_id_names_the_thread_of_its_context(
    bus: Bus, directory: Directory, context: str | None
) -> None:
    firing = replace(FIRING, context=context, key=f"in {context}")
    fired = await firings(bus, directory).begin(firing)
    [first] = await entries(bus, fired.key)
    stored = next(first.parsed())["task"]["contextId"]
    assert stored == firing.task_context
    assert fired.key.thread == thread_token(firing.owner, stored)


async def test_a_firing_that_is_no_message_is_unfit(bus: Bus, directory: Directory) -> None:
    with pytest.raises(UndeliverableFiring, match="a message must be text or have parts"):
        await firings(bus, directory).begin(replace(FIRING, parts=[]))
    large = replace(FIRING, parts=[{"text": "x" * bus.max_payload}])
    with pytest.raises(UndeliverableFiring, match="exceeds the limit"):
        await firings(bus, directory).begin(large)
    assert await entries(bus, FIRING.task_key) == []


async def test_a_firing_waits_for_its_agent(bus: Bus, directory: Directory) -> None:
    missing = replace(FIRING, agent="later")
    with pytest.raises(AgentMissing, match="agent 'later' does not exist"):
        await firings(bus, directory).begin(missing)
    assert await entries(bus, missing.task_key) == []
