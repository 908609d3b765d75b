"""Answers on the users' NATS: which messages a user's stream and inbox get."""

import asyncio
import json
import time
from pathlib import Path

import pytest
from nats.aio.msg import Msg
from nats.js.api import StreamConfig

from headrace.jetstream.api import get_message
from headrace.jetstream.connection import Bus
from headrace.jetstream.kv import Bucket
from headrace.log.read import last_stored
from headrace.model.answers import CHAIN, DEPTH, TRIGGER, TaskAnswers
from headrace.model.errors import BusUnavailable
from headrace.model.events import TRACEPARENT, Json
from headrace.model.task import COMPLETED, TaskKey
from headrace.tasks.dead_letters import Letter, LetterFilter, Letters
from headrace.webhooks import answers_webhook
from headrace_task_state.maintenance.timing import MaintenanceTiming
from headrace_task_state.settings import TaskStateSettings
from headrace_task_state.webhooks import bus_answers
from headrace_task_state.webhooks.bus_answers import BusAnswers, attributes_of, encoded
from tests.integration.task_state.webhooks.conftest import Hooked, Opening
from tests.support.roles import NatsOfRoles
from tests.support.spans import RecordedSpans, parent, traceparent
from tests.support.task_states import TaskStates, new_key
from tests.support.waiting import TIMEOUT, eventually


class Orders:
    """A user's stream ``<name>`` on ``<name>.>``."""

    def __init__(self, fleet: TaskStates) -> None:
        self.js, self.name = fleet.bus.js, f"{fleet.settings.prefix}-orders"
        self.subject = f"{self.name}.done"

    async def make(
        self, duplicate_window: float | None = None, *, allow_direct: bool = False
    ) -> None:
        config = StreamConfig(
            name=self.name, subjects=[f"{self.name}.>"], allow_direct=allow_direct
        )
        await self.js.add_stream(config, duplicate_window=duplicate_window)

    def answers(self, **other: object) -> TaskAnswers:
        usual: Json = {"what": "end", "mode": "structured", "depth": 1}
        place = {"subject": self.subject, "stream": self.name}
        return TaskAnswers.model_validate({**usual, **place, **other})

    async def got(self, count: int) -> list[Msg]:
        """Return the messages that it stores, once there are `count`."""

        async def are_there() -> bool:
            return (await self.js.stream_info(self.name)).state.messages >= count

        await eventually(are_there, f"{count} answers are stored")
        subscription = await self.js.subscribe(f"{self.name}.>", stream=self.name)
        stored = (await self.js.stream_info(self.name)).state.messages
        messages = [await subscription.next_msg(timeout=60) for _ in range(stored)]
        await subscription.unsubscribe()
        return messages


@pytest.fixture
def orders(fleet: TaskStates) -> Orders:
    return Orders(fleet)


async def finish(hooked: Hooked, answers: TaskAnswers) -> None:
    """Store a task that says two words, with these answers."""
    await hooked.webhooks.put(hooked.log.key, answers_webhook("anonymous", answers))
    hooked.log.submit("hello")
    await answer(hooked)


async def answers_in_progress(fleet: TaskStates, orders: Orders) -> tuple[list[Hooked], list[Msg]]:
    """Return two finished tasks, and their answers: published by a task state that then stopped."""
    got = asyncio.Queue[Msg]()
    subscription = await fleet.bus.subscribe(orders.subject, got.put)
    first, tasks = await fleet.start(), [Hooked(fleet), Hooked(fleet)]
    for name, one in zip(("abcdefgh", "bcdefghi"), tasks, strict=True):
        one.log.log = name
        await finish(one, orders.answers())
    async with asyncio.timeout(TIMEOUT):
        begun = [await got.get() for _ in tasks]
    for one in tasks:
        assert (await fleet.get(one.log.key)).state == COMPLETED
    await first.stop()
    await fleet.bus.unsubscribe(subscription)
    return tasks, begun


def ids_of(messages: list[Msg]) -> list[str]:
    return sorted((one.headers or {})["Nats-Msg-Id"] for one in messages)


async def answer(hooked: Hooked) -> None:
    """Store the rest of a task that says two words."""
    hooked.log.begin_attempt()
    hooked.log.append([hooked.log.chunk("a", "two words")])
    hooked.log.append([hooked.log.status(COMPLETED)], state=COMPLETED)
    await hooked.store()


async def test_the_end_of_a_task_is_one_structured_cloud_event(
    fleet: TaskStates, hooked: Hooked, orders: Orders
) -> None:
    await orders.make()
    await fleet.start()
    await finish(hooked, orders.answers(trigger="cafe"))
    [message] = await orders.got(1)
    headers, event, key = message.headers or {}, json.loads(message.data), hooked.log.key
    assert headers["Content-Type"] == "application/cloudevents+json"
    assert (headers["Nats-Msg-Id"], headers[DEPTH]) == (event["id"], "1")
    assert (headers[TRIGGER], headers[CHAIN]) == ("cafe", key.task)
    task = event.pop("data")["task"]
    assert (task["id"], task["artifacts"][0]["parts"]) == (key.task, [{"text": "two words"}])
    assert event == {
        "specversion": "1.0",
        "id": event["id"],
        "source": f"/v1/agents/{key.agent}",
        "type": "headrace.task.completed",
        "subject": key.task,
        "datacontenttype": "application/json",
        "contextid": task["contextId"],
        "time": task["status"]["timestamp"],
    }


async def test_artifacts_are_binary_cloud_events(
    fleet: TaskStates, hooked: Hooked, orders: Orders
) -> None:
    await orders.make()
    await fleet.start()
    await finish(hooked, orders.answers(what="artifacts", mode="binary"))
    [message] = await orders.got(1)
    headers = message.headers or {}
    assert "Content-Type" not in headers
    assert headers["ce-type"] == "headrace.artifact"
    assert headers["ce-subject"] == hooked.log.key.task
    update = json.loads(message.data)["artifactUpdate"]
    assert update["artifact"]["parts"] == [{"text": "two words"}]


async def test_an_answer_continues_the_trace_that_began_its_task(
    fleet: TaskStates, hooked: Hooked, orders: Orders
) -> None:
    await orders.make()
    await fleet.start()
    event = f"00-{'a' * 32}-{'b' * 16}-01"
    answers = answers_webhook("anonymous", orders.answers())
    await hooked.webhooks.put(hooked.log.key, answers)
    hooked.log.submit("hello", {TRACEPARENT: event})
    await hooked.store()

    async def is_read() -> bool:
        return (await hooked.progress("answers")).generation > 0

    await eventually(is_read, "what began the task is behind the webhook")
    await answer(hooked)
    [message] = await orders.got(1)
    assert (message.headers or {})["traceparent"] == event


async def test_with_traces_an_answer_is_a_span_of_its_tasks_trace(
    fleet: TaskStates, orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans = RecordedSpans(monkeypatch)
    await orders.make()
    event = f"00-{'a' * 32}-{'b' * 16}-01"
    published, key = BusAnswers(fleet.bus, 60.0), TaskKey("default", "shop", "0-1")
    for stream in (orders.name, "ANOTHER"):
        answers = orders.answers(stream=stream)
        await published.publish(answers, key, f"log:4:{stream}", {"message": {}}, event)
    first, refused = spans.named("publish answer")
    assert [parent(one) for one in (first, refused)] == [event, event]
    assert [(one.attributes or {}).get("error.type") for one in (first, refused)] == [
        None,
        "not_published",
    ]
    [message] = await orders.got(1)
    assert (message.headers or {})["traceparent"] == traceparent(first)


async def test_an_answer_waits_for_its_stream(
    fleet: TaskStates, hooked: Hooked, orders: Orders
) -> None:
    await fleet.start()
    await finish(hooked, orders.answers())

    async def is_refused() -> bool:
        return "no stream stores" in (await hooked.progress("answers")).failure

    await eventually(is_refused, "the first attempt has failed")
    await orders.make()
    assert len(await orders.got(1)) == 1


async def test_an_answer_of_unknown_outcome_is_published_again_at_once(open_fleet: Opening) -> None:
    fleet = await open_fleet(push_timeout=0.5)
    hooked, orders = Hooked(fleet), Orders(fleet)
    got = asyncio.Queue[Msg]()
    subscription = await fleet.bus.subscribe(orders.subject, got.put)
    await fleet.start()
    await finish(hooked, orders.answers())
    async with asyncio.timeout(TIMEOUT):
        first = await got.get()
        # A newer message of the task is behind others; here, there is none.
        await fleet.bus.js.purge_stream(fleet.bus.streams.pushes)
        again = await got.get()
    await fleet.bus.unsubscribe(subscription)
    assert (await hooked.progress("answers")).attempts == 1
    await orders.make()
    [message] = await orders.got(1)
    assert ids_of([first]) == ids_of([again]) == ids_of([message])

    async def is_recorded() -> bool:
        progress = await hooked.progress("answers")
        assert not progress.failure
        return not progress.until

    await eventually(is_recorded, "its progress is recorded")


async def test_answers_in_progress_when_task_state_stopped_do_not_wait_for_the_queue(
    fleet: TaskStates, orders: Orders
) -> None:
    _, begun = await answers_in_progress(fleet, orders)
    bucket = Bucket(fleet.bus, fleet.bus.streams.push)
    await bucket.put(f"default.agent.{new_key().task}.answers", b"{", 0)
    # As if thousands of other tasks were before these.
    await fleet.bus.js.purge_stream(fleet.bus.streams.pushes)
    await orders.make()
    await fleet.start()
    assert ids_of(await orders.got(2)) == ids_of(begun)


class SilentLeader:
    """A stream's leader that does not answer the first searches, as in a long election."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, silences: int) -> None:
        self.searches, self._silences = 0, silences
        monkeypatch.setattr(bus_answers, "get_message", self._get)

    async def _get(self, bus: Bus, stream: str, query: Json) -> Json | None:
        self.searches += 1
        if self.searches <= self._silences:
            raise BusUnavailable(f"{stream}: nats: timeout")
        return await get_message(bus, stream, query)


@pytest.mark.parametrize("silences", [0, 60])
@pytest.mark.parametrize("timing", [MaintenanceTiming(answer_looked_for=0.0)], ids=["hasty"])
async def test_an_answer_that_its_stream_has_and_no_more_recognizes_is_stored_once(
    fleet: TaskStates, orders: Orders, monkeypatch: pytest.MonkeyPatch, silences: int
) -> None:
    tasks, begun = await answers_in_progress(fleet, orders)
    leader = SilentLeader(monkeypatch, silences)
    # One of them came to the stream, between others, and its acknowledgement was lost.
    await orders.make(duplicate_window=0.1)
    for headers in (None, begun[0].headers, None):
        await orders.js.publish(orders.subject, begun[0].data, headers=headers, timeout=60)
    await asyncio.sleep(0.5)
    await fleet.start()
    await orders.got(4)

    async def are_published() -> bool:
        return not any([(await one.progress("answers")).until for one in tasks])

    await eventually(are_published, "both are published")
    named = [one for one in await orders.got(4) if one.headers]
    assert ids_of(named) == ids_of(begun)
    assert leader.searches > silences


@pytest.mark.parametrize("is_direct", [True, False])
async def test_many_messages_are_searched_by_direct_gets_where_their_stream_allows_these(
    fleet: TaskStates, orders: Orders, monkeypatch: pytest.MonkeyPatch, *, is_direct: bool
) -> None:
    await orders.make(allow_direct=is_direct)
    for number in range(20):
        await orders.js.publish(orders.subject, headers={"Nats-Msg-Id": f"log:{number}"})
    leader, answers = SilentLeader(monkeypatch, 0), BusAnswers(fleet.bus, 60.0)
    assert await answers.has_stored(orders.answers(), "log:19", time.time())
    assert not await answers.has_stored(orders.answers(), "log:20", time.time())
    # Each search ends with the leader, as a replica may lag behind.
    assert leader.searches == (2 if is_direct else 22)


async def test_a_search_that_nobody_answers_is_no_answer_until_that_has_lasted(
    fleet: TaskStates, orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    SilentLeader(monkeypatch, 10_000)
    answers = BusAnswers(fleet.bus, 60.0, longest_silence=4.0, search=0.1)
    began, refusals = time.monotonic(), 0
    while True:
        try:
            assert not await answers.has_stored(orders.answers(), "log:4:x", time.time())
        except BusUnavailable:
            refusals += 1
        else:
            break
    assert refusals > 1
    assert time.monotonic() - began > 4.0


async def test_a_stream_that_may_not_be_searched_has_no_answer(tmp_path: Path) -> None:
    with NatsOfRoles(tmp_path, []) as server:
        bus = Bus(TaskStateSettings(nats_url=server.url_of("task-state")))
        await bus.dial("test")
        answers = TaskAnswers(
            subject="orders.done", stream="ORDERS", what="end", mode="binary", depth=1
        )
        assert not await BusAnswers(bus, 60.0).has_stored(answers, "log:4:x", time.time())
        await bus.close()
        assert "STREAM.MSG.GET.ORDERS" in server.violations()[-1]


@pytest.mark.parametrize("timing", [MaintenanceTiming(answer_in_doubt=0.5)], ids=["hasty"])
async def test_answers_whose_outcome_never_becomes_known_do_not_hold_up_others_for_ever(
    open_fleet: Opening,
) -> None:
    fleet = await open_fleet(push_timeout=0.2)
    orders = Orders(fleet)
    await orders.make()
    # Who has no right to publish on a subject hears nothing, as if nobody answered there.
    silent = f"{fleet.settings.prefix}-silent"
    got = asyncio.Queue[Msg]()
    subscription = await fleet.bus.subscribe(silent, got.put)
    tasks = [Hooked(fleet) for _ in range(65)]
    for number, one in enumerate(tasks):
        one.log.log = f"{number:08}"
        await finish(one, orders.answers(subject=silent))
    await fleet.start()
    async with asyncio.timeout(TIMEOUT):
        for _ in range(64):
            await got.get()
    last = Hooked(fleet)
    await finish(last, orders.answers())
    assert len(await orders.got(1)) == 1
    await fleet.bus.unsubscribe(subscription)


@pytest.mark.parametrize("timing", [MaintenanceTiming(answer_in_doubt=0.5)], ids=["hasty"])
async def test_an_answer_of_unknown_outcome_whose_stream_is_gone_fails_in_the_end(
    open_fleet: Opening,
) -> None:
    fleet = await open_fleet(push_timeout=0.5)
    hooked, orders = Hooked(fleet), Orders(fleet)
    got = asyncio.Queue[Msg]()
    subscription = await fleet.bus.subscribe(orders.subject, got.put)
    await fleet.start()
    await finish(hooked, orders.answers())
    async with asyncio.timeout(TIMEOUT):
        await got.get()
    await fleet.bus.unsubscribe(subscription)

    async def is_refused() -> bool:
        return "no stream stores" in (await hooked.progress("answers")).failure

    await eventually(is_refused, "it is an attempt that has failed")
    await orders.make()
    assert len(await orders.got(1)) == 1


async def test_a_task_past_retention_is_kept_until_it_has_answered(open_fleet: Opening) -> None:
    fleet = await open_fleet(retention=0.5, push_attempts=100, push_backoff_max=2.0)
    hooked, other, orders = Hooked(fleet), Hooked(fleet), Orders(fleet)
    await finish(hooked, orders.answers())
    other.log.submit("hello")
    await answer(other)
    await fleet.start()

    async def is_erased(one: Hooked) -> bool:
        last = await last_stored(fleet.bus, one.log.key)
        return last is None or last.is_tombstone

    await eventually(lambda: is_erased(other), "a task that ended later is erased")
    assert not await is_erased(hooked)
    await orders.make()
    assert len(await orders.got(1)) == 1
    await eventually(lambda: is_erased(hooked), "it is erased, too")


async def test_a_stream_that_is_not_the_declared_one_gets_nothing(
    fleet: TaskStates, hooked: Hooked, orders: Orders
) -> None:
    await orders.make()
    await fleet.start()
    await finish(hooked, orders.answers(stream="ANOTHER"))

    async def letters() -> list[Letter]:
        return [one async for one in Letters(fleet.bus).find(LetterFilter(kind="push"))]

    [letter] = await eventually(letters, "the answer is a dead letter")
    assert letter.content.reason.startswith(f"nats:{orders.subject}: ")
    assert await orders.got(0) == []


async def test_an_answer_without_a_stream_goes_over_core_nats(
    fleet: TaskStates, hooked: Hooked, orders: Orders
) -> None:
    inbox = fleet.bus.connection.new_inbox()
    got = asyncio.Queue[Msg]()
    subscription = await fleet.bus.subscribe(inbox, got.put)
    await fleet.start()
    await finish(hooked, orders.answers(subject=inbox, stream=None))
    async with asyncio.timeout(60):
        message = await got.get()
    await fleet.bus.unsubscribe(subscription)
    assert json.loads(message.data)["type"] == "headrace.task.completed"


async def test_an_answer_that_is_published_again_is_stored_once(
    fleet: TaskStates, orders: Orders
) -> None:
    await orders.make()
    answers, key = BusAnswers(fleet.bus, 60.0), TaskKey("default", "shop", "0-1")
    for _ in range(2):
        assert await answers.publish(orders.answers(), key, "log:4:x", {"message": {}}) is None
    assert len(await orders.got(1)) == 1


async def test_a_stream_that_is_not_there_has_no_answer(fleet: TaskStates, orders: Orders) -> None:
    answers, key = BusAnswers(fleet.bus, 60.0), TaskKey("default", "shop", "0-1")
    await orders.make()
    assert await answers.publish(orders.answers(), key, "log:4:x", {"message": {}}) is None
    for stream, has in ((orders.name, True), (f"{orders.name}-other", False), (None, False)):
        declared = orders.answers(stream=stream)
        assert await answers.has_stored(declared, "log:4:x", time.time()) is has


async def test_an_answer_larger_than_a_message_is_given_up(
    fleet: TaskStates, orders: Orders
) -> None:
    event = {"message": {"text": "x" * fleet.bus.max_payload}}
    answers, key = BusAnswers(fleet.bus, 60.0), TaskKey("default", "shop", "0-1")
    failure = await answers.publish(orders.answers(), key, "log:4:x", event)
    assert failure is not None
    assert failure.is_final


def test_attributes_are_headers_of_printable_ascii() -> None:
    context = 'Euro € "100%"\r\nNats-Rollup: all'
    event = {"artifactUpdate": {"contextId": context}}
    attributes = attributes_of(TaskKey("default", "shop", "0-1"), "log:4:x", event)
    assert attributes["contextid"] == context
    coded = "Euro%20%E2%82%AC%20%22100%25%22%0D%0ANats-Rollup:%20all"
    assert encoded(context) == coded
    assert encoded(attributes["source"]) == "/v1/agents/shop"
