"""Rows of tasks of all agents: filtered, searched, counted, in pages, scoped to their owner."""

import secrets
from collections.abc import AsyncIterator
from itertools import batched, product

import pytest

from headrace.jetstream.connection import Bus
from headrace.model.errors import InvalidName, StateUnavailable
from headrace.model.messages import FindTasks, RowsFound
from headrace.model.task import COMPLETED, FAILED, INPUT_REQUIRED, WORKING, TaskKey, mint_task_id
from headrace.settings import BusSettings
from headrace_task_state.queries.find_tasks import TaskRows
from headrace_task_state.queries.frontier import Frontier
from headrace_task_state.store import Progress, Range, TaskChange
from headrace_task_state.store_redis.settings import RedisSettings
from headrace_task_state.store_redis.store import Keys, RedisStore
from tests.support.legal_logs import LegalLog
from tests.support.servers import ValkeyProcess
from tests.support.task_states import OWNER, TaskStates, new_key

MANY = 10_000
FIRST = Range(0)


def asked(text: str, agent: str, state: str = COMPLETED, owner: str = OWNER) -> LegalLog:
    """Return the log of a task that began with `text`."""
    log = LegalLog(new_key(agent=agent), owner=owner, context=f"context of {text}")
    log.submit(text)
    log.begin_attempt()
    prompt = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": f"About {text}?"}]}
    log.append([log.status(state, prompt if state == INPUT_REQUIRED else None)], state=state)
    return log


async def find(fleet: TaskStates, **query: object) -> RowsFound:
    given = {"tenant": "default", "owner": OWNER, **query}
    return await fleet.client.find(FindTasks.model_validate(given))


def titles(found: RowsFound) -> list[str]:
    return [row.title for row in found.tasks]


async def test_rows_of_all_agents_are_filtered_counted_and_searched(fleet: TaskStates) -> None:
    replica = await fleet.start()
    logs = [
        asked("Refund 7, it came BROKEN", "cashier", INPUT_REQUIRED),
        asked("count the stock", "counter"),
        asked("Ménage à Lyon", "counter", FAILED),
        asked("refund 8", "cashier", WORKING),
        asked("refund 9 of another", "cashier", owner="other"),
        asked('Straße "Nord" \u0416\u0443\u043a, \u5317\u4eac', "counter"),
        asked("D\u0130YARBAKIR: \ufb01le \\n 100 %, \U0001f600", "counter"),
    ]
    for log in logs:
        await fleet.store(log)
    everything = await find(fleet)
    assert {row.agent for row in everything.tasks} == {"cashier", "counter"}
    assert everything.counts == {INPUT_REQUIRED: 1, COMPLETED: 3, FAILED: 1, WORKING: 1}
    assert everything.total_size == 6
    asks = await find(fleet, states=[INPUT_REQUIRED])
    [row] = asks.tasks
    assert (row.id, row.title, row.text) == (
        logs[0].key.task,
        "Refund 7, it came BROKEN",
        "About Refund 7, it came BROKEN?",
    )
    assert row.question is not None
    assert row.question["state"] == INPUT_REQUIRED
    assert asks.counts == everything.counts
    assert asks.total_size == 1
    found = await find(fleet, text="REFUND", oldest_first=True)
    assert set(titles(found)) == {"Refund 7, it came BROKEN", "refund 8"}
    assert found.counts == {INPUT_REQUIRED: 1, WORKING: 1}
    assert titles(await find(fleet, text="MÉNAGE")) == ["Ménage à Lyon"]
    assert titles(await find(fleet, text=logs[1].key.task)) == ["count the stock"]
    assert titles(await find(fleet, text="parts")) == []
    street = titles(await find(fleet, text="straße"))
    assert len(street) == 1
    for text in ('E "NORD"', "\u0416\u0423\u041a", "\u4eac", '"', "STRASSE"):
        assert titles(await find(fleet, text=text)) == street
    for text in ("d\u0130yarbakir", "FILE \\N", "100 %,", "\U0001f600"):
        assert titles(await find(fleet, text=text)) == [log_title(logs[6])], text
    for text in ("%" * 200, "100.%", "[file]*", "\ufffd"):
        assert titles(await find(fleet, text=text)) == []
    some = await find(fleet, text="refund", states=[WORKING], agents=["cashier"])
    assert titles(some) == ["refund 8"]
    assert some.counts == found.counts
    assert (await find(fleet, agents=["counter"], text="refund")).total_size == 0
    everybody = await find(fleet, any_owner=True, text="refund")
    assert {row.owner for row in everybody.tasks} == {OWNER, "other"}
    with pytest.raises(InvalidName):
        await find(fleet, page_token="nonsense")
    await replica.stop()
    await fleet.lose_view()
    await fleet.start()
    assert titles(await until_found(fleet, text="refund 8")) == ["refund 8"]
    again = await until_found(fleet)
    assert {row.title for row in again.tasks} == {log_title(log) for log in (*logs[:4], *logs[5:])}


async def until_found(fleet: TaskStates, **query: object) -> RowsFound:
    """Search until tasks whose view was lost have been read from their logs."""
    while True:
        try:
            return await find(fleet, **query)
        except StateUnavailable:
            continue


def log_title(log: LegalLog) -> str:
    return log.context.removeprefix("context of ")


def many_changes() -> list[TaskChange]:
    """Return tasks of two agents and two owners, each tenth of which is about nails."""
    changes = list[TaskChange]()
    for number in range(MANY):
        text = f"order {number} of {'nails' if number % 10 == 0 else 'glue'}"
        key = TaskKey("default", f"agent{number % 2}", mint_task_id(0))
        owner, state = f"owner{number % 3 % 2}", (COMPLETED, INPUT_REQUIRED)[number % 20 == 0]
        fields = {
            "log": "abcdefgh",
            "agent": key.agent,
            "owner": owner,
            "context": "c",
            "state": state,
            "generation": "3",
            "sequence": str(number + 1),
        }
        first = [0, "in", {"messageId": "u", "role": "ROLE_USER", "parts": [{"text": text}]}]
        changes.append(
            TaskChange(
                key,
                "abcdefgh",
                begins=True,
                owner=owner,
                context="c",
                state=state,
                # Some at the same time.
                time=number // 3,
                ended=number if state == COMPLETED else None,
                due=number if state == INPUT_REQUIRED else None,
                fields=fields,
                history=[first],
            )
        )
    return changes


class _Reached(Frontier):
    """A frontier that the view has always reached."""

    def __init__(self) -> None:
        """Check nothing."""

    async def reached(self) -> dict[Range, int]:
        return {FIRST: 0}


@pytest.fixture
async def many(valkey: ValkeyProcess) -> AsyncIterator[TaskRows]:
    """Rows of 10,000 tasks in Redis."""
    settings = RedisSettings.model_validate({"redis_url": valkey.url})
    store = RedisStore(settings, Keys.of(secrets.token_hex(4), ""), [FIRST], answer_timeout=60.0)
    lease = await store.leases("replica").acquire(FIRST)
    assert lease is not None
    writer, progress = store.writer(lease), Progress()
    for number, some in enumerate(batched(many_changes(), 500), 1):
        then = Progress(position=number, last=number)
        await writer.apply(progress, then, some)
        progress = then
    # All of an owner's 3,333 are read by one search, those of everybody by three.
    yield TaskRows(Bus(BusSettings()), store.reader, _Reached(), searched=4_000)
    await store.close()


async def test_pages_of_ten_thousand_tasks_have_each_once(many: TaskRows) -> None:
    orders = list(product(("", "OF NAIL"), (False, True)))
    assert len(orders) == 4
    for text, oldest_first in orders:
        found, page = await all_pages(many, text=text, oldest_first=oldest_first)
        numbers = [number for number in range(MANY) if number % 3 == 1]
        wanted = [number for number in numbers if not text or number % 10 == 0]
        assert sorted(found) == wanted
        # Three have the same time.
        times = [number // 3 for number in found]
        assert times == sorted(times, reverse=not oldest_first)
        assert page.total_size == len(wanted)
        waiting = sum(number % 20 == 0 for number in wanted)
        assert page.counts == {COMPLETED: len(wanted) - waiting, INPUT_REQUIRED: waiting}


async def test_a_search_reads_a_part_of_many_tasks_and_its_next_pages_the_others(
    many: TaskRows,
) -> None:
    for oldest_first in (False, True):
        query = {"any_owner": True, "text": "nails", "oldest_first": oldest_first}
        parts = [page async for page in pages(many, **query) if page.searched_to or page.tasks]
        found = [number for page in parts for number in numbers_of(page)]
        assert sorted(found) == list(range(0, MANY, 10))
        # The 4,000 tasks of a part have about 400 with nails, on pages of 200.
        sizes = {page.searched_to: page.total_size for page in parts}
        assert len(parts) > len(sizes) == 3
        assert sum(sizes.values()) == MANY / 10
        assert all(page.total_size == sum(page.counts.values()) for page in parts)
        *read_to, everything = sizes
        assert read_to == sorted(read_to, reverse=not oldest_first)
        assert everything == ""
    nothing = [page async for page in pages(many, any_owner=True, text="screws")]
    assert [(page.tasks, page.total_size) for page in nothing] == [([], 0)] * 3


async def all_pages(many: TaskRows, **filters: object) -> tuple[list[int], RowsFound]:
    """Return the numbers of all tasks that are found, and the last page."""
    found = list[int]()
    async for page in pages(many, **filters):
        found += numbers_of(page)
    return found, page


async def pages(many: TaskRows, **filters: object) -> AsyncIterator[RowsFound]:
    query = {"tenant": "default", "owner": "owner1", "page_size": 200, **filters}
    token = ""
    while True:
        asked_for = FindTasks.model_validate({**query, "page_token": token})
        page = RowsFound.model_validate(await many.find(asked_for))
        yield page
        if not (token := page.next_page_token):
            return


def numbers_of(page: RowsFound) -> list[int]:
    return [int(title.split()[1]) for title in titles(page)]
