"""How much of one owner's, and to one host, is under way at a time, and what waiting costs."""

import asyncio
import heapq
from contextlib import ExitStack

import pytest

from headrace.model.answers import TaskAnswers
from headrace.webhooks import Address, TaskWebhook, WebhookProgress, answers_webhook
from headrace_task_state.webhooks.permits import Permits, Target


def target(owner: str = "ann", host: str = "one.test", tenant: str = "main") -> Target:
    return Target(tenant, owner, host)


def hold(stack: ExitStack, permits: Permits, *targets: Target) -> list[float]:
    """Ask for a permit for each of `targets` and return the waits."""
    return [stack.enter_context(permits.permit(one)) for one in targets]


def test_one_host_takes_no_more_of_an_owner_than_it_may() -> None:
    permits = Permits(per_owner=64, per_host=2)
    with ExitStack() as stack:
        first, second, third = hold(stack, permits, *[target()] * 3)
        assert (first, second) == (0, 0)
        assert third > 0
        assert hold(stack, permits, target(host="two.test"), target(owner="bob")) == [0, 0]


def test_an_owner_takes_no_more_than_it_may_however_many_hosts_it_names() -> None:
    permits = Permits(per_owner=3, per_host=2)
    with ExitStack() as stack:
        waits = hold(stack, permits, *(target(host=f"{number}.test") for number in range(5)))
        assert [wait > 0 for wait in waits] == [False, False, False, True, True]
        others = target(owner="bob"), target(tenant="other")
        assert hold(stack, permits, *others) == [0, 0]


def test_many_owners_at_one_host_share_its_limit() -> None:
    permits = Permits(per_owner=64, per_host=2)
    with ExitStack() as stack:
        waits = hold(stack, permits, *(target(owner=str(number // 2)) for number in range(10)))
        # Each may have two, and the last ones one: as much stays free as an owner has.
        assert [wait > 0 for wait in waits] == [False] * 7 + [True, False, True]


HANGING = [target(host=f"{number}.test") for number in range(5)]


def take_all(permits: Permits, targets: list[Target]) -> list[ExitStack]:
    """Take permits for `targets` in turn, for as long as any gets one."""
    held = list[ExitStack]()
    waits = [0.0]
    while 0.0 in waits:
        waits.clear()
        for one in targets:
            stack = ExitStack()
            waits.append(stack.enter_context(permits.permit(one)))
            if not waits[-1]:
                held.append(stack)
    return held


def test_hosts_that_hang_leave_permits_of_their_owner_for_another_host() -> None:
    permits = Permits(per_owner=64, per_host=16)
    for targets in (HANGING[:1], HANGING[:4], HANGING):
        held = take_all(permits, targets)
        assert len(held) > 48 or len(targets) == 1
        assert not permits.wait(target(host="quick.test"))
        for stack in held:
            stack.close()


def test_hosts_that_hang_one_after_the_other_leave_permits_after_their_next_attempts() -> None:
    permits = Permits(per_owner=64, per_host=16)
    held = [stack for one in HANGING for stack in take_all(permits, [one])]
    again = list[ExitStack]()
    for stack in held:
        stack.close()
        again += take_all(permits, HANGING)
    assert len(again) > 48
    assert not permits.wait(target(host="quick.test"))


def test_owners_whose_receivers_hang_leave_permits_for_another_owner() -> None:
    permits = Permits(per_owner=64, per_host=64)
    owners = [target(owner=f"mallory-{n}", host=f"{n}.test") for n in range(40)]
    held = take_all(permits, owners)
    assert len(held) > 900
    assert not permits.wait(target(owner="ann", host="quick.test"))


def test_what_waits_for_hosts_that_hang_is_not_ahead_of_the_owners_other_requests() -> None:
    permits = Permits(per_owner=2, per_host=1, now=lambda: 0.0)
    with ExitStack() as stack:
        assert hold(stack, permits, *HANGING[:2]) == [0, 0]
        waits = [permits.wait(HANGING[number % 2]) for number in range(5000)]
        assert max(waits) > 20
        assert permits.wait(target(host="quick.test")) < 1


def test_a_permit_is_free_again_once_it_is_given_back() -> None:
    permits = Permits(per_owner=1, per_host=1)
    for _ in range(3):
        with permits.permit(target()) as wait:
            assert not wait
            assert permits.wait(target())
        assert not permits.wait(target())


@pytest.mark.parametrize("waiting", [50, 1000, 5000])
def test_waiting_runs_send_no_more_requests_the_more_there_are(waiting: int) -> None:
    now = 0.0
    permits = Permits(per_owner=4, per_host=4, now=lambda: now)
    with ExitStack() as stack:
        assert hold(stack, permits, *[target()] * 4) == [0] * 4
        due = [permits.wait(target()) for _ in range(waiting)]
        heapq.heapify(due)
        count = 0
        while due[0] < 60:
            now = heapq.heappop(due)
            heapq.heappush(due, now + permits.wait(target()))
            count += 1
    # A hundred a second: no permit has been given back yet, so nobody knows how slow it is.
    assert count <= 60 * 100 + 1


def test_what_waits_uses_all_that_a_quick_receiver_can_take() -> None:
    now, received, waiting = 0.0, 0, 500
    permits = Permits(per_owner=4, per_host=4, now=lambda: now)
    coming = [(0.0, number) for number in range(waiting)]
    going: list[tuple[float, int, ExitStack]] = []
    while coming or going:
        if going and (not coming or going[0][0] <= coming[0][0]):
            now, _, stack = heapq.heappop(going)
            stack.close()
            received += 1
            continue
        now, number = heapq.heappop(coming)
        stack = ExitStack()
        if wait := stack.enter_context(permits.permit(target())):
            heapq.heappush(coming, (now + wait, number))
        else:
            heapq.heappush(going, (now + 0.01, number, stack))
    assert received == waiting
    # At best 1.25 s: four at a time, 10 ms each.
    assert now < 5


def answering(stream: str | None) -> Target:
    """Return the target of answers that `stream` stores; they name no host."""
    answers = TaskAnswers(subject="done", stream=stream, what="end", mode="structured", depth=1)
    return Target.of("main", answers_webhook("ann", answers))


def test_answers_on_nats_take_no_permits_of_requests_nor_of_other_streams() -> None:
    permits = Permits(per_owner=2, per_host=1)
    with ExitStack() as stack:
        orders = hold(stack, permits, *[answering("ORDERS")] * 1000)
        assert orders.index(next(wait for wait in orders if wait)) == 512
        others = answering("DONE"), answering(None), target(), target(host="")
        assert hold(stack, permits, *others) == [0, 0, 0, 0]


async def test_few_answers_at_a_time_are_published_to_a_stream_and_the_rest_in_order() -> None:
    permits, go_on = Permits(per_owner=2, per_host=1), asyncio.Event()
    begun = list[int]()

    async def publish(number: int, one: Target) -> None:
        async with permits.turn(one):
            begun.append(number)
            await go_on.wait()

    async with asyncio.TaskGroup() as group:
        for number in range(200):
            group.create_task(publish(number, answering("ORDERS")))
        for number in (1000, 1001):
            group.create_task(publish(number, answering("DONE")))
        await asyncio.sleep(0)
        assert begun == [*range(64), 1000, 1001]
        go_on.set()
    assert begun == [*range(64), 1000, 1001, *range(64, 200)]


@pytest.mark.parametrize(
    "url",
    ["https://One.test/a", "https://one.test:8443/b", "https://a:b@one.test/", "http://one.test./"],
)
def test_a_host_is_one_host_however_its_url_is_written(url: str) -> None:
    webhook = TaskWebhook(
        id="a", owner="ann", address=Address(url=url), progress=WebhookProgress(generation=0)
    )
    assert Target.of("main", webhook) == target()
