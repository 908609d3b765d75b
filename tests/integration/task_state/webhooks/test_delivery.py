"""What arrives at a receiver that fails, stalls, redirects or dies: when, and in which order."""

import asyncio
import hashlib
import time
from contextlib import suppress
from copy import deepcopy
from typing import Any

import jwt
import pytest
from nats.js.errors import NotFoundError
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from headrace.log import last_entry
from headrace.log.logged_task import task_in_log
from headrace.model import events
from headrace.model.events import Json
from headrace.model.fold import TaskFold
from headrace.model.messages import GetTask
from headrace.model.task import BARE_MESSAGE, COMPLETED, FAILED, INPUT_REQUIRED, WORKING
from headrace.signing import SigningKeys
from headrace.tasks.dead_letters import (
    Letter,
    LetterFilter,
    Letters,
    NotRetryable,
    retry,
)
from headrace_task_state.maintenance.timing import MaintenanceTiming
from tests.architecture.tree import ROOT
from tests.integration.task_state.webhooks.conftest import Hooked, Opening
from tests.integration.task_state.webhooks.test_forged_requests import stand_in_for
from tests.support.asgi_server import asgi_server
from tests.support.document import shown
from tests.support.receiver import HANG_UP, STALL, Receiver, receiving
from tests.support.servers import ports
from tests.support.spans import RecordedSpans, parent, traceparent
from tests.support.task_states import TaskStates, folded
from tests.support.waiting import eventually


def whole_run(hooked: Hooked, words: int = 3) -> None:
    log = hooked.log
    log.submit("hello")
    log.begin_attempt()
    for number in range(words):
        log.append([log.chunk("a", f"{number} ")])
    log.append([log.status(COMPLETED)], state=COMPLETED)


def task_received(receiver: Receiver, path: str = "/hook") -> Json:
    """Return the task that the notifications say, each taken once."""
    fold, seen = TaskFold(), set[str]()
    for one in receiver.taken(path):
        if one.id not in seen:
            fold.apply(one.body)
        seen.add(one.id)
    return fold.task()


async def until_received(hooked: Hooked, name: str = "hook") -> None:
    async def told() -> bool:
        return (await hooked.progress(name)).generation == hooked.log.generation

    await eventually(told, f"{name} is told everything")


@pytest.fixture
async def told(fleet: TaskStates, hooked: Hooked, receiver: Receiver) -> Hooked:
    """A whole run, and `receiver` has been told all of it."""
    await fleet.start()
    await hooked.hook(receiver.url())
    whole_run(hooked)
    await hooked.store()
    await until_received(hooked)
    return hooked


async def letters(fleet: TaskStates) -> list[Letter]:
    return [letter async for letter in Letters(fleet.bus).find(LetterFilter(kind="push"))]


async def published(fleet: TaskStates) -> Json:
    """Return the key set that gateways publish."""
    keys = SigningKeys(fleet.bus)
    await keys.start()
    key_set = keys.key_set()
    await keys.stop()
    return key_set


async def test_all_events_are_delivered_in_order_and_signed(
    fleet: TaskStates, hooked: Hooked, receiver: Receiver
) -> None:
    await fleet.start()
    await hooked.hook(receiver.url(), token="tok", scheme="Bearer", credentials="s3cret")
    whole_run(hooked)
    await hooked.store()
    await until_received(hooked)
    assert task_received(receiver) == folded(hooked.log)
    generations = [one.generation for one in receiver.came]
    assert generations == sorted(set(generations))
    key_set = {key["kid"]: jwt.PyJWK(key) for key in (await published(fleet))["keys"]}
    for one in receiver.came:
        assert one.headers["content-type"] == "application/a2a+json"
        assert one.headers["x-a2a-notification-token"] == "tok"
        assert one.headers["authorization"] == "Bearer s3cret"
        signature = one.headers["x-a2a-notification-signature"]
        key = key_set[jwt.get_unverified_header(signature)["kid"]]
        claims = jwt.decode(signature, key, algorithms=["ES256"], audience=receiver.url())
        assert claims["request_body_sha256"] == hashlib.sha256(one.raw).hexdigest()
        assert claims["jti"] == one.id


@pytest.mark.usefixtures("told")
async def test_a_signature_is_checked_as_the_page_on_webhooks_does(
    fleet: TaskStates, receiver: Receiver
) -> None:
    key_set = JSONResponse(await published(fleet))
    code = shown(ROOT / "docs" / "push.md", "PyJWKClient")
    code = code.replace("https://me.example/hook", receiver.url())
    came = receiver.came[0]
    names: dict[str, Any] = {"jwt": jwt, "hashlib": hashlib, "body": came.raw}
    names["token"] = came.headers["x-a2a-notification-signature"]
    async with asgi_server(Starlette(routes=[Route("/.well-known/jwks.json", key_set)])) as url:
        code = code.replace("https://agents.example", url)
        await asyncio.to_thread(exec, code, names)
        with pytest.raises(AssertionError):
            await asyncio.to_thread(exec, code, {**names, "body": came.raw + b" "})
    assert names["claims"]["jti"] == came.id


async def test_each_attempt_is_a_span_in_the_requests_trace(
    fleet: TaskStates, hooked: Hooked, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans = RecordedSpans(monkeypatch)
    request = f"00-{'a' * 32}-{'b' * 16}-01"
    receiver.plan["/secret"] = [HANG_UP, 500, 200]
    await fleet.start()
    await hooked.hook(receiver.url("/secret"))
    hooked.log.submit("hello", {events.TRACEPARENT: request})
    await hooked.store()
    await until_received(hooked)
    same = {
        "http.request.method": "POST",
        "server.address": "127.0.0.1",
        "server.port": receiver.port,
        "headrace.task.id": hooked.log.key.task,
    }
    attempts = {traceparent(span): span for span in spans.named("POST")}
    assert {parent(span) for span in attempts.values()} == {request}
    assert [one.answered for one in receiver.came] == [HANG_UP, 500, 200]
    for one in receiver.came:
        found = dict(attempts.pop(one.headers["traceparent"]).attributes or {})
        earlier = int(one.headers["x-a2a-notification-attempt"]) - 1
        assert found.pop("http.request.resend_count", 0) == earlier
        failed = found.pop("error.type", "")
        if one.answered == HANG_UP:
            assert failed
            assert found == same
        else:
            assert failed == ("500" if one.answered == 500 else "")
            assert found == same | {"http.response.status_code": one.answered}
    # A replica that loses its range to slowness cuts off what it has not sent yet.
    assert {dict(span.attributes or {})["error.type"] for span in attempts.values()} <= CUT_OFF


CUT_OFF = {"CancelledError"}
"""What the span of an attempt says that ended with its replica."""


async def test_an_attempt_that_is_cut_off_is_a_failed_span(
    fleet: TaskStates, hooked: Hooked, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans = RecordedSpans(monkeypatch)
    receiver.plan["/hook"] = [STALL]
    replica = await fleet.start()
    await hooked.hook(receiver.url())
    hooked.log.submit("hello")
    await hooked.store()
    await receiver.until(lambda: receiver.came, "the first attempt")
    await replica.stop()
    found = spans.named("POST")
    assert found
    assert {dict(span.attributes or {})["error.type"] for span in found} == CUT_OFF
    assert not any(span.status.is_ok for span in found)


async def test_without_traces_a_notification_continues_the_requests_trace(
    fleet: TaskStates, hooked: Hooked, receiver: Receiver
) -> None:
    request = f"00-{'a' * 32}-{'b' * 16}-01"
    await fleet.start()
    await hooked.hook(receiver.url())
    hooked.log.submit("hello", {events.TRACEPARENT: request})
    await hooked.store()
    await until_received(hooked)
    assert [one.headers["traceparent"] for one in receiver.came] == [request]


@pytest.mark.parametrize("failing", [500, 404, 302, HANG_UP, STALL], ids=str)
async def test_what_fails_comes_again_the_same_before_anything_else(
    open_fleet: Opening, receiver: Receiver, failing: int
) -> None:
    fleet = await open_fleet(push_timeout=3.0 if failing == STALL else 60.0)
    hooked = Hooked(fleet)
    receiver.plan["/hook"] = [200, failing, failing, 200]
    receiver.headers["Location"] = receiver.url("/elsewhere")
    await fleet.start()
    await hooked.hook(receiver.url())
    whole_run(hooked)
    await hooked.store()
    await until_received(hooked)
    second = receiver.came[1:4]
    assert len({(one.id, one.raw) for one in second}) == 1
    assert [one.headers["x-a2a-notification-attempt"] for one in second] == ["1", "2", "3"]
    assert task_received(receiver) == folded(hooked.log)
    assert not receiver.on("/elsewhere")
    assert not await letters(fleet)


async def test_after_the_last_attempt_it_becomes_a_dead_letter_and_the_next_is_delivered(
    fleet: TaskStates, hooked: Hooked, receiver: Receiver
) -> None:
    receiver.plan["/hook"] = [500, 500, 500, 500, 500, 200]
    await fleet.start()
    await hooked.hook(receiver.url("/hook"), token="tok")
    hooked.log.submit("hello")
    hooked.log.begin_attempt()
    await hooked.store()
    await until_received(hooked)
    # Four attempts for the first; the second gets one, since the receiver was given up before.
    assert [one.generation for one in receiver.came] == [1, 1, 1, 1, 2]
    found = await letters(fleet)
    assert [letter.task for letter in found] == [hooked.log.key.task] * 2
    assert "the receiver answered 500" in found[0].content.reason
    assert "tok" not in found[0].content.encode().decode()
    assert "the receiver answered 500" in (await hooked.progress()).failure
    hooked.log.append([hooked.log.status(COMPLETED)], state=COMPLETED)
    await hooked.store()
    await until_received(hooked)
    assert [one.generation for one in receiver.taken()] == [3]
    assert not (await hooked.progress()).failure
    await retry(fleet.bus, found[0])
    await receiver.until(lambda: len(receiver.taken()) == 2, "the dead letter is told")
    assert receiver.taken()[1].body == receiver.came[0].body
    assert receiver.taken()[1].id == receiver.came[0].id


@pytest.mark.parametrize(("size", "is_whole"), [(600_000, True), (900_000, False)])
async def test_a_large_dead_letter_is_told_whole_or_its_retry_is_refused(
    fleet: TaskStates, hooked: Hooked, receiver: Receiver, size: int, *, is_whole: bool
) -> None:
    receiver.plan["/hook"] = [500, 500, 500, 500, 200]
    await fleet.start()
    await hooked.hook(receiver.url("/hook"))
    hooked.log.submit("x" * size)
    await hooked.store()
    await until_received(hooked)
    [letter] = await letters(fleet)
    if is_whole:
        await retry(fleet.bus, letter)
        await receiver.until(receiver.taken, "the dead letter is told")
        assert receiver.taken()[0].body == receiver.came[0].body
    else:
        with pytest.raises(NotRetryable, match=f"only the beginning is kept of its {size // 1000}"):
            await retry(fleet.bus, letter)
        assert letter.content.sha256


async def test_a_retried_dead_letter_that_was_often_delivered_has_all_its_attempts(
    fleet: TaskStates, hooked: Hooked, receiver: Receiver
) -> None:
    """While its owner's permits are taken, the queue delivers it again and again."""
    receiver.plan["/hook"] = [500, 500, 500, 500, 200]
    replica = await fleet.start()
    await hooked.hook(receiver.url("/hook"))
    hooked.log.submit("hello")
    await hooked.store()
    await until_received(hooked)
    await replica.stop()
    [letter] = await letters(fleet)
    await retry(fleet.bus, letter)
    pulling = await fleet.bus.js.pull_subscribe_bind("push-0", fleet.bus.streams.pushes)
    for _ in range(5):
        [msg] = await pulling.fetch(1, timeout=60)
        await msg.nak()
    receiver.plan["/hook"] = [500, 500, 500, 200]
    await fleet.start()
    await receiver.until(receiver.taken, "its fourth attempt is taken")
    assert [one.answered for one in receiver.came] == [*[500] * 7, 200]
    assert await letters(fleet) == [letter]


async def test_a_retried_dead_letter_that_fails_at_once_again_is_one_again(
    fleet: TaskStates, hooked: Hooked, receiver: Receiver
) -> None:
    """Also within the two minutes in which NATS drops letters with the name of an earlier one."""
    receiver.plan["/hook"] = [500]
    await fleet.start()
    await hooked.hook(receiver.url("/hook"))
    hooked.log.submit("hello")
    await hooked.store()
    await until_received(hooked)
    [letter] = await letters(fleet)
    await retry(fleet.bus, letter)

    async def is_kept() -> bool:
        return len(await letters(fleet)) == 2

    await eventually(is_kept, "there is a letter of the retry")


async def test_a_receiver_that_is_gone_for_good_loses_its_webhook(
    fleet: TaskStates, hooked: Hooked, receiver: Receiver
) -> None:
    receiver.plan["/hook"] = [410]
    await fleet.start()
    await hooked.hook(receiver.url())
    whole_run(hooked)
    await hooked.store()

    async def is_deleted() -> bool:
        return not await hooked.webhooks.list(hooked.log.key)

    await eventually(is_deleted, "the webhook is deleted")
    assert len(receiver.came) == 1
    assert len(await letters(fleet)) == 1


async def test_a_dead_receiver_is_notified_in_order_once_it_is_back(
    open_fleet: Opening,
) -> None:
    fleet = await open_fleet(push_attempts=100)
    hooked, port = Hooked(fleet), ports.pick()
    await fleet.start()
    await hooked.hook(f"http://127.0.0.1:{port}/hook")
    whole_run(hooked)
    await hooked.store()

    async def has_tried() -> bool:
        return (await hooked.progress()).attempts > 1

    await eventually(has_tried, "it has been tried in vain")
    key = hooked.log.key
    [queued] = await hooked.webhooks.queued(key.tenant, key.agent, key.task, 0, 10)
    assert queued.webhook is not None
    assert queued.webhook.progress.failure
    assert await hooked.webhooks.queued(key.tenant, "another", "*", 0, 10) == []
    async with receiving(port) as receiver:
        await until_received(hooked)
        assert task_received(receiver) == folded(hooked.log)
        generations = [one.generation for one in receiver.came]
        assert generations == sorted(set(generations))


async def test_a_slow_receiver_delays_no_other_receiver(
    fleet: TaskStates, receiver: Receiver
) -> None:
    receiver.plan["/slow"] = [STALL]
    await fleet.start()
    slow, quick = [Hooked(fleet) for _ in range(40)], [Hooked(fleet) for _ in range(20)]
    await asyncio.gather(*(one.hook(receiver.url("/slow", "localhost")) for one in slow))
    await asyncio.gather(*(one.hook(receiver.url("/quick")) for one in quick))
    for one in [*slow, *quick]:
        whole_run(one)
        await one.store()
    async with asyncio.timeout(60):
        await asyncio.gather(*(until_received(one) for one in quick))
    assert {(await one.progress()).generation for one in slow} == {0}


async def test_one_owners_hanging_webhooks_delay_no_other_owner_on_any_hosts(
    open_fleet: Opening, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver.plan["/slow"] = [STALL]
    fleet = await open_fleet(push_per_owner=4)
    hosts = [f"slow-{number}.test" for number in range(12)]
    stand_in_for(monkeypatch, *hosts)
    await fleet.start()
    slow, quick = [Hooked(fleet) for _ in hosts], [Hooked(fleet) for _ in range(6)]
    for host, one in zip(hosts, slow, strict=True):
        await one.hook(receiver.url("/slow", host), owner="mallory")
    for one in quick:
        await one.hook(receiver.url("/quick"), owner="alice")
    for one in [*slow, *quick]:
        whole_run(one)
        await one.store()
    for one in quick:
        await until_received(one)
    await receiver.until(lambda: len(receiver.on("/slow")) == 4, "four are under way")
    # Those that wait are told as soon as there is room for them.
    receiver.plan["/slow"] = [200]
    receiver.hang_up()
    for one in slow:
        await until_received(one)


async def test_a_receiver_of_two_webhooks_is_notified_by_each_on_its_own(
    fleet: TaskStates, hooked: Hooked, receiver: Receiver
) -> None:
    receiver.plan["/one"] = [500, 500, 200]
    await fleet.start()
    await hooked.hook(receiver.url("/one"), "one")
    await hooked.hook(receiver.url("/two"), "two, überall")
    whole_run(hooked)
    await hooked.store()
    await until_received(hooked, "one")
    await until_received(hooked, "two, überall")
    assert task_received(receiver, "/one") == task_received(receiver, "/two") == folded(hooked.log)


async def test_an_endless_answer_is_cut_off(
    fleet: TaskStates, hooked: Hooked, receiver: Receiver
) -> None:
    receiver.answer_body = lambda: b"x" * 5_000_000
    await fleet.start()
    await hooked.hook(receiver.url())
    whole_run(hooked)
    await hooked.store()
    await until_received(hooked)
    assert task_received(receiver) == folded(hooked.log)


async def test_nothing_that_stands_behind_the_end_is_delivered(
    fleet: TaskStates, told: Hooked, receiver: Receiver
) -> None:
    log, came = told.log, len(receiver.came)
    end = log.generation
    # Not by a legal writer: a hostile worker of the agent.
    log.append([log.status(WORKING)], state=WORKING)
    await told.store()

    async def is_kept() -> bool:
        found = [one async for one in Letters(fleet.bus).find(LetterFilter(kind="entry"))]
        return bool(found)

    await eventually(is_kept, "what stands behind the end is a dead letter")
    later = Hooked(fleet)
    await later.hook(receiver.url("/later"))
    whole_run(later)
    await later.store()
    await until_received(later)
    assert len(receiver.taken("/hook")) == came
    assert (await told.progress("hook")).generation == end


@pytest.mark.parametrize(
    ("headers", "events_state"),
    [
        (COMPLETED, WORKING),
        (WORKING, COMPLETED),
        (BARE_MESSAGE, FAILED),
        (INPUT_REQUIRED, WORKING),
        (WORKING, INPUT_REQUIRED),
    ],
)
async def test_an_entry_that_contradicts_itself_is_skipped_by_every_reader(
    fleet: TaskStates, hooked: Hooked, receiver: Receiver, headers: str, events_state: str
) -> None:
    log = hooked.log
    log.submit("hello")
    log.begin_attempt()
    await fleet.start()
    await hooked.hook(receiver.url())
    await hooked.store()
    forged = deepcopy(log)
    forged.append([forged.status(events_state)], state=headers)
    await fleet.store(forged, len(log.messages))
    query = GetTask(tenant=log.key.tenant, owner=log.owner, task=log.key.task)

    async def is_kept() -> bool:
        found = [one async for one in Letters(fleet.bus).find(LetterFilter(kind="entry"))]
        return [letter.task for letter in found] == [log.key.task]

    async def check() -> None:
        last = await last_entry(fleet.bus, log.key)
        assert last is not None
        assert last.stamp == log.entries[-1][0]
        assert (await fleet.get(log.key)).task == folded(log)
        assert (await task_in_log(fleet.bus, query)).task == folded(log)
        assert {log.key.task: folded(log)} == await fleet.listed()

    await eventually(is_kept, "it is a dead letter")
    await check()
    log.append([log.chunk("a", "more")], state=WORKING)
    log.append([log.status(COMPLETED)], state=COMPLETED)
    await hooked.store()
    await until_received(hooked)
    await check()
    assert task_received(receiver) == folded(log)


async def test_a_deleted_webhook_is_notified_of_nothing_more(
    fleet: TaskStates, hooked: Hooked, receiver: Receiver
) -> None:
    await fleet.start()
    await hooked.hook(receiver.url("/gone"), "gone")
    await hooked.hook(receiver.url("/stays"), "stays")
    hooked.log.submit("hello")
    await hooked.store()
    await until_received(hooked, "gone")
    await hooked.webhooks.delete(hooked.log.key, "gone")
    hooked.log.append([hooked.log.status(WORKING, metadata={events.ATTEMPT: 1})], state=WORKING)
    await hooked.store()
    await until_received(hooked, "stays")
    assert [one.generation for one in receiver.on("/gone")] == [1]


async def test_webhooks_go_with_their_task(open_fleet: Opening, receiver: Receiver) -> None:
    fleet = await open_fleet(retention=4.0)
    hooked = Hooked(fleet)
    await fleet.start()
    await hooked.hook(receiver.url())
    whole_run(hooked)
    await hooked.store()

    async def is_deleted() -> bool:
        return not await hooked.webhooks.list(hooked.log.key)

    await receiver.until(receiver.taken, "it is told")
    await eventually(is_deleted, "the webhook is deleted with its task")


async def test_a_webhook_waits_for_its_task_although_clocks_differ(
    fleet: TaskStates, hooked: Hooked, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await hooked.hook(receiver.url())
    right = time.time
    monkeypatch.setattr(time, "time", lambda: right() + 86_400.0)
    await fleet.start()

    async def is_kept() -> bool:
        with suppress(NotFoundError):  # until the replica has the range
            info = await fleet.bus.js.consumer_info(fleet.bus.streams.pushes, "push-0")
            return (info.delivered.consumer_seq if info.delivered else 0) > 1
        return False

    await eventually(is_kept, "it was looked at, and is to be looked at again")
    hooked.log.submit("hello")
    await hooked.store()
    await receiver.until(receiver.taken, "the receiver is notified of the task")


async def test_an_attempt_is_repeated_in_time_although_the_clock_is_set_back(
    fleet: TaskStates, hooked: Hooked, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver.plan["/hook"] = [503, 200]
    right = time.time
    monkeypatch.setattr(time, "time", lambda: right() + 86_400.0)
    await fleet.start()
    await hooked.hook(receiver.url())
    hooked.log.submit("hello")
    await hooked.store()
    await receiver.until(lambda: receiver.came, "the first attempt is made")
    monkeypatch.undo()
    await receiver.until(receiver.taken, "the second one does not wait for a day")


@pytest.mark.parametrize("timing", [MaintenanceTiming(webhook_without_task=0.5)], ids=["hasty"])
async def test_a_webhook_whose_task_never_came_is_forgotten(
    fleet: TaskStates, hooked: Hooked, receiver: Receiver
) -> None:
    await fleet.start()
    await hooked.hook(receiver.url())

    async def is_deleted() -> bool:
        return not await hooked.webhooks.list(hooked.log.key)

    await eventually(is_deleted, "the webhook is deleted")
    assert not receiver.came
